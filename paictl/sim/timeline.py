"""Totals over time in a bounded number of stretches: when there are too many, neighbours are merged."""

from __future__ import annotations

from paictl.sim.run import Interval
from paictl.units import Millis

MOST = 1024
"""Stretches that are kept at most; the width doubles when they do not suffice."""

FIELDS = 5
"""used, running, waiting, queued, stray."""


class AreaTimeline:
    """Areas by stretch of time, from the first `add` on."""

    def __init__(self, start: Millis) -> None:
        self._start = start
        self._width = 1000
        self._rows: list[list[int]] = []
        self._end: int = start

    def add(self, until: Millis, values: tuple[int, ...]) -> None:
        """The values held from the last instant until this one."""
        start, end = self._end, until
        if end <= start:
            return
        self._end = end
        while (end - self._start - 1) // self._width >= MOST:
            self._merge()
        index = (start - self._start) // self._width
        while start < end:
            stop = min(end, self._start + (index + 1) * self._width)
            while len(self._rows) <= index:
                self._rows.append([0] * FIELDS)
            row, span = self._rows[index], stop - start
            for field, value in enumerate(values):
                row[field] += value * span
            start = stop
            index += 1

    def _merge(self) -> None:
        self._width *= 2
        rows = self._rows
        if len(rows) % 2:
            rows.append([0] * FIELDS)
        self._rows = [[a + b for a, b in zip(rows[i], rows[i + 1], strict=True)] for i in range(0, len(rows), 2)]

    def intervals(self) -> tuple[Interval, ...]:
        """All of it, without gaps."""
        return tuple(
            Interval(
                Millis(self._start + number * self._width),
                Millis(min(self._end, self._start + (number + 1) * self._width)),
                *row,
            )
            for number, row in enumerate(self._rows)
        )
