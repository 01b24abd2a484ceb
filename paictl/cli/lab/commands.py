"""`paictl lab`: guided labs on a cluster of their own, each step checked. Every verb is loaded when it is typed."""

from __future__ import annotations

from paictl.cli.command import App, Lazy
from paictl.cli.lab.language import InLanguage


def _verb(module: str, told: str, *, hidden: bool = False) -> Lazy:
    return Lazy(f"paictl.cli.lab.{module}", told, hidden, within=True)


VERBS = {
    "list": _verb("listing", "List the labs, and how far you are."),
    "start": _verb("following", "Begin a lab, or go on with one that has begun."),
    "env": _verb("shell", 'What makes this shell the lab\'s: eval "$(paictl lab env)"; back: lab env --leave.'),
    "shell": _verb("shell", "Open a shell in which paictl works on the lab's cluster; leave it with exit."),
    "next": _verb("following", "Show the next step, or what is missing in this one."),
    "status": _verb("following", "Show how far you are in a lab: steps, checks, questions."),
    "hint": _verb("following", "Give a hint for the present step; ask again for a plainer one."),
    "verify": _verb("following", "Compare what is expected with what is observed."),
    "show": _verb("reading", "Show the text of a lab; in a pager on a terminal."),
    "glossary": _verb("reading", "Say which word of the textbook is which word here, in both languages."),
    "language": _verb("reading", "Choose the language of the labs (or show it)."),
    "skip": _verb("doing", "Leave a step or check out, with a reason."),
    "solve": _verb("doing", "Do the present step for you, and show how."),
    "answer": _verb("doing", "Answer a question of the lab; the report holds it."),
    "predict": _verb("doing", "Foretell what will come of a step before you do it."),
    "visit": _verb("visiting", "Sign in at the server as a user and submit a job, as a browser or program does."),
    "class": Lazy(
        "paictl.cli.lab.classroom", "A class: one server for a teacher and students, their progress, reports."
    ),
    "run": _verb("doing", "Play a lab for a reader: every step typed, every check shown."),
    "reset": _verb("resets", "Begin a lab anew, or go back to a step; answers stay, a backup is kept."),
    "restore": _verb("resets", "Get back what the last reset of a lab took."),
    "report": _verb("reports", "Write the report of all labs that you began."),
    "check-report": _verb("reports", "Tell whether reports are consistent, and whether some are copies."),
    "selftest": _verb("author", "For authors: prove that no check is hollow and the texts are true.", hidden=True),
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
