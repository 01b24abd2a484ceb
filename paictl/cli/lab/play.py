"""Typing commands in a lab from inside a command: for `lab solve`, `lab run` and the authors' self-test."""

from __future__ import annotations

import contextlib
import io
import os
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from paictl.cli.console import PIPE_WIDTH
from paictl.cli.lab.hook import typed
from paictl.cli.run import attempt
from paictl.cli.settings import Settings, settings
from paictl.errors import ExitCode, PaictlError
from paictl.lab import journal
from paictl.lab.journal import Typed
from paictl.lab.manifest import find_lab
from paictl.lab.selftest import USER, Stage, problems
from paictl.lab.session import Session


@contextlib.contextmanager
def in_ground(session: Session) -> Iterator[None]:
    """As in the lab's own shell: its state, its folder, and nobody to ask."""
    files = session.ground.require_files()
    before = {name: getattr(settings, name) for name in Settings.__slots__}
    state = os.environ.get("PAICTL_STATE")
    os.environ["PAICTL_STATE"] = str(session.ground.folder)
    try:
        Path.cwd()
    except FileNotFoundError:  # the shell stands in a folder that somebody took away
        os.chdir(session.ground.folder)
    try:
        with contextlib.chdir(files):
            yield
    finally:
        if state is None:
            del os.environ["PAICTL_STATE"]
        else:
            os.environ["PAICTL_STATE"] = state
        for name, value in before.items():
            setattr(settings, name, value)


def type_words(session: Session, words: Sequence[str]) -> Typed:
    """Carry a command line out in a lab, printing what it prints; the caller notes it."""
    with in_ground(session):
        code, error = attempt([*words, "--no-input"])
    if code == ExitCode.INTERRUPTED:
        raise KeyboardInterrupt  # whoever presses Ctrl-C means the whole of it
    return typed(words, int(code), error)


def type_silently(session: Session, words: Sequence[str]) -> Typed:
    """The same without printing."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        return type_words(session, words)


def shown(session: Session, command: str) -> str:
    """What a command line of a text prints, note and all; ``cat FILE`` shows a file of the student."""
    words = shlex.split(command)
    if words[:1] == ["cat"]:
        return "".join((session.ground.files / name).read_text(encoding="utf-8") for name in words[1:])
    if words[:1] != ["paictl"]:
        raise PaictlError(f"a text can show paictl and cat, not {command!r}")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        ended = type_words(session, words[1:])
    journal.append(session.ground.folder, ended)
    session.observe()
    return printed.getvalue()


@contextlib.contextmanager
def called(user: str) -> Iterator[None]:
    """Be a user of another name, whose output goes to a pipe, so that texts show the same for every author."""
    ours = {"LOGNAME": user, "COLUMNS": str(PIPE_WIDTH)}
    before = {name: os.environ.get(name) for name in ours}
    os.environ.update(ours)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def self_test(word: str, folder: Path, *, update: bool) -> list[str]:
    """Everything that is wrong with a lab, tested in an empty folder."""
    stage = Stage(
        folder,
        runner=lambda session: lambda words: type_silently(session, words),
        shower=lambda session: lambda command: shown(session, command),
    )
    with called(USER):
        return list(problems(find_lab(word), stage, update=update))
