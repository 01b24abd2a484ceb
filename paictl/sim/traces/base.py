"""What a reader of a format is: how a file of it is told, and the jobs in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from paictl.frozen import frozen
from paictl.sim.job import BadRow, Job
from paictl.sim.traces.source import TraceFile

Rows = Iterator[tuple[int, Job] | BadRow]
"""Each job with its line, and the rows that are none."""


@frozen
class FileHead:
    """The beginning of a file, by which its format is told."""

    name: str
    start: str
    """The first few thousand characters."""
    columns: frozenset[str]
    """The names in the first line."""
    tabs: int
    """Tabulators in the first line."""


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
    """Whether a file that begins so is one of these."""
    read: Callable[[TraceFile], Rows]
    published: bool = True
    """Tested on the published file; otherwise on rows made after its documentation, as we could not get the file."""


def has(*names: str, without: tuple[str, ...] = ()) -> Callable[[FileHead], bool]:
    """Tells a table by columns that it has, and others that it has not."""

    def tells(head: FileHead) -> bool:
        return head.columns.issuperset(names) and head.columns.isdisjoint(without)

    return tells
