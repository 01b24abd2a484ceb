"""The timeline picture of an experiment: one line a task, drawn as text and as SVG."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from paictl.cluster.interface import Event
from paictl.cluster.picture import Outcome, TaskLine
from paictl.cluster.timeline import timeline
from paictl.lab.report import Dial
from paictl.units import Millis


@dataclass(frozen=True, slots=True)
class Bar:
    """A span of a task in milliseconds: it waits (`place` is empty), or runs somewhere and ends somehow."""

    start: int
    end: int
    place: str
    outcome: str


@dataclass(frozen=True, slots=True)
class Line:
    """What happened to one task."""

    name: str
    bars: tuple[Bar, ...]


def lines_of(events: Sequence[Event], now: int) -> tuple[Line, ...]:
    """The lines of all tasks, by submission; `now` ends what still goes on."""
    found = timeline(events, Millis(now))
    return tuple(
        Line(_name(job.key, task, len(job.tasks)), tuple(sorted(_bars(task, now), key=lambda bar: bar.start)))
        for job in found.jobs
        for task in job.tasks
    )


def _name(key: str, task: TaskLine, tasks: int) -> str:
    name = key.partition("~")[2]
    return f"{name} {task.role}[{task.index}]" if tasks > 1 else name


def _bars(task: TaskLine, now: int) -> Iterator[Bar]:
    for start, end in task.waits:
        yield Bar(start, now if end is None else end, "", "")
    for attempt in task.attempts:
        place = f"{attempt.node} [{','.join(map(str, attempt.devices))}]"
        yield Bar(attempt.start, now if attempt.end is None else attempt.end, place, attempt.outcome.value)


# --- as text

_WIDTH: Final = 60


def drawn(lines: Sequence[Line], now: int, dial: Dial) -> list[str]:
    """The picture in characters: ``█`` runs, ``▒`` runs and is preempted or lost at the end, ``·`` waits."""
    if not lines or not now:
        return []
    label = max(len(line.name) for line in lines)
    rows = []
    for line in lines:
        cells = [" "] * _WIDTH
        for bar in line.bars:
            sign = "·" if not bar.place else "▒" if bar.outcome in _LOST else "█"
            first, last = bar.start * _WIDTH // now, max(bar.end * _WIDTH // now, bar.start * _WIDTH // now + 1)
            cells[first:last] = [sign] * (min(last, _WIDTH) - first)
        rows.append(f"{line.name:<{label}} |{''.join(cells)}|")
    return [*rows, f"{'':<{label}}  {dial(0)}{dial(now):>{_WIDTH - 8}}"]


_LOST: Final = (Outcome.PREEMPTED.value, Outcome.LOST.value, Outcome.FAILED.value)

# --- as SVG

_ROW: Final = 26
_LEFT: Final = 150
_SPAN: Final = 640
_COLOURS: Final = {"": "#d9d9d9", "finished": "#4c9f70", "running": "#5b8def", "stopped": "#8f8f8f"}
_LOST_COLOUR: Final = "#d9694f"
LEGEND: Final = (
    ("runs-to-end", _COLOURS["finished"]), ("still-runs", _COLOURS["running"]), ("loses", _LOST_COLOUR),
    ("is-stopped", _COLOURS["stopped"]), ("waits", _COLOURS[""]),
)  # fmt: skip
"""(key of the report's words, colour) of the picture."""


def svg(lines: Sequence[Line], now: int, dial: Dial) -> str:
    """The picture as a self-contained SVG element; empty if there is nothing to see."""
    if not lines or not now:
        return ""
    height = _ROW * len(lines) + 30
    body = "".join(part for number, line in enumerate(lines) for part in _svg_line(line, number, now, dial))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_LEFT + _SPAN + 20} {height}" role="img" '
        f'font-family="sans-serif" font-size="12">{body}{_axis(height, now, dial)}</svg>'
    )


def _svg_line(line: Line, number: int, now: int, dial: Dial) -> Iterator[str]:
    y = number * _ROW + 4
    yield f'<text x="{_LEFT - 8}" y="{y + 14}" text-anchor="end" fill="currentColor">{escape(line.name)}</text>'
    for bar in line.bars:
        x = _LEFT + bar.start * _SPAN / now
        width = max((bar.end - bar.start) * _SPAN / now, 2)
        colour = _LOST_COLOUR if bar.outcome in _LOST else _COLOURS.get(bar.outcome, "#5b8def")
        title = f"{bar.place} {bar.outcome}".strip() or "waits"
        times = f"{dial(bar.start)}–{dial(bar.end)}"
        size = _ROW - 8 if bar.place else 6
        top = y if bar.place else y + 6
        yield (
            f'<rect x="{x:.1f}" y="{top}" width="{width:.1f}" height="{size}" rx="2" fill="{colour}">'
            f"<title>{escape(title)} {times}</title></rect>"
        )
        if bar.place and width > 8 * len(bar.place):
            yield f'<text x="{x + 5:.1f}" y="{y + 13}" fill="#fff">{escape(bar.place)}</text>'


def _axis(height: int, now: int, dial: Dial) -> str:
    y = height - 8
    anchors = ("start", "middle", "middle", "middle", "end")
    ticks = (
        f'<text x="{_LEFT + part * _SPAN / 4:.0f}" y="{y}" text-anchor="{anchors[part]}" fill="currentColor" '
        f'opacity="0.7">{dial(now * part // 4)}</text>'
        for part in range(5)
    )
    return "".join(ticks)
