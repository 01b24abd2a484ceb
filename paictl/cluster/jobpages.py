"""What a cluster may say about its list of jobs: a page of it, what a job was, how long ended ones are in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Protocol, runtime_checkable

from paictl.cluster.interface import JobState, JobView
from paictl.frozen import frozen
from paictl.units import Millis


class JobOrder(StrEnum):
    """By what jobs are ordered; where that is equal, by submission."""

    SUBMITTED = "submitted"
    ENDED = "ended"
    """Those that have not ended come after all others."""
    NAME = "name"
    USER = "user"
    VC = "vc"
    STATE = "state"


@frozen
class JobQuery:
    """What is wanted; empty sets and an empty keyword (a part of ``user~name``) leave nothing out."""

    users: frozenset[str] = frozenset()
    vcs: frozenset[str] = frozenset()
    states: frozenset[JobState] = frozenset()
    keyword: str = ""
    tags: frozenset[str] = frozenset()
    """A job must have one of them; none given: any job."""
    not_tags: frozenset[str] = frozenset()
    """A job must have none of them."""
    order: JobOrder = JobOrder.SUBMITTED
    descending: bool = True
    offset: int = 0
    limit: int = 100

    def keeps(self, key: str, vc: str, state: JobState, tags: Iterable[str] = ()) -> bool:
        """Whether a job is wanted."""
        return (
            (not self.users or key.partition("~")[0] in self.users)
            and (not self.vcs or vc in self.vcs)
            and (not self.states or state in self.states)
            and self.keyword in key
            and (not self.tags or not self.tags.isdisjoint(tags))
            and self.not_tags.isdisjoint(tags)
        )

    def place(self, key: str, vc: str, state: JobState, ended: datetime | int | None) -> str | float:
        """What a job is ordered by before its number; an instant as a number of any clock, the same for all jobs."""
        match self.order:
            case JobOrder.NAME:
                return key.partition("~")[2]
            case JobOrder.USER:
                return key.partition("~")[0]
            case JobOrder.VC:
                return vc
            case JobOrder.STATE:
                return state.value
            case JobOrder.ENDED:
                at = ended.timestamp() if isinstance(ended, datetime) else ended
                return float("inf") if at is None else at
        return 0


@frozen
class JobPage:
    """Jobs without tasks, and how many the query keeps altogether."""

    jobs: Sequence[JobView]
    total: int


@runtime_checkable
class PagedJobs(Protocol):
    """A cluster that finds a page without making all jobs."""

    def job_page(self, query: JobQuery) -> JobPage:
        """The jobs of a page."""


@runtime_checkable
class KeepsJobData(Protocol):
    """A cluster that can say what a job was submitted with."""

    def job_data(self, key: str) -> Mapping[str, object]:
        """Protocol v2 as it was taken, secrets masked; raises `ClusterError` if there is no such job."""


@runtime_checkable
class FollowsJobs(Protocol):
    """A cluster far away, of which one object serves many threads and can be told of every change of a job."""

    def follow_jobs(self) -> None:
        """Be told from now on, and answer from that."""


@runtime_checkable
class ForgetsJobs(Protocol):
    """A cluster that forgets jobs some time after they have ended."""

    def jobs_kept(self) -> Millis | None:
        """How long they are kept, None for ever; raises `PaictlError` if the newest configuration says nonsense."""


class Listing(Protocol):
    """A cluster that lists its jobs."""

    def jobs(self, *, ended: bool = True) -> Sequence[JobView]:
        """All of them."""


def page_of(cluster: Listing, query: JobQuery) -> JobPage:
    """A page of the jobs of any cluster."""
    if isinstance(cluster, PagedJobs):
        return cluster.job_page(query)
    return page_among(cluster.jobs(), query)


def page_among(jobs: Iterable[JobView], query: JobQuery) -> JobPage:
    """A page of jobs that are all at hand."""
    kept = [job for job in jobs if query.keeps(job.key, job.vc, job.state, job.tags)]
    kept.sort(
        key=lambda job: (query.place(job.key, job.vc, job.state, job.ended), job.number), reverse=query.descending
    )
    return JobPage(kept[query.offset : query.offset + query.limit], len(kept))
