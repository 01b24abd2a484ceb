"""`paictl cluster`: choose a cluster, look at it, and start and stop the one on this machine.

The module of a verb is loaded when the verb is run.
"""

from __future__ import annotations

from paictl.cli.command import App, Lazy


def _verb(module: str, summary: str) -> Lazy:
    return Lazy(f"paictl.cli.cluster.{module}", summary, within=True)


VERBS = {
    "kubeconfig": Lazy("paictl.cli.cluster.kubeconfigs", "Kubeconfigs of people, each with a role."),
    "view": _verb(
        "view", "Show who uses which devices, what the virtual clusters have, and what is bad, doomed or reserved."
    ),
    "up": _verb("embedded", "Start a cluster on this machine, with its services running."),
    "list": _verb("known", "List known clusters; the current one has a star."),
    "use": _verb("known", "Set the default cluster."),
    "add": _verb("known", "Add a Kubernetes cluster under a name; the name pins its context and server."),
    "remove": _verb("known", "Remove the name of a cluster; the cluster and its kubeconfig are not changed."),
    "import": _verb(
        "importing",
        "Draft hivedscheduler.yaml from a running cluster: devices, topology, and tenants from its quotas.",
    ),
    "status": _verb("status", "Show the cluster's status: time, nodes, services, jobs."),
    "tick": _verb("embedded", "Advance the cluster's time."),
    "speed": _verb("embedded", "Change the speed of the cluster's clock."),
    "events": _verb("status", "Show what has happened."),
    "down": _verb("embedded", "Take the cluster down; jobs, configuration and history are lost."),
    "defrag": Lazy("paictl.cli.cluster.defrag", "Move running gangs to make room for a larger one."),
}
"""The verbs in the order of help, with what `paictl cluster -h` says of each."""

EXAMPLES = """
    paictl cluster up
    paictl cluster status
    paictl cluster view
"""

app = App(help="Choose a cluster and show its status; start and stop the local one.", epilog=EXAMPLES, lazy=VERBS)


@app.callback()
def cluster() -> None:
    """Choose a cluster and show its status; start and stop the local one."""
