"""Playing labs for a reader: the same steps that a student types, through the same command line."""

from __future__ import annotations

import shlex
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from paictl.cli.console import write_segments
from paictl.cli.lab.inprocess import speaking, type_words
from paictl.cli.lab.shown import (
    blank,
    heading,
    paragraph,
    show_edits,
    show_questions,
    show_result,
    show_step,
    tell,
)
from paictl.lab.commandlog import TypedCommand
from paictl.lab.folders import labs_folder
from paictl.lab.judging import CheckStatus, judged
from paictl.lab.manifest import Lab
from paictl.lab.session import Session


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
    passed = sum(one.status is CheckStatus.PASSED for one in results)
    tell("tally", lang, passed=passed, of=len(results))
    show_questions(session, lang, solutions=True)
    blank()
    return len(results) - passed
