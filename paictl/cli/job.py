"""`paictl job`: submit jobs, follow them, understand why they wait, stop them.

The module of a verb is loaded when the verb is run.
"""

from __future__ import annotations

from paictl.cli.command import App, Lazy


def _verb(module: str, summary: str) -> Lazy:
    return Lazy(f"paictl.cli.{module}", summary, within=True)


VERBS = {
    "submit": _verb("jobsubmit", "Submit jobs: all of the files, or none."),
    "list": _verb("joblist", "List jobs: state, VC, priority, devices, times."),
    "show": _verb(
        "jobshow",
        "Show one job with its tasks: where they run, on which devices; and how its attempts ended, if it was retried.",
    ),
    "tag": _verb("joblist", "Add tags to a job, or remove them; finished jobs too."),
    "clone": _verb("jobclone", "Print a submitted job as a job file, under a free name; or submit it again."),
    "stop": _verb("joblist", "Stop jobs."),
    "logs": _verb("jobtasks", "Show the output of a task; if pods are simulated, the events of the job."),
    "events": _verb("joblist", "Show the events of a job's life."),
    "exec": _verb("jobtasks", "Run a command in the container of a running task; the exit code is the command's."),
    "run": _verb(
        "sessions",
        "Run a session: a task with a shell or a notebook, which gives its devices back when you are done.",
    ),
    "ssh": _verb("jobtasks", "Sign in to a running task."),
    "open": _verb(
        "jobtasks", "Forward a port of a running task to this machine: TensorBoard, a notebook, or any other server."
    ),
    "explain": _verb("jobexplain", "Explain why a job is waiting, and the smallest change that would let it run."),
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
