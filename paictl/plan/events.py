"""What happens in a run, as values: a display draws them, a run folder keeps them, a server streams them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, Final, TypeAlias

from paictl.frozen import frozen


@frozen
class RunBegan:
    """The first event: ids and titles of all phases in order."""

    phases: tuple[tuple[str, str], ...]


@frozen
class PhaseBegan:
    """A phase does its work now; `number` counts from 1 to `of`."""

    phase: str
    number: int
    of: int


@frozen
class PhaseSaid:
    """A line of a phase's progress; `about` names a host or object where that matters."""

    phase: str
    text: str
    about: str = ""


@frozen
class PhaseSkipped:
    """There was nothing to do, and why."""

    phase: str
    why: str


@frozen
class PhaseDone:
    """A phase has done its work."""

    phase: str


@frozen
class PhaseFailed:
    """A phase could not do its work; the words of its error."""

    phase: str
    message: str
    hint: str = ""
    where: str = ""


@frozen
class PhaseBlocked:
    """A phase was not tried, because one that it needs failed."""

    phase: str
    by: str


@frozen
class RunEnded:
    """The last event, unless the process was killed; `interrupted` by Ctrl-C."""

    ok: bool
    interrupted: bool = False


Event: TypeAlias = RunBegan | PhaseBegan | PhaseSaid | PhaseSkipped | PhaseDone | PhaseFailed | PhaseBlocked | RunEnded
Listener = Callable[[Event], object]

_KINDS: Final[Mapping[str, type[Any]]] = {
    "run-began": RunBegan,
    "phase-began": PhaseBegan,
    "phase-said": PhaseSaid,
    "phase-skipped": PhaseSkipped,
    "phase-done": PhaseDone,
    "phase-failed": PhaseFailed,
    "phase-blocked": PhaseBlocked,
    "run-ended": RunEnded,
}
_NAMES: Final = {kind: name for name, kind in _KINDS.items()}


def to_data(event: Event) -> dict[str, Any]:
    """An event as JSON values; `event` says which one it is."""
    return {"event": _NAMES[type(event)], **asdict(event)}


def from_data(data: Mapping[str, Any]) -> Event:
    """The inverse of `to_data`; raises `KeyError` or `TypeError` for anything that is not an event."""
    values = {name: value for name, value in data.items() if name != "event"}
    if data["event"] == "run-began":
        values["phases"] = tuple((str(phase), str(title)) for phase, title in values["phases"])
    event: Event = _KINDS[data["event"]](**values)
    return event


def both(listener: Listener, other: Listener) -> Listener:
    """Who tells two others."""

    def listen(event: Event) -> None:
        listener(event)
        other(event)

    return listen
