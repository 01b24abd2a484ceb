"""`paictl cluster`: choose a cluster, look at it, and run one on this machine.

A verb's module is loaded when the verb is run, so it may import at its top all that it needs.
"""

from __future__ import annotations

from paictl.cli.command import App, Lazy

VERBS = {
    "kubeconfig": Lazy("paictl.cli.cluster.kubeconfigs", "Kubeconfigs of people, each with a role."),
    "view": Lazy(
        "paictl.cli.cluster.view",
        "Show who uses which devices, what the virtual clusters have, and what is bad, doomed or reserved.",
        within=True,
    ),
    "up": Lazy(
        "paictl.cli.cluster.embedded", "Start a cluster on this machine, with its services running.", within=True
    ),
    "list": Lazy("paictl.cli.cluster.names", "List known clusters; the current one has a star.", within=True),
    "use": Lazy("paictl.cli.cluster.names", "Set the default cluster.", within=True),
    "add": Lazy(
        "paictl.cli.cluster.names",
        "Add a Kubernetes cluster under a name; the name pins its context and server.",
        within=True,
    ),
    "remove": Lazy(
        "paictl.cli.cluster.names",
        "Remove the name of a cluster; the cluster and its kubeconfig are not changed.",
        within=True,
    ),
    "import": Lazy(
        "paictl.cli.cluster.importing",
        "Draft hivedscheduler.yaml from a running cluster: devices, topology, and tenants from its quotas.",
        within=True,
    ),
    "status": Lazy("paictl.cli.cluster.status", "Show the cluster's status: time, nodes, services, jobs.", within=True),
    "tick": Lazy("paictl.cli.cluster.tick", "Advance the cluster's time.", within=True),
    "speed": Lazy("paictl.cli.cluster.embedded", "Change the speed of the cluster's clock.", within=True),
    "events": Lazy("paictl.cli.cluster.status", "Show what has happened.", within=True),
    "down": Lazy(
        "paictl.cli.cluster.embedded", "Take the cluster down; jobs, configuration and history are lost.", within=True
    ),
    "defrag": Lazy("paictl.cli.cluster.defrag", "Move running gangs to make room for a larger one."),
}

EXAMPLES = """
    paictl cluster up
    paictl cluster status
    paictl cluster view
"""

app = App(help="Choose a cluster and show its status; start and stop the local one.", epilog=EXAMPLES, lazy=VERBS)


@app.callback()
def cluster() -> None:
    """Choose a cluster and show its status; start and stop the local one."""
