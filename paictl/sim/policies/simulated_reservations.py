"""Reservations for `hived`: read from a file, and kept by the same code as on a cluster."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml

from paictl.i18n import did_you_mean, text
from paictl.sim.policies.parameters import ParameterError
from paictl.units import DurationError, Millis, parse_duration
from paictl.workload.backfill import Foresight, LineGang
from paictl.workload.reservations import Repeat, Reservation, ReservationError, Reservations, cell_shape
from paictl.workload.reserved import ReservedCells
from paictl.workload.reserving import ReservationScene, admitted, refuse_job

if TYPE_CHECKING:
    from paictl.cells.spec import ClusterSpec
    from paictl.sim.placement.cells import Cells
    from paictl.sim.view import JobView
    from paictl.workload.windows import Windows

_KEYS: Final = ("name", "vc", "cells", "cell_type", "nodes", "from", "for", "start", "end", "repeat", "reason")
_SHOWN: Final = frozenset({"active", "used", "size", "short"})
"""Further keys of `paictl reservation list -o json`, which are ignored."""
_HINT: Final = "{name: nightly, vc: vision, cells: 2xV100-NODE, from: 12h, for: 4h, repeat: daily}"
_LONGEST: Final = 1e10
"""The largest span or instant, in seconds."""


class _Loader(yaml.SafeLoader):
    """A loader without base-60 numbers: YAML 1.1 reads 22:00 as 1320, which would be 22 minutes here."""


_Loader.yaml_implicit_resolvers = {
    first: [resolver for resolver in resolvers if not resolver[0].endswith((":int", ":float"))]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver("tag:yaml.org,2002:int", re.compile(r"[-+]?[0-9]+$", re.ASCII), list("-+0123456789"))


def read_reservations(path: str, epoch: Millis) -> list[dict[str, Any]]:
    """The rows of a file, with `from` and `for` in milliseconds; `epoch` is instant 0 in Unix time (milliseconds).

    A row has the options of `paictl reservation add`, or the keys of `paictl reservation list -o json`. Raises
    `ParameterError` naming the row.
    """
    try:
        data = yaml.load(Path(path).read_text(encoding="utf-8"), _Loader)  # noqa: S506 - a safe one
    except (OSError, UnicodeDecodeError) as error:
        raise ParameterError(
            text("cannot read {path}: {reason}", path=path, reason=getattr(error, "strerror", None) or error),
            hint="name a file: reservations=FILE",
        ) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # a date such as 2026-13-45 is a ValueError
        raise ParameterError(
            text("{path} is not YAML: {reason}", path=path, reason=" ".join(str(error).split())),
            hint="look there at indentation, colons, brackets, quotes",
        ) from None
    if not isinstance(data, list):
        raise ParameterError(text("{path} is not a list of reservations", path=path), hint=f"- {_HINT}")
    return [_row(row, f"{path}[{place}]", epoch) for place, row in enumerate(data)]


def _row(row: object, where: str, epoch: Millis) -> dict[str, Any]:
    if not isinstance(row, Mapping):
        raise ParameterError(text("{where} is not a reservation", where=where), hint=_HINT)
    for key in row:
        if key not in _KEYS and key not in _SHOWN:
            raise ParameterError(
                text("{where}: unknown key {key!r}", where=where, key=key),
                hint=did_you_mean(str(key), _KEYS) or text("one of: {names}", names=", ".join(_KEYS)),
            )
    words = [value for key, value in row.items() if key in _KEYS and key not in ("nodes", "reason")]
    nodes = row.get("nodes") or []
    if isinstance(nodes, str):
        nodes = nodes.replace(",", " ").split()
    if not isinstance(nodes, list) or any(_is_nested(word) for word in (*words, *nodes)):
        raise ParameterError(text("{where} is not a reservation", where=where), hint=_HINT)
    start = _instant(row.get("from", row.get("start", 0)), where, epoch)
    if "for" in row:
        span = _instant(row["for"], where, None)
    elif "end" in row:
        span = _instant(row["end"], where, epoch) - start
    else:
        raise ParameterError(text("{where} does not say how long it lasts", where=where), hint="for: 4h")
    cells, cell_type = row.get("cells") or 0, row.get("cell_type") or ""
    if isinstance(cells, str):
        match = re.fullmatch(r"([1-9][0-9]{0,5})x([^\s]+)", cells)
        if match is None:
            raise ParameterError(
                text("{where}: {said!r} is not a number of cells", where=where, said=cells), hint="cells: 4xV100-NODE"
            )
        cells, cell_type = int(match[1]), match[2]
    repeat = str(row.get("repeat") or Repeat.ONCE)
    if repeat not in list(Repeat):
        raise ParameterError(
            text("{where}: {given!r} is not one of {names}", where=where, given=repeat, names=", ".join(Repeat)),
            hint="repeat: daily",
        )
    if isinstance(cells, bool) or not isinstance(cells, int):
        raise ParameterError(text("{where} is not a reservation", where=where), hint=_HINT)
    return {
        "name": str(row.get("name") or ""),
        "vc": str(row.get("vc") or ""),
        "cells": cells,
        "cell_type": str(cell_type),
        "nodes": tuple(map(str, nodes)),
        "from": start,
        "for": span,
        "repeat": repeat,
        "where": where,
    }


def _is_nested(value: object) -> bool:
    """Whether a value contains others: a few lines of YAML can nest so many that printing them would never end."""
    return isinstance(value, Collection) and not isinstance(value, str)


def _instant(written: object, where: str, epoch: Millis | None) -> int:
    """Milliseconds since instant 0, of a date or a span; without an `epoch` only a span is valid."""
    if epoch is not None and isinstance(written, date | str):
        try:
            at = datetime.fromisoformat(written if isinstance(written, str) else written.isoformat())
            return round(1000 * (at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp()) - epoch
        except (ValueError, OverflowError):
            pass  # not a date: a span
    try:
        seconds = parse_duration(str(written))
    except DurationError:
        seconds = -1.0
    if not 0 <= seconds <= _LONGEST:
        raise ParameterError(
            text("{where}: {given!r} is not a time", where=where, given=str(written)),
            hint="write 3d12h since the beginning of the trace, or a date such as 2026-12-01T22:00",
        )
    return round(1000 * seconds)


class SimulatedReservations:
    """Reservations with a core and simulated time."""

    def __init__(
        self,
        cells: Cells,
        rows: list[dict[str, Any]],
        windows: Windows,
        end_of: Callable[[str], Millis | None],
        of: Callable[[str], str],
    ) -> None:
        """`end_of` says when a group that holds devices ends at the latest, `of` which reservation it is for.

        The core is empty. Raises `ParameterError` for reservations that could not be kept there.
        """
        self._cells = cells
        self._windows = windows
        self._end_of = end_of
        self.kept = ReservedCells(_admitted(cells, rows, windows), of)

    def __bool__(self) -> bool:
        return bool(self.kept.reservations)

    def check(self, job: JobView) -> None:
        """Raise `ParameterError` for a job that can never start in the reservation that it names."""
        request = self._cells.request(job)
        gangs = [(request.members, request.leaf_type)]
        try:
            refuse_job(self.kept.reservations, job.reservation, request.vc, guaranteed=request.guaranteed, gangs=gangs)
        except ReservationError as error:
            raise ParameterError(error.message, where=f"job {job.id}", hint=error.hint) from None

    def closed(self, job: JobView, limit: Millis, now: Millis) -> frozenset[str]:
        """The nodes that are closed to a job now, by maintenance windows and others' reservations."""
        every = frozenset(self._cells.engine.state.physical.nodes)
        windows = self.kept.windows(self._windows, now, job.reservation)
        return every - self.kept.within(every - windows.closed(now, limit), job.reservation)

    def holds(self, job: JobView, limit: Millis, now: Millis) -> bool:
        """Whether a job has to wait: it would take cells reserved for others, or outlast its own reservation."""
        ahead = self.kept.windows(self._windows, now)
        foresight = Foresight(self._cells.engine, now, self._end_of, ahead, self.kept)
        gang = LineGang(self._cells.request(job), limit)
        return self.kept.obstruction(foresight, gang, job.reservation) is not None

    def next_change(self, now: Millis) -> Millis | None:
        """When the next reservation begins or ends."""
        current = (reservation.occurrence(now) for reservation in self.kept.reservations)
        return min(
            (instant for occurrence in current if occurrence is not None for instant in occurrence if instant > now),
            default=None,
        )


def _admitted(cells: Cells, rows: list[dict[str, Any]], windows: Windows) -> Reservations:
    """The reservations of a file, each checked to be feasible together with those before it."""
    spec, reservations = cells.engine.spec, Reservations()
    begin = Millis(min((0, *(row["from"] for row in rows))))  # a reservation may begin before instant 0
    foresight = Foresight(cells.engine, begin, lambda _: None, windows)
    scene = ReservationScene(spec, foresight, lambda _: "", lambda group: group, datetime.fromtimestamp(0, UTC))
    for row in rows:
        try:
            reservation = _reservation(row, reservations, spec)
            if reservation.cells * reservation.leaves > cells.cluster.size:  # before each smaller number is tried
                raise ReservationError(
                    text(
                        "the cluster has {size} devices, and this needs {needed}",
                        size=cells.cluster.size,
                        needed=reservation.cells * reservation.leaves,
                    ),
                    hint="reserve fewer cells",
                )
            if reservation.end <= reservation.start or reservation.occurrence(Millis(0)) is not None:  # else it is over
                reservations = admitted(reservations, reservation, scene)
        except ReservationError as error:
            raise ParameterError(
                text("{where}: {problem}", where=row["where"], problem=error.message), hint=error.hint
            ) from None
    return reservations


def _reservation(row: Mapping[str, Any], earlier: Reservations, spec: ClusterSpec) -> Reservation:
    if bool(row["vc"]) == bool(row["nodes"]) or (row["vc"] and not row["cell_type"]):
        raise ReservationError(text("name the cells: vc and cells, or nodes"), hint=_HINT)
    leaf_type, leaves = cell_shape(spec, row["cell_type"]) if row["vc"] else ("", 0)
    start = Millis(row["from"])
    reservation = Reservation(
        row["name"] or earlier.free_name(),
        start,
        Millis(start + row["for"]),
        row["vc"],
        row["cells"],
        row["cell_type"],
        leaf_type,
        leaves,
        row["nodes"],
    )
    return replace(reservation, repeat=Repeat(row["repeat"]))
