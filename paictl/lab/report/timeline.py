"""The timeline picture of an experiment: one line a task, drawn as text and as SVG."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import partial
from html import escape
from typing import Final

from paictl.cluster.interface import Event
from paictl.cluster.picture import TaskLine
from paictl.cluster.timeline import timeline
from paictl.cluster.values import AttemptOutcome
from paictl.frozen import frozen
from paictl.lab.embedded import ORIGIN
from paictl.lab.report.content import Clock
from paictl.units import Millis, instant, millis_between


@frozen
class Bar:
    """A span of a task in milliseconds: it waits (`place` is empty), or runs somewhere and ends somehow."""

    start: int
    end: int
    place: str
    outcome: str

    @property
    def is_instant(self) -> bool:
        """Whether it began and ended at the same instant."""
        return bool(self.place) and self.start == self.end


@frozen
class TaskHistory:
    """What happened to one task."""

    name: str
    bars: tuple[Bar, ...]


def lines_of(events: Sequence[Event], now: int, origin: datetime = ORIGIN) -> tuple[TaskHistory, ...]:
    """The lines of all tasks, by submission; `now`, milliseconds after `origin`, ends what still goes on."""
    history = timeline(events, instant(origin, Millis(now)))
    since = partial(_since, origin, now)
    return tuple(
        TaskHistory(_name(job.key, task, len(job.tasks)), tuple(sorted(_bars(task, since), key=lambda bar: bar.start)))
        for job in history.jobs
        for task in job.tasks
    )


def _name(key: str, task: TaskLine, tasks: int) -> str:
    name = key.partition("~")[2]
    return f"{name} {task.role}[{task.index}]" if tasks > 1 else name


def _since(origin: datetime, now: int, at: datetime | None) -> int:
    return now if at is None else millis_between(origin, at)


def _bars(task: TaskLine, since: Callable[[datetime | None], int]) -> Iterator[Bar]:
    for start, end in task.waits:
        if since(end) > since(start):
            yield Bar(since(start), since(end), "", "")
    for attempt in task.attempts:
        place = f"{attempt.node} [{attempt.shown_devices}]"
        yield Bar(since(attempt.start), since(attempt.end), place, attempt.outcome.value)


# --- as text

_WIDTH: Final = 60


def drawn(lines: Sequence[TaskHistory], now: int, clock: Clock) -> list[str]:
    """The picture in characters: ``█`` runs, ``▒`` runs and is preempted or lost at the end, ``·`` waits.

    ``│`` began and ended at the same instant, which is common on a clock that stands.
    """
    if not lines or not now:
        return []
    label = max(len(line.name) for line in lines)
    rows = []
    for line in lines:
        cells = [" "] * _WIDTH
        for bar in line.bars:
            sign = "·" if not bar.place else "│" if bar.is_instant else "▒" if bar.outcome in _LOST else "█"
            first, last = bar.start * _WIDTH // now, max(bar.end * _WIDTH // now, bar.start * _WIDTH // now + 1)
            first = min(first, _WIDTH - 1)
            cells[first:last] = [sign] * (min(last, _WIDTH) - first)
        rows.append(f"{line.name:<{label}} |{''.join(cells)}|")
    return [*rows, f"{'':<{label}}  {clock(0)}{clock(now):>{_WIDTH - len(clock(0))}}"]


_LOST: Final = (AttemptOutcome.PREEMPTED.value, AttemptOutcome.LOST.value, AttemptOutcome.FAILED.value)

# --- as SVG

_ROW: Final = 26
_LEFT: Final = 150
_SPAN: Final = 640
_COLOURS: Final = {"": "#d9d9d9", "finished": "#4c9f70", "running": "#5b8def", "stopped": "#8f8f8f"}
_LOST_COLOUR: Final = "#d9694f"
LEGEND: Final = (
    ("runs-to-end", _COLOURS["finished"]),
    ("still-runs", _COLOURS["running"]),
    ("loses", _LOST_COLOUR),
    ("is-stopped", _COLOURS["stopped"]),
    ("waits", _COLOURS[""]),
)
_OUTCOMES: Final = {
    "": "waits",
    "finished": "runs-to-end",
    "running": "still-runs",
    "stopped": "is-stopped",
    **dict.fromkeys(_LOST, "loses"),
}
"""Key of the report's words by how a bar ends."""
INSTANT: Final = 'class="instant"'
"""Stands in the picture where something began and ended at the same instant."""

"""(key of the report's words, colour) of the picture."""


def svg(lines: Sequence[TaskHistory], now: int, clock: Clock, say: Callable[[str], str]) -> str:
    """The picture as a self-contained SVG element; empty if there is nothing to see. `say` gives the words of a key."""
    if not lines or not now:
        return ""
    height = _ROW * len(lines) + 30
    body = "".join(part for number, line in enumerate(lines) for part in _svg_line(line, number, now, clock, say))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_LEFT + _SPAN + 20} {height}" role="img" '
        f'font-family="sans-serif" font-size="12">{body}{_axis(height, now, clock)}</svg>'
    )


def _svg_line(line: TaskHistory, number: int, now: int, clock: Clock, say: Callable[[str], str]) -> Iterator[str]:
    y = number * _ROW + 4
    yield f'<text x="{_LEFT - 8}" y="{y + 14}" text-anchor="end" fill="currentColor">{escape(line.name)}</text>'
    for bar in line.bars:
        x = _LEFT + bar.start * _SPAN / now
        width = max((bar.end - bar.start) * _SPAN / now, 2)
        colour = _LOST_COLOUR if bar.outcome in _LOST else _COLOURS.get(bar.outcome, "#5b8def")
        title = f"{bar.place} {say(_OUTCOMES[bar.outcome])}".strip()
        times = f"{clock(bar.start)}–{clock(bar.end)}"
        if bar.is_instant:
            yield _instant(x, y + (_ROW - 8) / 2, colour, f"{title} {clock(bar.start)}", bar.place)
            continue
        size = _ROW - 8 if bar.place else 6
        top = y if bar.place else y + 6
        yield (
            f'<rect x="{x:.1f}" y="{top}" width="{width:.1f}" height="{size}" rx="2" fill="{colour}">'
            f"<title>{escape(title)} {times}</title></rect>"
        )
        if bar.place and width > 8 * len(bar.place):
            yield f'<text x="{x + 5:.1f}" y="{y + 13}" fill="#fff">{escape(bar.place)}</text>'


def _instant(x: float, y: float, colour: str, title: str, place: str) -> str:
    """A diamond for what began and ended at once, with its place where there is room to its right."""
    corners = " ".join(f"{x + dx:.1f},{y + dy:.1f}" for dx, dy in ((0, -6), (6, 0), (0, 6), (-6, 0)))
    right = x + 10 + 7 * len(place) < _LEFT + _SPAN + 20
    at, anchor = (x + 10, "start") if right else (x - 10, "end")
    return (
        f'<polygon {INSTANT} points="{corners}" fill="{colour}"><title>{escape(title)}</title></polygon>'
        f'<text x="{at:.1f}" y="{y + 4:.1f}" text-anchor="{anchor}" fill="currentColor" opacity="0.7">'
        f"{escape(place)}</text>"
    )


def _axis(height: int, now: int, clock: Clock) -> str:
    y = height - 8
    anchors = ("start", "middle", "middle", "middle", "end")
    ticks = (
        f'<text x="{_LEFT + part * _SPAN / 4:.0f}" y="{y}" text-anchor="{anchors[part]}" fill="currentColor" '
        f'opacity="0.7">{clock(now * part // 4)}</text>'
        for part in range(5)
    )
    return "".join(ticks)
