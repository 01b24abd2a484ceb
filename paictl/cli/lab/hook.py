"""What follows a command that was typed in a lab's shell: the lab notes it, and ticks off what it showed."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from paictl.cli import console, interrupts
from paictl.cli.command import without_globals
from paictl.cluster.interface import ConflictError
from paictl.errors import ExitCode, PaictlError
from paictl.i18n import in_language, translated
from paictl.lab import commandlog
from paictl.lab.commandlog import VERB, TypedCommand, covered, spelled
from paictl.lab.fitting import session_for
from paictl.lab.folders import labs_folder
from paictl.lab.judging import stopped_jobs
from paictl.lab.language import language_of
from paictl.lab.manifest import find_lab
from paictl.lab.messages import DEFAULT, LabError, say
from paictl.lab.session import Session
from paictl.lab.workspace import Workspace, present_workspace


def language() -> str:
    """The language that the student chose for the labs."""
    return language_of(labs_folder())


def after_command(words: Sequence[str], code: int, error: PaictlError | None) -> None:
    """Note a command line and how it ended; what goes wrong here must not spoil the command."""
    plain = without_globals(words)
    workspace = present_workspace()
    if workspace is None or plain[:1] == ["lab"] or not plain:
        return
    lang = language_of(workspace.folder.parent, lab=workspace.lab_id)
    try:
        _note(workspace, plain, code, error, lang)
    except PaictlError as problem:
        if code == ExitCode.UNREACHABLE:
            return  # the command has just said so
        failure = problem.in_language(lang) if isinstance(problem, LabError) else problem
        console.info(f"lab: {failure}" + (f"; {failure.hint}" if failure.hint else ""))
    except OSError as problem:
        console.info(f"lab: {say('not-noted', lang, reason=problem)}")


def _note(workspace: Workspace, words: Sequence[str], code: int, error: PaictlError | None, lang: str) -> None:
    """Note a command, say what may help where it was refused, and tick off the checks that pass now."""

    for word in words if error is not None else ():
        if _is_elsewhere(word, workspace.files):
            console.info(f"lab: {say('elsewhere', lang, file=word, folder=shlex.quote(str(workspace.files)))}")
    with interrupts.held():
        commandlog.append(workspace.folder, noted(words, code, error, lang))
    if code == ExitCode.INTERRUPTED:
        return  # Ctrl-C: return to the prompt; what was shown is ticked off after the next command
    session = session_for(find_lab(workspace.lab_id), workspace.folder.parent)
    if isinstance(error, ConflictError) and words[:2] == ["job", "submit"]:
        console.info(f"lab: {_taken(session, spelled(words), lang)}")
    for check in session.settle():
        console.info(f"lab: ✓ {check.says.of(lang)}")


def _taken(session: Session, line: str, lang: str) -> str:
    """What to say to a student who submits a job that is there: where its step is done, that nothing is wrong."""
    lab, reading = session.lab, session.reading()
    if reading is not None and (other := _under_another_name(line, session.missing(reading))):
        return say("taken-name", lang, command=other)
    step = next((step for step in lab.steps if covered(line, (*step.commands, *step.done_by(step.solution)))), None)
    if reading is not None and step != reading and _under_another_name(line, reading.done_by(reading.solution)):
        return say("taken-old", lang)  # the command would be the solution
    step = step or reading
    if step is None or session.is_done(step, session.progress):
        at = reading or lab.steps[-1]
        files = {Path(word).stem for word in shlex.split(line)[VERB:]}
        if files.isdisjoint(stopped_jobs(session, session.observation(), at.id)):
            return say("taken-well", lang)
        return say("taken-stopped", lang, step=lab.step_ids.index(at.id) + 1)
    current = session.current_step()
    back = [step, current] if current is not None else [step]  # a student can only go back, not ahead
    return say("taken", lang, step=min(lab.step_ids.index(step.id) for step in back) + 1)


def _under_another_name(line: str, commands: Sequence[str]) -> str:
    """The command of a step that submits the same file under a name of its own; empty without such a command."""
    typed = shlex.split(line)
    files = {word for word in typed[VERB:] if word.endswith((".yaml", ".yml"))}
    return next(
        (command for command in commands if "--name" in command and files and files <= {*shlex.split(command)}), ""
    )


def _is_elsewhere(word: str, files: Path) -> bool:
    """Whether a word names a file of the lab that does not stand where the student does."""
    return bool(word) and not Path(word).is_absolute() and not Path(word).exists() and (files / word).is_file()


def noted(words: Sequence[str], code: int, error: PaictlError | None, lang: str = DEFAULT) -> TypedCommand:
    """A command line as the lab remembers it, with its error translated."""

    if error is None:
        return TypedCommand(spelled(words), code)
    where = f"{translated(error.where, lang)}: " if error.where else ""
    parts = [f"{where}{in_language(error.message, lang)}", *([in_language(error.hint, lang)] if error.hint else [])]
    message = "" if lang == DEFAULT else REASONS[lang].join(parts)
    return TypedCommand(spelled(words), code, str(error), error.hint or "", said=message)


REASONS: Final = {"zh": "；"}
"""What stands between what is wrong and what to do, by language."""
