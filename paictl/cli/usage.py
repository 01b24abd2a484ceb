"""Wrong command lines in the words of all other errors: what is wrong, and the next thing to do."""

from __future__ import annotations

from typing import Any

from paictl.cli import console
from paictl.errors import PaictlError
from paictl.words import did_you_mean


def say(error: Any) -> PaictlError | None:
    """Say what typer found wrong with a command line, and give it; for a group without a command that is its help."""
    context = getattr(error, "ctx", None)
    if context is None or error.message == context.get_help():
        error.show()
        return None
    told = PaictlError(_message(error), hint=f"{_near(error)}{context.command_path} -h shows all")
    if not console.is_data_wanted():
        console.info(context.get_usage())
    console.error(told)
    return told


def _message(error: Any) -> str:
    param = getattr(error, "param", None)
    if param is not None and error.message:
        return f"{_name(param)}: {error.message}"
    text = str(error.message or error.format_message()).rstrip(".")
    return text[:1].lower() + text[1:]


def _name(param: Any) -> str:
    """What users call a parameter: the first spelling of an option, the word for an argument."""
    return str(param.opts[0] if param.param_type_name == "option" else param.metavar or param.name.upper())


def _near(error: Any) -> str:
    """The word that was most likely meant, as the first part of a hint; empty where none is near."""
    if near := getattr(error, "near", ""):
        return f"{near} "
    if options := getattr(error, "possibilities", None):
        near = did_you_mean(error.option_name, options)
        return f"{near} " if near else ""
    return ""
