"""Reports as files: written by the ending of the name, read back from any of the forms.

Markdown and HTML carry the whole report packed in a comment at the end; whoever checks such a file makes the visible
part anew from it and compares, so that neither can be altered alone.
"""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from paictl import i18n
from paictl.errors import PaictlError
from paictl.lab.messages import LabError
from paictl.lab.report.consistency import inconsistencies
from paictl.lab.report.content import Report
from paictl.lab.report.markdown import markdown
from paictl.lab.report.page import page

FORMS: Final = (".md", ".html", ".json")

_PACKED = re.compile(r"<!-- paictl lab report: ([A-Za-z0-9+/=]+) -->\s*\Z")
_MOST: Final = 64 * 2**20
"""Bytes that a packed report may unpack to; a file from a stranger must not fill the memory."""


def check_form(path: Path) -> None:
    """Raise `LabError` unless a report can be written to a file of this name."""
    suffix = path.suffix.lower()
    if suffix not in FORMS:
        raise LabError("report-form", suffix=suffix, forms=", ".join(FORMS))


def rendered(report: Report, suffix: str) -> str:
    """The report in one of the `FORMS`."""
    match suffix:
        case ".json":
            return json.dumps(report, ensure_ascii=False, indent=1) + "\n"
        case ".md":
            return f"{markdown(report)}\n{_packed(report)}\n"
    return page(report, _packed(report))


def _packed(report: Report) -> str:
    text = json.dumps(report, ensure_ascii=False, separators=(",", ":"))  # in the order of the visible part
    return f"<!-- paictl lab report: {base64.b64encode(zlib.compress(text.encode(), 9)).decode()} -->"


def check_file(path: Path) -> tuple[Report, list[str]]:
    """(the report in a file, what is inconsistent in it); raises `PaictlError` for a file that is no report."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise PaictlError(i18n.text("cannot be read: {reason}", reason=reason), where=str(path)) from None
    report = unpacked(text, str(path))
    try:
        return report, [*_visible(report, text, path), *inconsistencies(report)]
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, RecursionError) as error:
        message = i18n.text("is not a complete report: {kind} {error}", kind=type(error).__name__, error=error)
        raise PaictlError(message, where=str(path)) from None


def form_of(text: str) -> str:
    """The ending of a file that holds a report with this text, one of `FORMS`."""
    beginning = text.lstrip()[:1]
    return ".json" if beginning == "{" else ".html" if beginning == "<" else ".md"


def unpacked(text: str, where: str) -> Report:
    """The report in a text, of which nothing is checked but that it has experiments; raises `PaictlError` if not."""
    match = _PACKED.search(text)
    try:
        if match is not None:
            unpacker = zlib.decompressobj()
            text = unpacker.decompress(base64.b64decode(match.group(1)), _MOST).decode()
        data: Any = json.loads(text)
    except (ValueError, RecursionError, zlib.error):
        data = None
    if not isinstance(data, dict) or "experiments" not in data:
        raise PaictlError("contains no lab report", where=where, hint="make one: paictl lab report -o report.html")
    return data


def _visible(report: Report, text: str, path: Path) -> Iterator[str]:
    """Whether what people read is what the data say."""
    suffix = path.suffix.lower()
    if suffix not in FORMS:
        suffix = form_of(text)  # the ending got lost on the way
    if suffix != ".json" and rendered(report, suffix) != text:
        yield i18n.text("the visible text does not match the recorded data: something was altered")
