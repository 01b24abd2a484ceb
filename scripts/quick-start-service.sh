#!/usr/bin/env bash
# quick-start-service.sh -m master.csv -w worker.csv -c config.yaml: OpenPAI's command for its services, by paictl deploy.
# Kubernetes that is there already stays as it is; the configuration is made in ~/pai-deploy/cluster-cfg.
set -euo pipefail
. "$(dirname "$0")/quick-start.bash"
quick_start "$@"
