"""What a check can see at one moment: the cluster through its interface, what was typed, written and foretold."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from paictl.cluster.accounts import Account
from paictl.cluster.interface import ConfigVersion, DeviceTime, Event, JobView, NodeView, ServiceView, Users
from paictl.frozen import frozen_caching
from paictl.lab.commandlog import TypedCommand
from paictl.lab.requests import AskedRequest
from paictl.lab.site import renamed
from paictl.units import Millis, millis_between

if TYPE_CHECKING:
    from paictl.cluster.scheduling import JobExplanation
    from paictl.lab.promises import VcPromise

_ENDS = frozenset({"Finished", "Preempted", "Lost", "Killed"})
_BOOK = re.compile(r"^job-config-(?=\d+$)")
_ALL_END = frozenset({"Succeeded", "Failed", "Stopped", "Retried"})


class Watched(Protocol):
    """What is asked of a cluster; each as `paictl.cluster.interface` has it."""

    @property
    def name(self) -> str:
        """Its id."""

    @property
    def users(self) -> Users:
        """Who may use it over HTTP."""

    @property
    def now(self) -> datetime:
        """The instant there."""

    @property
    def epoch(self) -> datetime:
        """When it came up."""

    def jobs(self) -> Sequence[JobView]:
        """All jobs, without tasks."""

    def job(self, key: str) -> JobView:
        """One job with its tasks."""

    def nodes(self) -> Sequence[NodeView]:
        """All nodes."""

    def services(self) -> Sequence[ServiceView]:
        """All services."""

    def events(self) -> Sequence[Event]:
        """All events in order."""

    def configurations(self) -> Sequence[ConfigVersion]:
        """All versions of the configuration."""

    def explain(self, key: str) -> JobExplanation:
        """Why a job waits."""

    def usage(self, start: datetime, end: datetime) -> DeviceTime:
        """Who used which devices in a span of time."""


@frozen_caching
class Observation:
    """A lab at one moment; every question is asked once. Without a cluster there is nothing in it.

    `predictions` maps steps to what the student foretold. Spans may be off by `tolerance`, and by half of themselves,
    if that is not 0: on a cluster whose clock nobody stops, time passes while somebody types. Manifests count versions
    of the configuration from the lab's own, which is 1; the cluster had `versions_before` it. `names` maps what
    machines are called there to what the lab calls them.
    """

    cluster: Watched | None
    typed: tuple[TypedCommand, ...] = ()
    files: Path | None = None
    predictions: Mapping[str, str] = field(default_factory=dict)
    tolerance: Millis = Millis(0)
    versions_before: int = 0
    names: Mapping[str, str] = field(default_factory=dict)
    asked: tuple[AskedRequest, ...] = ()
    """What was asked of the lab's server."""

    @cached_property
    def accounts(self) -> Mapping[str, Account]:
        """Accounts by name."""
        return {account.name: account for account in self.cluster.users.accounts()} if self.cluster else {}

    @cached_property
    def now(self) -> Millis:
        """How long the cluster is up by its own clock; 0 without a cluster."""
        return self.since_up(self.cluster.now) if self.cluster else Millis(0)

    def since_up(self, at: datetime) -> Millis:
        """How long after the cluster came up an instant was."""
        return millis_between(self.cluster.epoch, at) if self.cluster else Millis(0)

    @cached_property
    def jobs(self) -> Sequence[JobView]:
        """All jobs, without tasks."""
        return self.cluster.jobs() if self.cluster else ()

    @cached_property
    def nodes(self) -> Sequence[NodeView]:
        """All nodes."""
        return self.cluster.nodes() if self.cluster else ()

    @cached_property
    def services(self) -> Sequence[ServiceView]:
        """All services."""
        return self.cluster.services() if self.cluster else ()

    @cached_property
    def _shown(self) -> dict[str, JobView]:
        return {}

    @cached_property
    def keys(self) -> dict[str, str]:
        """Name of a job → ``user~name``; the last of several users' jobs of that name.

        What the textbook calls ``job-config-2`` answers to ``job-2``, its name in the labs, as well.
        """
        keys = {job.key.partition("~")[2]: job.key for job in self.jobs}
        return {**{_BOOK.sub("job-", name): key for name, key in keys.items()}, **keys}

    @cached_property
    def events(self) -> Sequence[Event]:
        """All events in order."""
        return self.cluster.events() if self.cluster else ()

    @cached_property
    def configuration(self) -> ConfigVersion | None:
        """The newest configuration."""
        versions = self.cluster.configurations() if self.cluster else ()
        return versions[-1] if versions else None

    def job(self, name: str) -> JobView | None:
        """A job with its tasks, by name without user."""
        key = self.keys.get(name)
        if key is None or self.cluster is None:
            return None
        if key not in self._shown:
            self._shown[key] = self.cluster.job(key)
        return self._shown[key]

    def subject(self, kind: str, name: str) -> str:
        """The subject of the events of a job, node or service."""
        return f"{kind}/{self.keys.get(name, name)}" if kind == "job" else f"{kind}/{name}"

    def promised(self, vc: str) -> VcPromise | None:
        """What the newest configuration promises to a VC, in the lab's names; None if it has no such VC."""
        from paictl.lab.promises import promises  # late: few checks are about promises, and all load this module

        files = self.configuration.files if self.configuration else {}
        promise = promises(tuple(files.items())).get(vc)
        if promise is None or not self.names:
            return promise
        return replace(promise, nodes=tuple(sorted(self.names.get(name, name) for name in promise.nodes)))

    def file(self, name: str) -> str | None:
        """A file of the student in the lab's names, None if there is none."""
        path = self.files / name if self.files is not None else None
        if path is None or not path.is_file():
            return None
        return renamed(path.read_text(encoding="utf-8", errors="replace"), self.names)

    def running_times(self, name: str) -> list[tuple[int, int | None]]:
        """From which to which event tasks of a job ran; None while they run.

        Counted in numbers of events, not in time: on a clock that stands still much happens at one instant.
        """
        open_since: dict[tuple[str, int], int] = {}
        spans: list[tuple[int, int | None]] = []
        subject = self.subject("job", name)
        for event in self.events:
            if event.subject != subject:
                continue
            task = (str(event.data.get("role", "")), int(event.data.get("index", 0)))
            if event.kind == "Started":
                open_since[task] = event.number
            elif event.kind in _ENDS and task in open_since:
                spans.append((open_since.pop(task), event.number))
            elif event.kind in _ALL_END:
                spans.extend((since, event.number) for since in open_since.values())
                open_since.clear()
        return [*spans, *((since, None) for since in open_since.values())]
