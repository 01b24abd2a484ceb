"""A job that was submitted, as a job file again: to edit it and submit it under a new name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, Protocol

from paictl.cluster.interface import ClusterError, Jobs, JobView
from paictl.cluster.jobpages import JobQuery, KeepsJobData, Listing, page_of
from paictl.frozen import frozen
from paictl.i18n import text
from paictl.workload.tags import FIELD
from paictl.workload.template import MASK

_NUMBERED: Final = re.compile(r"-[0-9]{1,6}\Z")
"""What a clone has at the end of its name."""


@frozen
class JobCopy:
    """A job file; `masked` are the fields whose values the cluster does not give back."""

    data: Mapping[str, Any]
    masked: tuple[str, ...]

    def instead(self, vc: str | None, priority: str | None) -> JobCopy:
        """The same for another virtual cluster or priority class, where one is given."""
        data = dict(self.data)
        if vc is not None:
            data["defaults"] = {**data["defaults"], "virtualCluster": vc}
        if priority is not None:
            hived = {**data["extras"]["hivedScheduler"], "jobPriorityClass": priority}
            data["extras"] = {**data["extras"], "hivedScheduler": hived}
        return JobCopy(data, self.masked)


class ClonePorts(Jobs, Listing, Protocol):
    """What cloning needs of a cluster."""


def clone(cluster: ClonePorts, job: JobView, user: str, name: str | None = None) -> JobCopy:
    """What a job was submitted with, in the virtual cluster and class that it got, under a name that is free to `user`.

    Raises `ClusterError` for a cluster that keeps no job files.
    """
    if not isinstance(cluster, KeepsJobData):
        raise ClusterError(text("this cluster does not keep submitted job files"))
    data: dict[str, Any] = {**cluster.job_data(job.key)}
    data["name"] = name or free_name(cluster, user, job.key.partition("~")[2])
    extras = _mapping(data.get("extras"))
    hived = {**_mapping(extras.get("hivedScheduler")), "jobPriorityClass": job.priority}
    data["defaults"] = {**_mapping(data.get("defaults")), "virtualCluster": job.vc}
    data["extras"] = {**{name: value for name, value in extras.items() if name != FIELD}, "hivedScheduler": hived}
    if job.tags:
        data["extras"][FIELD] = list(job.tags)
    return JobCopy(data, tuple(_masked(data)))


def free_name(cluster: Listing, user: str, name: str) -> str:
    """The name with the next number that none of a user's jobs has."""
    stem = _NUMBERED.sub("", name)
    query = JobQuery(frozenset({user}), keyword=stem, limit=1000)
    used_names = {job.key.partition("~")[2] for job in page_of(cluster, query).jobs}
    return next(free for number in range(2, len(used_names) + 3) if (free := f"{stem}-{number}") not in used_names)


def _masked(data: Mapping[str, Any]) -> Iterator[str]:
    """The fields that hold stars instead of a secret."""
    yield from (f"secrets.{name}" for name, value in _mapping(data.get("secrets")).items() if MASK in str(value))
    images = data.get("prerequisites")
    for i, image in enumerate(images if isinstance(images, list) else ()):
        if _mapping(_mapping(image).get("auth")).get("password") == MASK:
            yield f"prerequisites[{i}].auth.password"


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
