"""Jobs: found by what people call them, listed, tagged, stopped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from paictl.cluster.interface import ClusterError, Jobs, JobState, JobView, Scheduling
from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.i18n import did_you_mean, text

if TYPE_CHECKING:
    from paictl.cluster.storages import Mount


def mounts(cluster: Jobs, job: JobView) -> Sequence[Mount]:
    """The storages that the containers of a job get."""
    from paictl.operate.storages import mounts_of_job  # late: most commands about jobs show no storage

    return mounts_of_job(cluster, job.key, job.vc)


@frozen
class Stopped:
    """What became of the request to stop a job: it was `before`, or `error` says why nothing was done."""

    key: str
    before: JobState | None = None
    error: PaictlError | None = None


def stop(cluster: Jobs, words: Iterable[str], user: str) -> tuple[Stopped, ...]:
    """Stop jobs, named as `key_of` takes them; one that cannot be stopped keeps no other from it."""
    return tuple(_stop(cluster, key_of(word, user)) for word in words)


def _stop(cluster: Jobs, key: str) -> Stopped:
    try:
        before = cluster.job(key).state
        cluster.stop_job(key)
    except PaictlError as error:
        return Stopped(key, error=error)
    return Stopped(key, before)


def tag(cluster: Jobs, word: str, user: str, add: Sequence[str], remove: Sequence[str]) -> tuple[str, Sequence[str]]:
    """Change the tags of a job, found as `find_job` does; its key, and its tags then. Raises `TagError`."""
    key = find_job(cluster, word, user).key
    return key, cluster.tag_job(key, add, remove)


def key_of(word: str, user: str) -> str:
    """A job by ``user~name``, or by name alone for the user's own."""
    return word if "~" in word else f"{user}~{word}"


def find_job(cluster: Jobs, word: str, user: str) -> JobView:
    """The job that a word means, with its tasks: the user's own, else the only one of that name.

    Raises `ClusterError` with the names that come nearest if there is none, or several.
    """
    try:
        return cluster.job(key_of(word, user))
    except ClusterError:
        others = [] if "~" in word else [job.key for job in cluster.jobs() if job.key.partition("~")[2] == word]
        if len(others) != 1:
            raise
        return cluster.job(others[0])


@frozen
class Filter:
    """Which jobs are wanted; what is not said does not matter."""

    vc: str | None = None
    states: frozenset[JobState] = frozenset()
    user: str | None = None
    unfinished: bool = False
    tags: frozenset[str] = frozenset()
    """A job must have one of them."""

    def keeps(self, job: JobView) -> bool:
        """Whether a job is wanted."""
        return (
            self.vc in (None, job.vc)
            and (not self.states or job.state in self.states)
            and self.user in (None, job.key.partition("~")[0])
            and (not self.tags or not self.tags.isdisjoint(job.tags))
        )


class JobListPorts(Jobs, Scheduling, Protocol):
    """What is needed of a cluster to list jobs by virtual cluster."""


def list_jobs(cluster: JobListPorts, wanted: Filter) -> Sequence[JobView]:
    """The jobs that are wanted, in order of submission, without tasks.

    Raises `ClusterError` for a virtual cluster of which neither the scheduler nor any job knows.
    """
    jobs = [job for job in cluster.jobs(ended=not wanted.unfinished) if wanted.keeps(job)]
    if wanted.vc is not None and not jobs:
        known = {*(vc.name for vc in cluster.picture().vcs), *(job.vc for job in cluster.jobs())}
        if wanted.vc not in known:
            hint = did_you_mean(wanted.vc, known) or text("one of: {known}", known=", ".join(sorted(known)))
            raise ClusterError(text("no virtual cluster {vc!r}", vc=wanted.vc), hint=hint)
    return jobs
