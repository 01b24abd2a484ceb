"""Help pages: what a command does, examples, then arguments and options; without boxes, wrapped at words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_ELSEWHERE = "Options of every command (-v, -q, --debug, --no-color, --no-input): paictl -h"


def write(
    command: Any, ctx: Any, formatter: Any, *, hidden: Sequence[Any] = (), commands: Sequence[tuple[str, str]] = ()
) -> None:
    """Write the help page of a command or group; `hidden` options are described elsewhere.

    Lines of the epilog that begin with a call of paictl, in a pipe too, are examples; the others are notes.
    """
    command.format_usage(ctx, formatter)
    formatter.write_paragraph()
    with formatter.indentation():
        formatter.write_text(command.help or "")
    lines = [line.strip() for line in (command.epilog or "").splitlines() if line.strip()]
    examples = [line for line in lines if is_example(line)]
    if examples:
        with formatter.section("Examples"):
            for line in examples:
                formatter.write(f"{'':>{formatter.current_indent}}{line}\n")
    if commands:
        with formatter.section("Commands"):
            formatter.write_dl(commands)
    _write_params(command, ctx, formatter, hidden)
    notes = [line for line in lines if not is_example(line)]
    for note in [*notes, *[_ELSEWHERE] * bool(hidden)]:
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
            arguments.append((param.make_metavar(ctx=ctx), record[1]))
        else:
            options.append(record)
    for title, rows in (("Arguments", arguments), ("Options", options)):
        if rows:
            with formatter.section(title):
                formatter.write_dl(rows)
