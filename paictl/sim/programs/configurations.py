"""One configuration for each job, or none, at the least cost: Sia's integer program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from paictl.sim.programs.linear import Program

_GAP: Final = 1e-4
_NODES: Final = 5_000
"""Branch-and-bound nodes after which the search stops with the best solution so far."""


class Option(NamedTuple):
    """A configuration of a job."""

    kind: str
    devices: int
    cost: float


def chosen(
    jobs: Sequence[Sequence[Option]], room: Mapping[str, int], idle: float, fixed: Mapping[int, int]
) -> list[int | None]:
    """The index of the chosen option of each job; None: it gets nothing, which costs `idle`.

    `room`: devices of each type; `fixed`: by index of a job, the option that it must keep. An option that costs at
    least `idle` is never chosen.
    """
    places: list[int | None] = [fixed.get(number) for number in range(len(jobs))]
    free = dict(room)
    for number, place in fixed.items():
        free[jobs[number][place].kind] -= jobs[number][place].devices
    program = Program()
    columns: list[tuple[int, int]] = []
    terms: dict[str, list[tuple[int, float]]] = {kind: [] for kind in room}
    for number, options in enumerate(jobs):
        own = []
        for place, option in enumerate(options if number not in fixed else ()):
            if option.cost < idle and option.devices <= free[option.kind]:
                column = program.variable(0.0, 1.0, idle - option.cost, integer=True)
                columns.append((number, place))
                terms[option.kind].append((column, float(option.devices)))
                own.append((column, 1.0))
        if own:
            program.row(own, at_most=1.0)
    if not columns:
        return places
    for kind, row in terms.items():
        if row:
            program.row(row, at_most=float(free[kind]))
    solution = program.solve(nodes=_NODES, gap=_GAP)
    if solution is not None:
        for (number, place), value in zip(columns, solution.values, strict=True):
            if value > 0.5:
                places[number] = place
    return places
