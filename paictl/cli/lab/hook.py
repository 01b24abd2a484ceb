"""What follows a command that was typed in a lab's shell: the lab notes it, and ticks off what it showed."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from paictl.errors import ExitCode, PaictlError

if TYPE_CHECKING:
    from paictl.lab.commandlog import Command
    from paictl.lab.workspace import Workspace


def after_command(words: Sequence[str], code: int, error: PaictlError | None) -> None:
    """Note a command line and how it ended; what goes wrong here must not spoil the command."""
    if code == ExitCode.INTERRUPTED:
        _note_interruption(words)
        return
    from paictl.cli import console
    from paictl.cli.main import GLOBAL_FLAGS
    from paictl.lab.errors import LabError
    from paictl.lab.language import language_of
    from paictl.lab.messages import say
    from paictl.lab.workspace import present_workspace

    plain = [word for word in words if word not in GLOBAL_FLAGS]
    workspace = present_workspace()
    if workspace is None or plain[:1] == ["lab"] or not plain:
        return
    lang = language_of(workspace.folder.parent)
    try:
        _note(workspace, plain, code, error, lang)
    except PaictlError as problem:
        if code == ExitCode.UNREACHABLE:
            return  # the command has just said so
        told = problem.in_language(lang) if isinstance(problem, LabError) else problem
        console.info(f"lab: {told}" + (f"; {told.hint}" if told.hint else ""))
    except OSError as problem:
        console.info(f"lab: {say('not-noted', lang, reason=problem)}")


def _note_interruption(words: Sequence[str]) -> None:
    """Note a command that Ctrl-C cut short, which may have done its work.

    It imports next to nothing: the interruption may have come while a module was being loaded, and what is loaded in
    part cannot be used.
    """
    from paictl.lab import commandlog

    folder = os.environ.get("PAICTL_STATE")
    if folder and list(words[:1]) != ["lab"]:
        commandlog.append(Path(folder), commandlog.Command(commandlog.spelled(words), ExitCode.INTERRUPTED))


def _note(workspace: Workspace, words: Sequence[str], code: int, error: PaictlError | None, lang: str) -> None:
    """Note a command, say what may help where it was refused, and tick off the checks that pass now."""
    from paictl.cli import console
    from paictl.cluster.interface import ConflictError
    from paictl.lab import commandlog
    from paictl.lab.manifest import find_lab
    from paictl.lab.messages import say
    from paictl.lab.session import Session

    for word in words if error is not None else ():
        if _is_elsewhere(word, workspace.files):
            console.info(f"lab: {say('elsewhere', lang, file=word, folder=shlex.quote(str(workspace.files)))}")
    session = Session(find_lab(workspace.lab_id), workspace.folder.parent)
    if isinstance(error, ConflictError) and words[:2] == ["job", "submit"]:
        step = session.reading()
        number = session.lab.step_ids.index(step.id) + 1 if step else len(session.lab.steps)
        console.info(f"lab: {say('taken', lang, step=number)}")
    commandlog.append(workspace.folder, noted(words, code, error))
    for check in session.observe():
        console.info(f"lab: ✓ {check.says.of(lang)}")


def _is_elsewhere(word: str, files: Path) -> bool:
    """Whether a word names a file of the lab that does not stand where the student does."""
    return bool(word) and not Path(word).is_absolute() and not Path(word).exists() and (files / word).is_file()


def noted(words: Sequence[str], code: int, error: PaictlError | None) -> Command:
    """A command line as the lab remembers it."""
    from paictl.lab.commandlog import Command, spelled

    if error is not None:
        return Command(spelled(words), code, str(error), error.hint or "")
    return Command(spelled(words), code)
