"""The interface of a format: how to detect a file of it, and how to read its jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from paictl.frozen import frozen
from paictl.sim.job import BadRow, Job
from paictl.sim.traces.source import TraceFile

Rows = Iterator[tuple[int, Job] | BadRow]
"""Each job with its line, and the rows that are not jobs."""


@frozen
class FileHead:
    """The beginning of a file, by which its format is detected."""

    name: str
    start: str
    """The first few thousand characters."""
    columns: frozenset[str]
    """The names in the first line."""
    tabs: int
    """Tab characters in the first line."""


@frozen
class Format:
    """One format of traces."""

    name: str
    title: str
    unit: str
    """Of times in the file; jobs have milliseconds."""
    columns: str
    """What the file must have, in words."""
    origin: str
    tells: Callable[[FileHead], bool]
    """Whether a file with this beginning has the format."""
    read: Callable[[TraceFile], Rows]
    published: bool = True
    """Whether it is tested on the published file; otherwise on rows made from its documentation."""


def has(*names: str, without: tuple[str, ...] = ()) -> Callable[[FileHead], bool]:
    """Detects a table by the columns that it has, and others that it must not have."""

    def tells(head: FileHead) -> bool:
        return head.columns.issuperset(names) and head.columns.isdisjoint(without)

    return tells
