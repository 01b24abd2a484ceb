"""What follows a command that was typed in a lab's shell: the lab notes it, and ticks off what it showed."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from paictl.cli import console, interrupts
from paictl.cli.command import without_globals
from paictl.cli.lab.words import language_here, say
from paictl.cluster.interface import ConflictError
from paictl.errors import ExitCode, PaictlError
from paictl.lab import journal
from paictl.lab.errors import LabError
from paictl.lab.ground import present_lab
from paictl.lab.journal import Typed, spelled
from paictl.lab.manifest import find_lab
from paictl.lab.session import Session


def after_command(words: Sequence[str], code: int, error: PaictlError | None) -> None:
    """Note a command line and how it ended; what goes wrong here must not spoil the command."""
    said = without_globals(words)
    ground = present_lab()
    if ground is None or said[:1] == ["lab"] or not said:
        return
    lang = language_here()
    try:
        for word in said if error is not None else ():
            if _is_elsewhere(word, ground.files):
                console.info(f"lab: {say('elsewhere', lang, file=word, folder=shlex.quote(str(ground.files)))}")
        if isinstance(error, ConflictError) and said[:2] == ["job", "submit"]:
            console.info(f"lab: {say('taken', lang)}")
        with interrupts.held():
            journal.append(ground.folder, typed(said, code, error))
        if code == ExitCode.INTERRUPTED:
            return  # whoever presses Ctrl-C wants the prompt back; what was shown is ticked off after the next command
        session = Session(find_lab(ground.lab_id), ground.folder.parent)
        for check in session.observe():
            console.info(f"lab: ✓ {check.says.of(ground.language)}")
    except PaictlError as problem:
        if code == ExitCode.UNREACHABLE:
            return  # the command has just said so
        told = problem.in_language(lang) if isinstance(problem, LabError) else problem
        console.info(f"lab: {told}" + (f"; {told.hint}" if told.hint else ""))
    except OSError as problem:
        console.info(f"lab: {say('not-noted', lang, reason=problem)}")


def _is_elsewhere(word: str, files: Path) -> bool:
    """Whether a word names a file of the lab that does not stand where the student does."""
    return bool(word) and not Path(word).is_absolute() and not Path(word).exists() and (files / word).is_file()


def typed(words: Sequence[str], code: int, error: PaictlError | None) -> Typed:
    """A command line as the lab remembers it."""
    if error is not None:
        return Typed(spelled(words), code, str(error), error.hint or "")
    return Typed(spelled(words), code)
