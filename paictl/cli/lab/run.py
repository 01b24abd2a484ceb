"""Playing labs for a reader: the same steps that a student types, through the same command line."""

from __future__ import annotations

import shlex
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from paictl.cli.console import write, write_segments
from paictl.cli.lab.play import type_words
from paictl.cli.lab.words import say, show_judged, show_questions, show_step
from paictl.lab.ground import labs_folder
from paictl.lab.journal import Typed
from paictl.lab.manifest import Lab
from paictl.lab.session import Session, Standing


def play_labs(labs: Sequence[Lab], lang: str, *, pause: float, keep: bool) -> int:
    """Play labs in a folder of their own (or with `keep` in the student's); how many checks did not pass.

    `pause` is in seconds, after every command.
    """
    if keep:
        return sum(_play(Session(lab, labs_folder()), lang, pause) for lab in labs)
    with tempfile.TemporaryDirectory(prefix="paictl-lab-") as folder:
        return sum(_play(Session(lab, Path(folder)), lang, pause) for lab in labs)


def _play(session: Session, lang: str, pause: float) -> int:
    lab = session.lab
    session.start(lang, played=True)
    write_segments([[("bold", f"== {lab.number} {lab.title.of(lang)}")]])
    write(lab.goal.of(lang).strip())

    def typist(command: str) -> Typed:
        write_segments([[("", "$ "), ("cyan", command)]])
        ended = type_words(session, shlex.split(command)[1:])
        time.sleep(pause)
        return ended

    for step in lab.steps:
        write("")
        show_step(lab, step, lang)
        session.play(step, step.solution, typist)
        for judged in session.judged():
            if judged.check.after == step.id:
                show_judged(judged, lang)
    write("")
    judged_all = session.judged()
    passed = sum(one.standing is Standing.PASSED for one in judged_all)
    write(say("tally", lang, passed=passed, of=len(judged_all)))
    show_questions(session, lang, solutions=True)
    write("")
    return len(judged_all) - passed
