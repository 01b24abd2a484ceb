"""`paictl lab show`, `glossary` and `language`: the texts of the labs, and in which language they are."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from typing import Annotated

import typer
from rich.console import Console
from rich.markdown import Markdown

from paictl.cli.command import App
from paictl.cli.console import Output, stdout, write, write_data, write_table
from paictl.cli.lab.language import LangOption, Language, speaks
from paictl.cli.lab.rendering import paragraph, tell
from paictl.cli.lab.sessions import LabWord, session_of
from paictl.cli.options import OutputOption
from paictl.lab.folders import labs_folder
from paictl.lab.glossary import read_glossary
from paictl.lab.language import VARIABLE, choose
from paictl.lab.messages import say

app = App()


@app.command(
    epilog="""
    paictl lab show 3 --lang zh
    paictl lab show --explain
"""
)
def show(
    lab: LabWord = None,
    explain: Annotated[bool, typer.Option("--explain", help="Show only the explanations.")] = False,
    lang: LangOption = None,
) -> None:
    """Show the text of a lab, to read before, during or after it; in a pager on a terminal."""
    session = session_of(lab)
    text = session.lab.text_file(speaks(lang, session)).read_text(encoding="utf-8").rstrip()
    if explain:
        text = _explanation(text)
    if sys.stdout.isatty():
        _page(text)
    else:
        write(text)


def _explanation(text: str) -> str:
    """The title and the last but one section of a lab's text, which all labs have in this place."""
    title, *sections = re.split(r"(?m)^(?=## )", text)
    return title.splitlines()[0] + "\n\n" + "".join(sections[-2:-1]).rstrip()


def _page(text: str) -> None:
    """Render Markdown for a terminal, in a pager where it is longer than the screen."""

    console = stdout()
    console.width = min(console.width, 100)
    rendered = Markdown(re.sub(r"(?m)^<!--.*?-->\n", "", text))
    with console.capture() as captured:
        console.print(rendered)
    if captured.get().count("\n") < console.height:
        console.print(rendered)
    else:
        _show_in_pager(console, captured.get())


def _show_in_pager(console: Console, text: str) -> None:
    """Show a text in PAGER (default: less), or directly if the pager is missing."""

    command = shlex.split(os.environ.get("PAGER") or "less")
    environment = {"LESS": "-R", **os.environ} if "LESS" in os.environ else {**os.environ, "LESS": "-RF"}
    try:
        subprocess.run(command, input=text, text=True, check=False, env=environment)  # noqa: S603 - the user's pager
    except OSError:
        console.file.write(text)


@app.command(epilog="paictl lab glossary --lang zh")
def glossary(lang: LangOption = None, output: OutputOption = Output.TABLE) -> None:
    """Map textbook terms to paictl terms, in both languages."""

    words, terms = speaks(lang), read_glossary()
    if output is not Output.TABLE:
        write_data([term.data() for term in terms], output)
        return
    heads = say("glossary-heads", words).split("|")
    write_table(heads, [(term.en, term.zh, term.textbook) for term in terms])
    write("")
    for term in terms:
        paragraph(say("check", words, id=term.of(words), says=term.means.of(words)), "- ")
    tell("glossary-where", words)


@app.command(epilog="paictl lab language zh")
def language(
    chosen: Annotated[Language | None, typer.Argument(help="Language of all later commands.")] = None,
) -> None:
    """Choose the language of the labs (or show it); PAICTL_LANG and --lang override it."""
    if chosen is None:
        write(speaks())
        return
    choose(labs_folder(), chosen.value)
    tell("language-is", chosen.value)
    if os.environ.get(VARIABLE) and speaks() != chosen.value:
        tell("language-overruled", chosen.value, variable=VARIABLE, value=os.environ[VARIABLE])
