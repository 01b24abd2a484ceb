"""`paictl job`: submit jobs, follow them, understand why they wait, stop them.

The module of a verb is loaded when the verb is run.
"""

from __future__ import annotations

from paictl.cli.command import App, Lazy


def _verb(module: str, summary: str) -> Lazy:
    return Lazy(f"paictl.cli.job.{module}", summary, within=True)


VERBS = {
    "submit": _verb("submit", "Submit jobs: all of the files, or none."),
    "list": _verb("listing", "List jobs: state, VC, priority, devices, times."),
    "show": _verb(
        "show",
        "Show one job with its tasks: where they run, on which devices; and how its attempts ended, if it was retried.",
    ),
    "tag": _verb("listing", "Add tags to a job, or remove them, even if it has finished."),
    "clone": _verb("clone", "Print a submitted job as a job file, under a free name; or submit it again."),
    "stop": _verb("listing", "Stop jobs."),
    "logs": _verb("tasks", "Show the output of a task; if pods are simulated, the events of the job."),
    "events": _verb("listing", "Show the events of a job's life."),
    "exec": _verb("tasks", "Run a command in the container of a running task; the exit code is the command's."),
    "run": _verb(
        "sessions",
        "Run a session: a task with a shell or a notebook, which gives its devices back when you are done.",
    ),
    "ssh": _verb("tasks", "Sign in to a running task."),
    "open": _verb(
        "tasks", "Forward a port of a running task to this machine: TensorBoard, a notebook, or any other server."
    ),
    "explain": _verb("explain", "Explain why a job is waiting, and the smallest change that would let it run."),
}
"""The verbs in the order of help, with what `paictl job -h` says of each."""

EXAMPLES = """
    paictl job submit job.yaml
    paictl job list
    paictl job explain train
"""

app = App(help="Submit jobs, follow them, understand why they wait.", epilog=EXAMPLES, lazy=VERBS)


@app.callback()
def job() -> None:
    """Submit jobs, follow them, understand why they wait."""
