"""`paictl deploy`: from lists of hosts to a running cluster.

A verb's module is loaded when the verb is run, so it may import at its top all that it needs.
"""

from __future__ import annotations

from paictl.cli.command import App, Lazy

VERBS = {
    "check": Lazy(
        "paictl.cli.deploy.check",
        "Check all machines before anything is installed: what would go wrong, and the command that fixes it.",
        within=True,
    ),
    "plan": Lazy(
        "paictl.cli.deploy.apply",
        "Show what a deployment would change on which machine, and change nothing.",
        within=True,
    ),
    "apply": Lazy(
        "paictl.cli.deploy.apply",
        "Turn the machines into a running cluster: Kubernetes, and all services on it.",
        within=True,
    ),
    "verify": Lazy(
        "paictl.cli.deploy.verify",
        "Try the cluster: pods on every node, names, services, node to node, devices, isolation, certificates, clocks.",
        within=True,
    ),
    "upgrade": Lazy(
        "paictl.cli.deploy.upgrade",
        "Upgrade Kubernetes: masters one by one, then workers; each node is drained first.",
        within=True,
    ),
    "backup": Lazy(
        "paictl.cli.deploy.backup",
        "Save etcd, the certificates of a master, and the pushed configuration in one file.",
        within=True,
    ),
    "restore": Lazy(
        "paictl.cli.deploy.backup",
        "Restore the whole cluster from a backup, on all masters; shows what will be lost and asks first.",
        within=True,
    ),
    "reset": Lazy(
        "paictl.cli.deploy.reset",
        "Return machines to their original state; shows what will be lost and asks for the cluster's id.",
        within=True,
    ),
    "audit": Lazy(
        "paictl.cli.deploy.audit",
        "Check the running machines against the CIS Kubernetes benchmark; change nothing.",
        within=True,
    ),
    "rotate-encryption-key": Lazy(
        "paictl.cli.deploy.encryption", "Encrypt all Secrets of the cluster with a new key.", within=True
    ),
    "bundle": Lazy(
        "paictl.cli.deploy.bundle",
        "Create, verify and list the artifact folder: all files that a deployment puts on machines.",
    ),
    "certs": Lazy("paictl.cli.deploy.certs", "Show when certificates expire, and renew them."),
}

app = App(help="Deploy Kubernetes and all services on real machines.", lazy=VERBS)


@app.callback()
def deploy() -> None:
    """Deploy Kubernetes and all services on real machines."""
