"""The contract of a phase: one step of a run, with a name that people and a run folder know it by."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

Tell = Callable[[str, str], object]
"""Takes a line about how a phase goes on, and the host or object that it is about (empty for none)."""


class Phase(ABC):
    """One step. All methods raise `PaictlError` with the reason when something cannot be done."""

    @property
    @abstractmethod
    def id(self) -> str:
        """Unique in its run, and the same in a run that resumes it."""

    @property
    @abstractmethod
    def title(self) -> str:
        """What it does, for people."""

    @property
    def needs(self) -> frozenset[str]:
        """Ids of the phases without which this one must not be tried."""
        return frozenset()

    @property
    def follows(self) -> frozenset[str]:
        """Ids of the phases that must have ended before this one begins, however they ended."""
        return frozenset()

    def prepare(self) -> None:  # noqa: B027 - most phases have nothing to prepare
        """Look and judge; called for every phase before the first of them runs. It must change nothing."""

    def should_run(self) -> str:
        """Why there is nothing to do, as "is running already"; empty if there is. Asked when its turn has come."""
        return ""

    @abstractmethod
    def run(self, tell: Tell) -> None:
        """Do the work. What was done already is no error: a run that was killed is begun again."""

    def interrupt(self) -> None:  # noqa: B027 - most phases are short
        """Somebody pressed Ctrl-C while `run` is under way in another thread: end soon, leave nothing half done."""

    def clean_up(self) -> None:  # noqa: B027 - most phases leave nothing behind
        """Take away what `run` needed only meanwhile; called last, whether or not it succeeded."""
