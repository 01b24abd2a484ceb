"""What happens while a playbook runs, and what came of it, by host."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from enum import StrEnum
from pathlib import Path

from paictl.frozen import frozen


class TaskEventKind(StrEnum):
    """What a `TaskEvent` tells; the first is about all hosts."""

    TASK = "task"
    OK = "ok"
    CHANGED = "changed"
    SKIPPED = "skipped"
    FAILED = "failed"
    IGNORED = "ignored"
    """Failed, and the playbook says that this does not matter."""
    UNREACHABLE = "unreachable"
    UNFINISHED = "unfinished"
    """Was being done when the run was ended: it may be half done."""


@frozen
class TaskEvent:
    """Something happened; `host` is empty for `TASK`, `message` says why a task failed, without secrets."""

    what: TaskEventKind
    task: str
    host: str = ""
    message: str = ""
    hint: str = ""


TaskListener = Callable[[TaskEvent], object]


@frozen
class HostOutcome:
    """What came of a playbook on a host: how many tasks went how, and those that failed."""

    host: str
    ok: int = 0
    changed: int = 0
    skipped: int = 0
    failures: tuple[TaskEvent, ...] = ()
    unreachable: TaskEvent | None = None
    unfinished: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    """Names of the tasks that changed something, or would with `check`."""
    facts: Mapping[str, object] = field(default_factory=dict)
    """What the playbook reported by `set_stats` per host, or by variables named ``paictl_*`` in `set_fact`."""

    @property
    def well(self) -> bool:
        """Whether the playbook got to its end there."""
        return not (self.failures or self.unreachable or self.unfinished)


@frozen
class PlaybookResult:
    """What came of a playbook.

    `ran` says whether it got as far as its end; if not, `output` is what Ansible said (a mistake in the playbook, say),
    or it was stopped (`stopped`: why, as "took longer than 600 s"). `folder` holds a log for each host.
    """

    hosts: Mapping[str, HostOutcome]
    ran: bool
    folder: Path
    output: str = ""
    stopped: str = ""

    @property
    def ok(self) -> bool:
        """Whether it got to its end on all hosts."""
        return self.ran and not self.stopped and all(one.well for one in self.hosts.values())

    @property
    def changed(self) -> tuple[str, ...]:
        """Hosts on which something changed, or would."""
        return tuple(name for name, one in self.hosts.items() if one.changed)

    @property
    def failed(self) -> tuple[str, ...]:
        """Hosts on which a task failed."""
        return tuple(name for name, one in self.hosts.items() if one.failures)

    @property
    def unreachable(self) -> tuple[str, ...]:
        """Hosts that did not answer, from the beginning or in the middle."""
        return tuple(name for name, one in self.hosts.items() if one.unreachable)
