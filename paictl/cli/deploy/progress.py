"""The progress of a deployment: one line per phase, with hosts and seconds."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol

from paictl.cli import console
from paictl.cli.console import Output, localized
from paictl.cli.progress import MovingLine
from paictl.deploy import pushing
from paictl.deploy.facts import HostFacts
from paictl.deploy.node_dns import state_of
from paictl.deploy.phases import HostChange
from paictl.i18n import Text, counted
from paictl.plan import events
from paictl.plan.events import Event
from paictl.plan.folder import RunFolder
from paictl.plan.run import PhaseOutcome

_HARMLESS: Final = ("connect", "facts", "preflight", "versions", "lock")
"""Phases that change nothing on a machine."""
_SHOWN: Final = 4
"""Pods that a warning names."""


class EndedRun(Protocol):
    """The result of a run, whatever its phases."""

    @property
    def run(self) -> RunFolder:
        """Where it is kept."""

    @property
    def resumed(self) -> bool:
        """Whether it went on with one that was interrupted."""

    @property
    def outcomes(self) -> tuple[PhaseOutcome, ...]:
        """What became of each phase."""


class PhaseLines:
    """Listens to a run: `==> phase (3 of 14) hosts 3/3 12.3 s` on stderr when one is done; all else with --verbose.

    On a terminal, a moving line says meanwhile what is being done.
    """

    def __init__(self) -> None:
        self._numbers: dict[str, str] = {}
        self._hosts = ""
        self._began = time.monotonic()
        self._changes = False
        self._line = MovingLine()

    def __call__(self, event: Event) -> None:
        """Show an event."""
        match event:
            case events.RunBegan(phases):
                self._numbers = {name: f"({number} of {len(phases)})" for number, (name, _) in enumerate(phases, 1)}
            case events.PhaseBegan(phase):
                self._hosts, self._began = "", time.monotonic()
                self._changes = self._changes or phase not in _HARMLESS
                self._move(phase)
            case events.PhaseSaid(_, text, "hosts"):
                self._hosts = f" hosts {text}"
            case events.PhaseSaid(phase, text, pushing.PROGRESS):
                console.info(f"{phase} {localized(text)}")
            case events.PhaseSaid(phase, text, ""):
                console.detail(f"{phase}: {localized(text)}")
                self._move(phase, localized(text))
            case events.PhaseSaid(phase, text, about):
                console.warning(f"{phase} {about}: {localized(text)}")
            case events.RunEnded(_, interrupted):
                self._line.stop()
                if interrupted and self._changes:
                    console.info("run the same command again to resume")
            case _:
                self._line.stop()
                self._show_end(event)

    def _show_end(self, event: Event) -> None:
        match event:
            case events.PhaseSkipped(phase, why):
                console.info(f"==> {phase} {self._numbers.get(phase, '')} {localized('nothing to do: {why}', why=why)}")
            case events.PhaseDone(phase):
                console.info(f"==> {phase} {self._numbers.get(phase, '')}{self._hosts} {self._spent}")
            case events.PhaseFailed(phase, _, _, _):
                console.info(f"==> {phase} {self._numbers.get(phase, '')}{self._hosts} FAILED {self._spent}")

    def _move(self, phase: str, doing: str = "") -> None:
        """Say on a terminal what is being done now."""
        self._line.show(f"{phase} {self._numbers.get(phase, '')} {doing}".rstrip())

    @property
    def _spent(self) -> str:
        return f"{time.monotonic() - self._began:.1f} s"


def show_changes(changes: Iterable[HostChange]) -> None:
    """What would change, by phase and host."""
    before = ""
    for change in changes:
        if change.phase != before:
            console.write(f"{change.phase}:")
            before = change.phase
        console.write(f"  {change.host}: {'; '.join(map(localized, change.what))}")


def show_notes(notes: Iterable[str]) -> None:
    """What the files say without any effect."""
    for note in notes:
        console.info(f"{localized('note')}: {localized(note)}")


def show_unlisted(rows: Iterable[str]) -> None:
    """Name nodes of the cluster that no list names, each as ``name,address``, and how to take them out."""
    for row in rows:
        name = row.partition(",")[0]
        key = "{name} is in the cluster, not in the lists; to remove it, put {row} back in worker.csv, then: {command}"
        console.warning(localized(key, name=name, row=row, command=f"paictl node remove {name} -m … -w … -c …"))


def show_cache_users(facts: Iterable[HostFacts]) -> None:
    """Say why a DNS cache that was taken out of config.yaml is still on the nodes."""
    for state in (state_of(fact.values) for fact in facts):
        if state.stays and state.users is None:
            console.warning(localized("the DNS cache of the nodes stays: it is not known whether pods still use it"))
        elif state.stays and state.users is not None:
            shown = ", ".join(state.users[:_SHOWN]) + (", …" if len(state.users) > _SHOWN else "")
            key = "the DNS cache of the nodes stays for {count} pods: {pods}; restart or delete them, then apply again"
            console.warning(localized(key, count=len(state.users), pods=shown))


def machines_changed(count: int) -> Text:
    """How many machines a run has changed."""
    return counted("{count} machine changed", "{count} machines changed", count)


def show_end(
    done: EndedRun, message: str, form: Output, about: Mapping[str, Any], what: Mapping[str, list[Any]]
) -> None:
    """What a run came to: the sentence `message` and its folder; as data, `about` it and `what` it did, by names."""
    if form is Output.TABLE:
        console.write(message)
        console.info(localized("the record of this run is in {path}", path=done.run.path))
        return
    phases = [{"phase": outcome.phase, "status": outcome.status.value} for outcome in done.outcomes]
    data = {**about, "run": str(done.run.path), "resumed": done.resumed, "changed": any(what.values()), **what}
    console.write_data({**data, "phases": phases}, form)
