"""The rules against the scheduler's own reading: what has no error must be a cluster that can be built."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest
import yaml

from paictl.cells.chain import build_chains, pinned_levels, preassigned_levels
from paictl.cells.quota import shortfall
from paictl.cells.spec import ClusterSpec
from paictl.cells.tree import build_physical, build_virtual
from paictl.config.reading.problem import Severity
from tests.unit.config.cases import Case, all_cases, problems_of
from tests.unit.config.hivedtexts import RACKS

NAME = "hivedscheduler.yaml"
CASES = [case for case in all_cases() if case.rule.startswith("HVD") and NAME in case.files]


def build(data: dict[str, Any]) -> None:
    """Build everything that the scheduler builds at start; raises `SpecError`, or fails if quotas do not fit."""
    spec = ClusterSpec.from_mapping(data)
    physical = build_physical(spec)
    build_virtual(spec, physical)
    chains = build_chains(spec)
    pins = pinned_levels(spec, chains)
    quota = {name: [0] * (chain.top + 1) for name, chain in chains.items()}
    free = {name: [0] * (chain.top + 1) for name, chain in chains.items()}
    for cell in spec.physical_cells:
        free[cell.cell_type][-1] += 1
    for vc in spec.virtual_clusters:
        for name, level, _ in preassigned_levels(vc, chains, pins):
            quota[name][level] += 1
    for name, chain in chains.items():
        assert shortfall(free[name], quota[name], chain.fanout) is None


def is_clean(text: str) -> bool:
    """Whether a text has no error, nor a value whose type is only guessed (SHP102)."""
    problems = problems_of({NAME: text.encode()})
    return not any(problem.severity is Severity.ERROR or problem.rule == "SHP102" for problem in problems)


CLEAN = [case for case in CASES if is_clean(case.files[NAME].decode())]
TRIES = 400
"""Mutations that are tried until one leaves a text without errors."""


@pytest.mark.parametrize("case", CLEAN, ids=lambda case: case.name)
def test_a_case_without_errors_can_be_built(case: Case) -> None:
    build(yaml.safe_load(case.files[NAME].decode()))


@pytest.mark.parametrize("seed", range(60))
def test_a_mutant_without_errors_can_be_built(seed: int) -> None:
    """Most mutations are errors: they are thrown away, until one is found that is none and changes something."""
    random_ = random.Random(seed)  # noqa: S311 - the same mutants every time
    source = yaml.safe_load(random_.choice([RACKS, *(case.files[NAME].decode() for case in CLEAN)]))
    for _ in range(TRIES):
        data = copy.deepcopy(source)
        mutate(data, random_)
        if data != source and is_clean(yaml.safe_dump(data, sort_keys=False)):
            build(data)
            return
    pytest.fail("no mutation left a text without errors")


def mutate(data: Any, random_: random.Random) -> None:
    """Remove one value, or replace it by another of the file or by something odd."""
    places = list(walk(data))
    holder, key = random_.choice(places)
    if random_.random() < 0.3:
        del holder[key]
        return
    other_holder, other_key = random_.choice(places)
    odd = random_.choice([None, [], {}, -1, 0, 3, "x", "NODE", [None], {"a": 1}, ""])
    holder[key] = copy.deepcopy(other_holder[other_key]) if random_.random() < 0.5 else odd


def walk(data: Any) -> list[tuple[Any, Any]]:
    """(holder, key) of everything in nested mappings and lists."""
    keys: list[Any] = list(data) if isinstance(data, dict) else list(range(len(data))) if isinstance(data, list) else []
    return [(data, key) for key in keys] + [place for key in keys for place in walk(data[key])]
