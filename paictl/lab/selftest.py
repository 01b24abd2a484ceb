"""What an author must prove: no check is hollow, no text shows what is not so.

For every lab: each check passes in its step and not before; each near miss makes its checks fail, and is recognised;
both texts have one structure, hold the commands of the steps, and show what the commands print.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from itertools import takewhile
from pathlib import Path

from paictl.config.linting.report import FORMATS, plain
from paictl.config.linting.validate import validate
from paictl.config.reading.load import load
from paictl.frozen import frozen
from paictl.lab.actions import Runner, prepare
from paictl.lab.checks import holds
from paictl.lab.commandlog import TypedCommand
from paictl.lab.findings import Mismatch
from paictl.lab.judging import judged
from paictl.lab.manifest import MANIFEST, Act, Lab, NearMiss, Step
from paictl.lab.messages import LANGUAGES
from paictl.lab.session import Session
from paictl.lab.statements import matching
from paictl.lab.texts import play_text, same_structure, step_missing

USER = "student"
REFUSED = 403
"""How a server answers a request that is not allowed, which a check can be about."""


@frozen
class Bench:
    """Where labs are tested: an empty folder, and how the command line is used in a lab's workspace.

    `runner` carries out command lines; `shower` gives what one prints; `speaking` sets the language.
    """

    folder: Path
    runner: Callable[[Session], Runner]
    shower: Callable[[Session], Callable[[str], str]]
    speaking: Callable[[str], AbstractContextManager[None]]

    def session(self, lab: Lab, name: str, like: str = "") -> tuple[Session, Runner]:
        """A lab begun anew, or as it was `kept`, and who types in it.

        It is started once and copied, which costs a tenth.
        """
        origin = Session(lab, self.folder / (like or "fresh"))
        if not like and not origin.workspace.started:
            origin.start()
        session = Session(lab, self.folder / name)
        shutil.copytree(origin.root, session.root)
        return session, self.runner(session)

    def keep(self, session: Session, name: str) -> None:
        """Keep a lab as it is now, to go on from there several times."""
        shutil.copytree(session.root, self.folder / name)


def problems(lab: Lab, bench: Bench, *, update: bool = False) -> Iterator[str]:
    """Everything that is wrong with a lab; with `update` the texts are made to show what is so."""
    yield from _manifest_problems(lab)
    yield from _solution_problems(lab, bench)
    for miss in lab.near_misses:
        yield from _near_miss_problems(lab, miss, bench)
    yield from same_structure(lab)
    for language in LANGUAGES:
        yield from _text_problems(lab, language, bench, update=update)


def _manifest_problems(lab: Lab) -> Iterator[str]:
    report = validate(load([str(lab.folder / MANIFEST)]))
    if report.problems:
        yield plain(FORMATS["text"](report))
    for step in lab.steps:
        if not step.commands and step.solution.commands is None:
            yield f"step {step.id} has neither commands nor a solution"
    predictions = [
        (check, statement) for check in lab.checks for statement in check.expect if statement.kind == "predicted"
    ]
    expected = {(check.after, statement.says["step"]) for check, statement in predictions}
    guessed = {(step.id, step.id) for step in lab.steps if step.guess is not None}
    yield from (f"no check after {step} wants its prediction" for step, _ in sorted(guessed - expected))
    yield from (
        f"a check after {after} wants a prediction of {step} without a guess"
        for after, step in sorted(expected - guessed)
    )


def _solution_problems(lab: Lab, bench: Bench) -> Iterator[str]:
    """Each check passes in its step and not before; nothing is refused that no check is about."""
    session, runner = bench.session(lab, "solution")
    for check in session.observe():
        yield f"check {check.id} passes before any step"
    parting = {_parting(lab, miss) for miss in lab.near_misses}
    for number, step in enumerate(lab.steps):
        if number in parting:
            bench.keep(session, f"before-{number}")
        before = set(session.progress.passed)
        for typed in session.play(step, step.solution, runner):
            if typed.exit and not _is_meant(lab, typed):
                yield f"step {step.id}: {typed.line} ends with {typed.exit}: {typed.message} ({typed.hint})"
        passed = set(session.progress.passed)
        for check in lab.checks:
            if check.after == step.id and check.id not in passed:
                details = "; ".join(
                    f"{mismatch.say('en')[0]} — {mismatch.say('en')[1]}" for mismatch in _failing(session, check.id)
                )
                yield f"check {check.id} does not pass after its step {step.id}: {details}"
            elif check.id in passed - before and check.after != step.id:
                yield f"check {check.id} passes in step {step.id}, not in {check.after}"
        observation = session.observation()
        for miss in lab.near_misses:
            if miss.when and holds(observation, miss.when):
                yield f"mistake {miss.id} is seen after step {step.id} although it was not made"
    if session.current_step() is not None:
        yield "the lab is not done after all its steps"


def _failing(session: Session, name: str) -> Iterator[Mismatch]:
    for result in judged(session):
        if result.check.id == name:
            yield from (finding for finding in result.findings if not finding.ok)


def _is_meant(lab: Lab, typed: TypedCommand) -> bool:
    """Whether some check is about the end of this command."""
    patterns = [
        statement.says["command"]
        for check in lab.checks
        for statement in check.expect
        if statement.kind in ("refused", "typed")
    ]
    return any(matching((typed,), pattern) for pattern in patterns) or any(
        typed.line.startswith(f"paictl lab visit {statement.says['user']} ")
        for check in lab.checks
        for statement in check.expect
        if statement.kind == "asked" and statement.says.get("status", 0) == REFUSED
    )


def _near_miss_problems(lab: Lab, miss: NearMiss, bench: Bench) -> Iterator[str]:
    """The named checks never pass, and the student is shown why.

    What comes before the mistake was played with the solution, which also proved that no `when` holds there.
    """
    parting = _parting(lab, miss)
    session, runner = bench.session(lab, f"miss-{miss.id}", like=f"before-{parting}")
    order = _order(lab, miss)
    recognised = {step.id: not miss.when for step in order[:parting]}
    for step in order[parting:]:
        session.play(step, _act_in(miss, step), runner)
        recognised[step.id] = not miss.when or holds(session.observation(), miss.when)
    for name in miss.fails:
        check = next(check for check in lab.checks if check.id == name)
        if name in session.progress.passed:
            yield f"check {name} passes under the mistake {miss.id}"
        elif not _is_recognised(recognised, check.after, reordered=bool(miss.order)):
            yield f"mistake {miss.id} is not recognised after step {check.after}, where check {name} fails"


def _order(lab: Lab, miss: NearMiss) -> list[Step]:
    return [lab.step(name) for name in miss.order] or list(lab.steps)


def _parting(lab: Lab, miss: NearMiss) -> int:
    """How many steps go as in the solution before a mistake."""
    pairs = zip(_order(lab, miss), lab.steps, strict=False)
    same = takewhile(lambda pair: pair[0] is pair[1] and pair[0].id not in miss.acts, pairs)
    return min(sum(1 for _ in same), len(lab.steps) - 1)


def _is_recognised(recognised: dict[str, bool], step: str, *, reordered: bool) -> bool:
    """Whether a mistake shows after a step; a wrong order may show only when the other step came as well."""
    later = list(recognised)[list(recognised).index(step) :]
    return any(recognised[name] for name in later) if reordered else recognised[step]


def _act_in(miss: NearMiss, step: Step) -> Act:
    return miss.acts.get(step.id, step.solution)


def _text_problems(lab: Lab, language: str, bench: Bench, *, update: bool) -> Iterator[str]:
    path = lab.text_file(language)
    text = path.read_text(encoding="utf-8")
    missing = step_missing(lab, text)
    if missing is not None:
        yield f"{path.name} does not show {missing!r} in its place"
    session, runner = bench.session(lab, f"text-{language}")

    def leave(name: str) -> None:
        step = lab.step(name)
        if step.solution.commands is None:
            prepare(lab, step.solution, session.workspace.files)
        else:
            session.play(step, step.solution, runner)

    with bench.speaking(language):
        wrong, right = play_text(text, bench.shower(session), leave)
    if wrong and update:
        path.write_text(right, encoding="utf-8")
    else:
        yield from (f"{path.name}, {problem}" for problem in wrong)
