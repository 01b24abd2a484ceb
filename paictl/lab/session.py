"""A student in a lab: the manifest, the ground it stands on and the progress, joined."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path

from paictl.errors import ExitCode
from paictl.lab import journal
from paictl.lab.checks import Verdict, holds, judge
from paictl.lab.errors import LabError
from paictl.lab.findings import Finding
from paictl.lab.ground import Ground
from paictl.lab.journal import VERB, Typed, means
from paictl.lab.manifest import Act, Check, Lab, NearMiss, Step, Text
from paictl.lab.progress import LabProgress, Passed, ProgressFile
from paictl.lab.scene import Scene
from paictl.lab.steps import Player, Runner, Typist, prepare


class Standing(StrEnum):
    """How a check stands."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    LATER = "later"
    """Its step is not reached yet."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A check, how it stands, and what leads on where it failed."""

    check: Check
    standing: Standing
    findings: tuple[Finding, ...]
    """What was found: when it passed, else now."""
    advice: tuple[Text, ...] = ()
    reason: str = ""
    """Why it was skipped, or when it passed."""
    guesses: tuple[Text, ...] = ()
    """What may have gone wrong; nothing tells for certain."""
    stuck: bool = False
    """Whether it fails though everything was typed, and no known mistake is to be seen."""
    left_out: tuple[str, ...] = ()
    """Steps before it that were skipped and not typed: it may need what they do."""


@dataclass(frozen=True, slots=True)
class Session:
    """One lab of one student, under the student's labs folder."""

    lab: Lab
    root: Path

    @property
    def ground(self) -> Ground:
        """The lab's folder."""
        return Ground(self.root / self.lab.id)

    @property
    def file(self) -> ProgressFile:
        """The progress of the student."""
        return ProgressFile(self.root)

    @property
    def progress(self) -> LabProgress:
        """The progress in this lab."""
        return self.file.read().lab(self.lab.id)

    # --- life

    def start(self, language: str, *, played: bool = False) -> None:
        """Begin the lab; raises `LabError` if it has begun."""
        if self.ground.started:
            number = self.lab.number
            raise LabError(
                (f"lab {number} has begun already", f"实验 {number} 已经开始"),
                (
                    f"go on: paictl lab next {number}; or begin anew: paictl lab reset {number}",
                    f"继续：paictl lab next {number}；或重新开始：paictl lab reset {number}",
                ),
            )
        self.ground.remove()  # what a start that was interrupted left
        self.ground.start(self.lab, language)
        with self.file.changing() as progress:
            progress.current, progress.language = self.lab.id, language
            mine = progress.lab(self.lab.id)
            mine.started, mine.shown, mine.played = _now(), self.lab.steps[0].id, played

    def reset(self) -> None:
        """Forget the lab's cluster and what was done in it; answers stay. It is the lab to start next."""
        self.ground.remove()
        with self.file.changing() as progress:
            progress.current = self.lab.id
            answers = progress.lab(self.lab.id).answers
            progress.labs[self.lab.id] = LabProgress(answers=answers)

    def require_started(self) -> None:
        """Raise `LabError` that leads on if the lab was not started."""
        if not self.ground.started:
            number = self.lab.number
            raise LabError(
                (f"lab {number} was not started", f"实验 {number} 尚未开始"),
                (f"start it: paictl lab start {number}", f"开始：paictl lab start {number}"),
            )

    # --- judging

    def scene(self) -> Scene:
        """What there is to see now."""
        return Scene(self.ground.cluster(), journal.read(self.ground.folder))

    def observe(self) -> list[Check]:
        """Judge what has not passed, note what passes now and return it.

        Called after every command in the lab: some things can be seen for a moment only.
        """
        done = self.progress
        scene = self.scene()
        waiting = [check for check in self.lab.checks if check.id not in done.passed]
        passed = [verdict for check in waiting if (verdict := judge(scene, check)).passed]
        if passed:
            now = scene.cluster.now
            with self.file.changing() as progress:
                noted = {verdict.check.id: Passed(_now(), now, _rows(verdict)) for verdict in passed}
                progress.lab(self.lab.id).passed.update(noted)
                progress.lab(self.lab.id).settled = len(scene.typed)
        return [verdict.check for verdict in passed]

    def judged(self) -> list[Judged]:
        """Every check as it stands; what passed once stays passed."""
        self.observe()
        done, scene = self.progress, self.scene()
        reached = self._reached(scene, done)
        return [self._judged(check, scene, done, reached) for check in self.lab.checks]

    def _reached(self, scene: Scene, done: LabProgress) -> int:
        """Index of the furthest step that the student has begun; a step that was neither shown nor tried is not.

        Looking around is no try, unless the step asks for nothing else.
        """
        here = self.current_step()
        if here is None:
            return len(self.lab.steps)
        at = self.lab.step_ids.index(here.id)
        before = [command for step in self.lab.steps[:at] for command in step.commands]
        only_looks = all(map(_is_look, here.commands))
        tried = (one.command for one in scene.typed[done.settled :])
        new = (one for one in tried if not any(means(command, one) for command in before))
        begun = here.id == done.shown or any(only_looks or not _is_look(one) for one in new)
        return at if begun else at - 1

    def _judged(self, check: Check, scene: Scene, done: LabProgress, reached: int) -> Judged:
        if check.id in done.passed:
            then = tuple(Finding(True, *row) for row in done.passed[check.id].findings)
            return Judged(check, Standing.PASSED, then, reason=done.passed[check.id].at)
        verdict = judge(scene, check).findings
        skipped = done.skipped.get(check.id) or done.skipped.get(check.after)
        if skipped is not None:
            return Judged(check, Standing.SKIPPED, verdict, reason=skipped)
        later = self.lab.step_ids.index(check.after) > reached
        standing = Standing.LATER if later else Standing.FAILED
        if later:
            return Judged(check, standing, verdict)
        advice = tuple(miss.says for miss in self.mistakes(scene, check))
        guesses = () if advice else tuple(miss.says for miss in self.suspected(scene, check))
        stuck = not advice and not guesses and not self.missing(self.lab.step(check.after))
        left_out = self._left_out(check, done) if stuck else ()
        return Judged(check, standing, verdict, advice, guesses=guesses, stuck=stuck, left_out=left_out)

    def _left_out(self, check: Check, done: LabProgress) -> tuple[str, ...]:
        before = self.lab.steps[: self.lab.step_ids.index(check.after)]
        return tuple(step.id for step in before if step.id in done.skipped and self.missing(step))

    def mistakes(self, scene: Scene, check: Check) -> list[NearMiss]:
        """The known mistakes that are to be seen and make a check fail."""
        return [
            miss for miss in self.lab.near_misses if check.id in miss.fails and miss.when and holds(scene, miss.when)
        ]  # fmt: skip

    def suspected(self, scene: Scene, check: Check) -> list[NearMiss]:
        """The mistakes that cannot be told from the cluster, if all that they type was typed."""
        typed = [one.command for one in scene.typed]

        def was_made(miss: NearMiss) -> bool:
            wanted = [command for act in miss.acts.values() for command in act.commands or ()]
            return bool(typed) and all(any(means(command, one) for one in typed) for command in wanted)

        return [
            miss for miss in self.lab.near_misses if check.id in miss.fails and not miss.when and was_made(miss)
        ]  # fmt: skip

    # --- steps

    def missing(self, step: Step) -> list[str]:
        """The commands of a step that were not typed yet, or not since it was shown last."""
        progress, typed = self.progress, journal.read(self.ground.folder)
        typed = typed[progress.since :] if step.id == progress.shown else typed
        return [command for command in step.commands if not any(means(command, one.command) for one in typed)]

    def is_done(self, step: Step, done: LabProgress) -> bool:
        """Whether a step is behind the student: its checks have passed, or without checks its commands were typed."""
        if step.id in done.skipped or step.id in done.solved:
            return True
        checks = self.lab.checks_after(step.id)
        if checks:
            return all(check.id in done.passed or check.id in done.skipped for check in checks)
        return not self.missing(step)

    def current_step(self) -> Step | None:
        """The first step that is not done, None after the last."""
        done = self.progress
        return next((step for step in self.lab.steps if not self.is_done(step, done)), None)

    def reading(self) -> Step | None:
        """The step that the student is at, None after the last.

        The first one that is not done; or the one before it, if that was shown last and still has commands to type.
        """
        here, done = self.current_step(), self.progress
        at = len(self.lab.steps) if here is None else self.lab.step_ids.index(here.id)
        last = self.lab.steps[at - 1]
        if at and last.id == done.shown and last.id not in {*done.skipped, *done.solved} and self.missing(last):
            return last
        return here

    def stopped_on_purpose(self) -> set[str]:
        """Services that the steps up to the one that is read leave stopped."""
        here = self.reading()
        reached = len(self.lab.steps) if here is None else self.lab.step_ids.index(here.id) + 1
        stopped: set[str] = set()
        for step in self.lab.steps[:reached]:
            for words in map(shlex.split, step.done_by(step.solution)):
                names = {word for word in words[VERB:] if not word.startswith("-")}
                if words[1:VERB] == ["service", "stop"]:
                    stopped |= names
                elif words[1:VERB] in (["service", "start"], ["service", "restart"], ["service", "refresh"]):
                    stopped -= names
        return stopped

    def last_refusal(self) -> Typed | None:
        """The last command if it did not do its work."""
        typed = journal.read(self.ground.folder)
        return typed[-1] if typed and typed[-1].exit not in (ExitCode.OK, ExitCode.NEGATIVE) else None

    def player(self, user: str, other: Runner | None = None) -> Player:
        """Who types for the student; commands that the table does not know go to `other`."""
        return Player(self.ground.cluster, self.ground.files, user, other)

    def play(self, step: Step, act: Act, typist: Typist) -> list[Typed]:
        """Do a step as an act says, observing after each command as if a student typed it."""
        prepare(self.lab, act, self.ground.files)
        ended = []
        for command in step.done_by(act):
            ended.append(typist(command))
            journal.append(self.ground.folder, ended[-1])
            self.observe()
        return ended

    def solve(self, step: Step, typist: Typist) -> list[Typed]:
        """Do a step for the student, or what is left of it; it counts as solved if its checks pass then."""
        left, done = tuple(self.missing(step)), self.is_done(step, self.progress)
        begun = step.solution == Act() and step.id == self.progress.shown and left
        ended = self.play(step, Act(commands=left) if done or begun else step.solution, typist)
        with self.file.changing() as progress:
            mine = progress.lab(self.lab.id)
            if all(check.id in {*mine.passed, *mine.skipped} for check in self.lab.checks_after(step.id)):
                mine.solved.append(step.id)
        return ended

    def skip(self, name: str, reason: str) -> None:
        """Leave a step or check out; the report gives the reason."""
        if name not in self.lab.step_ids and name not in {check.id for check in self.lab.checks}:
            number = self.lab.number
            raise LabError(
                (f"lab {number} has no step or check {name!r}", f"实验 {number} 没有步骤或检查 {name!r}"),
                (f"see them: paictl lab status {number}", f"查看：paictl lab status {number}"),
            )
        with self.file.changing() as progress:
            progress.lab(self.lab.id).skipped[name] = reason

    def show(self, step: Step) -> None:
        """Note that a step was shown."""
        with self.file.changing() as progress:
            mine = progress.lab(self.lab.id)
            if mine.shown != step.id:
                mine.shown, mine.since = step.id, len(journal.read(self.ground.folder))

    def hint(self, step: Step) -> tuple[int, Text] | None:
        """The next layer of help for a step (number from 1, text); the last one again when there is no more."""
        if not step.hints:
            return None
        with self.file.changing() as progress:
            used = progress.lab(self.lab.id).hints
            used[step.id] = min(used.get(step.id, 0) + 1, len(step.hints))
            return used[step.id], step.hints[used[step.id] - 1]

    def answer(self, number: int, words: str) -> None:
        """Note the student's answer to a question."""
        if not 1 <= number <= len(self.lab.questions):
            lab, last = self.lab.number, len(self.lab.questions)
            raise LabError(
                (
                    f"lab {lab} has questions 1 to {last}, not {number}",
                    f"实验 {lab} 的思考题为 1 至 {last}",
                ),
                (f"see them: paictl lab status {lab}", f"查看：paictl lab status {lab}"),
            )
        with self.file.changing() as progress:
            progress.lab(self.lab.id).answers[str(number)] = words


_LOOKS = frozenset(
    ["list", "show", "status", "explain", "view", "logs", "events", "history", "capacity", "validate", "diff"]
)


def _is_look(command: str) -> bool:
    """Whether a command line only shows something."""
    return not _LOOKS.isdisjoint(command.split()[1:VERB])


def _rows(verdict: Verdict) -> list[list[str]]:
    return [[one.subject, one.aspect, one.expected, one.observed] for one in verdict.findings]


def _now() -> str:
    return datetime.now().astimezone().isoformat(timespec="seconds")
