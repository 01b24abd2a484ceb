"""`paictl extender`: HiveD's guarantees on a running Kubernetes.

The module of a verb is loaded when the verb is run.
"""

from __future__ import annotations

from paictl.cli.command import App, Lazy

VERBS = {
    "serve": Lazy(
        "paictl.cli.extender.serve",
        "Answer kube-scheduler's filter, bind and preempt calls, and preempt gang by gang.",
        within=True,
    ),
    "config": Lazy(
        "paictl.cli.extender.config", "Print the manifests of the scheduler, for kubectl apply.", within=True
    ),
    "explain-pod": Lazy(
        "paictl.cli.extender.explain_pod",
        "Show how the scheduler reads a pod: its virtual cluster, gang, leaf cells and door, and how it gets devices.",
        within=True,
    ),
}

HELP = "Run the scheduler core behind kube-scheduler: answer its calls, print its manifests, explain pods."
app = App(help=HELP, lazy=VERBS)


@app.callback()
def extender() -> None:
    """Ask and run the extender of kube-scheduler."""
