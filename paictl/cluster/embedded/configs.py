"""Versions of the configuration that are in use, and what the scheduler and the API read in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from paictl.cluster.interface import ClusterError

if TYPE_CHECKING:
    from paictl.cells.spec import ClusterSpec
    from paictl.workload.feasible import Judge
    from paictl.workload.supply import Supply


@dataclass(frozen=True)
class Configuration:
    """One version: file name → text."""

    number: int
    files: Mapping[str, str]

    @cached_property
    def spec(self) -> ClusterSpec:
        """The cluster that the hivedscheduler configuration describes; raises `PaictlError` if there is none."""
        from paictl.cells.spec import ClusterSpec  # late: who only looks at jobs needs no configuration
        from paictl.config.reading.kinds import Kind
        from paictl.config.reading.load import load_memory

        loaded = load_memory({name: text.encode() for name, text in self.files.items()})
        found = [document for document in loaded.documents if document.kind is Kind.HIVED]
        if not found or not isinstance(found[0].data, dict):
            raise ClusterError(
                "there is no hivedscheduler configuration in it", where=f"configuration {self.number}",
                hint="push a services-configuration.yaml with a hivedscheduler section",
            )  # fmt: skip
        return ClusterSpec.from_mapping(found[0].data)

    @cached_property
    def supply(self) -> Supply:
        """What jobs can ask for."""
        from paictl.workload.supply import Supply

        return Supply.from_spec(self.spec)

    @cached_property
    def judge(self) -> Judge:
        """Who says whether a job can ever run."""
        from paictl.workload.feasible import Judge

        return Judge(self.spec, self.supply)


class Configurations:
    """The newest version, and those that running services have loaded."""

    def __init__(self) -> None:
        self.newest = 0
        """Number of the newest version, 0 if there is none."""
        self._given = 0
        self._versions: dict[int, Configuration] = {}

    def push(self, files: Mapping[str, str]) -> Configuration:
        """A new version."""
        self._given += 1
        self.newest = self._given
        self._versions[self.newest] = Configuration(self.newest, dict(files))
        return self._versions[self.newest]

    def get(self, number: int | None) -> Configuration:
        """A version in use; raises `ClusterError` if nothing was ever pushed."""
        if not number:
            raise ClusterError("no configuration was pushed yet", hint="paictl config push -p DIR")
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
def _same(number: int, files: tuple[tuple[str, str], ...]) -> Configuration:
    """A version as it was read last time: what a process loads again and again, it interprets once."""
    return Configuration(number, dict(files))
