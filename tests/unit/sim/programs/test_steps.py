"""The model of a step: recovered parameters, unmeasured costs, and the best batch size."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paictl.sim.programs.genetic import Allotment, searched
from paictl.sim.programs.linear import Option, chosen
from paictl.sim.programs.steps import Measurement, StepModel, best_sizes, fitted

TRUE = StepModel(0.01, 0.001, 0.05, 0.004, 0.02, 0.002, 1.0)


def measured(nodes: int, replicas: int, local: int) -> Measurement:
    compute = TRUE.compute + TRUE.per_sample * local
    network = 0.0
    if nodes > 1:
        network = TRUE.between + TRUE.per_between * max(0, replicas - 2)
    elif replicas > 1:
        network = TRUE.within + TRUE.per_within * max(0, replicas - 2)
    return Measurement(nodes, replicas, local, compute + network, network)


def predicted(model: StepModel, nodes: int, replicas: int, local: int) -> float:
    """By the goodput of a batch whose gradients are pure noise: samples a second."""
    batch = local * replicas
    best = best_sizes(model, (0.0, 1.0), (batch, batch), (local, local), [nodes], [replicas])
    return batch / float(best.goodput[0])


def test_steps_are_foretold_where_there_are_measurements() -> None:
    rows = [measured(*at) for at in ((1, 1, 16), (1, 1, 64), (1, 2, 32), (1, 4, 32), (2, 4, 16), (2, 8, 64))]
    model = fitted(rows)
    for row in rows:
        assert predicted(model, row.nodes, row.replicas, row.local) == pytest.approx(row.step, rel=0.2)
    assert predicted(model, 2, 6, 32) == pytest.approx(measured(2, 6, 32).step, rel=0.2)
    assert predicted(fitted(rows, model), 2, 6, 32) == pytest.approx(predicted(model, 2, 6, 32), rel=0.02)


def test_what_was_never_measured_is_free() -> None:
    model = fitted([measured(1, 1, 32)])
    assert predicted(model, 4, 16, 32) == pytest.approx(measured(1, 1, 32).step, rel=0.02)
    assert model.compute == pytest.approx((TRUE.compute + TRUE.per_sample * 32) / 2)  # one size: half is constant


def test_nodes_are_never_nearer_than_devices() -> None:
    model = fitted([measured(1, 1, 32), measured(1, 1, 64), measured(1, 2, 32), measured(1, 4, 32)])
    assert model.between >= 1.1 * model.within > 0


def test_quiet_gradients_keep_the_initial_batch_and_noisy_ones_the_largest() -> None:
    for noise, expected in (((1.0, 1e-9), 32), ((1e-9, 1.0), 256)):
        best = best_sizes(TRUE, noise, (32, 256), (8, 64), [1], [4])
        assert int(best.local[0] * best.passes[0]) * 4 == expected


def test_a_batch_that_does_not_fit_is_split_into_passes() -> None:
    best = best_sizes(TRUE, (1e-9, 1.0), (32, 256), (8, 64), [1], [1])
    assert (int(best.local[0]), int(best.passes[0])) == (64, 4)
    alone = best_sizes(TRUE, (1e-9, 1.0), (32, 256), (8, 256), [1], [1])  # two passes, though all of it would fit
    assert (int(alone.local[0]), int(alone.passes[0])) == (128, 2)


@settings(max_examples=40)
@given(
    costs=st.lists(st.lists(st.integers(0, 150), min_size=3, max_size=3), min_size=1, max_size=4),
    room=st.integers(1, 5),
)
def test_the_program_finds_the_least_cost(costs: list[list[int]], room: int) -> None:
    """Brute force over all choices; options are 1 device of a, 2 of a, 1 of b."""
    shapes = (("a", 1), ("a", 2), ("b", 1))
    jobs = [
        [Option(kind, devices, cost / 100) for (kind, devices), cost in zip(shapes, row, strict=True)] for row in costs
    ]

    def cost(choice: tuple[int | None, ...]) -> float | None:
        used = {"a": 0, "b": 0}
        total = 0.0
        for options, place in zip(jobs, choice, strict=True):
            if place is None:
                total += 1.1
            else:
                used[options[place].kind] += options[place].devices
                total += options[place].cost
        return total if used["a"] <= room and used["b"] <= 1 else None

    least_cost = cost(tuple(chosen(jobs, {"a": room, "b": 1}, 1.1, {})))
    every = [total for choice in product((None, 0, 1, 2), repeat=len(jobs)) if (total := cost(choice)) is not None]
    assert least_cost is not None
    assert least_cost == pytest.approx(min(every), abs=2e-4 * max(1.0, min(every)))


def test_a_job_that_restarts_keeps_its_configuration() -> None:
    jobs = [[Option("a", 2, 1.0), Option("a", 1, 0.1)], [Option("a", 1, 0.1)]]
    assert chosen(jobs, {"a": 2}, 1.1, {0: 0}) == [0, None]


def allotment(jobs: int, limits: list[int], exact: list[bool]) -> Allotment:
    nodes = np.array([4, 4, 2])
    most = max(limits)
    speedups = np.zeros((jobs, 4, most + 1))
    for n, r in product(range(1, 4), range(1, most + 1)):
        speedups[:, n, r] = r / (1 + 0.2 * n)
    return Allotment(
        np.zeros((jobs, 3), dtype=np.int64),
        speedups,
        np.ones(jobs),
        np.array(limits),
        np.array(exact),
        nodes,
        np.array([0, 0, 1]),
        np.ones((jobs, 3), dtype=bool),
    )


@settings(max_examples=25, deadline=None)
@given(limits=st.lists(st.integers(1, 8), min_size=1, max_size=5), seed=st.integers(0, 1000), odd=st.booleans())
def test_a_search_keeps_nodes_limits_types_and_gangs(limits: list[int], seed: int, odd: bool) -> None:
    exact = [odd and place % 2 == 0 for place in range(len(limits))]
    problem = allotment(len(limits), limits, exact)
    best, population = searched(problem, problem.base[None], seed, 12, 6, 6)
    for state in (best, *population):
        assert (state.sum(axis=0) <= problem.sizes).all()
        assert (state.sum(axis=1) <= limits).all()
        assert all(row[:2].sum() == 0 or row[2] == 0 for row in state)  # one type
        spread = [row for row in state if np.count_nonzero(row) > 1]
        assert odd or (np.count_nonzero(spread, axis=0) <= 1).all() or not spread  # of each node at most one
        assert all(
            not is_exact or row.sum() in (0, limit) for is_exact, row, limit in zip(exact, state, limits, strict=True)
        )
    values = problem.measured(population)
    assert problem.measured(best[None])[0, 0] == values[:, 0].min()
    assert len({state.tobytes() for state in population}) == len(population)
