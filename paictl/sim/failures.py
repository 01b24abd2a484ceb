"""When nodes and devices fail and are repaired: drawn from a mean time between failures, or read from a log.

A row of a log may be a planned maintenance window: a policy that respects windows places nothing there that would
still be running then.

Failures do not depend on what the policy does: under one seed, every policy meets the same ones, with the same devices
down.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from heapq import heapify, heappop, heappush, heapreplace
from pathlib import Path
from typing import Final

from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.i18n import did_you_mean, text
from paictl.sim.cluster import Cluster, Devices
from paictl.sim.dice import Dice
from paictl.units import DurationError, Millis, parse_duration
from paictl.workload.windows import Window, Windows

CHECKPOINT: Final = Millis(30 * 60_000)
"""The default interval between checkpoints."""
REPAIR: Final = Millis(4 * 3_600_000)
"""The default mean time to repair."""
NONE: Final = "none"
_LONGEST: Final = 1e10
"""Seconds."""
_KEYS: Final = ("node", "device", "repair", "checkpoint")
_COLUMNS: Final = ("node", "device", "start", "end", "planned")
_PLANNED: Final = {"": False, "no": False, "yes": True}
_HINT: Final = "write node=30d,device=180d,repair=4h,checkpoint=30m, or name a CSV file with node,device,start,end"


class FailureError(PaictlError, ValueError):
    """An invalid specification or log of failures."""


@frozen
class Outage:
    """Devices that cannot be used for a time."""

    start: Millis
    end: Millis | None
    """None: they are never repaired."""
    devices: Devices


@frozen
class LoggedOutage:
    """A row of a log."""

    line: int
    node: str
    device: int | None
    """Its index on the node; None: the whole node."""
    start: Millis
    end: Millis | None
    planned: bool = False
    """Whether it is a maintenance window, known from the beginning."""


@frozen
class FailureModel:
    """A `--failures` option as read."""

    text: str
    """As the user wrote it."""
    node: Millis | None = None
    """Mean time between two failures of one node."""
    device: Millis | None = None
    """The same of one device."""
    repair: Millis = REPAIR
    """Mean time until a failed node or device can be used again."""
    log: tuple[LoggedOutage, ...] | None = None
    """By start; instead of the above."""
    checkpoint: Millis | None = CHECKPOINT
    """A failed job restarts from its last multiple of this; 0: it loses nothing, None: it starts from the beginning."""

    def outages(self, cluster: Cluster, seed: int, begin: Millis) -> Iterator[Outage]:
        """Every outage by (start, device); drawn outages begin after `begin` and never end."""
        if self.log is not None:
            numbers = {node.name: number for number, node in enumerate(cluster.nodes)}
            return (Outage(row.start, row.end, _devices(cluster, numbers[row.node], row)) for row in self.log)
        return self._drawn(cluster, seed, begin)

    def _drawn(self, cluster: Cluster, seed: int, begin: Millis) -> Iterator[Outage]:
        units: list[tuple[str, int, Devices]] = []
        for number, node in enumerate(cluster.nodes):
            devices = tuple(cluster.devices_of(number))
            if self.node:
                units.append((f"failures {node.name}", self.node, devices))
            if self.device:
                units += [
                    (f"failures {node.name} {place}", self.device, (device,)) for place, device in enumerate(devices)
                ]
        dice = [Dice(seed, name) for name, _, _ in units]
        line = [(begin + max(1, dice[place].exponential(mean)), place) for place, (_, mean, _) in enumerate(units)]
        heapify(line)
        while line:
            start, place = line[0]
            _, mean, devices = units[place]
            end = start + max(1, dice[place].exponential(self.repair))
            heapreplace(line, (end + max(1, dice[place].exponential(mean)), place))
            yield Outage(Millis(start), Millis(end), devices)

    def windows(self) -> Windows:
        """The planned outages, in milliseconds since the first submission."""
        return Windows(
            tuple(
                Window(f"line-{row.line}", (row.node,), row.start, row.end)
                for row in self.log or ()
                if row.planned and row.end is not None
            )
        )

    def problem(self, cluster: Cluster) -> str | None:
        """What a log names that the cluster does not have; None if it has everything."""
        nodes = {node.name: node.devices for node in cluster.nodes}
        for row in self.log or ():
            if row.node not in nodes:
                return text("line {line}: no node {name!r}", line=row.line, name=row.node)
            if row.device is not None and row.device >= nodes[row.node]:
                return text(
                    "line {line}: node {name} has {number} devices, from 0",
                    line=row.line,
                    name=row.node,
                    number=nodes[row.node],
                )
        return None


def _devices(cluster: Cluster, node: int, row: LoggedOutage) -> Devices:
    devices = cluster.devices_of(node)
    return tuple(devices) if row.device is None else (devices[row.device],)


# --- parsing


def failures_of(specification: str) -> FailureModel | None:
    """`node=30d,device=180d,repair=4h,checkpoint=30m`, or `log.csv,checkpoint=never`; None for `none`.

    Raises `FailureError`.
    """
    if specification.strip() == NONE:
        return None
    first, *rest = (part.strip() for part in specification.split(","))
    path, parts = (None, (first, *rest)) if "=" in first else (Path(first), rest)
    spans: dict[str, Millis | None] = {}
    for part in parts:
        key, mark, value = part.partition("=")
        if not mark or key not in _KEYS or key in spans:
            raise FailureError(
                text("{part!r} is not a known part", part=part),
                where="--failures",
                hint=did_you_mean(key, _KEYS) or _HINT,
            )
        spans[key] = _span(key, value)
    checkpoint = spans.pop("checkpoint", CHECKPOINT)
    if path is not None:
        if spans:
            raise FailureError(
                text("a log cannot be combined with {name}", name=f"{next(iter(spans))}="),
                where="--failures",
                hint="with a log, only checkpoint= can be set",
            )
        return FailureModel(specification.strip(), log=_log(path), checkpoint=checkpoint)
    if not {"node", "device"} & spans.keys():
        raise FailureError(text("no failures are given"), where="--failures", hint=_HINT)
    return FailureModel(
        specification.strip(),
        node=spans.get("node"),
        device=spans.get("device"),
        repair=spans.get("repair") or REPAIR,
        checkpoint=checkpoint,
    )


def _span(key: str, value: str) -> Millis | None:
    if key == "checkpoint" and value == "never":
        return None
    try:
        seconds = parse_duration(value)
    except DurationError:
        seconds = -1.0
    least = 0.0 if key == "checkpoint" else 1.0
    if not least <= seconds <= _LONGEST:
        raise FailureError(
            text("{key}={value} is not a duration", key=key, value=value),
            where="--failures",
            hint=text("write {key}=12h, at least {least:.0f} s", key=key, least=least),
        )
    return Millis(round(seconds * 1000))


def _log(path: Path) -> tuple[LoggedOutage, ...]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = csv.reader(file)
            header = [name.strip() for name in next(rows, [])]
            if not {"node", "start"} <= set(header) <= set(_COLUMNS):
                raise FailureError(
                    text("the columns are {names}", names=", ".join(header) or "-"),
                    where=f"{path}:1",
                    hint="node,device,start,end,planned; only node and start are required",
                )
            outages = [_row(path, rows.line_num, dict(zip(header, row, strict=False))) for row in rows if any(row)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise FailureError(
            text("cannot read the log: {reason}", reason=getattr(error, "strerror", None) or error),
            where=str(path),
            hint=_HINT,
        ) from None
    return tuple(sorted(outages, key=lambda row: row.start))


def _row(path: Path, line: int, fields: dict[str, str]) -> LoggedOutage:
    where = f"{path}:{line}"
    device, end = fields.get("device", "").strip(), fields.get("end", "").strip()
    if device and not (device.isascii() and device.isdigit()):
        raise FailureError(
            text("{given!r} is not the index of a device", given=device),
            where=where,
            hint="write 0, 1, … or leave it empty",
        )
    start = _instant(where, fields.get("start", ""))
    until = _instant(where, end) if end else None
    if until is not None and until <= start:
        raise FailureError(text("its end is before its start"), where=where, hint="swap start and end")
    planned = _PLANNED.get(fields.get("planned", "").strip())
    if planned is None:
        raise FailureError(
            text("{given!r} is neither yes nor no", given=fields["planned"].strip()),
            where=where,
            hint="write yes for a maintenance window",
        )
    if planned and (device or until is None):
        raise FailureError(
            text("a maintenance window is for whole nodes and has an end"),
            where=where,
            hint="leave device empty and write an end, or write no under planned",
        )
    return LoggedOutage(line, fields.get("node", "").strip(), int(device) if device else None, start, until, planned)


def _instant(where: str, value: str) -> Millis:
    try:
        seconds = parse_duration(value)
    except DurationError:
        seconds = -1.0
    if not 0 <= seconds <= _LONGEST:
        raise FailureError(
            text("{given!r} is not a time since the first submission", given=value),
            where=where,
            hint="write seconds, or 3d12h",
        )
    return Millis(round(seconds * 1000))


class DeviceOutages:
    """The devices of one run. A device is down while any outage that names it lasts."""

    def __init__(self, model: FailureModel, cluster: Cluster, seed: int, begin: Millis) -> None:
        self.checkpoint = model.checkpoint
        self.down: set[int] = set()
        self._model, self._cluster, self._seed, self._begin = model, cluster, seed, begin
        self._coming: Iterator[Outage] = model.outages(cluster, seed, begin)
        self._passed = 0
        """Outages that began."""
        self._outage = next(self._coming, None)
        self._count: dict[int, int] = {}
        """Outages of each device that is down."""
        self._repairs: list[tuple[Millis, int, Devices]] = []
        """A heap of (end, sequence, devices)."""

    def __getstate__(self) -> dict[str, object]:
        """Without the iterator, which is recreated: the same seed gives the same outages."""
        return {**self.__dict__, "_coming": None}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._coming = self._model.outages(self._cluster, self._seed, self._begin)
        for _ in range(self._passed + (self._outage is not None)):
            next(self._coming, None)

    def next(self, *, busy: bool) -> Millis | None:
        """When something fails or is repaired; if nothing else will happen (not `busy`) only repairs count."""
        times = [self._repairs[0][0]] if self._repairs else []
        if self._outage is not None and (busy or times):
            times.append(self._outage.start)
        return min(times) if times else None

    def pass_to(self, now: Millis) -> tuple[int, Devices, Devices]:
        """How many outages have begun since the last call; which devices have gone down, and which have come back."""
        before = set(self.down)
        began = 0
        while self._outage is not None and self._outage.start <= now:
            outage = self._outage
            began += 1
            for device in outage.devices:
                self._count[device] = self._count.get(device, 0) + 1
            self.down.update(outage.devices)
            if outage.end is not None:
                heappush(self._repairs, (outage.end, self._passed, outage.devices))
            self._passed += 1
            self._outage = next(self._coming, None)
        while self._repairs and self._repairs[0][0] <= now:
            for device in heappop(self._repairs)[2]:
                self._count[device] -= 1
                if not self._count[device]:
                    del self._count[device]
                    self.down.discard(device)
        if self.down == before:
            return began, (), ()
        return began, tuple(sorted(self.down - before)), tuple(sorted(before - self.down))
