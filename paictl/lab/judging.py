"""The standing of every check of a lab, and what helps where one fails."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import Final

from paictl.cluster.interface import JobState
from paictl.errors import ExitCode
from paictl.frozen import frozen
from paictl.lab.checks import holds, judge
from paictl.lab.commandlog import VERB, means
from paictl.lab.findings import Mismatch, passed_finding
from paictl.lab.manifest import BilingualText, Check, NearMiss
from paictl.lab.observation import Observation
from paictl.lab.progress import LabProgress
from paictl.lab.session import Session
from paictl.lab.slips import NO_SLIPS, Slips, slips


class CheckStatus(StrEnum):
    """The standing of a check."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    LATER = "later"
    """Its step is not reached yet."""


@frozen
class EarlyJob:
    """A job that was submitted before the step that asks for it."""

    name: str
    step: int
    """Number of the step that asks for it."""
    back: int
    """Number of the last step at whose start it was not there."""


@frozen
class CheckResult:
    """A check, its standing, and what helps where it failed."""

    check: Check
    status: CheckStatus
    findings: tuple[Mismatch, ...]
    """What was found: when it passed, else now."""
    advice: tuple[BilingualText, ...] = ()
    reason: str = ""
    """Why it was skipped, or when it passed."""
    guesses: tuple[BilingualText, ...] = ()
    """What may have gone wrong; nothing tells for certain."""
    strangers: tuple[str, ...] = ()
    """Jobs in the cluster that the lab does not know, and that may be in the way."""
    stuck: bool = False
    """Whether it fails though everything was typed, and no known mistake is to be seen."""
    unpredicted: str = ""
    """A step of which it wants a prediction, and there is none."""
    stopped: tuple[str, ...] = ()
    """Jobs that were stopped, which no step so far asks for."""
    never_came: tuple[str, ...] = ()
    """Refused submissions of jobs that the check wants and that are not there; other commands followed."""
    slips: Slips = NO_SLIPS
    """What is wrong with the commands that were typed for it."""
    reported: bool = False
    """Whether everything was typed, and a command of its step ended with errors that it reported itself."""
    left_out: tuple[str, ...] = ()
    """Steps before it that were skipped and not typed: it may need what they do."""
    early: tuple[EarlyJob, ...] = ()
    """Jobs of later steps that are there already and may be why it fails, where nothing else is known."""
    overtaken: bool = False
    """Whether a check of a later step has passed, and nothing else is known: its moment may be over."""


def judged(session: Session) -> list[CheckResult]:
    """The standing of every check; what passed once stays passed."""
    session.observe()
    done, observation = session.progress, session.observation()
    reached = _reached(session, observation, done)
    return [_result(session, check, observation, done, reached) for check in session.lab.checks]


def _reached(session: Session, observation: Observation, done: LabProgress) -> int:
    """Index of the furthest step that the student has begun; a step that was neither shown nor tried is not.

    Looking around is no try, unless the step asks for nothing else. A step is begun as well if a check of a later step
    has passed: what fails in it is shown.
    """
    step, lab = session.current_step(), session.lab
    if step is None:
        return len(lab.steps)
    at = lab.step_ids.index(step.id)
    before = [command for step in lab.steps[:at] for command in step.commands]
    only_looks = all(map(_is_look, step.commands))
    tried = (command.line for command in observation.typed[done.settled :])
    new = (line for line in tried if not any(means(command, line) for command in before))
    left = any(lab.step_ids.index(check.after) > at for check in lab.checks if check.id in done.passed)
    begun = left or step.id == done.shown or any(only_looks or not _is_look(line) for line in new)
    begun = begun or any(mistakes(session, observation, check) for check in lab.checks_after(step.id))
    return at if begun else at - 1


def _result(session: Session, check: Check, observation: Observation, done: LabProgress, reached: int) -> CheckResult:
    lab = session.lab
    if check.id in done.passed:
        then = tuple(map(passed_finding, done.passed[check.id].findings))
        return CheckResult(check, CheckStatus.PASSED, then, reason=done.passed[check.id].at)
    verdict = judge(observation, check).findings
    skipped = done.skipped.get(check.id) or done.skipped.get(check.after)
    if skipped is not None:
        return CheckResult(check, CheckStatus.SKIPPED, verdict, reason=skipped)
    if lab.step_ids.index(check.after) > reached:
        return CheckResult(check, CheckStatus.LATER, verdict)
    unpredicted = _unpredicted(observation, check)
    advice = tuple(miss.says for miss in mistakes(session, observation, check))
    step = lab.step(check.after)
    made = slips(observation, check, step, done.settled)
    if made.is_old_file:  # what a near miss sees in it was corrected, perhaps
        return CheckResult(check, CheckStatus.FAILED, verdict, unpredicted=unpredicted, slips=made)
    if advice or unpredicted:
        return CheckResult(check, CheckStatus.FAILED, verdict, advice, unpredicted=unpredicted)
    guesses = tuple(miss.says for miss in _suspected(session, observation, check))
    stranger_names, stopped = strangers(session, observation), stopped_jobs(session, observation, check.after)
    stuck = (
        not (guesses or stranger_names or stopped or made != NO_SLIPS)
        and bool(step.commands)
        and not session.missing(step)
    )
    left_out = _left_out(session, check, done) if stuck else ()
    reported = stuck and any(map(_is_reported, verdict))
    never_came = _never_came(session, observation, check, done.settled)
    unexplained = not (guesses or stranger_names or stopped or never_came or left_out or reported or made != NO_SLIPS)
    early = early_jobs(session, observation, check.after) if unexplained else ()
    return CheckResult(
        check,
        CheckStatus.FAILED,
        verdict,
        guesses=guesses,
        slips=NO_SLIPS if guesses else made,
        strangers=stranger_names,
        stuck=stuck and not early,
        left_out=left_out,
        stopped=stopped,
        never_came=never_came,
        reported=reported,
        early=early,
        overtaken=unexplained and not (stuck or early) and _is_overtaken(session, check, done),
    )


def _is_reported(finding: Mismatch) -> bool:
    """Whether a command did not end as it should, and said why."""
    return not finding.ok and finding.aspect in ("exit code", "was refused") and finding.observed.key != "not-refused"


def stopped_jobs(session: Session, observation: Observation, last: str) -> tuple[str, ...]:
    """Names of the lab's jobs that were stopped, though no step up to the step `last` stops them."""
    lab = session.lab
    steps = lab.steps[: lab.step_ids.index(last) + 1]
    step_words = {
        word
        for step in steps
        for line in (*step.commands, *step.done_by(step.solution))
        if line.startswith("paictl job stop ")
        for word in line.split()[VERB:]
    }
    stopped = (job.key.partition("~")[2] for job in observation.jobs if job.state is JobState.STOPPED)
    return tuple(name for name in stopped if name in lab.job_names and name not in step_words)


_SUBMITS: Final = "paictl job submit "


def early_jobs(session: Session, observation: Observation, last: str) -> tuple[EarlyJob, ...]:
    """The jobs that are there, though only steps after the step `last` submit them."""
    lab = session.lab
    asked: dict[str, int] = {}
    for number, step in enumerate(lab.steps, 1):
        for line in (*step.commands, *step.done_by(step.solution)):
            for name in _submitted(line):
                asked.setdefault(name, number)
    at = lab.step_ids.index(last) + 1
    present = (job.key.partition("~")[2] for job in observation.jobs)
    early = ((name, asked[name]) for name in present if asked.get(name, 0) > at)
    return tuple(EarlyJob(name, number, _last_without(session, name, at)) for name, number in early)


def _submitted(line: str) -> tuple[str, ...]:
    """The names of the jobs that a command line submits, as far as it says them."""
    if not line.startswith(_SUBMITS):
        return ()
    words = line.split()[VERB:]
    if "--name" in words[:-1]:
        return (words[words.index("--name") + 1],)
    return tuple(Path(word).stem for word in words if word.endswith(".yaml"))


def _last_without(session: Session, name: str, at: int) -> int:
    """Number of the last step up to `at` at whose start a job had not been submitted."""
    for number in range(at, 1, -1):
        step = session.lab.steps[number - 1].id
        typed = session.typed_before(step)
        if typed is not None and not any(name in _submitted(command.line) for command in typed if not command.exit):
            return number
    return 1


def _is_overtaken(session: Session, check: Check, done: LabProgress) -> bool:
    """Whether a check of a later step has passed."""
    ids = session.lab.step_ids
    later = (other for other in session.lab.checks if ids.index(other.after) > ids.index(check.after))
    return any(other.id in done.passed for other in later)


def _never_came(session: Session, observation: Observation, check: Check, settled: int) -> tuple[str, ...]:
    """The last refused submission of each job that a check wants and that is not there, unless it came last of all.

    Refusals that a step is about are no mistakes, once its check has passed: `settled` commands came before that.
    """
    statements = (statement for other in session.lab.checks for statement in other.expect)
    meant = [statement.says["command"] for statement in statements if statement.kind == "refused"]
    present = {job.key.partition("~")[2] for job in observation.jobs}
    expected = {
        statement.says["name"]
        for statement in check.expect
        if statement.kind == "job" and "absent" not in statement.says
    }
    refused = {
        name: command.line
        for at, command in enumerate(observation.typed[:-1])
        if command.exit == ExitCode.USAGE and command.line.startswith(_SUBMITS)
        if at >= settled or not any(means(pattern, command.line) for pattern in meant)
        for names in ({Path(word).stem for word in command.line.split()[VERB:]},)
        if present.isdisjoint(names)  # else it was typed again in part
        for name in (expected - present) & names
    }
    return tuple(dict.fromkeys(refused.values()))


def _left_out(session: Session, check: Check, done: LabProgress) -> tuple[str, ...]:
    before = session.lab.steps[: session.lab.step_ids.index(check.after)]
    skipped = {
        step.id
        for step in before
        if not done.skipped.keys().isdisjoint([step.id, *(other.id for other in session.lab.checks_after(step.id))])
    }
    return tuple(step.id for step in before if step.id in skipped and session.missing(step))


def _unpredicted(observation: Observation, check: Check) -> str:
    """The step of which a check wants a prediction that was not made, empty if there is none."""
    steps = (statement.says["step"] for statement in check.expect if statement.kind == "predicted")
    return next((step for step in steps if step not in observation.predictions), "")


def mistakes(session: Session, observation: Observation, check: Check) -> list[NearMiss]:
    """The known mistakes that are to be seen and make a check fail."""
    misses = session.lab.near_misses
    return [miss for miss in misses if check.id in miss.fails and miss.when and holds(observation, miss.when)]


def _suspected(session: Session, observation: Observation, check: Check) -> list[NearMiss]:
    """The mistakes that cannot be told from the cluster, if all that they type was typed."""
    typed = [command.line for command in observation.typed]

    def was_made(miss: NearMiss) -> bool:
        commands = [command for act in miss.acts.values() for command in act.commands or ()]
        return bool(typed) and all(any(means(command, line) for line in typed) for command in commands)

    misses = session.lab.near_misses
    return [miss for miss in misses if check.id in miss.fails and not miss.when and was_made(miss)]


def strangers(session: Session, observation: Observation) -> tuple[str, ...]:
    """Names of waiting or running jobs that the lab does not know; ``--repeat`` numbers those that it knows."""
    job_names = session.lab.job_names
    if not job_names:
        return ()
    alive = (job for job in observation.jobs if job.state in (JobState.WAITING, JobState.RUNNING))
    names = (job.key.partition("~")[2] for job in alive)
    return tuple(name for name in names if name not in job_names and re.sub(r"-\d+$", "", name) not in job_names)


_LOOKS = frozenset(
    ["list", "show", "status", "explain", "view", "logs", "events", "history", "capacity", "validate", "diff", "get-id"]
)


def _is_look(command: str) -> bool:
    """Whether a command line only shows something."""
    return not _LOOKS.isdisjoint(command.split()[1:VERB])
