"""Linear and mixed-integer programs, built row by row and solved by HiGHS, and the choice of one option a job.

HiGHS by its own package, not through scipy: one version for every Python, so the same vertex of a degenerate program
and therefore the same simulation everywhere. Sia's program is here, too: one configuration for each job, or none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from math import inf
from typing import Any, Final, NamedTuple

import highspy
import numpy as np

from paictl.errors import PaictlError
from paictl.frozen import frozen

_SEED: Final = 1
_DUAL: Final = 1
_PRIMAL: Final = 4
"""HiGHS' numbers for ways to walk from corner to corner."""
_FEASIBLE: Final = 2
"""HiGHS' word for a point that keeps all rows."""
_NOTHING: Final = frozenset({highspy.HighsModelStatus.kInfeasible, highspy.HighsModelStatus.kUnboundedOrInfeasible})


class ProgramError(PaictlError):
    """A program without a solution, where the caller had promised one."""


@frozen
class Solution:
    """An optimum: the objective, a value for each variable, and what each row's bound costs (0 where it is slack).

    `proven` is False where the time limit came first: then it is the best solution found.
    """

    objective: float
    values: Sequence[float]
    duals: Sequence[float]
    proven: bool = True


class Program:
    """Variables with bounds, rows with bounds, one linear objective to maximise.

    Rows can be changed between two solves: HiGHS then starts from the last basis instead of from nothing. `central`:
    of many optima not a corner but the middle, which shares among equals (an interior point without crossover); such a
    point is right to about six digits. `climbs`: all variables at 0 keep all rows, so the first solve climbs from there
    by the primal simplex, without presolve; of several optima it finds another one than the default.
    """

    def __init__(self, *, central: bool = False, climbs: bool = False) -> None:
        self._central = central
        self._climbs = climbs
        self._lower: list[float] = []
        self._upper: list[float] = []
        self._cost: list[float] = []
        self._integer: list[int] = []
        self._rows: list[tuple[float, float, list[int], list[float]]] = []
        self._solver: Any = None

    def __getstate__(self) -> dict[str, Any]:
        """Without the solver, which is built again when it is needed."""
        return {**vars(self), "_solver": None}

    def variable(self, lower: float = 0.0, upper: float = inf, gain: float = 0.0, *, integer: bool = False) -> int:
        """Add a variable; `gain` is its coefficient in the objective. Returns its index."""
        self._lower.append(lower)
        self._upper.append(upper)
        self._cost.append(gain)
        if integer:
            self._integer.append(len(self._cost) - 1)
        self._solver = None
        return len(self._cost) - 1

    def variables(self, uppers: Sequence[float], gains: Sequence[float]) -> None:
        """Add one variable from 0 for each upper bound, with its coefficient in the objective."""
        self._lower += [0.0] * len(uppers)
        self._upper += uppers
        self._cost += gains
        self._solver = None

    def row(self, terms: Iterable[tuple[int, float]], *, at_least: float = -inf, at_most: float = inf) -> int:
        """Add `at_least <= sum of coefficient * variable <= at_most`; terms of one variable are added up."""
        given = list(terms)
        sums = dict(given)
        if len(sums) < len(given):  # some variable is named twice
            sums = dict.fromkeys(sums, 0.0)
            for variable, coefficient in given:
                sums[variable] += coefficient
        self._rows.append((at_least, at_most, list(sums), list(sums.values())))
        self._solver = None
        return len(self._rows) - 1

    def bound_row(self, row: int, *, at_least: float = -inf, at_most: float = inf) -> None:
        """Give a row other bounds; the next solve starts from the last basis."""
        _, _, index, value = self._rows[row]
        self._rows[row] = (at_least, at_most, index, value)
        if self._solver is not None:
            self._solver.changeRowBounds(row, at_least, at_most)

    def bound_variable(self, variable: int, *, at_most: float) -> None:
        """Give a variable another upper bound; the next solve starts from the last basis."""
        self._upper[variable] = at_most
        if self._solver is not None:
            self._solver.changeColBounds(variable, self._lower[variable], at_most)

    def coefficient(self, row: int, variable: int, value: float) -> None:
        """Change one coefficient that the row already has; the next solve starts from the last basis."""
        _, _, index, values = self._rows[row]
        values[index.index(variable)] = value
        if self._solver is not None:
            self._solver.changeCoeff(row, variable, value)

    def gains(self, gains: Mapping[int, float]) -> None:
        """Replace the objective; variables not named have no gain."""
        self._cost = [gains.get(index, 0.0) for index in range(len(self._cost))]
        if self._solver is not None:
            for index, gain in enumerate(self._cost):
                self._solver.changeColCost(index, gain)

    def solve(
        self, *, nodes: int | None = None, gap: float | None = None, start: Sequence[float] | None = None
    ) -> Solution | None:
        """The best values, or None if no values keep all rows (or none were found within the effort).

        `nodes` bounds the effort for a mixed-integer program by branch-and-bound nodes, not by seconds: a slower
        machine must not get another answer. `gap` is how far, relatively, it may stay below the optimum. `start` may
        hold a known solution of one; it is only ever improved upon.
        Raises `ProgramError` if the solver gives up for a reason of its own.
        """
        solver = self._prepared()
        if nodes is not None:
            solver.setOptionValue("mip_max_nodes", nodes)
        if gap is not None:
            solver.setOptionValue("mip_rel_gap", gap)
        if start is not None:
            known = highspy.HighsSolution()
            known.col_value = [float(value) for value in start]
            solver.setSolution(known)
        solver.run()
        if self._climbs:
            solver.setOptionValue("simplex_strategy", _DUAL)
        status, info = solver.getModelStatus(), solver.getInfo()
        if status in _NOTHING:
            return None
        optimal = bool(status == highspy.HighsModelStatus.kOptimal)
        if self._integer:
            if not optimal and info.primal_solution_status != _FEASIBLE:
                return None
        elif not optimal and not (self._central and status == highspy.HighsModelStatus.kUnknown):
            raise ProgramError(f"the solver ended with: {solver.modelStatusToString(status)}")
        solution = solver.getSolution()
        duals = [] if self._integer else list(solution.row_dual)
        return Solution(info.objective_function_value, list(solution.col_value), duals, optimal or not self._integer)

    def _prepared(self) -> Any:
        if self._solver is None:
            solver: Any = highspy.Highs()  # type: ignore[no-untyped-call] # it ships without types
            for option, value in (("output_flag", False), ("threads", 1), ("random_seed", _SEED)):
                solver.setOptionValue(option, value)
            if self._central:
                solver.setOptionValue("solver", "ipm")
                solver.setOptionValue("run_crossover", "off")
            if self._climbs:
                solver.setOptionValue("presolve", "off")
                solver.setOptionValue("simplex_strategy", _PRIMAL)
            solver.passModel(self._model())
            self._solver = solver
        return self._solver

    def _model(self) -> Any:
        model = highspy.HighsLp()
        model.num_col_, model.num_row_ = len(self._cost), len(self._rows)
        model.sense_ = highspy.ObjSense.kMaximize
        model.col_cost_ = np.array(self._cost, dtype=np.double)
        model.col_lower_ = np.array(self._lower, dtype=np.double)
        model.col_upper_ = np.array(self._upper, dtype=np.double)
        model.row_lower_ = np.array([row[0] for row in self._rows], dtype=np.double)
        model.row_upper_ = np.array([row[1] for row in self._rows], dtype=np.double)
        model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        model.a_matrix_.start_ = np.cumsum([0, *(len(row[2]) for row in self._rows)], dtype=np.int32)
        model.a_matrix_.index_ = np.array(list(chain.from_iterable(row[2] for row in self._rows)), dtype=np.int32)
        model.a_matrix_.value_ = np.array(list(chain.from_iterable(row[3] for row in self._rows)), dtype=np.double)
        if self._integer:
            kinds = [highspy.HighsVarType.kContinuous] * len(self._cost)
            for index in self._integer:
                kinds[index] = highspy.HighsVarType.kInteger
            model.integrality_ = kinds
        return model


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
