"""`paictl sim`: play traces of jobs without a cluster. The module of a verb is loaded when the verb is run."""

from __future__ import annotations

from paictl.cli.command import App, Lazy


def _verb(module: str, summary: str) -> Lazy:
    return Lazy(f"paictl.cli.sim.{module}", summary, within=True)


VERBS = {
    "run": _verb(
        "run", "Simulate a trace under a policy and report the results; times are in seconds in data and CSV."
    ),
    "compare": _verb("compare", "Simulate a trace under several policies, and compare them job by job."),
    "sweep": _verb(
        "sweep",
        "Simulate traces over ranges of parameters and several seeds; report means with 95 % confidence intervals.",
    ),
    "size": _verb(
        "size",
        "Find the smallest number of nodes, or of additional nodes, with which a trace meets its targets, "
        "and the price.",
    ),
    "what-if": _verb(
        "what_if",
        "Simulate jobs under an old and a new configuration, and show which tenants and jobs wait less or more.",
    ),
    "policies": _verb(
        "policies", "List the policies: what each knows about jobs, its parameters with defaults, its paper."
    ),
    "traces": _verb(
        "traces",
        "List the formats and built-in traces, or describe a file: jobs, time span, demand, sizes, durations, load.",
    ),
    "generate": _verb(
        "generate", "Generate a trace from a published mix; the same seed gives the same bytes on every machine."
    ),
}
"""The verbs in the order of help, with what `paictl sim -h` says of each."""

EXAMPLES = """
    paictl sim policies
    paictl sim run tiny --policy fifo --cluster 2x4
    paictl sim compare tiny --policy fifo --policy srtf --cluster 2x4
"""

app = App(help="Simulate scheduling policies on traces of jobs.", epilog=EXAMPLES, lazy=VERBS)


@app.callback()
def sim() -> None:
    """Simulate scheduling policies on traces of jobs."""
