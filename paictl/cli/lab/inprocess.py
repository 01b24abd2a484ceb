"""Typing commands in a lab from inside a command: for `lab solve`, `lab run`, readers and the self-test of authors."""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from paictl.cli.console import PIPE_WIDTH, write_segments
from paictl.cli.lab.hook import noted
from paictl.cli.lab.rendering import (
    blank,
    heading,
    paragraph,
    show_edits,
    show_questions,
    show_result,
    show_step,
    tell,
)
from paictl.cli.run import attempt
from paictl.cli.settings import GlobalOptions, settings
from paictl.cluster.targets import STATE_VARIABLE, VARIABLE
from paictl.errors import ExitCode, PaictlError
from paictl.i18n import text
from paictl.lab import commandlog
from paictl.lab.actions import Runner
from paictl.lab.commandlog import TypedCommand
from paictl.lab.folders import labs_folder
from paictl.lab.judging import CheckStatus, judged
from paictl.lab.language import language_of
from paictl.lab.manifest import Lab
from paictl.lab.session import Session


@contextlib.contextmanager
def in_workspace(session: Session) -> Iterator[None]:
    """As in the lab's own shell: its state, its folder, and nobody to ask."""
    files = session.workspace.require_files()
    before = {name: getattr(settings, name) for name in GlobalOptions.__slots__}
    try:
        Path.cwd()
    except FileNotFoundError:  # the shell's working folder was deleted
        os.chdir(session.workspace.folder)
    try:
        variables = {STATE_VARIABLE: str(session.workspace.folder), VARIABLE: session.workspace.cluster_name}
        with _environment(variables), contextlib.chdir(files):
            yield
    finally:
        for name, value in before.items():
            setattr(settings, name, value)


def type_words(session: Session, words: Sequence[str]) -> TypedCommand:
    """Carry a command line out in a lab, printing what it prints; the caller notes it."""

    with in_workspace(session):
        lang = language_of(session.root, lab=session.lab.id)
        code, error = attempt([*words, "--no-input"], lang)
    if code == ExitCode.INTERRUPTED:
        raise KeyboardInterrupt  # Ctrl-C ends the whole command line
    return noted(words, int(code), error, lang)


def type_silently(session: Session, words: Sequence[str]) -> TypedCommand:
    """The same without printing."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        return type_words(session, words)


def silent_runner(session: Session) -> Runner:
    """Carries out command lines in a lab without printing."""
    return lambda line: type_silently(session, shlex.split(line)[1:])


def printed(session: Session, command: str) -> str:
    """What a command line of a text prints, note and all; ``cat FILE`` shows a file of the student."""

    words = shlex.split(command)
    if words[:1] == ["cat"]:
        return "".join((session.workspace.files / name).read_text(encoding="utf-8") for name in words[1:])
    if words[:1] != ["paictl"]:
        raise PaictlError(text("a text can show paictl and cat, not {command!r}", command=command))
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        ended = type_words(session, words[1:])
    commandlog.append(session.workspace.folder, ended)
    session.observe()
    return output.getvalue()


@contextlib.contextmanager
def called(user: str) -> Iterator[None]:
    """Be a user of another name, whose output goes to a pipe, so that texts show the same for every author."""
    with _environment({"LOGNAME": user, "COLUMNS": str(PIPE_WIDTH)}):
        yield


@contextlib.contextmanager
def speaking(language: str) -> Iterator[None]:
    """Let every command speak a language."""
    with _environment({"PAICTL_LANG": language}):
        yield


@contextlib.contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    """Set environment variables for a while."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def play_labs(labs: Sequence[Lab], lang: str, *, pause: float, keep: bool) -> int:
    """Play labs in a folder of their own (or with `keep` in the student's); how many checks did not pass.

    `pause` is in seconds, after every command.
    """

    with speaking(lang):
        if keep:
            return sum(_play(Session(lab, labs_folder()), lang, pause) for lab in labs)
        with tempfile.TemporaryDirectory(prefix="paictl-lab-") as folder:
            return sum(_play(Session(lab, Path(folder)), lang, pause) for lab in labs)


def _play(session: Session, lang: str, pause: float) -> int:

    lab = session.lab
    session.start(played=True)
    heading(f"== {lab.number} {lab.title.of(lang)}")
    paragraph(lab.goal.of(lang).strip())

    def runner(command: str) -> TypedCommand:
        write_segments([[("", "$ "), ("cyan", command)]])
        ended = type_words(session, shlex.split(command)[1:])
        time.sleep(pause)
        return ended

    for step in lab.steps:
        blank()
        show_step(session, step, lang)
        session.play(step, step.solution, runner, show_edits, language=lang)
        for result in judged(session):
            if result.check.after == step.id:
                show_result(result, session, lang)
    blank()
    results = judged(session)
    passed = sum(result.status is CheckStatus.PASSED for result in results)
    tell("tally", lang, passed=passed, of=len(results))
    show_questions(session, lang, solutions=True)
    blank()
    return len(results) - passed
