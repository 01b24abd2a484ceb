#!/usr/bin/env python3
"""Write example reports: a student who does labs as they are meant, and answers every question well.

Labs are played through the command line in a folder that is removed afterwards, in English and in Chinese:

    python tools/example_report.py                    # all labs, into examples/lab-report (not in git)
    python tools/example_report.py FOLDER 03 09       # some of them, elsewhere
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
FOLDER = ROOT / "examples" / "lab-report"
REPORTS = {
    "en": ("report.html", "Example Student", "Example Student, Ann Li", "None: the cluster is on this machine."),
    "zh": ("report.zh.html", "示例学生", "示例学生、李安", "没有遇到问题：集群就在本机上。"),
}
"""Language → name of the file, name, group and problems of the student."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Play labs in each language and write its report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER, help="where the reports go")
    parser.add_argument("labs", nargs="*", help="numbers (default: all)")
    given = parser.parse_args(arguments)
    for lang in REPORTS:
        write_report(lang, given.folder, given.labs)
    return 0


def write_report(lang: str, folder: Path, labs: Sequence[str] = ()) -> Path:
    """Do labs (all without any) in a language and write the report to a folder; its path."""
    name, student, group, problems = REPORTS[lang]
    folder.mkdir(parents=True, exist_ok=True)
    before = os.environ.get("PAICTL_STATE")
    with tempfile.TemporaryDirectory() as state:
        os.environ["PAICTL_STATE"] = state
        try:
            study(lang, labs)
            more = ("--group", group, "--problems", problems, "--lang", lang)
            paictl("lab", "report", "-o", str(folder / name), "--name", student, *more)
        finally:
            if before is None:
                del os.environ["PAICTL_STATE"]
            else:
                os.environ["PAICTL_STATE"] = before
    return folder / name


def study(lang: str, labs: Sequence[str]) -> None:
    """Do every step of labs, and answer their questions."""
    from paictl.cli.lab.inprocess import called, silent_runner, speaking
    from paictl.lab.folders import labs_folder
    from paictl.lab.manifest import all_labs, find_lab
    from paictl.lab.session import Session

    for lab in [find_lab(word) for word in labs] or all_labs():
        session = Session(lab, labs_folder())
        session.start()
        with called("student"), speaking(lang):
            for step in lab.steps:
                session.play(step, step.solution, silent_runner(session), language=lang)
        for number, question in enumerate(lab.questions, 1):
            paictl("lab", "answer", str(number), " ".join(question.answer.of(lang).split()), "--lab", lab.number)
        print(f"{lang} {lab.id}", file=sys.stderr)


def paictl(*words: str) -> None:
    """Run a command that has to do its work."""
    from paictl.cli.main import run

    code = run(["--quiet", *words])
    if code:
        raise SystemExit(f"paictl {' '.join(words[:2])} ended with exit code {code}")


if __name__ == "__main__":
    sys.exit(main())
