"""One configuration for each job, or none, at the least cost: Sia's integer program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from paictl.sim.programs.linear import Program

_GAP: Final = 1e-4
_NODES: Final = 5_000
"""Branch-and-bound nodes after which the best solution counts."""


class Option(NamedTuple):
    """A configuration of a job."""

    kind: str
    devices: int
    cost: float


def chosen(
    jobs: Sequence[Sequence[Option]], room: Mapping[str, int], idle: float, fixed: Mapping[int, int]
) -> list[int | None]:
    """The place of the chosen option of each job; None: it gets nothing, which costs `idle`.

    `room`: devices of each type; `fixed`: jobs that have to keep an option. Options that cost at least as much as
    getting nothing are never taken.
    """
    found: list[int | None] = [fixed.get(number) for number in range(len(jobs))]
    left = dict(room)
    for number, place in fixed.items():
        left[jobs[number][place].kind] -= jobs[number][place].devices
    program = Program()
    columns: list[tuple[int, int]] = []
    terms: dict[str, list[tuple[int, float]]] = {kind: [] for kind in room}
    for number, options in enumerate(jobs):
        own = []
        for place, option in enumerate(options if number not in fixed else ()):
            if option.cost < idle and option.devices <= left[option.kind]:
                column = program.variable(0.0, 1.0, idle - option.cost, integer=True)
                columns.append((number, place))
                terms[option.kind].append((column, float(option.devices)))
                own.append((column, 1.0))
        if own:
            program.row(own, at_most=1.0)
    if not columns:
        return found
    for kind, row in terms.items():
        if row:
            program.row(row, at_most=float(left[kind]))
    solution = program.solve(nodes=_NODES, gap=_GAP)
    if solution is not None:
        for (number, place), value in zip(columns, solution.values, strict=True):
            if value > 0.5:
                found[number] = place
    return found
