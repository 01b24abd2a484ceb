"""Versions of the configuration on a cluster on this machine, and the jobs that one of them admits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from paictl.cluster.configured import ConfigSnapshot
from paictl.cluster.embedded.jobs import LiveJob
from paictl.cluster.embedded.services import READERS
from paictl.cluster.interface import ClusterError, JobRequest
from paictl.cluster.taking import all_taken, as_taken
from paictl.errors import PaictlError
from paictl.units import Millis
from paictl.workload import lifecycle
from paictl.workload.fields import JobError


class Configurations:
    """The newest version, and those that running services have loaded."""

    def __init__(self) -> None:
        self.newest = 0
        """Number of the newest version, 0 if there is none."""
        self._given = 0
        self._versions: dict[int, ConfigSnapshot] = {}

    def push(self, files: Mapping[str, str]) -> ConfigSnapshot:
        """A new version."""
        self._given += 1
        self.newest = self._given
        self._versions[self.newest] = ConfigSnapshot(self.newest, dict(files))
        return self._versions[self.newest]

    def get(self, number: int | None) -> ConfigSnapshot:
        """A version in use; raises `ClusterError` if nothing was ever pushed."""
        if not number:
            raise ClusterError("no configuration has been pushed yet", hint="paictl config push -p DIR")
        return self._versions[number]

    def keep(self, numbers: set[int | None]) -> None:
        """Forget versions that nobody uses any more; the newest stays."""
        self._versions = {n: version for n, version in self._versions.items() if n in numbers or n == self.newest}

    def forget(self, loaded: set[int | None]) -> None:
        """Forget what was pushed, save what running services have `loaded`; numbers are never given twice."""
        self.newest = 0
        self.keep(loaded)

    def dump(self) -> dict[str, Any]:
        """All of it as JSON values."""
        versions = [[n, dict(v.files)] for n, v in self._versions.items()]
        return {"newest": self.newest, "given": self._given, "versions": versions}

    def load(self, data: Mapping[str, Any]) -> None:
        """The inverse of `dump`."""
        self.newest, self._given = data["newest"], data["given"]
        self._versions = {number: _same(number, tuple(files.items())) for number, files in data["versions"]}


@lru_cache(maxsize=16)
def _same(number: int, files: tuple[tuple[str, str], ...]) -> ConfigSnapshot:
    """A version as it was read last time: what a process loads again and again, it interprets once."""
    return ConfigSnapshot(number, dict(files))


def admitted(requests: Sequence[JobRequest], configuration: ConfigSnapshot, now: Millis) -> list[LiveJob]:
    """The jobs as they begin, without numbers yet; raises as `taking.all_taken` does."""
    return [
        LiveJob(
            key=taken.key,
            number=0,
            data=as_taken(request, taken.job),
            job=taken.job,
            plan=taken.plan,
            durations=taken.durations,
            submitted=now,
            status=lifecycle.submit(taken.job).status,
            tags=taken.job.tags,
        )
        for request, taken in zip(requests, all_taken(requests, configuration), strict=True)
    ]


def take(requests: Sequence[JobRequest], configs: Configurations, version: int | None, now: Millis) -> list[LiveJob]:
    """The jobs as they begin, by a version of the configuration; raises as `admitted` does.

    A refusal says so where the newest version, which is not loaded yet, would take them.
    """
    try:
        return admitted(requests, configs.get(version), now)
    except JobError as error:
        newest = configs.newest
        if newest not in (0, version) and _would_take(requests, configs.get(newest), now):
            services = " ".join(f"-n {name}" for name in READERS)
            error.hint = (
                f"version {newest} of the configuration would take it, but is not loaded: "
                f"paictl service refresh {services}"
            )
        raise


def _would_take(requests: Sequence[JobRequest], configuration: ConfigSnapshot, now: Millis) -> bool:
    try:
        admitted(requests, configuration, now)
    except PaictlError:
        return False
    return True
