"""Help pages: what a command does, examples, then arguments and options; without boxes, wrapped at words."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

_ELSEWHERE = "Options of every command (-v, -q, --debug, --no-color, --no-input): paictl -h"


def write(
    command: Any, ctx: Any, formatter: Any, *, hidden: Sequence[Any] = (), commands: Sequence[tuple[str, str]] = ()
) -> None:
    """Write the help page of a command or group; `hidden` options are described elsewhere.

    Lines of the epilog that call paictl are examples; the others are notes, an empty line between two paragraphs.
    """
    command.format_usage(ctx, formatter)
    formatter.write_paragraph()
    with formatter.indentation():
        formatter.write_text(command.help or "")
    lines = [line.strip() for line in (command.epilog or "").strip().splitlines()]
    examples = [line for line in lines if is_example(line)]
    if examples:
        with formatter.section("Examples"):
            for line in examples:
                formatter.write(f"{'':>{formatter.current_indent}}{line}\n")
    if commands:
        with formatter.section("Commands"):
            formatter.write_dl(commands)
    _write_params(command, ctx, formatter, hidden)
    notes = "\n".join(line for line in lines if not is_example(line)).strip()
    for note in [*[notes] * bool(notes), *[_ELSEWHERE] * bool(hidden)]:
        formatter.write_paragraph()
        formatter.write_text(note)


def is_example(line: str) -> bool:
    """Whether a line of an epilog is a command line to type."""
    return line.startswith("paictl ") or "| paictl " in line or "$(paictl " in line


def _write_params(command: Any, ctx: Any, formatter: Any, hidden: Sequence[Any]) -> None:
    arguments, options = [], []
    for param in command.get_params(ctx):
        record = param.get_help_record(ctx) if param not in hidden else None
        if record is None:
            continue
        if param.param_type_name == "argument":
            arguments.append((argument_word(param), (param.help or "")))
        else:
            options.append(record)
    for title, rows in (("Arguments", arguments), ("Options", options)):
        if rows:
            with formatter.section(title):
                formatter.write_dl(rows)


def argument_word(param: Any) -> str:
    """An argument as the usage line shows it: ``JOB``, ``[LAB]``, ``FILE...``."""
    word = (param.metavar or param.name.upper()).replace("...", "").strip("[]")
    word += "..." if param.nargs == -1 else ""
    return word if param.required else f"[{word}]"


def for_stream(text: str) -> str:
    """A text with escapes for what standard output cannot show: typer would write UTF-8 all the same."""
    encoding = sys.stdout.encoding or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)
