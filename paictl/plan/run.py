"""Phases, and how they are carried out: in their order, or side by side where the order allows."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from enum import StrEnum

from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.plan.events import (
    Event,
    Listener,
    PhaseBegan,
    PhaseBlocked,
    PhaseDone,
    PhaseFailed,
    PhaseSaid,
    PhaseSkipped,
    RunBegan,
    RunEnded,
)


class PhaseStatus(StrEnum):
    """What became of a phase."""

    DONE = "done"
    SKIPPED = "skipped"
    FAILED = "failed"
    BLOCKED = "blocked"


@frozen
class PhaseOutcome:
    """What became of a phase; `error` is why it failed, `by` the phase whose failure blocked it."""

    phase: str
    status: PhaseStatus
    error: PaictlError | None = None
    by: str = ""


def carry_out(
    phases: Sequence[Phase], listen: Listener = lambda _: None, *, done: Collection[str] = (), workers: int = 1
) -> tuple[PhaseOutcome, ...]:
    """Do phases; those in `done` were done by the run that this one resumes.

    One after the other as they stand, or up to `workers` at a time, each as soon as those that it needs or follows have
    ended. `listen` is never called by two threads at once.

    All are prepared before the first runs, so that what can be known beforehand stops the run before anything changed:
    then `PaictlError` is raised. A phase that fails keeps those from being tried that need it, and no others. Each that
    began cleans up at the end, the last one first, also when somebody interrupts.
    """
    listen(RunBegan(tuple((phase.id, phase.title) for phase in phases)))
    left = [phase for phase in phases if phase.id not in done]
    began: list[Phase] = []
    outcomes: dict[str, PhaseOutcome] = {}
    interrupted = True
    try:
        for phase in left:
            phase.prepare()
        for phase in phases:
            if phase not in left:
                listen(PhaseSkipped(phase.id, "was done before"))
                outcomes[phase.id] = PhaseOutcome(phase.id, PhaseStatus.DONE)
        run = _Run(phases, outcomes, listen, began)
        run.one_by_one(left) if workers == 1 else run.side_by_side(left, workers)
        interrupted = False
    except PaictlError:
        interrupted = False
        raise
    finally:
        _clean_up(began, listen)
        ok = len(outcomes) == len(phases) and all(outcome.status in _FINE for outcome in outcomes.values())
        listen(RunEnded(ok, interrupted))
    return tuple(outcomes[phase.id] for phase in phases)


_FINE = (PhaseStatus.DONE, PhaseStatus.SKIPPED)


class _Run:
    """The phases of a run while they are done; `outcomes` and `began` grow."""

    def __init__(
        self, phases: Sequence[Phase], outcomes: dict[str, PhaseOutcome], listen: Listener, began: list[Phase]
    ) -> None:
        self._places = {phase.id: (number, len(phases)) for number, phase in enumerate(phases, 1)}
        self._outcomes = outcomes
        self._began = began
        self._lock = threading.Lock()
        self._hear = listen

    def one_by_one(self, phases: Sequence[Phase]) -> None:
        """As they stand."""
        for phase in phases:
            self._outcomes[phase.id] = self._blocked(phase) or self._run_phase(phase)

    def side_by_side(self, phases: Sequence[Phase], workers: int) -> None:
        """Each as soon as it can; on an interrupt, tell the running phases and wait for them."""
        waiting, running = list(phases), dict[Future[PhaseOutcome], Phase]()
        with ThreadPoolExecutor(workers, thread_name_prefix="phase") as pool:
            try:
                while waiting or running:
                    self._begin(waiting, running, pool)
                    for future in wait(running, return_when=FIRST_COMPLETED).done if running else ():
                        phase = running.pop(future)
                        self._outcomes[phase.id] = future.result()
            except BaseException:
                for phase in running.values():
                    phase.interrupt()
                pool.shutdown(cancel_futures=True)
                raise

    def _begin(
        self, waiting: list[Phase], running: dict[Future[PhaseOutcome], Phase], pool: ThreadPoolExecutor
    ) -> None:
        """Begin all that can; a circle of phases that follow each other is cut at the first of them."""
        ready = [phase for phase in waiting if not self._pending(phase, waiting, running)]
        for phase in ready or (waiting[:1] if not running else ()):
            waiting.remove(phase)
            blocked = self._blocked(phase)
            if blocked is not None:
                self._outcomes[phase.id] = blocked
            else:
                running[pool.submit(self._run_phase, phase)] = phase

    @staticmethod
    def _pending(phase: Phase, waiting: Sequence[Phase], running: Mapping[Future[PhaseOutcome], Phase]) -> bool:
        before = phase.needs | phase.follows
        return any(other.id in before for other in (*waiting, *running.values()) if other is not phase)

    def _listen(self, event: Event) -> None:
        with self._lock:
            self._hear(event)

    def _blocked(self, phase: Phase) -> PhaseOutcome | None:
        """That a phase cannot be tried, because one that it needs was not done."""
        blocking = [
            outcome
            for outcome in self._outcomes.values()
            if outcome.phase in phase.needs and outcome.status not in _FINE
        ]
        if not blocking:
            return None
        cause = blocking[0].by or blocking[0].phase
        self._listen(PhaseBlocked(phase.id, cause))
        return PhaseOutcome(phase.id, PhaseStatus.BLOCKED, by=cause)

    def _run_phase(self, phase: Phase) -> PhaseOutcome:
        def tell(text: str, about: str = "") -> None:
            self._listen(PhaseSaid(phase.id, text, about))

        try:
            why = phase.should_run()
            if why:
                self._listen(PhaseSkipped(phase.id, why))
                return PhaseOutcome(phase.id, PhaseStatus.SKIPPED)
            self._listen(PhaseBegan(phase.id, *self._places[phase.id]))
            self._began.append(phase)
            phase.run(tell)
        except PaictlError as error:
            self._listen(PhaseFailed(phase.id, error.message, error.hint or "", error.where or ""))
            return PhaseOutcome(phase.id, PhaseStatus.FAILED, error)
        self._listen(PhaseDone(phase.id))
        return PhaseOutcome(phase.id, PhaseStatus.DONE)


def _clean_up(began: Sequence[Phase], listen: Listener) -> None:
    """Let phases clean up in reverse; one that cannot says so and keeps no other from it."""
    for phase in reversed(began):
        try:
            phase.clean_up()
        except PaictlError as error:
            listen(PhaseSaid(phase.id, f"could not clean up: {error}"))


Tell = Callable[[str, str], object]
"""Takes a line of a phase's progress, and the host or object that it is about (may be empty)."""


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
        """Why there is nothing to do, as "is already running"; empty if there is. Asked when its turn has come."""
        return ""

    @abstractmethod
    def run(self, tell: Tell) -> None:
        """Do the work. Finding it already done is not an error: a run that was killed is run again."""

    def interrupt(self) -> None:  # noqa: B027 - most phases are short
        """Somebody pressed Ctrl-C while `run` is under way in another thread: end soon, leave nothing half done."""

    def clean_up(self) -> None:  # noqa: B027 - most phases leave nothing behind
        """Take away what `run` needed only meanwhile; called last, whether or not it succeeded."""
