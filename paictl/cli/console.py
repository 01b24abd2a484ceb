"""Where output goes: results on stdout, messages on stderr."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TextIO

from paictl import i18n
from paictl.cli.envelope import Envelope, lines_in, names_in, plain, with_version
from paictl.cli.paragraphs import wrapped
from paictl.cli.segments import Segment, painted, visible
from paictl.cli.settings import settings
from paictl.cli.tables import fitting, table_lines
from paictl.config.reading.source import printable
from paictl.errors import PaictlError

if TYPE_CHECKING:
    from rich.console import Console

PIPE_WIDTH = 100
"""Columns where there is no terminal and COLUMNS is not set."""


class Output(StrEnum):
    """Forms in which a command can give its result."""

    TABLE = "table"
    WIDE = "wide"
    """A table with all its columns, however wide the terminal is."""
    JSON = "json"
    YAML = "yaml"
    NAME = "name"
    """Names alone, one a line, for other commands."""
    NDJSON = "ndjson"
    """JSON, one item a line, for streams."""


_FOR_PROGRAMS = frozenset({Output.JSON, Output.YAML, Output.NDJSON})
_STEERING = re.compile(r"[\x80-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""What JSON may hold unescaped although a terminal obeys it."""
_INSTANT = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z")
"""An instant as messages hold it, which other programs read, too."""

envelope = Envelope()
"""What this command line has said so far."""


@contextmanager
def command_line(form: str) -> Iterator[None]:
    """One command line, whose result is wanted in a form; what is still to be said to a program follows at its end."""
    global envelope
    before, envelope = envelope, Envelope()
    take_form(Output(form))
    try:
        yield
        if is_data_wanted() and (document := envelope.document()) is not None:
            write_data(document, Output(settings.output))
        elif settings.output == Output.NAME and envelope.items:
            write_data(envelope.items, Output.NAME)
    finally:
        envelope = before


def take_form(form: Output | None) -> Output | None:
    """Note the form that an option asks for; the value of the option, which is `TABLE` for a wide one, too."""
    if form is None:
        return None
    settings.wide = form is Output.WIDE
    settings.output = "table" if settings.wide else form.value
    return Output(settings.output)


def capture() -> None:
    """Keep what is said from now on for the document at the end."""
    envelope.capturing = is_data_wanted() or settings.output == Output.NAME


def outcome(message: str, **data: object) -> None:
    """Say on stderr what was done to a thing; to a program, as data."""
    if envelope.capturing:
        envelope.items.append({**data, "message": str(message)})
    else:
        info(message)


def asked_form(words: Sequence[str]) -> str:
    """The output format that a command line asks for, without parsing the rest."""
    for name, value in zip(words, [*words[1:], ""], strict=False):
        if name in ("-o", "--output") and value in set(Output):
            return value
        form = name.removeprefix("--output=").removeprefix("-o=").removeprefix("-o")
        if form != name and form in set(Output):
            return form
    return "table"


def is_data_wanted() -> bool:
    """Whether a program reads the result, to which errors are said in the same form."""
    return settings.output in _FOR_PROGRAMS


def write(text: str) -> None:
    """Write a result that a person reads to stdout, with a line end behind it."""
    _write(visible(text))


def write_file(text: str) -> None:
    """Write the text of a file to stdout: to a program as it is, to a person so that a terminal obeys nothing in it."""
    _write(visible(text) if sys.stdout.isatty() else text)


def _write(text: str) -> None:
    if envelope.capturing:
        envelope.lines.extend(text.splitlines())
        return
    envelope.written = True
    _out(text + "\n")


def write_at_once(text: str) -> None:
    """Write a result of a command that keeps running, so that a program which reads it from a pipe need not wait."""
    write(text)
    _out("", flush=True)


def _out(text: str, *, flush: bool = False) -> None:
    """Write to stdout; raises `PaictlError` where that is full, and lets a reader that went away through."""
    try:
        sys.stdout.write(text)
        if flush:
            sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        forget_output()
        raise unwritable(error) from None


def forget_output() -> None:
    """Send the rest of the output nowhere: Python would complain once more when it flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def unwritable(error: OSError) -> PaictlError:
    """What to say when results cannot be written."""
    message = i18n.text("the output cannot be written: {reason}", reason=error.strerror)
    return PaictlError(message, hint="free some space, or write elsewhere")


def reflowed(paragraph: str) -> str:
    """A paragraph broken into lines for the terminal, or for a page of usual width."""
    width = min(shutil.get_terminal_size((PIPE_WIDTH, 24)).columns, 100)
    if language() != "en":
        return "\n".join(wrapped(" ".join(paragraph.split()), width))
    return textwrap.fill(" ".join(paragraph.split()), width, break_long_words=False, break_on_hyphens=False)


def write_bytes(data: bytes) -> None:
    """Write a result to stdout as it is."""
    sys.stdout.flush()
    sys.stdout.buffer.write(data)


def write_data(data: object, output: Output) -> None:
    """Write plain data in a form for programs; a list of things becomes the `items` of a document."""
    envelope.capturing = False
    if output is Output.NAME:
        _write_names(data)
        return
    if output is Output.NDJSON:
        for line in lines_in(data, _json):
            _write(line)
    elif output is Output.JSON:
        _write(_json(with_version(data), indent=2))
    else:
        import yaml

        dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)  # ten times as fast, where it was compiled
        content = json.loads(_json(with_version(data)))
        shown = yaml.dump(content, None, dumper, sort_keys=False, allow_unicode=_has_all_characters(sys.stdout))
        _write(shown.rstrip())


def _json(data: object, indent: int | None = None) -> str:
    content = json.dumps(data, indent=indent, default=plain, ensure_ascii=not _has_all_characters(sys.stdout))
    return content if content.isascii() else _STEERING.sub(lambda match: f"\\u{ord(match[0]):04x}", content)


def _write_names(data: object) -> None:
    try:
        names = names_in(data)
    except LookupError:
        raise PaictlError("this result has no names", hint="use -o json") from None
    for name in names:
        write(name)


def _has_all_characters(stream: TextIO) -> bool:
    return (stream.encoding or "utf-8").lower().replace("-", "").startswith("utf")


def write_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write rows under headings; a column of numbers is set flush right.

    On a pipe, and with ``-o wide``, the table is as wide as its content. On a terminal, columns that it has no room for
    are left out, and named on stderr.
    """
    spoken_in, heads = language(), [localized(column) for column in columns]
    cells = [[i18n.translated(cell, spoken_in) if isinstance(cell, str) else cell for cell in row] for row in rows]
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() and not settings.wide else None
    left_out: list[str] = []
    if width is not None:
        kept = fitting(heads, cells, width)
        left_out = [head for index, head in enumerate(heads) if index not in kept]
        heads, cells = [heads[index] for index in kept], [[row[index] for index in kept] for row in cells]
    write_segments(table_lines(heads, cells, width=width))
    if left_out:
        info(
            localized(
                "the terminal is too narrow for {columns}; all columns: -o wide",
                columns=("、" if spoken_in == "zh" else ", ").join(left_out),
            )
        )


def write_segments(lines: Iterable[Sequence[Segment]]) -> None:
    """Write lines of (style, text) segments, each `Text` in the language of the user; styles are rich's names."""
    if envelope.capturing:
        envelope.lines.extend("".join(text for _, text in line) for line in lines)
        return
    envelope.written = True
    styled = settings.wants_color(sys.stdout.isatty())
    spoken_in = language()
    for segments in lines:
        line = [(style, visible(i18n.translated(text, spoken_in))) for style, text in segments]
        if not styled:
            _out("".join(text for _, text in line) + "\n")
        elif None not in (parts := [painted(segment) for segment in line]):
            _out("".join(filter(None, parts)) + "\n")
        else:
            from rich.text import Text  # late: only what colours a terminal has is for rich to find out

            stdout().print(Text.assemble(*((text, style) for style, text in line)), soft_wrap=True)


@contextmanager
def full_screen(wanted: bool) -> Iterator[None]:
    """Draw on a terminal's other screen, so that what is redrawn leaves no copies behind; elsewhere nothing."""
    used = wanted and sys.stdout.isatty()
    if used:
        sys.stdout.write("\x1b[?1049h")
    try:
        yield
    finally:
        if used:
            sys.stdout.write("\x1b[?1049l")
            sys.stdout.flush()


def clear_screen() -> None:
    """Begin again at the top of a terminal; nothing on a pipe."""
    if sys.stdout.isatty():
        sys.stdout.write("\x1b[H\x1b[J")


def language() -> str:
    """The language of the user."""
    return i18n.chosen(settings.language)


def localized(words: str, /, **values: object) -> str:
    """A text in the language and the time zone of the user; a key of the catalogue comes with its arguments."""
    sentence = i18n.in_language(i18n.text(words, **values) if values else words, language())
    return _INSTANT.sub(lambda match: local_time(datetime.fromisoformat(match[0])), sentence)


def local_time(at: datetime) -> str:
    """An aware instant as people read it: date and time of this machine."""
    with suppress(OverflowError):  # east of UTC the year 9999 ends too late for a date: it stays as it is
        at = at.astimezone()
    return at.strftime("%Y-%m-%d %H:%M:%S")


def clauses(parts: Iterable[str]) -> str:
    """Parts of a sentence, already said, in one line, with the commas of the user's language."""
    return localized(", ").join(parts)


def info(message: str) -> None:
    """Say something on stderr, unless --quiet."""
    if envelope.capturing:
        envelope.messages.append(str(message))
    elif settings.verbosity >= 0:
        print(visible(localized(message)), file=sys.stderr)  # noqa: T201 - this module is where printing is done


def detail(message: str) -> None:
    """Say something on stderr with --verbose only."""
    if settings.verbosity > 0:
        print(visible(message), file=sys.stderr)  # noqa: T201


def warning(message: str) -> None:
    """Print a probable mistake on stderr, unless --quiet; the command continues."""
    if settings.verbosity >= 0:
        _say("warning", "bold yellow", localized(message))


def error(problem: PaictlError) -> None:
    """Say on stderr why the command did not do its work, and what to do next."""
    if is_data_wanted():
        envelope.errors.append(
            {
                "message": problem.message,
                "where": problem.where,
                "hint": problem.hint,
                "exitCode": int(problem.exit_code),
            }
        )
    where = f"{i18n.translated(problem.where, language())}: " if problem.where else ""
    _say("error", "bold red", where + localized(problem.message))
    if problem.hint:
        _say("hint", "cyan", localized(problem.hint))


def _say(word: str, style: str, message: str) -> None:
    label = localized(word) + ("：" if localized(word) != word else ": ")
    if settings.wants_color(sys.stderr.isatty()):
        label = painted((style, label)) or label
    print(label + printable(message), file=sys.stderr)  # noqa: T201


def stdout() -> Console:
    """The rich console of results."""
    return _console(sys.stdout)


def stderr() -> Console:
    """The rich console of messages."""
    return _console(sys.stderr)


def _console(stream: TextIO) -> Console:
    from rich.console import Console

    terminal = stream.isatty()
    options: dict[str, Any] = {} if terminal else {"width": 10_000}
    return Console(
        file=stream, no_color=not settings.wants_color(terminal), highlight=False, markup=False, emoji=False, **options
    )


@contextmanager
def progress(text: str) -> Iterator[None]:
    """Show on a terminal's stderr that something goes on, with --verbose how long it took; silent elsewhere."""
    with progressing(text):
        yield


@contextmanager
def progressing(text: str) -> Iterator[Callable[[str], None]]:
    """The same in one line that can be told what goes on now."""
    text = localized(text)
    if settings.verbosity > 0:
        detail(f"{text} ...")
        begun = time.monotonic()
        yield detail
        detail(f"{text}: {time.monotonic() - begun:.2f} s")
    elif settings.verbosity < 0 or not sys.stderr.isatty():
        yield lambda _: None
    else:
        with stderr().status(text) as status:
            yield lambda now: status.update(now)
