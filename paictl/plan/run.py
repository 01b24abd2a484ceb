"""Phases carried out in their order."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum

from paictl.errors import PaictlError
from paictl.plan.events import (
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
from paictl.plan.phase import Phase


class Status(StrEnum):
    """What became of a phase."""

    DONE = "done"
    SKIPPED = "skipped"
    FAILED = "failed"
    BLOCKED = "blocked"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a phase; `error` is why it failed, `by` the phase whose failure blocked it."""

    phase: str
    status: Status
    error: PaictlError | None = None
    by: str = ""


def carry_out(
    phases: Sequence[Phase], listen: Listener = lambda _: None, *, done: Collection[str] = ()
) -> tuple[Outcome, ...]:
    """Do phases one after the other; those in `done` were done by the run that this one resumes.

    All are prepared before the first runs, so that what can be known beforehand stops the run before anything changed:
    then `PaictlError` is raised. A phase that fails keeps those from being tried that need it, and no others. Each that
    began cleans up at the end, the last one first, also when somebody interrupts.
    """
    listen(RunBegan(tuple((phase.id, phase.title) for phase in phases)))
    left = [phase for phase in phases if phase.id not in done]
    began: list[Phase] = []
    outcomes: dict[str, Outcome] = {}
    interrupted = True
    try:
        for phase in left:
            phase.prepare()
        for number, phase in enumerate(phases, 1):
            if phase not in left:
                listen(PhaseSkipped(phase.id, "was done before"))
                outcomes[phase.id] = Outcome(phase.id, Status.DONE)
                continue
            outcomes[phase.id] = _one(phase, outcomes, listen, began, (number, len(phases)))
        interrupted = False
    except PaictlError:
        interrupted = False
        raise
    finally:
        _clean_up(began, listen)
        ok = len(outcomes) == len(phases) and all(one.status in _FINE for one in outcomes.values())
        listen(RunEnded(ok, interrupted))
    return tuple(outcomes[phase.id] for phase in phases)


_FINE = (Status.DONE, Status.SKIPPED)


def _one(
    phase: Phase, outcomes: dict[str, Outcome], listen: Listener, began: list[Phase], place: tuple[int, int]
) -> Outcome:
    blocking = [one for one in outcomes.values() if one.phase in phase.needs and one.status not in _FINE]
    if blocking:
        cause = blocking[0].by or blocking[0].phase
        listen(PhaseBlocked(phase.id, cause))
        return Outcome(phase.id, Status.BLOCKED, by=cause)

    def tell(text: str, about: str = "") -> None:
        listen(PhaseSaid(phase.id, text, about))

    try:
        why = phase.should_run()
        if why:
            listen(PhaseSkipped(phase.id, why))
            return Outcome(phase.id, Status.SKIPPED)
        listen(PhaseBegan(phase.id, *place))
        began.append(phase)
        phase.run(tell)
    except PaictlError as error:
        listen(PhaseFailed(phase.id, error.message, error.hint or "", error.where or ""))
        return Outcome(phase.id, Status.FAILED, error)
    listen(PhaseDone(phase.id))
    return Outcome(phase.id, Status.DONE)


def _clean_up(began: Sequence[Phase], listen: Listener) -> None:
    """Let phases clean up in reverse; one that cannot says so and keeps no other from it."""
    for phase in reversed(began):
        try:
            phase.clean_up()
        except PaictlError as error:
            listen(PhaseSaid(phase.id, f"could not clean up: {error}"))
