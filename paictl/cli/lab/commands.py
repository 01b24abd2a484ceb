"""`paictl lab`: guided labs on a cluster of their own, each step checked. Every verb is loaded when it is typed."""

from __future__ import annotations

from paictl.cli.command import App, Lazy
from paictl.cli.lab.language import InLanguage


def _verb(module: str, summary: str, *, hidden: bool = False) -> Lazy:
    return Lazy(f"paictl.cli.lab.{module}", summary, hidden, within=True)


VERBS = {
    "list": _verb("listing", "List the labs and your progress."),
    "start": _verb("following", "Start a lab, or continue one."),
    "env": _verb("shell", 'Print the environment of a lab: eval "$(paictl lab env)"; to leave: lab env --leave.'),
    "shell": _verb("shell", "Open a shell in which paictl uses the lab's cluster; leave it with exit."),
    "next": _verb("following", "Show the next step, or what is missing in the current one."),
    "status": _verb("following", "Show your progress in a lab: steps, checks, questions."),
    "hint": _verb("following", "Give a hint for the current step; ask again for a plainer one."),
    "verify": _verb("following", "Compare what is expected with what was observed."),
    "show": _verb("reading", "Show the text of a lab; in a pager on a terminal."),
    "glossary": _verb("reading", "Map textbook terms to paictl terms, in both languages."),
    "language": _verb("reading", "Choose the language of the labs (or show it)."),
    "skip": _verb("exercises", "Skip a step or check, with a reason."),
    "solve": _verb("exercises", "Do the current step for you, and show how."),
    "answer": _verb("exercises", "Answer a question of the lab; the report includes it."),
    "predict": _verb("exercises", "Predict a step's outcome before you do it."),
    "visit": _verb("visiting", "Sign in at the server as a user and submit a job, as a browser or program does."),
    "class": Lazy(
        "paictl.cli.lab.classroom", "Run a class: one server for a teacher and students, their progress, reports."
    ),
    "run": _verb("exercises", "Play a lab for you to watch: every command typed, every check shown."),
    "reset": _verb("resets", "Restart a lab, or go back to a step; answers stay, a backup is kept."),
    "restore": _verb("resets", "Undo the last reset of a lab."),
    "report": _verb("reports", "Write a report on all labs you started."),
    "check-report": _verb("reports", "Check whether reports are consistent, and whether some are copies."),
    "selftest": _verb(
        "author", "For authors: prove that every check can fail, and that the texts show real output.", hidden=True
    ),
}
"""The verbs in the order of help, with what `paictl lab -h` says of each."""

EXAMPLES = """
    paictl lab list
    paictl lab start 01
    paictl lab next
    paictl lab verify
"""

app = App(cls=InLanguage, lazy=VERBS, epilog=EXAMPLES)


@app.callback()
def lab() -> None:
    """Guided labs: learn cluster scheduling by doing."""
