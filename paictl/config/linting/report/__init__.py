"""Reports: what was found, in the form that a person, an editor or a CI system wants.

A format is a function from a `Report` to lines of (style, text) segments; styles are names of colours and attributes
("bold red"), empty for plain text, which is all that the formats for machines have. In those for people, what is to be
said in their language is a `Text`; machines get English. Nothing that a file or its name
holds reaches the output raw: control characters and what reorders a line are escaped.

This package must never print, write a file or decide about an exit code; `cli` does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from paictl.config.linting.report.codehosts import github, gitlab, sarif
from paictl.config.linting.report.json import json
from paictl.config.linting.report.junit import junit
from paictl.config.linting.report.text import Line, annotated, concise
from paictl.config.linting.validate import Report
from paictl.i18n import translated

Format = Callable[[Report], Iterator[Line]]

FORMATS: dict[str, Format] = {
    "text": annotated,
    "concise": concise,
    "json": json,
    "sarif": sarif,
    "junit": junit,
    "github": github,
    "gitlab": gitlab,
}
"""The formats by the name that ``--format`` takes."""


def plain(lines: Iterator[Line], language: str = "en") -> str:
    """The text of lines without their styles, each with a line end."""
    return "".join("".join(translated(segment, language) for _, segment in line) + "\n" for line in lines)
