"""Services of the embedded cluster: which run, since when, and the versions of the configuration that they work by."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from functools import lru_cache
from typing import Any, Final

from paictl.cluster.configured import ConfigSnapshot
from paictl.cluster.interface import ClusterError, UnreachableError
from paictl.frozen import frozen
from paictl.i18n import did_you_mean, text
from paictl.units import Millis

CONFIGURATION: Final = "cluster-configuration"
"""Holds what was pushed; without it no other service can start."""
SCHEDULER: Final = "hivedscheduler"
"""Places pods; stopped, nothing new starts and running pods go on."""
API: Final = "rest-server"
"""Takes and stops jobs."""
CONTROLLER: Final = "frameworkcontroller"
"""Turns jobs into pods, and the ends of pods into retries and results."""


READERS: Final = (SCHEDULER, API)
"""Act by the configuration: an old one makes a difference."""
HISTORIANS: Final = ("postgresql", "internal-storage")
"""Hold the history of ended jobs: in clusters that were made when there was a database, and a disk below it."""


@frozen
class EmbeddedService:
    """A service since an instant; `loaded` is the version of the configuration that it read when it started.

    One that was deleted is not `there` until it is started again.
    """

    name: str
    running: bool
    since: Millis
    loaded: int | None = None
    there: bool = True


class EmbeddedServices:
    """All services by name."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._services = {name: EmbeddedService(name, False, Millis(0)) for name in names}

    def __iter__(self) -> Iterator[EmbeddedService]:
        return (self._services[name] for name in sorted(self._services))

    @property
    def loaded(self) -> set[int | None]:
        """The versions of the configuration that services have loaded."""
        return {service.loaded for service in self}

    def version(self, name: str) -> int | None:
        """The version of the configuration that a service has loaded; None without one, or without the service."""
        return self._services[name].loaded if name in self._services else None

    def get(self, name: str) -> EmbeddedService:
        """A service; raises `ClusterError` if the cluster has none of that name."""
        if name not in self._services:
            hint = did_you_mean(name, self._services) or "list them with: paictl service list"
            raise ClusterError(text("there is no service {name!r}", name=name), hint=hint)
        return self._services[name]

    def runs(self, name: str) -> bool:
        """Whether a service runs; one that the cluster does not have counts as running."""
        return name not in self._services or self._services[name].running

    def need(self, name: str) -> None:
        """Raise `UnreachableError` unless a service runs."""
        if not self.runs(name):
            state = "is stopped" if self.get(name).there else "was deleted"
            raise UnreachableError(
                state, where=f"service {name}", hint=text("start it: paictl service start -n {name}", name=name)
            )

    def set(self, name: str, now: Millis, *, running: bool, loaded: int | None = None) -> EmbeddedService:
        """Start or stop a service."""
        old = self.get(name)
        new = replace(old, running=running, loaded=loaded, there=old.there or running)
        self._services[name] = new if old.running == running else replace(new, since=now)
        return self._services[name]

    def remove(self, name: str, now: Millis) -> None:
        """A service is deleted."""
        self._services[name] = replace(self.get(name), running=False, since=now, loaded=None, there=False)

    def dump(self) -> list[dict[str, Any]]:
        """All services as JSON values."""
        return [asdict(service) for service in self]

    def load(self, rows: list[dict[str, Any]]) -> None:
        """The inverse of `dump`."""
        self._services = {row["name"]: EmbeddedService(**row) for row in rows}


# --- versions of the configuration


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
