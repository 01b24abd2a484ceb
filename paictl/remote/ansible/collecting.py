"""What a playbook does on each host: the events of ansible-runner counted, told as they come, written to logs."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from paictl.frozen import frozen
from paictl.i18n import text
from paictl.plan.folder import STARS

FACT: Final = "paictl_"
"""What the names of variables begin with that a playbook sets to report something."""

_EMPTY: Final = ("non-zero return code", "MODULE FAILURE", "deserialization failed")
"""Messages that say less than stderr does."""
_HIDDEN: Final = "its output is hidden, because it may contain secrets (no_log)"
_UNKNOWN_KEY: Final = "because Host Key checking is enabled"
"""How Ansible says, where it signs in with a password, that a host's key is unknown, or is another one than before."""
_PREFIX: Final = re.compile(r"^(Task failed: )?(Action failed: |Module failed: )?")
_HINTS: Final = (
    (
        "Host key verification failed",
        "paictl node run true says which; new keys: --accept-new-host-keys (deploy check, deploy apply, node add)",
    ),
    ("REMOTE HOST IDENTIFICATION HAS CHANGED", "paictl node run true says how to replace the key"),
    ("Permission denied", "see user, password or key file in config.yaml"),
    ("Missing sudo password", "give the sudo password (--ask-sudo-password), or allow sudo without"),
    ("Incorrect sudo password", "give the right sudo password"),
    ("No route to host", "check that it is running and has this address"),
    ("timed out", "check that it is running and the link is up"),
    ("Connection refused", "check that sshd listens there"),
    ("The module interpreter", "apt-get install -y python3 || dnf install -y python3"),
    ("No space left on device", "free some space there"),
)


@dataclass(slots=True)
class _Tally:
    """What is known of a host so far."""

    ok: int = 0
    skipped: int = 0
    changes: list[str] = field(default_factory=list)
    failures: list[TaskEvent] = field(default_factory=list)
    unreachable: TaskEvent | None = None
    doing: str = ""
    facts: dict[str, object] = field(default_factory=dict)


class Collector:
    """Takes events of one run of a playbook; `secrets` are starred out of all that it keeps or tells."""

    def __init__(self, hosts: Iterable[str], logs: Path, secrets: Collection[str], listen: TaskListener) -> None:
        self._hosts = {name: _Tally() for name in hosts}
        self._logs, self._listen = logs, listen
        self._secrets = sorted((secret for secret in secrets if secret), key=len, reverse=True)
        self._output: list[str] = []
        self._stats: Mapping[str, Any] | None = None

    def take(self, event: Mapping[str, Any]) -> bool:
        """Take one event; always False: ansible-runner need not keep it as well."""
        data = event.get("event_data") or {}
        match event.get("event"):
            case "playbook_on_task_start" | "playbook_on_handler_task_start":
                self._tell(TaskEvent(TaskEventKind.TASK, str(data.get("task", ""))))
            case "runner_on_start":
                self._of(data).doing = str(data.get("task", ""))
            case "runner_on_ok":
                self._ok(data)
            case "runner_on_skipped":
                tally = self._of(data)
                tally.doing, tally.skipped = "", tally.skipped + 1
                self._tell(TaskEvent(TaskEventKind.SKIPPED, str(data.get("task", "")), str(data.get("host", ""))))
            case "runner_on_failed" | "runner_on_async_failed":
                self._failed(data)
            case "runner_on_unreachable":
                self._unreachable(data)
            case "playbook_on_stats":
                self._stats = data
            case "verbose" | "error" | "warning":
                self._output.append(self._starred(str(event.get("stdout", ""))))
        return False

    def _of(self, data: Mapping[str, Any]) -> _Tally:
        return self._hosts.setdefault(str(data.get("host", "")), _Tally())

    def _ok(self, data: Mapping[str, Any]) -> None:
        tally, task, result = self._of(data), str(data.get("task", "")), data.get("res") or {}
        tally.doing = ""
        tally.ok += 1
        if data.get("task_action") in ("set_fact", "ansible.builtin.set_fact"):
            facts = result.get("ansible_facts") or {}
            tally.facts.update({name: value for name, value in facts.items() if name.startswith(FACT)})
        if result.get("changed"):
            tally.changes.append(task)
        kind = TaskEventKind.CHANGED if result.get("changed") else TaskEventKind.OK
        self._tell(TaskEvent(kind, task, str(data.get("host", ""))))

    def _failed(self, data: Mapping[str, Any]) -> None:
        tally, result = self._of(data), data.get("res") or {}
        tally.doing = ""
        message = self._starred(reason(result))
        ignored = bool(data.get("ignore_errors"))
        event = TaskEvent(
            TaskEventKind.IGNORED if ignored else TaskEventKind.FAILED,
            str(data.get("task", "")),
            str(data.get("host", "")),
            message,
            str(result.get("hint") or hint_for(message)),
        )
        if not ignored:
            tally.failures.append(event)
        self._tell(event)

    def _unreachable(self, data: Mapping[str, Any]) -> None:
        tally = self._of(data)
        message = self._starred(reason(data.get("res") or {}))
        if re.search(r"(via|over) ssh:\s*$", message):
            message = text("the host died or the link was cut while it was working")
        event = TaskEvent(
            TaskEventKind.UNREACHABLE, str(data.get("task", "")), str(data.get("host", "")), message, hint_for(message)
        )
        tally.unreachable, tally.doing = event, ""
        self._tell(event)

    def _tell(self, event: TaskEvent) -> None:
        if event.host:
            self._logs.mkdir(mode=0o700, parents=True, exist_ok=True)
            at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            line = f"{at} {event.what.value:<11} {event.task}" + (f": {event.message}" if event.message else "")
            with (self._logs / f"{event.host}.log").open("a", encoding="utf-8") as log:
                log.write(line + "\n")
        self._listen(event)

    def _starred(self, message: str) -> str:
        for secret in self._secrets:
            message = message.replace(secret, STARS)
        return message

    @property
    def ran(self) -> bool:
        """Whether the playbook got to its end: Ansible's statistics are the last thing it tells."""
        return self._stats is not None

    @property
    def output(self) -> str:
        """What Ansible said outside of tasks: mistakes in a playbook, warnings."""
        return "\n".join(line for line in self._output if line.strip())

    def outcomes(self) -> dict[str, HostOutcome]:
        """The outcome of each host; tasks still running are reported as unfinished."""
        return {name: self._outcome(name, tally) for name, tally in self._hosts.items() if name}

    def _outcome(self, name: str, tally: _Tally) -> HostOutcome:
        unfinished: tuple[str, ...] = ()
        if tally.doing and not self.ran:
            unfinished = (tally.doing,)
            message = text("may be half done")
            self._tell(TaskEvent(TaskEventKind.UNFINISHED, tally.doing, name, message))
        return HostOutcome(
            name,
            tally.ok,
            len(tally.changes),
            tally.skipped,
            self._lasting(name, tally),
            tally.unreachable,
            unfinished,
            tuple(tally.changes),
            tally.facts,
        )

    def _lasting(self, name: str, tally: _Tally) -> tuple[TaskEvent, ...]:
        """The failures that no `rescue` of the playbook made good."""
        if self._stats is not None and not (self._stats.get("failures") or {}).get(name):
            return ()
        return tuple(tally.failures)


def reason(result: Mapping[str, Any]) -> str:
    """Why a task failed: what its module says, of a loop what the first failed item says, of a command its stderr."""
    if "censored" in result:
        return text(_HIDDEN)
    for item in result.get("results") or ():
        if isinstance(item, Mapping) and (item.get("failed") or item.get("unreachable")):
            return reason(item)
    message = _PREFIX.sub("", str(result.get("msg") or "").strip())
    if _UNKNOWN_KEY in message:
        return "Host key verification failed: the key of this host is unknown or has changed"
    details = str(result.get("stderr") or result.get("module_stderr") or "").strip().splitlines()
    last = details[-1].strip() if details else ""
    if last and last not in message and (not message or any(words in message for words in _EMPTY)):
        code = f"exit code {result['rc']}: " if "rc" in result else ""
        return f"{code}{last}"
    return message or text("it gives no reason")


def hint_for(message: str) -> str:
    """What to do about a failure, where that is known."""
    return next((hint for words, hint in _HINTS if words in message), "")


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
        return self.ran and not self.stopped and all(host.well for host in self.hosts.values())

    @property
    def changed(self) -> tuple[str, ...]:
        """Hosts on which something changed, or would."""
        return tuple(name for name, host in self.hosts.items() if host.changed)

    @property
    def failed(self) -> tuple[str, ...]:
        """Hosts on which a task failed."""
        return tuple(name for name, host in self.hosts.items() if host.failures)

    @property
    def unreachable(self) -> tuple[str, ...]:
        """Hosts that did not answer, from the beginning or in the middle."""
        return tuple(name for name, host in self.hosts.items() if host.unreachable)
