"""Wrong command lines in the words of all other errors: what is wrong, and the next thing to do."""

from __future__ import annotations

from typing import Any

from paictl.cli import console
from paictl.cli.helptext import argument_word
from paictl.errors import PaictlError
from paictl.i18n import text
from paictl.words import nearest


def say(error: Any) -> PaictlError | None:
    """Say what typer found wrong with a command line, and give it; for a group without a command that is its help."""
    context = getattr(error, "ctx", None)
    if context is None or error.message == context.get_help():
        error.show()
        return None
    path, near = context.command_path, _near(error)
    hint = text("did you mean {near!r}? {path} -h shows all", near=near, path=path)
    message, where = _message(error)
    told = PaictlError(message, where=where, hint=hint if near else text("{path} -h shows all", path=path))
    if not console.is_data_wanted():
        console.info(context.get_usage())
    console.error(told)
    return told


def _message(error: Any) -> tuple[str, str | None]:
    """What is wrong, and with which option or argument."""
    param = getattr(error, "param", None)
    if param is not None:
        return (error.message, _name(param)) if error.message else (text("missing {name}", name=_name(param)), None)
    if hasattr(error, "possibilities"):
        return text("no such option: {name}", name=error.option_name), None
    said = str(error.message or error.format_message()).rstrip(".")
    return said[:1].lower() + said[1:], None


def _name(param: Any) -> str:
    """What users call a parameter: the first spelling of an option, the word for an argument."""
    if param.param_type_name != "option":
        return argument_word(param)
    return str(next((name for name in param.opts if name.startswith("--")), param.opts[0]))


def _near(error: Any) -> str:
    """The word that was most likely meant; empty where none is near."""
    if near := getattr(error, "near", ""):
        return str(near)
    options = getattr(error, "possibilities", None)
    return nearest(error.option_name, options, 0.6) or "" if options else ""
