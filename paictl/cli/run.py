"""Running one command line: every way in which it can end becomes an exit code and a message."""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Sequence
from functools import cache
from typing import Any, Final

import typer

from paictl.cli import console
from paictl.cli.app import app
from paictl.cli.helptext import argument_word
from paictl.cli.settings import settings
from paictl.cli.synonyms import OPTION_SYNONYMS
from paictl.cli.userconfig import setting
from paictl.errors import ExitCode, PaictlError
from paictl.i18n import recalled, text
from paictl.suggestions import nearest

BROKEN_PIPE = 141
"""Exit code when the reader went away, as `head` does: 128 + SIGPIPE."""

_FORMERLY = {"--show-completion": ["completion"], "--install-completion": ["completion", "--install"]}

_ONLY_ON_POSIX = frozenset({"fcntl", "termios", "pwd", "grp", "resource"})

_EXTRAS = {
    "k8s": ("kubernetes", "starlette", "uvicorn", "orjson", "prometheus_client", "jinja2", "httptools", "uvloop"),
    "sim": ("scipy", "highspy", "numpy"),
    "deploy": ("fabric", "ansible_runner"),
}
"""Modules that the standard installation lacks, by the extra that has them."""


def attempt(arguments: Sequence[str], language: str | None = None) -> tuple[int, PaictlError | None]:
    """Run a command line; (exit code, the error that was said). `language` is that of a lab that it is typed in."""
    settings.reset()
    code, error, begun = int(ExitCode.OK), None, time.monotonic()
    try:
        with console.command_line(console.asked_form(arguments)):
            code, error = _ended(arguments, language)
            if error is not None:
                _keep(arguments, code, error, time.monotonic() - begun)
    except BrokenPipeError:
        console.forget_output()
        return BROKEN_PIPE, error
    return code, error


def _keep(arguments: Sequence[str], code: int, error: PaictlError, seconds: float) -> None:
    """Add a failure to the log file; the path of the file is printed with --verbose."""
    from paictl.cli.logfile import note_failure  # late: what works writes nothing

    path = note_failure(arguments, code, error, seconds)
    if path is not None:
        console.detail(text("log file: {path}", path=path))


def _ended(arguments: Sequence[str], language: str | None) -> tuple[int, PaictlError | None]:
    """Run a command line and say how it ended, if that is not as it should."""
    try:
        settings.language = language or setting("lang")
        settings.color = False if setting("color") is False else None
        return _run(_today(arguments))
    except PaictlError as error:
        console.error(error)
        return error.exit_code, error
    except (KeyboardInterrupt, typer.Abort):
        console.info("interrupted")
        return ExitCode.INTERRUPTED, None
    except BrokenPipeError:
        console.forget_output()
        return BROKEN_PIPE, None
    except Exception as error:
        if settings.debug:
            raise
        paictl_error = _unexpected(error, arguments)
        console.error(paictl_error)
        return ExitCode.USAGE, paictl_error
    finally:
        gc.enable()  # commands that read much switch it off; labs and tests run many of them in one process


def _unexpected(error: Exception, arguments: Sequence[str]) -> PaictlError:
    """The error for an unexpected exception; the traceback is kept in a file."""
    if isinstance(error, ModuleNotFoundError) and error.name in _ONLY_ON_POSIX:
        return PaictlError(
            text("clusters and labs need Linux or macOS, but this is {system}", system=sys.platform),
            hint="use them in WSL or a container; config validate and version work here",
        )
    if isinstance(error, ModuleNotFoundError) and (problem := _lacking(error, arguments)) is not None:
        return problem
    from paictl.cli.logfile import write_crash

    kept = write_crash(error, arguments)
    hint = (
        text("this is a bug in paictl: report it with the contents of {path}", path=kept)
        if kept
        else text("this is a bug in paictl: run again with --debug and report what it prints")
    )
    return PaictlError(text("internal error: {reason}", reason=f"{type(error).__name__}: {error}"), hint=hint)


def _lacking(error: ModuleNotFoundError, arguments: Sequence[str]) -> PaictlError | None:
    """What to say about a module of an extra that is not installed; None if it is of none."""
    module = (error.name or "").partition(".")[0]
    extra = next((extra for extra, modules in _EXTRAS.items() if module in modules), None)
    if extra is None:
        return None
    if extra == "k8s" and next(iter(arguments), "") == "serve":
        extra = "server"
    return PaictlError(
        text("this command needs the package {name}, which is not installed", name=module.replace("_", "-")),
        hint=text("install it: pip install 'paictl[{extra}]'", extra=extra),
    )


def _today(words: Sequence[str]) -> list[str]:
    """A command line with what has another name now than it had."""
    first, *rest = words or [""]
    return [*_FORMERLY[first], *rest] if first in _FORMERLY else list(words)


def _run(words: list[str]) -> tuple[int, PaictlError | None]:
    """Run the commands of typer without its own way with errors, exit codes and readers that went away."""
    tree = _command_tree()
    if "_PAICTL_COMPLETE" in os.environ:  # a shell asks for completions, by environment variables
        from paictl.cli.completion import answer

        return answer(tree), None
    try:
        with tree.make_context("paictl", words) as context:
            result = tree.invoke(context)
    except typer.Exit as end:
        return end.exit_code, None
    except EOFError:  # a question, and no more input
        return ExitCode.INTERRUPTED, None
    except typer.TyperException as error:
        return ExitCode.USAGE, say(error)
    return result if isinstance(result, int) else ExitCode.OK, None


@cache
def _command_tree() -> Any:
    """The commands of the app: built once, for labs and tests run many of them in one process."""
    return app.built(None)


def say(error: Any) -> PaictlError | None:
    """Say what typer found wrong with a command line, and give it; for a group without a command that is its help."""
    context = getattr(error, "ctx", None)
    if context is None:
        paictl_error = PaictlError(_message(error)[0], hint=text("{path} -h shows all", path="paictl"))
        console.error(paictl_error)
        return paictl_error
    if error.message == context.get_help():
        error.show()
        return None
    path, near = context.command_path, _near(error)
    hint = text("{path} -h shows all", path=path)
    if near:
        hint = text("did you mean {near!r}? {path} -h shows all", near=near, path=path)
    elif word := _argument_for(error):
        hint = text("give it without an option: {command}", command=f"{path} {word}")
    message, where = _message(error)
    paictl_error = PaictlError(message, where=where, hint=hint)
    if not console.is_data_wanted():
        console.info(context.get_usage().replace("Usage", console.localized("Usage"), 1))
    console.error(paictl_error)
    return paictl_error


def _message(error: Any) -> tuple[str, str | None]:
    """What is wrong, and with which option or argument."""
    param = getattr(error, "param", None)
    if param is not None:
        return (error.message, _name(param)) if error.message else (text("missing {name}", name=_name(param)), None)
    if hasattr(error, "possibilities"):
        return text("no such option: {name}", name=error.option_name), None
    message = str(error.message or error.format_message()).rstrip(".")
    return recalled(message[:1].lower() + message[1:], _BY_TYPER), None


_BY_TYPER: Final = (
    "got unexpected extra argument(s) ({words})",
    "got unexpected extra argument ({words})",
    "got unexpected extra arguments ({words})",
    "option {name} requires an argument",
    "option {name} requires {count} arguments",
    "option {name} does not take a value",
)
"""What typer itself says of a command line, without the case and the full stop."""


def _name(param: Any) -> str:
    """What users call a parameter: the first spelling of an option, the word for an argument."""
    if param.param_type_name != "option":
        return argument_word(param)
    return str(next((name for name in param.opts if name.startswith("--")), param.opts[0]))


def _near(error: Any) -> str:
    """The word that was most likely meant; empty where none is near."""
    if near := getattr(error, "near", ""):
        return str(near)
    if not hasattr(error, "possibilities"):
        return ""
    known = {option for param in error.ctx.command.params for option in param.opts}
    meant = next((option for option in OPTION_SYNONYMS.get(error.option_name, ()) if option in known), "")
    return meant or nearest(error.option_name, error.possibilities or (), 0.6) or ""


def _argument_for(error: Any) -> str:
    """The argument that takes what was given with an option such as ``-f``; empty where there is none."""
    if getattr(error, "option_name", "") not in ("-f", "-p", "--file", "--filename", "--path"):
        return ""
    arguments = (param for param in error.ctx.command.params if param.param_type_name == "argument")
    words = (argument_word(param).strip("[]") for param in arguments)
    return next((word for word in words if word.rstrip(".").rstrip("S") in ("DIR", "FILE", "FOLDER", "PATH")), "")
