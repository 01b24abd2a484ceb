#!/usr/bin/env bash
# build.sh [COMPONENT...]: builds Kubernetes, etcd and kwok as Go modules, once, into a cache outside the tree.
#   Components: etcd kube-apiserver kube-controller-manager kube-scheduler kwok (what `make e2e` needs; the default), kubectl.
#   KUBE_VERSION, ETCD_VERSION, KWOK_VERSION choose versions; PAICTL_KUBE the folder of the binaries
#   (default: ${XDG_CACHE_HOME:-~/.cache}/paictl/kube/VERSION). What is there already is kept; two runs at once wait for each other.
# Nothing has to be installed but python3 and certificates: where Go is absent or older than 1.21, get_go.py fetches one.
# Kubernetes is no module to be built from outside: its staging modules are replaced by folders that the module lacks.
# So a go.mod of our own requires it and replaces each staging module by the release that belongs to it (v1.37.1 -> v0.37.1).
set -euo pipefail

KUBE_VERSION=${KUBE_VERSION:-v1.37.1}
ETCD_VERSION=${ETCD_VERSION:-v3.7.3}
KWOK_VERSION=${KWOK_VERSION:-v0.8.0}
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/paictl/kube
OUT=${PAICTL_KUBE:-$CACHE/$KUBE_VERSION}
JOBS=${JOBS:-$(nproc)}
DEFAULT=(etcd kube-apiserver kube-scheduler kube-controller-manager kwok)

say() { printf 'kube: %s\n' "$*" >&2; }
die() { say "$*"; exit 2; }

# The go.mod file of a released module, as the module proxy has it.
gomod_of() {
  go mod download -json "$1@$2" | sed -n 's/.*"GoMod": "\(.*\)",*/\1/p'
}

# write_gomod MODULE VERSION [STAGING VERSION]: a go.mod in the working folder that requires the module.
write_gomod() {
  local source
  [ -e go.mod ] && return
  source=$(gomod_of "$1" "$2")
  [ -n "$source" ] || die "$1@$2 cannot be had: is the Go module proxy reachable?"
  {
    printf 'module paictl.local/kube\n\n'
    sed -n '/^go /p; /^godebug/p' "$source"
    printf '\nrequire %s %s\n' "$1" "$2"
    if [ $# -gt 2 ]; then
      printf '\nreplace (\n'
      sed -n "s#^[[:space:]]*\(k8s.io/[a-z0-9-]*\) => ./staging/.*#\t\1 => \1 $3#p" "$source" | grep -v k8s.io/sample-
      printf ')\n'
    fi
  } >go.mod.new
  mv go.mod.new go.mod
}

# compile OUTPUT PACKAGE LDFLAGS: beside the name first, so that an interrupted build leaves no half of a program.
compile() {
  local started=$SECONDS
  GOMAXPROCS=$JOBS CGO_ENABLED=0 go build -trimpath -p "$JOBS" -ldflags "$3" -o "$OUT/.$1.new" "$2"
  mv "$OUT/.$1.new" "$OUT/$1"
  say "$1 built in $((SECONDS - started)) s"
}

kubernetes() {
  local number=${KUBE_VERSION#v} flags="-s -w" package
  mkdir -p "$OUT/src/kubernetes" && cd "$OUT/src/kubernetes"
  write_gomod k8s.io/kubernetes "$KUBE_VERSION" "v0${KUBE_VERSION#v1}"
  for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
    flags+=" -X $package.gitVersion=$KUBE_VERSION -X $package.gitMajor=${number%%.*}"
    flags+=" -X $package.gitMinor=$(cut -d. -f2 <<<"$number") -X $package.gitTreeState=clean"
    flags+=" -X $package.gitCommit=0000000000000000000000000000000000000000 -X $package.buildDate=1970-01-01T00:00:00Z"
  done
  compile "$1" "k8s.io/kubernetes/cmd/$1" "$flags"
}

etcd() {
  mkdir -p "$OUT/src/etcd" && cd "$OUT/src/etcd"
  write_gomod go.etcd.io/etcd/server/v3 "$ETCD_VERSION"
  compile etcd go.etcd.io/etcd/server/v3 "-s -w"
}

# kwok has no stages built in ("no stages found"): its module's own say when a fake node is ready and a fake pod runs.
kwok() {
  local folder file
  mkdir -p "$OUT/src/kwok" && cd "$OUT/src/kwok"
  write_gomod sigs.k8s.io/kwok "$KWOK_VERSION"
  compile kwok sigs.k8s.io/kwok/cmd/kwok "-s -w"
  folder=$(go list -m -f '{{.Dir}}' sigs.k8s.io/kwok)/kustomize/stage
  for file in "$folder"/{node/fast,node/heartbeat-with-lease,pod/fast}/*.yaml; do
    [ "$(basename "$file")" = kustomization.yaml ] || { echo ---; cat "$file"; }
  done >"$OUT/.kwok-stages.new"
  mv "$OUT/.kwok-stages.new" "$OUT/kwok-stages.yaml"
}

# A Go that can fetch the release which Kubernetes wants; what the caller has set for other projects must not reach ours.
find_go() {
  local minor
  export GOTOOLCHAIN=auto GOFLAGS="-mod=mod -buildvcs=false" GOWORK=off GO111MODULE=on
  unset GOROOT GOOS GOARCH GOBIN
  minor=$(go version 2>/dev/null | sed -n 's/^go version go1\.\([0-9]*\).*/\1/p' || true)
  [ "${minor:-0}" -ge 21 ] && return
  if [ ! -x "$CACHE/go/bin/go" ]; then
    say "no Go of 1.21 or newer here: fetching one into $CACHE/go"
    python3 "$HERE/get_go.py" "$CACHE/go" || exit 2
  fi
  export PATH=$CACHE/go/bin:$PATH
}

mkdir -p "$OUT"
exec 9>"$OUT/.lock"
flock -n 9 || { say "another build runs; waiting for it"; flock 9; }
find_go
[ $# -gt 0 ] || set -- "${DEFAULT[@]}"
for component in "$@"; do
  [ -x "$OUT/$component" ] && continue
  case $component in
    etcd | kwok) ("$component") ;;
    kube-apiserver | kube-controller-manager | kube-scheduler | kubectl) (kubernetes "$component") ;;
    *) die "unknown component $component" ;;
  esac
done
say "ready in $OUT"
