"""Runs on the dev box: every playbook of a deployment with --check; as JSON the tasks that would change, or why not.

`python -m tests.e2e_hosts.in_check master.csv worker.csv config.yaml FOLDER [HOST...]`

With names of hosts that have GPUs: the playbook of those, as if the toolkit's archive were among the artifacts.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from paictl.config.making.generate import read_inputs
from paictl.deploy.apply import opened, prepare
from paictl.deploy.cluster_settings import notes_of
from paictl.deploy.desired import NVIDIA, nvidia_toml
from paictl.deploy.installing import PodNetwork, manifest_mark
from paictl.deploy.inventory import deployment_of
from paictl.deploy.kubeadm import init_configuration
from paictl.remote.ansible.run import PlaybookOptions
from paictl.resources import resource_folder

PLAYBOOKS = ("artifacts", "runtime", "control_plane", "network", "join_workers")
"""But for those that only look (connect, facts), for what not every site has (further masters, GPUs), and for those
whose aim is a change (reset, upgrades)."""


def main(masters: str, workers: str, config: str, folder: str, *gpus: str) -> dict[str, Any]:
    """Tasks that would change something, by playbook and host."""
    desired = prepare(deployment_of(read_inputs(masters, workers, config)))
    found: dict[str, Any] = {}
    with opened(desired, Path(folder)) as site:
        manifest = PodNetwork(site).manifest()
        variables = {
            "paictl_packs": {},
            "paictl_kubeconfig": "/nowhere",
            "paictl_configurations": {},
            "paictl_discovery": "",
            "paictl_seconds": 300,
            "paictl_notes": notes_of(desired.deployment),
            "paictl_configuration": init_configuration(desired.deployment, desired.version, desired.images),
            "paictl_manifest": manifest,
            "paictl_mark": manifest_mark(manifest),
        }
        variables["paictl_toolkit"] = "/nowhere/toolkit.tar.gz"
        variables["paictl_driver_roots"] = dict.fromkeys((one.name for one in desired.deployment.machines), "/")
        variables["paictl_moved_drivers"] = []
        variables["paictl_gpu_runtime"] = {"path": NVIDIA, "content": nvidia_toml(desired), "mode": "0644"}
        for name in ("devices",) if gpus else PLAYBOOKS:
            playbook = resource_folder("playbooks") / f"{name}.yml"
            result = site.session.run(playbook, variables, lambda _: None, PlaybookOptions(check=True, limit=gpus))
            found[name] = {
                host: list(one.changes) if one.well else [event.message for event in one.failures] or ["unreachable"]
                for host, one in result.hosts.items()
            }
    return found


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))  # noqa: T201 - for the test that has started it
