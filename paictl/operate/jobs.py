"""Jobs: submitted from files, found by what people call them, stopped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from paictl.cluster.interface import ClusterError, JobRequest, Jobs, JobState, JobView, Scheduling
from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.i18n import did_you_mean, text
from paictl.workload.fields import Fields, JobError

if TYPE_CHECKING:
    from paictl.cluster.storages import Mount
    from paictl.config.reading.problem import Problem
    from paictl.operate.budgets import BudgetPorts
    from paictl.operate.jobfiles import SubmitOptions
    from paictl.workload.plugins import ImageCheck


@frozen
class Submitted:
    """Jobs that were taken, in order, and what is most likely a mistake in their files.

    `unchecked` says of which images no registry would tell whether they are there.
    """

    jobs: tuple[JobView, ...]
    warnings: tuple[Problem, ...]
    unchecked: tuple[str, ...] = ()


class SubmitPorts(Protocol):
    """What takes jobs."""

    def submit(self, requests: Sequence[JobRequest]) -> Sequence[JobView]:
        """Take them all, or none."""


def submit(
    cluster: SubmitPorts,
    paths: Iterable[str],
    user: str,
    options: SubmitOptions | None = None,
    read: Mapping[str, Mapping[str, object]] | None = None,
) -> Submitted:
    """Submit the jobs of some files (a folder: all below it) as `user`: all or none; `read` as in `requests_in`.

    Raises `RefusedFilesError` for a file with errors, `PaictlError` for one without a job, `ClusterError` for what the
    cluster refuses.
    """
    from paictl.operate.jobfiles import (  # late: it needs the linter, which no other request does
        SubmitOptions,
        place_of_field,
        requests_in,
    )

    warnings: list[Problem] = []
    files, options = list(paths), options or SubmitOptions()
    requests = list(requests_in(files, user, options, warnings.append, read))
    try:
        unchecked = _check_images(requests)
        return Submitted(tuple(cluster.submit(requests)), tuple(warnings), tuple(unchecked))
    except JobError as error:
        if options.vc is not None and error.path == "defaults.virtualCluster":
            error.where = "--vc"  # the file says something else, and may be right
        elif not read:
            error.where = place_of_field(files, options.repeat, error) or error.where
        raise


def _check_images(requests: Iterable[JobRequest]) -> list[str]:
    """What to say of images that no registry would tell about; raises `JobError` for one that is not there."""
    from paictl.workload.plugins import image_checks  # late, as above

    checks: list[tuple[int, ImageCheck]] = []
    for number, request in enumerate(requests):
        try:
            checks += ((number, check) for check in image_checks(Fields(request.data, "")))
        except JobError as error:
            error.request = number
            raise
    if not checks:
        return []
    from paictl.operate.images import check_images  # late: few jobs have registries asked, which takes an HTTP client

    return check_images(checks)


def remarks(cluster: BudgetPorts, jobs: Iterable[JobView]) -> Sequence[str]:
    """What to say about the budgets of jobs that were just submitted."""
    from paictl.operate import budgets  # late, as above

    return budgets.remarks(cluster, jobs)


def mounts(cluster: Jobs, job: JobView) -> Sequence[Mount]:
    """The storages that the containers of a job get."""
    from paictl.operate.storages import mounts_of_job  # late, as above

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
