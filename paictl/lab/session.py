"""A student in a lab: the manifest, the workspace and the progress, joined."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Final

from paictl.errors import ExitCode
from paictl.frozen import frozen
from paictl.lab import commandlog, requests
from paictl.lab.actions import Runner, prepare
from paictl.lab.checks import CheckVerdict, judge
from paictl.lab.commandlog import INTERRUPTED, OUTPUT_CUT, VERB, TypedCommand, covered, means, printing_only, wall_clock
from paictl.lab.folders import Backups
from paictl.lab.manifest import Act, BilingualText, Check, Lab, Step
from paictl.lab.messages import LabError
from paictl.lab.observation import Observation
from paictl.lab.progress import LabProgress, Passed, ProgressFile, Reset, lab_progress
from paictl.lab.site import TOLERANCE, LabSite
from paictl.lab.workspace import STEPS, Workspace
from paictl.units import Millis

ENTRY: Final = "entry.json"
"""The progress in the lab, beside what is kept of its workspace."""


@frozen
class Session:
    """One lab of one student, under the student's labs folder."""

    lab: Lab
    root: Path

    @property
    def workspace(self) -> Workspace:
        """The lab's folder."""
        return Workspace(self.root / self.lab.id)

    @property
    def file(self) -> ProgressFile:
        """The progress of the student."""
        return ProgressFile(self.root)

    @property
    def progress(self) -> LabProgress:
        """The progress in this lab."""
        return self.file.read().lab(self.lab.id)

    @property
    def backups(self) -> Backups:
        """What resets have put aside."""
        return Backups(self.root, self.lab.id)

    # --- life

    def start(self, *, played: bool = False, site: LabSite | None = None) -> None:
        """Begin the lab, on a cluster of its own or at a `site`; raises `LabError` if it has begun."""
        if self.workspace.started:
            raise LabError("has-begun", lab=self.lab.number)
        self.workspace.remove()  # what a start that was interrupted left
        self.workspace.start(self.lab, site)
        with self.file.changing() as progress:
            progress.current = self.lab.id
            entry = progress.lab(self.lab.id)
            entry.started, entry.shown, entry.played = wall_clock(), self.lab.steps[0].id, played
        self._keep_arrival()

    def require_started(self) -> None:
        """Raise `LabError` that leads on if the lab was not started."""
        if not self.workspace.started:
            begun = bool(self.progress.started)  # its folder was taken away
            raise LabError("lab-gone" if begun else "not-started", lab=self.lab.number, folder=self.workspace.folder)
        self.workspace.require_mark()

    def reset(self) -> Path | None:
        """Put the lab aside and forget what was done in it; answers stay. It is the lab to start next.

        Returns the folder of the backup; None where there was nothing to lose.
        """
        backup = self._back_up()
        if (site := self._site()) is not None:
            from paictl.lab import registered  # late: few labs run there, and it needs much

            registered.leave(site)
        self.workspace.remove()
        with self.file.changing() as progress:
            progress.current = self.lab.id
            entry = progress.lab(self.lab.id)
            progress.labs[self.lab.id] = entry.after_reset(Reset(wall_clock())) if entry.started else entry
        return backup

    def lost_by_reset(self, step: Step) -> tuple[int, tuple[str, ...]]:
        """What `reset_to` would undo: the number of commands, and the names of files that have changed since then.

        Raises `LabError` as `reset_to` does.
        """
        self._require_reached(step)
        copy = self.workspace.folder / STEPS / step.id
        commands = len(commandlog.read(self.workspace.folder)) - len(commandlog.read(copy))
        return commands, self.workspace.changed_files(step.id)

    def reset_to(self, step: Step) -> Path | None:
        """Make the lab as it was when the student came to a step; returns the folder of the backup."""
        self._require_reached(step)
        backup = self._back_up()
        entry = self._entry(self.workspace.folder / STEPS / step.id)
        later = self.lab.step_ids[self.lab.step_ids.index(step.id) + 1 :]
        self.workspace.return_to(step.id, later)
        with self.file.changing() as progress:
            now = progress.lab(self.lab.id)
            entry.answers, entry.hints = now.answers, now.hints
            entry.solved = [name for name in now.solved if name not in (step.id, *later)]
            entry.resets = [*now.resets, Reset(wall_clock(), step.id)]
            entry.shown, entry.since = step.id, len(commandlog.read(self.workspace.folder))
            progress.current, progress.labs[self.lab.id] = self.lab.id, entry
        return backup

    def typed_before(self, step: str) -> tuple[TypedCommand, ...] | None:
        """The commands that were typed before the student came to a step; None if that was not kept."""
        return commandlog.read(self.workspace.folder / STEPS / step) if self.workspace.has_kept(step) else None

    def _require_reached(self, step: Step) -> None:
        self.require_started()
        self._require_own_cluster()
        if not self.workspace.has_kept(step.id):
            raise LabError("step-not-reached", lab=self.lab.number, step=self.lab.step_ids.index(step.id) + 1)

    def restore(self) -> Path:
        """Get back what the last reset put aside; what is there now is put aside first. Returns where it came from."""
        source = self.backups.newest()
        if source is None:
            raise LabError("no-backup", lab=self.lab.number)
        if Workspace(source).site is not None:
            raise LabError("cannot-go-back", lab=self.lab.number)
        self._require_own_cluster()
        self._back_up()
        entry = self._entry(source)
        self.workspace.remove()
        self.workspace.restore(source)
        with self.file.changing() as progress:
            entry.answers = {**entry.answers, **progress.lab(self.lab.id).answers}
            entry.resets = progress.lab(self.lab.id).resets
            progress.current, progress.labs[self.lab.id] = self.lab.id, entry
        self.backups.drop(source)
        return source

    def _site(self) -> LabSite | None:
        return self.workspace.known_site if self.workspace.started else None

    def _require_own_cluster(self) -> None:
        """Raise `LabError` at a site: a cluster of others cannot be put back to how it was."""
        if self._site() is not None:
            raise LabError("cannot-go-back", lab=self.lab.number)

    def _back_up(self) -> Path | None:
        """Put a copy of the lab aside, if anything was typed in it."""
        if not (self.workspace.started and commandlog.read(self.workspace.folder)):
            return None
        return self.backups.make(self._copy_to)

    def _copy_to(self, target: Path) -> None:
        self.workspace.copy_to(target, {ENTRY: json.dumps(asdict(self.progress), ensure_ascii=False)})

    @staticmethod
    def _entry(folder: Path) -> LabProgress:
        return lab_progress(json.loads((folder / ENTRY).read_text(encoding="utf-8")))

    def _keep_arrival(self) -> None:
        """Keep how things are where the student has come to a step; note when the lab is done."""
        step = self.current_step()
        if step is None:
            if not self.progress.finished:
                with self.file.changing() as progress:
                    progress.lab(self.lab.id).finished = wall_clock()
        elif not self.workspace.has_kept(step.id) or self._is_rest_of_step_before():
            self._copy_to(self.workspace.folder / STEPS / step.id)

    def _is_rest_of_step_before(self) -> bool:
        """Whether all that was typed since the last check passed is what the step before still asked for.

        Checks may pass before the last command of their step: that command belongs to how things are at the next one.
        """
        step = self.current_step()
        at = self.lab.step_ids.index(step.id) if step is not None else 0
        typed = [command.line for command in commandlog.read(self.workspace.folder)]
        before, since = typed[: self.progress.settled], typed[self.progress.settled :]
        if not at or not since or self.workspace.site is not None:
            return False
        remaining = [command for command in self.lab.steps[at - 1].commands if not covered(command, before)]
        return len(since) <= len(remaining) and all(
            any(means(command, line) for command in remaining) for line in since
        )

    # --- seeing

    def observation(self) -> Observation:
        """What there is to see now."""
        typed = commandlog.read(self.workspace.folder)
        site = self.workspace.site
        cluster = self.workspace.cluster()
        own = Observation(
            cluster, typed, self.workspace.files, self.progress.predictions, asked=requests.read(self.workspace.folder)
        )
        if site is None:
            return own
        late = Millis(round(TOLERANCE * site.pace * 1000))
        return replace(own, tolerance=late, versions_before=site.version - 1, names=site.lab_words)

    def settle(self) -> list[Check]:
        """As `observe`; at a site again until what the present step shows is to be seen, for a few seconds."""
        passed = self.observe()
        until = time.monotonic() + (0.0 if self.workspace.site is None else TOLERANCE)
        while time.monotonic() < until and self._is_due():
            time.sleep(0.5)
            passed += self.observe()
        return passed

    def _is_due(self) -> bool:
        """Whether the present step was done, and its checks have not passed yet."""
        step = self.current_step()
        return step is not None and bool(self.lab.checks_after(step.id)) and not self.missing(step)

    def observe(self) -> list[Check]:
        """Judge what has not passed, note what passes now and return it.

        Called after every command in the lab: some things can be seen for a moment only.
        """
        done = self.progress
        observation = self.observation()
        if not self.lab.has_cluster and observation.cluster is not None:
            self.workspace.note_beginning(len(observation.events))
        waiting = [check for check in self.lab.checks if check.id not in done.passed]
        passed = [verdict for check in waiting if (verdict := judge(observation, check)).passed]
        if passed:
            now = observation.now
            with self.file.changing() as progress:
                noted = {verdict.check.id: Passed(wall_clock(), now, _rows(verdict)) for verdict in passed}
                progress.lab(self.lab.id).passed.update(noted)
                progress.lab(self.lab.id).settled = len(observation.typed)
        if passed or self._is_rest_of_step_before():
            self._keep_arrival()
        return [verdict.check for verdict in passed]

    # --- steps

    def step_named(self, word: str) -> Step:
        """A step by its id or number (from 1)."""
        ids = self.lab.step_ids
        if word in ids:
            return self.lab.step(word)
        if word.isdecimal() and 1 <= int(word) <= len(ids):
            return self.lab.steps[int(word) - 1]
        raise LabError("no-such-step", lab=self.lab.number, step=word, last=len(ids))

    def missing(self, step: Step) -> list[str]:
        """The commands of a step that were not typed yet, or not since it was shown last."""
        progress, typed = self.progress, commandlog.read(self.workspace.folder)
        typed = typed[progress.since :] if step.id == progress.shown else typed
        return [command for command in step.commands if not covered(command, (command.line for command in typed))]

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
        current, done = self.current_step(), self.progress
        at = len(self.lab.steps) if current is None else self.lab.step_ids.index(current.id)
        last = self.lab.steps[at - 1]
        if at and last.id == done.shown and last.id not in {*done.skipped, *done.solved} and self.missing(last):
            return last
        return current

    def stopped_on_purpose(self) -> set[str]:
        """Services that the steps up to the one that is read leave stopped."""
        current = self.reading()
        reached = len(self.lab.steps) if current is None else self.lab.step_ids.index(current.id) + 1
        stopped: set[str] = set()
        for step in self.lab.steps[:reached]:
            for words in map(shlex.split, step.done_by(step.solution)):
                names = {word for word in words[VERB:] if not word.startswith("-")}
                if words[1:VERB] == ["service", "stop"]:
                    stopped |= names
                elif words[1:VERB] in (["service", "start"], ["service", "restart"], ["service", "refresh"]):
                    stopped -= names
        return stopped

    def last_refusal(self) -> TypedCommand | None:
        """The last command if it did not do its work; one that was interrupted or piped to ``head`` was not refused."""
        typed = commandlog.read(self.workspace.folder)
        harmless = {ExitCode.OK, ExitCode.NEGATIVE, INTERRUPTED, *OUTPUT_CUT}
        return typed[-1] if typed and typed[-1].exit not in harmless else None

    def play(
        self,
        step: Step,
        act: Act,
        runner: Runner,
        edited: Callable[[list[str]], None] | None = None,
        *,
        language: str = "en",
    ) -> list[TypedCommand]:
        """Do a step as an act says, observing after each command as if a student typed it.

        What the step asks to foretell is foretold first, in `language`, unless the student did that. `edited` is told
        what was changed in the student's files.
        """
        if step.guess is not None and step.id not in self.progress.predictions:
            self._note_prediction(step, step.guess.of(language))
        changes = prepare(self.lab, act, self.workspace.require_files())
        if edited is not None and changes:
            edited(changes)
        ended = []
        for command in step.done_by(act):
            ended.append(runner(command))
            commandlog.append(self.workspace.folder, ended[-1])
            self.settle()
        return ended

    def solve(
        self, step: Step, runner: Runner, edited: Callable[[list[str]], None] | None = None, *, language: str = "en"
    ) -> list[TypedCommand]:
        """Do a step for the student, or what is left of it; it counts as solved if its checks pass then."""
        missing, done = tuple(self.missing(step)), self.is_done(step, self.progress)
        begun = step.solution == Act() and step.id == self.progress.shown and missing
        act = Act(commands=missing) if done or begun else step.solution
        ended = self.play(step, act, runner, edited, language=language)
        with self.file.changing() as progress:
            entry = progress.lab(self.lab.id)
            if all(check.id in {*entry.passed, *entry.skipped} for check in self.lab.checks_after(step.id)):
                entry.solved.append(step.id)
        self._keep_arrival()
        return ended

    def skip(self, name: str, reason: str) -> None:
        """Leave a step or check out; the report gives the reason."""
        if name not in self.lab.step_ids and name not in {check.id for check in self.lab.checks}:
            raise LabError("nothing-to-skip", lab=self.lab.number, name=name)
        with self.file.changing() as progress:
            progress.lab(self.lab.id).skipped[name] = reason
        self._keep_arrival()

    def show(self, step: Step) -> None:
        """Note that a step was shown."""
        with self.file.changing() as progress:
            entry = progress.lab(self.lab.id)
            if entry.shown != step.id:
                entry.shown, entry.since = step.id, len(commandlog.read(self.workspace.folder))

    def hint(self, step: Step) -> tuple[int, BilingualText] | None:
        """The next layer of help for a step (number from 1, text); the last one again when there is no more."""
        if not step.hints:
            return None
        with self.file.changing() as progress:
            used = progress.lab(self.lab.id).hints
            used[step.id] = min(used.get(step.id, 0) + 1, len(step.hints))
            return used[step.id], step.hints[used[step.id] - 1]

    def answer(self, number: int, words: str) -> str:
        """Note the student's answer to a question; returns the one that it replaces, empty if there was none."""
        if not 1 <= number <= len(self.lab.questions):
            raise LabError("no-such-question", lab=self.lab.number, number=number, last=len(self.lab.questions))
        if not words.strip():
            raise LabError("empty-answer", lab=self.lab.number, number=number)
        with self.file.changing() as progress:
            answers = progress.lab(self.lab.id).answers
            before, answers[str(number)] = answers.get(str(number), ""), words.strip()
        return before

    def predict(self, step: Step, words: str) -> str:
        """Note what the student predicts of a step; returns what it replaces; raises `LabError` once that is known."""
        if step.predict is None:
            raise LabError("nothing-to-predict", lab=self.lab.number, step=step.id)
        if not words.strip():
            raise LabError("empty-prediction", lab=self.lab.number, step=step.id)
        if self.outcome_seen(step):
            raise LabError("predicted-too-late", lab=self.lab.number, step=step.id)
        before = self._note_prediction(step, words)
        self.observe()
        return before

    def outcome_seen(self, step: Step) -> bool:
        """Whether a command of a step has shown what comes of it, also where it wrote no file.

        Commands that an earlier step has, too, were typed there: they say nothing of this one. Nor does what was
        typed before the beginning of a step that the student went back to.
        """
        before = 0
        if any(reset.step == step.id for reset in self.progress.resets):
            before = len(commandlog.read(self.workspace.folder / STEPS / step.id))
        typed = [command.line for command in commandlog.read(self.workspace.folder)[before:]]
        own = set(step.commands).difference(
            *(earlier.commands for earlier in self.lab.steps[: self.lab.steps.index(step)])
        )
        return any(covered(pattern, typed) for command in own for pattern in {command, printing_only(command)})

    def _note_prediction(self, step: Step, words: str) -> str:
        with self.file.changing() as progress:
            predictions = progress.lab(self.lab.id).predictions
            before, predictions[step.id] = predictions.get(step.id, ""), words.strip()
        return before


def _rows(verdict: CheckVerdict) -> list[list[object]]:
    return [finding.row() for finding in verdict.findings]
