"""The progress of a run: one line per phase, and services that machines without a registry cannot run."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from paictl.cli import console
from paictl.cli.console import localized
from paictl.cli.settings import settings
from paictl.operate.services import LeftOut
from paictl.plan import events
from paictl.plan.events import Event

if TYPE_CHECKING:
    from rich.status import Status


class MovingLine:
    """A line on a terminal that moves and says what is being done; none elsewhere, with --quiet and with --verbose."""

    def __init__(self) -> None:
        self._status: Status | None = None

    def show(self, words: str) -> bool:
        """Show these words instead of the last ones; whether there is a terminal to show them on."""
        if self._status is None:
            if settings.verbosity != 0 or console.envelope.capturing or not sys.stderr.isatty():
                return False
            self._status = console.stderr().status("")
            self._status.start()
        from rich.text import Text  # late: only a terminal needs it

        self._status.update(Text(words))  # no markup in what a service or a machine reports
        return True

    def stop(self) -> None:
        """Leave the terminal as it was."""
        if self._status is not None:
            self._status.stop()
            self._status = None


class Display:
    """Listens to a run: a moving line on a terminal says what is being done; with --verbose all is said in lines."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._titles: dict[str, str] = {}
        self._under_way: dict[str, str] = {}
        """What each phase that is being done said last."""
        self._line = MovingLine()

    def __enter__(self) -> Self:
        """Begin to show."""
        self._line.show(self._name)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the terminal as it was."""
        self._line.stop()

    def __call__(self, event: Event) -> None:
        """Show an event."""
        match event:
            case events.RunBegan(phases):
                self._titles = dict(phases)
            case events.PhaseBegan(phase, number, of):
                self._say(phase, f"[{number}/{of}] {self._titles.get(phase, phase)}")
            case events.PhaseSaid(phase, text, about):
                self._say(phase, f"{self._titles.get(phase, phase)}: {f'{about}: ' if about else ''}{text}")
            case events.PhaseSkipped(phase, why):
                self._say(phase, f"{self._titles.get(phase, phase)}: nothing to do, {why}")
                self._over(phase)
            case events.PhaseDone(phase) | events.PhaseFailed(phase) | events.PhaseBlocked(phase):
                self._over(phase)

    def _say(self, phase: str, text: str) -> None:
        self._under_way[phase] = text
        if not self._show():
            console.detail(text)

    def _over(self, phase: str) -> None:
        self._under_way.pop(phase, None)
        self._show()

    def _show(self) -> bool:
        """A line for each phase that is under way, in the order in which they began; whether there is a terminal."""
        return bool(self._under_way) and self._line.show("\n".join(self._under_way.values()))


def say_left(left: Sequence[LeftOut]) -> None:
    """Which services were left out and why, a line each, and what would let them start."""
    for omission in left:
        console.write(f"{omission.service}: {localized(omission.why)}")
    if any(omission.images for omission in left):
        console.info(
            localized("to start them, put archives of their images into images/ of the artifacts and apply again")
        )
