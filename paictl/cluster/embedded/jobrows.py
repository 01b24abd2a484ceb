"""Ended jobs as rows of the store."""

from __future__ import annotations

from datetime import datetime

from paictl.cluster.embedded.jobcodec import dump_job
from paictl.cluster.embedded.jobs import LiveJob
from paictl.cluster.embedded.jobviews import view_of
from paictl.cluster.embedded.store import JobRow
from paictl.cluster.embedded.viewrows import SHOWN, dump_view


def row_of(job: LiveJob, epoch: datetime) -> JobRow:
    """A job that has ended, with the view that lists show without reading the job, and the views of its tasks."""
    view = dump_view(view_of(job, epoch), epoch)
    return JobRow(job.key, job.number, True, {**view, "tasks": []}, {**dump_job(job), SHOWN: view["tasks"]})
