"""What the verbs of `paictl job` share: options, finding the job that a word names, and a job as data."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from paictl.cli import names
from paictl.cli.clusters import me, plain
from paictl.cluster.interface import Jobs, JobView
from paictl.operate import jobs as operate

UserOption = Annotated[str | None, typer.Option("--user", help="Owner of the job (default: you).")]
TagsOption = Annotated[list[str] | None, typer.Option("--tag", metavar="TAG", help="Tag of the job; repeatable.")]
JobName = Annotated[
    str, typer.Argument(metavar="JOB", autocompletion=names.jobs, help="USER~NAME, or NAME alone for your own.")
]
TaskOption = Annotated[
    str | None, typer.Option("--task", metavar="ROLE:INDEX", help="Which task; the first one of the job by default.")
]


def job_data(job: JobView) -> dict[str, Any]:
    """A job as plain data; instants as in RFC 3339, attempts counted from 1 as people do."""
    data: dict[str, Any] = plain(job)
    for record in (data, *data["tasks"]):
        record["attempt"] += 1
    return data


def find(cluster: Jobs, word: str) -> JobView:
    """The job that a word names; raises `PaictlError` if there is none, or more than one."""
    return operate.find_job(cluster, word, me())
