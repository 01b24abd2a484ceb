"""The entry point: runs the app and turns every way in which it can end into an exit code."""

from __future__ import annotations

import gc
import io
import os
import sys
from collections.abc import Callable, Sequence
from functools import cache

from paictl.errors import ExitCode, PaictlError

GLOBAL_FLAGS = frozenset({"-v", "-vv", "-vvv", "--verbose", "-q", "--quiet", "--debug", "--no-color", "--no-input"})


def main(arguments: Sequence[str] | None = None) -> None:
    """Run paictl and exit; the console script of the package."""
    gc.set_threshold(100_000, 20)  # what is imported stays: to walk it again and again costs a tenth of a short command
    words = sys.argv[1:] if arguments is None else list(arguments)
    _prepare(words)
    code = run(words)
    sys.exit(int(_flushed(code)))


def _flushed(code: int) -> int:
    """The exit code once the output has left; what is still buffered may not find its way."""
    from paictl.cli import console

    try:
        sys.stdout.flush()
    except OSError as error:
        _forget_output()
        if not isinstance(error, BrokenPipeError):
            console.error(PaictlError(f"the output cannot be written: {error.strerror}", hint="free some space"))
            return ExitCode.USAGE
    return code


def _forget_output() -> None:
    """Send the rest of the output nowhere: Python would complain once more when it flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _prepare(words: Sequence[str]) -> None:
    """Settle what must hold before anything is written: help comes before the options are taken."""
    if "--no-color" in words:
        os.environ["NO_COLOR"] = "1"
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by whoever started us: there is nobody to tell
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115 - for the whole run
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal that lacks a character gets an escape, not a traceback
            stream.reconfigure(errors="backslashreplace")


def run(arguments: Sequence[str]) -> int:
    """Run a command line and return its exit code; errors are said on stderr.

    Where `PAICTL_STATE` names the folder of a lab, the lab learns what was typed and how it ended.
    """
    code, error = attempt(arguments)
    folder = os.environ.get("PAICTL_STATE")
    if folder and os.path.exists(os.path.join(folder, "lab.json")):  # noqa: PTH110, PTH118 - before pathlib is needed
        from paictl.cli.lab import hook as labhook

        labhook.after_command(hoisted(arguments), code, error)
    return code


def attempt(arguments: Sequence[str]) -> tuple[int, PaictlError | None]:
    """Run a command line; (exit code, the error that was said)."""
    from paictl.cli import console
    from paictl.cli.settings import settings

    try:
        return _run_app(hoisted(arguments))
    except PaictlError as error:
        console.error(error)
        return error.exit_code, error
    except KeyboardInterrupt:
        console.info("interrupted")
        return ExitCode.INTERRUPTED, None
    except BrokenPipeError:
        _forget_output()  # the reader went away, as `head` does
        return 141, None
    except Exception as error:
        if settings.debug:
            raise
        reason = f"{type(error).__name__}: {error}"
        hint = "this is a bug in paictl: run again with --debug and report what it prints"
        bug = PaictlError(f"internal error: {reason}", hint=hint)
        console.error(bug)
        return ExitCode.USAGE, bug
    finally:
        gc.enable()  # commands that read much switch it off; labs and tests run many of them in one process


def hoisted(arguments: Sequence[str]) -> list[str]:
    """The arguments with global flags moved to the front, so that they may stand anywhere before ``--``."""
    end = list(arguments).index("--") if "--" in arguments else len(arguments)
    flags = [word for word in arguments[:end] if word in GLOBAL_FLAGS]
    others = [word for word in arguments[:end] if word not in GLOBAL_FLAGS]
    return [*flags, *others, *arguments[end:]]


def _run_app(arguments: list[str]) -> tuple[int, PaictlError | None]:
    """Run the typer app outside its standalone mode, which would decide on exit codes by itself."""
    import typer

    from paictl.cli import usage

    try:
        result = _command_tree()(args=arguments, prog_name="paictl", standalone_mode=False)
    except typer.Abort:
        return ExitCode.INTERRUPTED, None
    except SystemExit:
        if type(sys.stdout).__name__ == "PacifyFlushWrapper":  # typer's way with a reader that went away: exit code 1,
            raise BrokenPipeError from None  # which would mean findings
        raise
    except Exception as error:
        if not usage.is_usage_error(error):
            raise
        return ExitCode.USAGE, usage.say(error)
    return result if isinstance(result, int) else ExitCode.OK, None


@cache
def _command_tree() -> Callable[..., object]:
    """The commands as typer builds them from the app: once, for labs and tests run many of them in one process."""
    import typer

    from paictl.cli.app import app

    return typer.main.get_command(app)
