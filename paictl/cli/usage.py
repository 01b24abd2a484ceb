"""Wrong command lines in the words of all other errors: what is wrong, and the next thing to do.

typer's own exceptions are told by what they can do, because it brings its own click, of which nothing may be imported.
"""

from __future__ import annotations

import re
from typing import Any

from paictl.cli import console
from paictl.cli.options import meant
from paictl.errors import PaictlError

_OPTION = re.compile(r"Invalid value for '(?P<name>[^']*)'(?: / '[^']*')*")
_CHOICE = re.compile(r"'(?P<word>[^']*)' is not one of (?P<names>.*)")


def is_usage_error(error: Exception) -> bool:
    """Whether an exception is typer's way to say that the command line is wrong."""
    return hasattr(error, "exit_code") and hasattr(error, "format_message")


def say(error: Any) -> PaictlError | None:
    """Say a usage error on stderr, and give it; for a group without a command that is its help."""
    context = getattr(error, "ctx", None)
    if context is None or type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return None
    told = PaictlError(_message(error), hint=f"{_hint(error)}{context.command_path} -h shows all")
    console.info(context.get_usage())
    console.error(told)
    return told


def _message(error: Any) -> str:
    text = str(getattr(error, "message", "") if getattr(error, "possibilities", None) else error.format_message())
    text = text.partition(" Did you mean")[0].replace("Value error, ", "").rstrip(".")
    text = _OPTION.sub(lambda match: match["name"], text)
    return text[:1].lower() + text[1:]


def _hint(error: Any) -> str:
    """The word that was most likely meant, as the first part of a hint; empty where none is near."""
    text = str(error.format_message())
    if choice := _CHOICE.search(text):
        near = meant(choice["word"], tuple(re.findall(r"'([^']*)'", choice["names"])))
        return f"{near} " if near.endswith("?") else ""
    if options := getattr(error, "possibilities", None):
        near = meant(error.option_name, tuple(options))
        return f"{near} " if near.endswith("?") else ""
    _, found, name = text.partition("Did you mean ")
    return f"did you mean {name} " if found else ""
