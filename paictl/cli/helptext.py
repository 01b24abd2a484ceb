"""Help pages: what a command does, examples, then arguments and options; without boxes, wrapped at words.

Here, and nowhere else, help is said in the language that is asked for: the key of a paragraph is its English text, with
single spaces. What has no entry stays English.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from paictl.cli.console import language, localized
from paictl.cli.paragraphs import wrapped

_ELSEWHERE: Final = "Options of every command (-v, -q, --debug, --no-color, --no-input): paictl -h"
_ADDED: Final = ("default: ", "required")
_NAMES: Final = 30
"""Columns that names of options and commands have at most beside what is said of them, as in click."""


def write(
    command: Any, ctx: Any, formatter: Any, *, hidden: Sequence[Any] = (), commands: Sequence[tuple[str, str]] = ()
) -> None:
    """Write the help page of a command or group; `hidden` options are described elsewhere.

    Lines of the epilog that call paictl are examples; the others are notes, an empty line between two paragraphs.
    """
    formatter.write_usage(
        ctx.command_path,
        " ".join(command.collect_usage_pieces(ctx)),
        prefix=_title("Usage") + " " * (language() == "en"),
    )
    formatter.write_paragraph()
    with formatter.indentation():
        _write_text(formatter, command.help or "")
    lines = [line.strip() for line in (command.epilog or "").strip().splitlines()]
    examples = [line for line in lines if is_example(line)]
    if examples:
        with _section(formatter, "Examples"):
            for line in examples:
                formatter.write(f"{'':>{formatter.current_indent}}{line}\n")
    if commands:
        with _section(formatter, "Commands"):
            _write_rows(formatter, [(name, _paragraph(text)) for name, text in commands])
    _write_params(command, ctx, formatter, hidden)
    notes = "\n".join(line for line in lines if not is_example(line)).strip()
    for note in [*[notes] * bool(notes), *[_ELSEWHERE] * bool(hidden)]:
        formatter.write_paragraph()
        _write_text(formatter, note)


def _title(word: str) -> str:
    """A heading with the colon of its language."""
    return localized(word) + (":" if language() == "en" else "：")


@contextmanager
def _section(formatter: Any, word: str) -> Iterator[None]:
    """A heading and what is indented below it; click's own always has an English colon."""
    formatter.write_paragraph()
    formatter.write(f"{'':>{formatter.current_indent}}{_title(word)}\n")
    with formatter.indentation():
        yield


def paragraphs(text: str) -> Iterator[str]:
    """The paragraphs of a help text, as the catalogue has them for keys."""
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        if paragraph:
            yield " ".join(paragraph.split())


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
            arguments.append((argument_word(param), _paragraph(param.help or "")))
        else:
            options.append((record[0], _of_option(record[1], param.help or "")))
    for title, rows in (("Arguments", arguments), ("Options", options)):
        if rows:
            with _section(formatter, title):
                _write_rows(formatter, rows)


def _of_option(written: str, own: str) -> str:
    """What is said of an option; what typer has added in brackets stays behind it."""
    added = written.removeprefix(own)
    for word in _ADDED:
        added = added.replace(word, localized(word))
    return _paragraph(own) + added


def _paragraph(text: str) -> str:
    """A text of one paragraph in the language that is asked for; English as it was written."""
    return text if language() == "en" else localized(" ".join(text.split()))


def _write_text(formatter: Any, text: str) -> None:
    """Paragraphs, wrapped."""
    if language() == "en":
        formatter.write_text(text)
        return
    indent = " " * formatter.current_indent
    lines = [wrapped(localized(paragraph), formatter.width, indent=indent) for paragraph in paragraphs(text)]
    formatter.write("\n".join("".join(f"{line}\n" for line in of_one) for of_one in lines))


def _write_rows(formatter: Any, rows: Sequence[tuple[str, str]]) -> None:
    """Names, and beside each what is said of it: click breaks lines at spaces, which Chinese has none of."""
    if language() == "en":
        formatter.write_dl(rows)
        return
    indent = " " * formatter.current_indent
    beside = len(indent) + min(max(len(name) for name, _ in rows), _NAMES) + 2
    for name, text in rows:
        own_line = len(indent) + len(name) + 2 > beside
        first = " " * beside if own_line else f"{indent}{name}".ljust(beside)
        lines = [f"{indent}{name}"] * own_line + wrapped(text, formatter.width, indent=first, hang=" " * beside)
        formatter.write("".join(f"{line.rstrip()}\n" for line in lines))


def argument_word(param: Any) -> str:
    """An argument as the usage line shows it: ``JOB``, ``[LAB]``, ``FILE...``."""
    word = (param.metavar or param.name.upper()).replace("...", "").strip("[]")
    word += "..." if param.nargs == -1 else ""
    return word if param.required else f"[{word}]"


def for_stream(text: str) -> str:
    """A text with escapes for what standard output cannot show: typer would write UTF-8 all the same."""
    encoding = sys.stdout.encoding or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)
