"""What the YAML scanner's errors most likely mean: the place of the mistake, not where it was noticed.

libyaml reports where it can read no further. A forgotten colon, a wrong indentation or an open bracket lies before that
place: the lines above are read, and the mistake is named.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import yaml
from yaml.reader import Reader

from paictl.config.reading.nodes import ScalarNode
from paictl.config.reading.source import Source, Span, place_of
from paictl.frozen import frozen
from paictl.i18n import joined, text

HINT = "look at this line and the one before: indentation, colon, brackets, quotes"

_NO_COLON = re.compile(r"(?P<key>[A-Za-z_][\w.-]*)(?:[ \t]+(?P<value>[^\s:#][^:#]*?))?[ \t]*(?:#.*)?")
_NO_SPACE = re.compile(r"(?P<key>[A-Za-z_][\w.-]*):(?P<value>[^\s/][^\s]*)[ \t]*(?:#.*)?")
_FULL_WIDTH = re.compile(r"(?P<key>[A-Za-z_][\w.-]*)[ \t]*(?P<colon>\uff1a)[ \t]*(?P<value>.*)")
_WITH_VALUE = re.compile(r"(?P<key>[^\s:#'\"][^:#]*):[ \t]+(?P<value>\S.*)")
_ODD_SPACE = re.compile("[\u00a0\u1680\u2000-\u200b\u202f\u205f\u3000]")
_BLOCK_TEXT = re.compile(r"(?P<key>[\w.-]+):[ \t]*[|>][+-]?[ \t]*")


@frozen
class ScanFailure:
    """Why reading broke off: where, what, and what to do; `tab` where a tab indents the line."""

    at: Span
    message: str
    hint: str = HINT
    tab: bool = False


@frozen
class _Line:
    """A line with something in it: `start` is the offset of its first character that is no space or dash."""

    start: int
    indent: int
    text: str
    dashes: bool

    def part(self, source: Source, match: re.Match[str], name: str) -> Span:
        """Where a group of a match on the line's text stands."""
        return Span(source, self.start + match.start(name), self.start + match.end(name))


def explained(source: Source, error: yaml.MarkedYAMLError, quoted: ScalarNode | None) -> ScanFailure:
    """What an error of the scanner most likely means; `quoted` is the quoted text that was read last."""
    at = _error_span(source, error)
    if _indents_with_tab(source, at.start):
        return ScanFailure(at, "", tab=True)
    odd = _odd_space(source, at.start)
    if odd is not None:
        return ScanFailure(
            odd, text("U+{code:04X} looks like a space but is not one", code=ord(source.text[odd.start]))
        )
    if _never_ends(error):
        return ScanFailure(at, "the quotation mark here is never closed", "close it with the same mark")
    late = _closed_late(source, quoted, at.start)
    if late is not None:
        line = source.position(late.end - 1)[0]
        at = Span(source, late.start, late.start + 1)
        return ScanFailure(
            at, text("the quotation mark here is only closed in line {line}", line=line), "close it on the same line"
        )
    return _likely(source, error, at) or ScanFailure(at, _reason(error))


def unreadable(source: Source, error: yaml.YAMLError) -> tuple[Span, str]:
    """The first character that YAML forbids; libyaml counts in bytes, so the place is looked up again."""
    match = Reader.NON_PRINTABLE.search(source.text)
    if match is None:
        return Span(source, 0, 0), str(error).splitlines()[0]
    return Span(source, match.start(), match.end()), text(
        "the character U+{code:04X} is not allowed in YAML", code=ord(match.group())
    )


def _likely(source: Source, error: yaml.MarkedYAMLError, at: Span) -> ScanFailure | None:
    """The mistake behind an error, as far as the lines around it show one."""
    problem = error.problem or ""
    line, *above = _lines_up(source, at.start)
    if "could not find expected ':'" in problem:
        return _no_colon(source, line)
    if "mapping values are not allowed" in problem:
        return _two_values(source, line, at) or (_after(source, line, above[0]) if above else None)
    if "did not find expected ',' or" in problem and error.context_mark:
        return _open_bracket(source, error.context_mark.index, at.start)
    if "did not find expected key" in problem or "did not find expected '-'" in problem:
        return _indentation(source, line, above)
    return None


def _no_colon(source: Source, line: _Line) -> ScanFailure | None:
    match = _FULL_WIDTH.fullmatch(line.text)  # Chinese input methods write it for a colon
    if match:
        at = line.part(source, match, "colon")
        return ScanFailure(at, "this is a full-width colon", text("write {line}", line=_written(match)))
    match = _NO_SPACE.fullmatch(line.text)
    if match:
        at = Span(source, line.start + match.end("key"), line.start + match.end("key") + 1)
        return ScanFailure(at, "a space is missing after this colon", text("write {line}", line=_written(match)))
    match = _NO_COLON.fullmatch(line.text)
    if match is None:
        return None
    message = text("a colon is missing after {key!r}", key=match["key"])
    return ScanFailure(line.part(source, match, "key"), message, text("write {line}", line=_written(match)))


def _written(match: re.Match[str]) -> str:
    """Key and value as they should be; a value may be a password, and is not repeated."""
    return f"{match['key']}: …" if match["value"] else f"{match['key']}:"


def _two_values(source: Source, line: _Line, at: Span) -> ScanFailure | None:
    """A colon inside a value."""
    match = _WITH_VALUE.match(line.text)
    if match is None or line.start + match.start("value") > at.start:
        return None
    value = Span(source, line.start + match.start("value"), at.end)
    return ScanFailure(
        value, text("the value of {key!r} holds a colon and a space", key=match["key"]), "put the value in quotes"
    )


def _after(source: Source, line: _Line, before: _Line) -> ScanFailure | None:
    """A key that the line before keeps from being one."""
    missing = _no_colon(source, before)
    if missing is not None:
        return missing
    if line.indent <= before.indent or not _WITH_VALUE.match(before.text):
        return None
    number = _number(source, before)
    message = text("this line is indented deeper than line {number}, which has a value already", number=number)
    return ScanFailure(
        _first_word(source, line),
        message,
        text("indent it as line {number}, or put it below the key it is part of", number=number),
    )


def _open_bracket(source: Source, start: int, end: int) -> ScanFailure:
    opened = source.text[start]
    closing = {"{": "}", "[": "]"}.get(opened, "}")
    inside = source.text[start:end]
    if "\n" not in inside:
        return ScanFailure(
            Span(source, end, end + 1), "a comma is missing before this", "separate the entries by commas"
        )
    return ScanFailure(
        Span(source, start, start + 1),
        text("the {opened!r} here is not closed", opened=opened),
        text("close it with {closing!r}", closing=closing),
    )


def _indentation(source: Source, line: _Line, above: list[_Line]) -> ScanFailure | None:
    """A line whose indentation fits none of those above it."""
    around = list(_around(above, line.indent))
    if not around:
        return None
    outermost = around[-1]
    first = above.index(outermost) + 1
    match = _BLOCK_TEXT.fullmatch(above[first].text) if first < len(above) else None
    if match and outermost.indent <= above[first].indent:
        message = text(
            "the text of {key!r} is empty, because line {line} is not indented",
            key=match["key"],
            line=_number(source, outermost),
        )
        hint = text("indent all lines below deeper than {key!r}", key=match["key"])
        return ScanFailure(above[first].part(source, match, "key"), message, hint)
    before = above[0]
    if line.dashes and before.text.endswith(":") and before.indent > line.indent:
        message = text(
            "the key {key!r} is indented deeper than its own list in line {line}",
            key=before.text[:-1],
            line=_number(source, line),
        )
        return ScanFailure(_first_word(source, before), message, "give both the same indentation")
    if glued := re.match(r"-([A-Za-z_][\w.-]*):", line.text):
        return ScanFailure(
            _first_word(source, line), "a space is missing after '-'", text("write - {key}: …", key=glued[1])
        )
    numbers = joined(" or ", (text("line {line}", line=_number(source, other)) for other in around[:2]))
    return ScanFailure(
        _first_word(source, line),
        "the indentation of this line fits no line above",
        text("indent it as {numbers}", numbers=numbers),
    )


def _around(above: list[_Line], indent: int) -> Iterator[_Line]:
    """The lines above whose mappings and lists are still open, from the inside out."""
    least = None
    for line in above:
        if least is None or line.indent < least:
            least = line.indent
            if line.indent != indent:
                yield line
        if least == 0:
            return


def _lines_up(source: Source, offset: int) -> Iterator[_Line]:
    """The line of an offset and those above it, without blank lines and comments."""
    end = source.text.find("\n", offset)
    lines = source.text[: end if end >= 0 else None].split("\n")
    start = sum(len(line) + 1 for line in lines)
    for number, line in enumerate(reversed(lines)):
        start -= len(line) + 1
        text = line.rstrip("\r ")
        body = text.lstrip(" -") if text.lstrip(" ").startswith("- ") else text.lstrip(" ")
        if number == 0 or (body and not body.startswith(("#", "---"))):
            indent = len(text) - len(text.lstrip(" "))
            yield _Line(start + len(text) - len(body), indent, body, text.lstrip(" ").startswith("- "))


def _first_word(source: Source, line: _Line) -> Span:
    return Span(source, line.start, line.start + len(line.text.split(" ")[0]))


def _number(source: Source, line: _Line) -> int:
    """The number of a line in the outermost file."""
    return place_of(Span(source, line.start, line.start)).line


# --- places and words of the scanner itself ---------------------------------------------------------------------------


def _closed_late(source: Source, last: ScalarNode | None, offset: int) -> ScalarNode | None:
    """The quoted text over several lines after which the scanner gave up at once, in the line where it ends."""
    if last is None or last.end > offset or "\n" not in source.text[last.start : last.end]:
        return None
    return None if "\n" in source.text[last.end : offset] else last


def _indents_with_tab(source: Source, offset: int) -> bool:
    """Whether the scanner stumbled over a tab in the indentation, the usual reason for an error nobody understands."""
    line = source.text.rfind("\n", 0, offset) + 1
    return source.text[offset : offset + 1] == "\t" and not source.text[line:offset].strip(" \t")


def _odd_space(source: Source, offset: int) -> Span | None:
    """A character in the line where the scanner gave up, or in the one before, that only looks like a space."""
    before = source.text.rfind("\n", 0, max(source.text.rfind("\n", 0, offset), 0)) + 1
    end = source.text.find("\n", offset)
    match = _ODD_SPACE.search(source.text, before, end if end >= 0 else len(source.text))
    return Span(source, match.start(), match.end()) if match else None


def _never_ends(error: yaml.MarkedYAMLError) -> bool:
    return error.context == "while scanning a quoted scalar" and "end of stream" in (error.problem or "")


def _error_span(source: Source, error: yaml.MarkedYAMLError) -> Span:
    begun = _never_ends(error) or error.context == "while scanning a simple key"  # said where it is noticed: too late
    mark = (error.context_mark if begun else None) or error.problem_mark or error.context_mark
    offset = min(mark.index, max(len(source.text) - 1, 0)) if mark else 0
    return Span(source, offset, min(offset + 1, len(source.text)))


def _reason(error: yaml.MarkedYAMLError) -> str:
    parts = [part for part in (error.context, error.problem) if part]
    return ": ".join(parts) or "not valid YAML"
