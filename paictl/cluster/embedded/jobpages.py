"""Pages of the list of jobs: the few that live from memory, the many that ended as rows of the store."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Protocol

from paictl.cluster.embedded.jobs import LiveJob, dump_job
from paictl.cluster.embedded.still import SHOWN, dump_view, view_from
from paictl.cluster.embedded.store import JobRow, Store
from paictl.cluster.embedded.views import view_of
from paictl.cluster.embedded.world import World
from paictl.cluster.interface import JobState, JobView
from paictl.cluster.jobpages import JobPage, JobQuery
from paictl.cluster.jobwords import STATES


class InFolder(Protocol):
    """What pages are made of: the cluster that `WithPages` is mixed into."""

    _store: Store

    def _world(self) -> AbstractContextManager[World]:
        """The cluster as it is now."""

    def _job(self, world: World, key: str) -> LiveJob:
        """A job; raises `ClusterError` if there is none."""

    @property
    def epoch(self) -> datetime:
        """When the cluster came up."""


class WithPages:
    """What a cluster in a folder adds to its port of jobs."""

    def job_data(self: InFolder, key: str) -> Mapping[str, object]:
        """What a job was submitted with, secrets masked."""
        with self._world() as world:
            return self._job(world, key).data

    def job_page(self: InFolder, query: JobQuery) -> JobPage:
        """The jobs of a page: views are made of these only, however many jobs there are."""
        with self._world() as world:
            live = {job.number: job for job in (*world.jobs.values(), *world.ended)}
            matches = []
            for number, job in live.items():
                about = job.key, job.job.vc, STATES[job.status.state]
                if query.keeps(*about, job.tags):
                    matches.append((query.place(*about, job.ended), number))
            for number, key, vc, state, ended, tags in self._store.ended_index(query.users):
                about = key, vc, JobState(state)
                if query.keeps(*about, json.loads(tags) if tags else ()):
                    matches.append((query.place(*about, ended), number))
            matches.sort(reverse=query.descending)
            wanted = [number for _, number in matches[query.offset : query.offset + query.limit]]
            stored = dict(self._store.views_of(number for number in wanted if number not in live))
            epoch = self.epoch

            def view(number: int) -> JobView:
                if number in live:
                    return view_of(live[number], epoch, tasks=False)
                return view_from(stored[number], epoch, tasks=False)

            return JobPage([view(number) for number in wanted], len(matches))


def row_of(job: LiveJob, epoch: datetime) -> JobRow:
    """A job that has ended, with the view that lists show without reading the job, and the views of its tasks."""
    view = dump_view(view_of(job, epoch), epoch)
    return JobRow(job.key, job.number, True, {**view, "tasks": []}, {**dump_job(job), SHOWN: view["tasks"]})
