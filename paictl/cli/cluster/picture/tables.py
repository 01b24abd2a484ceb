"""The parts of the picture that are lists: virtual clusters and their cells, and jobs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from rich.cells import cell_len

from paictl import i18n
from paictl.cli.cluster.picture import By
from paictl.cli.cluster.picture.marks import BAD_STYLE, HEADING, INDENT, Marks, clipped, cut, flow, padded
from paictl.cli.console import localized
from paictl.cli.segments import Line, Segment
from paictl.cluster.interface import JobState, JobView
from paictl.cluster.picture import Picture, PromisedCell, PromiseState, VcPicture
from paictl.config.reading.source import printable
from paictl.scheduler.groups import Hold
from paictl.units import span_text

_BAR: Final = 20
"""Columns of a bar."""


def vc_table(picture: Picture, marks: Marks, width: int) -> Iterator[Line]:
    """One row for each virtual cluster: what it was promised and what became of it, in leaf cells."""
    if not picture.vcs:
        return
    columns = ("VIRTUAL CLUSTER", "promised", "used", "extra", "waiting", "doomed")
    rows: list[list[Segment]] = [[(HEADING, localized(name)) for name in ("", *columns)]]
    for vc in picture.vcs:
        own: Segment = (marks.style(vc.name), marks.letter(vc.name)) if marks.by is By.VC else ("", "")
        numbers: list[Segment] = [("", str(number)) for number in (vc.quota, vc.used, vc.extra, vc.waiting)]
        rows.append([own, ("", cut(vc.name, 20)), *numbers, (BAD_STYLE if vc.doomed else "", str(vc.doomed))])
    bars: list[Line] = [[("", "")], *(_bar(vc) for vc in picture.vcs)]
    lines = _table(rows, right=range(2, 7))
    for line, bar in zip(lines, bars, strict=True):
        room = width - sum(cell_len(text) for _, text in line)
        yield [*line, ("", INDENT), *bar] if room >= _BAR + len(INDENT) and any(text for _, text in bar) else line


def _bar(vc: VcPicture) -> Line:
    """How much of the promise is used, free and doomed, in proportion."""
    if not vc.quota:
        return [("", "")]
    doomed = sum(len(cell.users) for cell in vc.cells if cell.state is PromiseState.DOOMED)
    used = round(_BAR * vc.used / vc.quota)
    lost = min(_BAR - used, -(-_BAR * doomed // vc.quota))
    return [("bold", "#" * used), (BAD_STYLE, "!" * lost), ("dim", "." * (_BAR - used - lost))]


def vc_cells(picture: Picture, marks: Marks, width: int) -> Iterator[Line]:
    """Every preassigned cell of every virtual cluster: who uses its leaves, and which physical cell serves it."""
    for vc in picture.vcs:
        words = [localized("{used} of {all} used", used=vc.used, all=vc.quota)]
        words += [localized("+{number} without guarantee", number=vc.extra)] if vc.extra else []
        words += (
            [localized(i18n.counted("{count} job waiting", "{count} jobs waiting", vc.waiting))] if vc.waiting else []
        )
        name: Segment = (marks.style(vc.name), f" {marks.letter(vc.name)} ") if marks.by is By.VC else ("", "")
        title: Line = [(HEADING, f"VC {cut(vc.name, 30)}"), name, ("", "  " + localized(", ").join(words))]
        yield [segment for segment in title if segment[1]]
        if not vc.cells:
            continue
        kind = max(cell_len(printable(cell.kind)) for cell in vc.cells)
        size = max(len(cell.users) for cell in vc.cells)
        for cell in vc.cells:
            yield from _cell_lines(cell, marks, (kind, size), width)


def _cell_lines(cell: PromisedCell, marks: Marks, widths: tuple[int, int], width: int) -> Iterator[Line]:
    kind, size = widths
    leaves: Line = [marks.user(user, Hold.GUARANTEED) if user else ("dim", ".") for user in cell.users]
    words: list[Segment] = []
    if cell.pinned:
        words.append(("", localized("pinned as {cell}", cell=printable(cell.pinned))))
    if cell.state is PromiseState.DOOMED:
        words.append((BAD_STYLE, localized("doomed: only bad hardware is left")))
    elif not cell.healthy:
        words.append((BAD_STYLE, localized("on bad hardware")))
    if cell.physical:
        words.append(("", f"= {printable(cell.physical)}"))
    before: Line = [("", f"{INDENT}{padded(cell.kind, min(kind, 24))}  ")]
    items: list[Line] = [[*before, *leaves, ("", " " * (size - len(leaves)))], *([word] for word in words)]
    if size + min(kind, 24) + 4 > width:  # too long for a line of its own; who is there says the physical picture
        items[0] = [*before, ("", localized("{used} of {all} used", used=cell.used, all=len(cell.users)))]
    yield from flow(items, width, gap=INDENT)


def job_table(picture: Picture, marks: Marks, width: int, limit: int) -> Iterator[Line]:
    """Waiting and running jobs, at most `limit`: those that wait first, then the latest."""
    live = [job for job in picture.jobs if not job.state.ended]
    if not live:
        return
    waiting = [job for job in live if job.state is JobState.WAITING]
    running = [job for job in reversed(live) if job.state is not JobState.WAITING]
    chosen = sorted([*waiting, *running][:limit], key=lambda job: job.number)
    places = _places(picture)
    rows: list[list[Segment]] = [
        [(HEADING, localized(name)) for name in ("", "JOB", "VC", "priority", "devices", "state", "since", "")]
    ]
    rows += [_job_row(job, picture, marks, places.get(job.key, {})) for job in chosen]
    lines = _table(rows, right=(4,))
    for line in lines:
        yield clipped(line, width)
    if len(live) > len(chosen):
        yield from flow(
            [[("dim", localized("and {number} more: paictl job list", number=len(live) - len(chosen)))]],
            width,
            indent=INDENT,
        )


def _places(picture: Picture) -> dict[str, dict[str, Hold]]:
    """Nodes on which each job runs, in order, and with which right."""
    places: dict[str, dict[str, Hold]] = {}
    for top in picture.top_cells():
        for node in top.nodes():
            for leaf in node.leaves():
                if leaf.job:
                    places.setdefault(leaf.job, {})[node.name] = leaf.hold
    return places


def _job_row(job: JobView, picture: Picture, marks: Marks, nodes: dict[str, Hold]) -> list[Segment]:
    runs = job.state is not JobState.WAITING
    hold = next(iter(nodes.values()), Hold.NONE)
    letter: Segment = ("", "")
    if nodes:
        style, text = marks.user(job.key, hold)
        letter = (style, text)
    since = job.started if runs and job.started is not None else job.submitted
    notes = [", ".join(map(printable, nodes))] if nodes else []
    if job.used and not nodes:
        notes.append(localized("outside all cells"))
    notes += [localized(hold.value)] if hold in (Hold.LAZY, Hold.OPPORTUNISTIC) else []
    notes += [localized("preempted {number}x", number=job.preemptions)] if job.preemptions else []
    return [
        letter,
        ("", cut(job.key, 28)),
        ("", cut(job.vc, 14)),
        ("", cut(job.priority, 8)),
        ("", str(job.devices)),
        ("", job.state.value),
        ("", span_text(picture.now - since)),
        ("dim", "; ".join(notes)),
    ]


def _table(rows: Sequence[Sequence[Segment]], right: Iterable[int] = ()) -> list[Line]:
    """Rows in columns as wide as their widest cell; the columns in `right` are set flush right."""
    widths = [max(cell_len(row[column][1]) for row in rows) for column in range(len(rows[0]))]
    flush = frozenset(right)
    lines: list[Line] = []
    for row in rows:
        line: Line = []
        for column, ((style, text), size) in enumerate(zip(row, widths, strict=True)):
            space = " " * (size - cell_len(text))
            if size:
                line += [("", space), (style, text)] if column in flush else [(style, text), ("", space)]
                line.append(("", INDENT if column < len(row) - 1 else ""))
        lines.append([segment for segment in line if segment[1]])
    return lines
