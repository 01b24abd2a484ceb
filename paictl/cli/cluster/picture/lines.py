"""The picture of a cluster as lines of text: every device one character, by node, switch and socket.

Lines are (style, text) segments, so that they can be tested without a terminal, written to a pipe and redrawn in place.
A small cluster is shown cell by cell, a large one in dense rows; both fit the width that they are given.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final

from rich.cells import cell_len

from paictl.cli.cluster.picture import By
from paictl.cli.cluster.picture.marks import (
    BAD,
    BAD_STYLE,
    FREE,
    HEADING,
    INDENT,
    NAME,
    OTHER,
    RESERVED,
    RESERVED_STYLE,
    RESERVING,
    Marks,
    clipped,
    cut,
    flow,
    padded,
)
from paictl.cli.cluster.picture.tables import job_table, vc_cells, vc_table
from paictl.cli.console import local_time, localized
from paictl.cli.segments import Line
from paictl.cluster.interface import JobState, NodeCondition, NodeView
from paictl.cluster.picture import ChainPicture, Picture
from paictl.config.reading.source import printable
from paictl.i18n import listed
from paictl.scheduler.groups import Hold
from paictl.scheduler.inspection import PhysicalCellStatus
from paictl.scheduler.occupancy import CellState
from paictl.units import span_text

_FEW_DEVICES: Final = 128
"""Up to here a cluster is shown node by node."""
_FEW_ROWS: Final = 10
"""Jobs that are listed where they have no letters to be looked up; also nodes that are not ready."""


def picture_lines(picture: Picture, marks: Marks, width: int) -> list[Line]:
    """The whole picture in lines of at most `width` columns (40 or more make sense)."""
    small = sum(1 for _ in picture.leaves()) <= _FEW_DEVICES
    nodes = {node.machine.name: node for node in picture.nodes}
    parts: list[Iterable[Line]] = [_summary(picture, width)]
    parts += [_chain(chain, nodes, marks, width) if small else _dense(chain, marks, width) for chain in picture.chains]
    if picture.chains:
        parts.append(_legend(marks, width))
    parts.append(vc_cells(picture, marks, width) if small else vc_table(picture, marks, width))
    parts.append(job_table(picture, marks, width, _FEW_ROWS if marks.by is By.VC else len(picture.jobs)))
    return [clipped(line, width) for line in _joined(parts)]


def _joined(parts: Iterable[Iterable[Line]]) -> list[Line]:
    """The parts that have lines, with an empty line between them."""
    out: list[Line] = []
    for part in parts:
        lines = list(part)
        if lines and out:
            out.append([])
        out += lines
    return out


# --- what is at the top


def _summary(picture: Picture, width: int) -> Iterator[Line]:
    yield from flow(_counts(picture), width)
    if picture.note:
        yield from flow(([("bold", word)] for word in printable(picture.note).split()), width, gap=" ")
    away = [node for node in picture.nodes if node.condition is not NodeCondition.READY]
    if away:
        words: list[Line] = [[("", localized("not ready:"))]]
        words += [[(BAD_STYLE, _condition(node, picture))] for node in away[:_FEW_ROWS]]
        yield from flow([*words, *_others(len(away), "paictl node list")], width)
    for window in picture.windows[:_FEW_ROWS]:
        said_of_it = localized(
            "maintenance {name}: {nodes} from {start} to {end}",
            name=window.name,
            nodes=listed(window.nodes, 4),
            start=_clock(window.start),
            end=_clock(window.end),
        )
        yield [(BAD_STYLE if window.active else "", cut(said_of_it, width))]
    yield from _others(len(picture.windows), "paictl maintenance list")
    for reservation in picture.reservations[:_FEW_ROWS]:
        said_of_it = localized(
            "reservation {name}: {size} from {start} to {end}",
            name=reservation.name,
            size=reservation.kept,
            start=_clock(reservation.start),
            end=_clock(reservation.end),
        )
        yield [("", cut(said_of_it, width))]
    yield from _others(len(picture.reservations), "paictl reservation list")


def _others(number: int, see: str) -> Iterator[Line]:
    """How many of some things are not among the first, and which command lists them; nothing if all are."""
    if number > _FEW_ROWS:
        yield [("", localized("and {count} more: {see}", count=number - _FEW_ROWS, see=see))]


def _clock(at: datetime) -> str:
    return local_time(at).rpartition(":")[0]


def _counts(picture: Picture) -> Iterator[Line]:
    """The cluster at a glance: name, instant, devices and jobs."""
    leaves = list(picture.leaves())
    states = Counter(leaf.state for leaf in leaves)
    holds = Counter(leaf.hold for leaf in leaves)
    jobs = Counter(job.state for job in picture.jobs)
    yield [(HEADING, cut(picture.cluster, NAME))]
    yield [("", local_time(picture.now))]
    devices = localized(
        "{all} devices: {used} used ({without} without guarantee), {free} free",
        all=len(leaves),
        used=states[CellState.USED] + states[CellState.RESERVING],
        without=holds[Hold.OPPORTUNISTIC] + holds[Hold.LAZY],
        free=sum(leaf.healthy and leaf.state is CellState.FREE for leaf in leaves),
    )
    yield [("", devices)]
    if bad := sum(not leaf.healthy for leaf in leaves):
        yield [(BAD_STYLE, localized("{number} bad", number=bad))]
    if reserved := states[CellState.RESERVED] + states[CellState.RESERVING]:
        yield [("", localized("{number} reserved", number=reserved))]
    running, waiting = jobs[JobState.RUNNING], jobs[JobState.WAITING]
    yield [("", localized("jobs: {running} running, {waiting} waiting", running=running, waiting=waiting))]


def _condition(node: NodeView, picture: Picture) -> str:
    name = cut(node.machine.name, NAME)
    return f"{name} {node.condition.value.lower()} {span_text(picture.now - node.since)}"


# --- physical cells


def _nodes_by_top(chain: ChainPicture) -> Iterator[tuple[Line, list[PhysicalCellStatus]]]:
    """(title, nodes) for each top cell; together where the top cells are the nodes."""
    if all(top.is_node for top in chain.cells):
        yield _title(chain.name, chain.cells), list(chain.cells)
        return
    for top in chain.cells:
        yield _title(f"{top.kind} {top.address}", [top]), list(top.nodes())


def _title(words: str, cells: Sequence[PhysicalCellStatus]) -> Line:
    leaves = [leaf for cell in cells for leaf in cell.leaves()]
    used = sum(bool(leaf.job) for leaf in leaves)
    return [
        (HEADING, cut(words, 40)),
        ("", "  " + localized("{used} of {all} devices used", used=used, all=len(leaves))),
    ]


def _name_width(nodes: Iterable[PhysicalCellStatus]) -> int:
    return min(NAME, max((cell_len(printable(node.name)) for node in nodes), default=0))


def _chain(chain: ChainPicture, nodes: Mapping[str, NodeView], marks: Marks, width: int) -> Iterator[Line]:
    """Every node on a line of its own, its devices grouped as its cells are."""
    name = _name_width(node for top in chain.cells for node in top.nodes())
    for title, statuses in _nodes_by_top(chain):
        yield title
        yield from flow(([("dim", word)] for word in _shape(statuses[0])), width, indent="  ", gap=" ")
        for node in statuses:
            view = nodes.get(node.name)
            condition = localized("missing") if view is None else view.condition.value
            after = "" if condition == NodeCondition.READY else f"  {condition}"
            rows = _labelled(node.name, _grouped(node, marks), name, width)
            for number, row in enumerate(rows):
                yield [*row, (BAD_STYLE, after)] if after and number == 0 else row


def _shape(cell: PhysicalCellStatus) -> list[str]:
    """What a cell is made of, in words."""
    words = [printable(cell.kind)]
    while cell.parts:
        words += ["=", str(len(cell.parts)), "x", printable(cell.parts[0].kind)]
        cell = cell.parts[0]
    return words


def _labelled(label: str, characters: Line, name: int, width: int) -> Iterator[Line]:
    """Characters (a segment each) behind a label, on as many rows as they need."""
    room = max(8, width - name - len(INDENT) - 2 - len("  Cordoned"))
    for start in range(0, len(characters), room):
        before = padded(label if start == 0 else "", name)
        yield [("", f"{INDENT}{before}  "), *characters[start : start + room]]


def _grouped(node: PhysicalCellStatus, marks: Marks) -> Line:
    """A node's devices, a segment each, with gaps that grow with the level of the cells between them."""
    if not node.parts:
        return [marks.device(node)]
    gap = " | " if node.is_node and node.level > 3 else " " * (node.level - 2)
    out: Line = []
    for number, part in enumerate(node.parts):
        if number:
            out += [("dim", character) for character in gap]
        out += _grouped(part, marks)
    return out


def _dense(chain: ChainPicture, marks: Marks, width: int) -> Iterator[Line]:
    """As many nodes in a row as fit, the name of the first before it."""
    name = _name_width(node for top in chain.cells for node in top.nodes())
    for title, statuses in _nodes_by_top(chain):
        yield title
        devices = [[marks.device(leaf) for leaf in node.leaves()] for node in statuses]
        size = max(map(len, devices))
        per_row = max(1, (width - name - len(INDENT) - 1) // (size + 1))
        for start in range(0, len(statuses), per_row):
            row: Line = []
            for block in devices[start : start + per_row]:
                row += [("", " "), *block] if row else block
            if per_row == 1:
                yield from _labelled(statuses[start].name, row, name, width)
            else:
                yield [("", f"{INDENT}{padded(statuses[start].name, name)}  "), *row]


def _legend(marks: Marks, width: int) -> Iterator[Line]:
    what = localized("job, guaranteed") if marks.by is By.JOB else localized("virtual cluster, guaranteed")
    yield from flow(
        [
            [("bold", "A"), ("", f" {what}")],
            [("bold", "a"), ("", " " + localized("without guarantee"))],
            [("dim", FREE), ("", " " + localized("free"))],
            [(BAD_STYLE, BAD), ("", " " + localized("bad"))],
            [(RESERVED_STYLE, RESERVED), ("", " " + localized("reserved"))],
            [(RESERVED_STYLE, RESERVING), ("", " " + localized("reserved, still used"))],
            [("", f"{OTHER} " + localized("no letter left"))],
        ],
        width,
    )
