#!/usr/bin/env bash
# quick-start-kubespray.sh -m master.csv -w worker.csv -c config.yaml: OpenPAI's command for Kubernetes, by paictl deploy.
# The files are kept in ~/pai-deploy as OpenPAI did. What else is given goes to: paictl deploy apply.
set -euo pipefail
. "$(dirname "$0")/quick-start.bash"
quick_start --kubernetes-only "$@"
