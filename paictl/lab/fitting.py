"""What a lab says on a cluster that was up before it: the steps that are others there, in the names of its machines.

Only what students read and what is typed for them: checks stay in the lab's own names, in which a lab sees the cluster
(`LabView`) and the student's files (`Observation.file`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from paictl.lab.folders import lab_of_shell, labs_folder
from paictl.lab.manifest import Act, BilingualText, FileEdit, Lab, Step, find_lab
from paictl.lab.messages import LabError
from paictl.lab.progress import ProgressFile
from paictl.lab.session import Session
from paictl.lab.site import LabSite, renamed


def session_for(lab: Lab, root: Path) -> Session:
    """A lab of the student with these labs; it speaks of the cluster on which it was begun."""
    session = Session(lab, root)
    site = session.workspace.known_site if session.workspace.started else None
    return session if site is None else Session(fitted(lab, site), root)


def session_of(word: str | None) -> Session:
    """The lab that is named, else the one of this shell even if it is gone, else the one started last."""
    root = labs_folder()
    name = word or lab_of_shell() or ProgressFile(root).read().current
    if not name:
        raise LabError("none-started")
    return session_for(find_lab(name), root)


def fitted(lab: Lab, site: LabSite) -> Lab:
    """A lab as it is at a site."""
    words = site.words
    return replace(
        lab,
        steps=tuple(_step(step.there or step, words) for step in lab.steps),
        near_misses=tuple(replace(miss, says=_text(miss.says, words)) for miss in lab.near_misses),
        questions=tuple(
            replace(question, text=_text(question.text, words), answer=_text(question.answer, words))
            for question in lab.questions
        ),
        words=words,
    )


def _step(step: Step, words: Mapping[str, str]) -> Step:
    return replace(
        step,
        text=_text(step.text, words),
        commands=_lines(step.commands, words),
        hints=tuple(_text(hint, words) for hint in step.hints),
        solution=_act(step.solution, words),
    )


def _act(act: Act, words: Mapping[str, str]) -> Act:
    edits = tuple(FileEdit(edit.file, renamed(edit.find, words), renamed(edit.write, words)) for edit in act.edits)
    return replace(act, edits=edits, commands=None if act.commands is None else _lines(act.commands, words))


def _lines(lines: tuple[str, ...], words: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(renamed(line, words) for line in lines)


def _text(text: BilingualText, words: Mapping[str, str]) -> BilingualText:
    return BilingualText(renamed(text.en, words), renamed(text.zh, words))
