# What the two quick-start scripts share. quick_start [OPTION...] -m FILE -w FILE -c FILE
quick_start() {
  local masters='' workers='' config='' rest=() home=${PAI_DEPLOY:-$HOME/pai-deploy}
  while (($#)); do
    case $1 in
      -m | --masterlist) masters=${2?-m needs a file}; shift 2 ;;
      -w | --workerlist) workers=${2?-w needs a file}; shift 2 ;;
      -c | --config) config=${2?-c needs a file}; shift 2 ;;
      *) rest+=("$1"); shift ;;
    esac
  done
  if [ -z "$masters" ] || [ -z "$workers" ] || [ -z "$config" ]; then
    echo "usage: $0 -m master.csv -w worker.csv -c config.yaml" >&2
    return 2
  fi
  (umask 077 && mkdir -p "$home")
  keep "$masters" "$home/master.csv"
  keep "$workers" "$home/worker.csv"
  keep "$config" "$home/config.yaml"
  exec paictl deploy apply -m "$home/master.csv" -w "$home/worker.csv" -c "$home/config.yaml" "${rest[@]}"
}

keep() { # FROM TO, unless they are one file; config.yaml may hold a password
  [ "$1" -ef "$2" ] || install -m 600 "$1" "$2"
}
