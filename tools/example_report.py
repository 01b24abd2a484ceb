#!/usr/bin/env python3
"""Write the example reports: a student who does every lab as it is meant, and answers every question well.

All labs are played through the command line in a folder that is removed afterwards, in English and in Chinese; the
reports go to the folder that is named, ``examples/lab-report`` otherwise (`make example-reports`; not in git).
"""

from __future__ import annotations

import os
import shlex
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from paictl.lab.journal import Typed
    from paictl.lab.session import Session

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
FOLDER = ROOT / "examples" / "lab-report"
REPORTS = {"en": ("report.html", "Example Student"), "zh": ("report.zh.html", "示例学生")}


def main() -> int:
    """Play all labs in each language and write its report."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    for lang, (name, student) in REPORTS.items():
        with tempfile.TemporaryDirectory() as state:
            os.environ["PAICTL_STATE"] = state
            study(lang)
            paictl("lab", "report", "-o", str(folder / name), "--name", student, "--lang", lang)
    return 0


def study(lang: str) -> None:
    """Do every step of every lab, and answer its questions."""
    from paictl.cli.lab.play import called
    from paictl.lab.ground import labs_folder
    from paictl.lab.manifest import all_labs
    from paictl.lab.session import Session

    for lab in all_labs():
        session = Session(lab, labs_folder())
        session.start(lang)
        with called("student"):
            for step in lab.steps:
                session.play(step, step.solution, partial(typed, session))
        for number, question in enumerate(lab.questions, 1):
            paictl("lab", "answer", str(number), " ".join(question.answer.of(lang).split()), "--lab", lab.number)
        print(f"{lang} {lab.id}", file=sys.stderr)


def typed(session: Session, line: str) -> Typed:
    """Type a command line in a lab."""
    from paictl.cli.lab.play import type_silently

    return type_silently(session, shlex.split(line)[1:])


def paictl(*words: str) -> None:
    """Run a command that has to do its work."""
    from paictl.cli.main import run

    code = run(["--quiet", *words])
    if code:
        raise SystemExit(f"paictl {' '.join(words[:2])} ended with exit code {code}")


if __name__ == "__main__":
    sys.exit(main())
