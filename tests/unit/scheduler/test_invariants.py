"""The judge of the core's property tests is judged: whatever single entry of the state is wrong, `validate` says so."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from paictl.cells.ids import NO_VIRTUAL, PhysicalCell
from paictl.scheduler.decision import Phase
from paictl.scheduler.engine import Engine
from paictl.scheduler.errors import InvariantError
from paictl.scheduler.events import NodeHealth
from paictl.scheduler.groups import Group, GroupState
from paictl.scheduler.invariants import validate
from paictl.scheduler.journal import Table
from paictl.scheduler.occupancy import OPPORTUNISTIC
from tests.unit.scheduler.support import config, healthy, pod, run

JUDGES = {
    "counts.opportunistic": "occupancy",
    "counts.guaranteed": "occupancy",
    "counts.used": "occupancy",
    "counts.bad": "health",
    "counts.dead": "health",
    "views": "views",
    "buddy": "buddy",
    "ledger": "ledger",
    "binding.open_roots": "roots",
    "binding": "binding",
    "occupancy.user": "groups",
    "occupancy.reserver": "groups",
    "occupancy": "occupancy",
    "doomed": "doomed",
    "health.bad_nodes": "health",
    "health": "health",
    "groups.slots": "pods",
    "groups.waiting": "pods",
    "groups.by_name": "groups: pods: occupancy",
    "groups": "groups",
}
"""Which check has to complain of an entry of a table (the first name that fits), whoever else does."""

SAID = (
    "health: .* marked bad",
    "health: .* marked healthy",
    "health: .* is marked dead",
    "health: .* is not marked dead",
    "health: .* counts .* bad children",
    "health: .* counts .* dead children",
    "occupancy: .* belongs to a group that does not exist",
    "occupancy: priorities are wrong",
    "occupancy: physical counts",
    "occupancy: virtual counts",
    "occupancy: the used virtual leaves",
    "groups: .* is allocated twice",
    "groups: group .* its leaves are reserved",
    "groups: group .* its leaves are not reserved",
    "groups: group .* inconsistent",
    "groups: .* a physical without a virtual leaf",
    "groups: group .* is not on",
    "groups: group .* of VC . holds",
    "groups: group .* for pinned cell",
    "groups: users or reservers",
    "pods: pod .* runs in",
    "pods: pod .* waits in",
    "pods: group .* with pods",
    "pods: the pods' slots",
    "pods: the waiting pods",
    "binding: .* for no reason",
    "binding: .* not the reverse",
    "binding: .* of another level or chain",
    "binding: bad cell .* is not shown",
    "binding: bound children",
    "binding: more physical than virtual",
    "binding: parent of .* is not bound to that of",
    "roots: .* is neither used nor doomed",
    "roots: the unbound preassigned cells",
    "buddy: a cell is taken twice",
    "buddy: free cells of .* miscounted",
    "buddy: free list of",
    "buddy: the free cells are not the merged complement",
    "buddy: usable free cells of",
    "ledger: cells left",
    "ledger: free quota",
    "ledger: promises of chain .* kept",
    "doomed: .* does not serve a preassigned cell",
    "doomed: .* without being bad and idle",
    "doomed: bad cells left",
    "doomed: doomed cells are miscounted",
    "views: .* is wrongly marked bad",
    "views: .* is wrongly not marked bad",
    "views: used leaves by priority of",
    "views: view of A",
    "views: view of chain",
)
"""What the checks can say; one that says nothing any more would not be missed."""
FIRST = PhysicalCell(3)
"""The first leaf of node n0."""


def crowded() -> Engine:
    """Guarantees, a preemption under way, and more than was promised; one idle node is bad."""
    engine = healthy(config(A={"NODE": 1, "SWITCH": 1}, B={"NODE": 1}))
    for request in (pod("o1", "A", 4, -1), pod("o2", "B", 2, -1), pod("a", "A", 4), pod("s", "A", 1)):
        run(engine, request)
    run(engine, pod("o3", "B", 4, -1))
    run(engine, pod("b", "B", 4), Phase.PREEMPTING)
    engine.observe(NodeHealth("n3", healthy=False))
    return engine


def short() -> Engine:
    """More is promised than is well: cells of two virtual clusters are doomed."""
    engine = healthy(config(A={"NODE": 2}, B={"NODE": 1, "SWITCH": 2}))
    run(engine, pod("a", "A", 2))
    for name in ("n1", "n2", "n3"):
        engine.observe(NodeHealth(name, healthy=False))
    return engine


STATES = {"crowded": crowded, "short": short}


def lies(group: Group) -> Iterator[Group]:
    """The group with another name, VC, state, pods, or another half of its placement."""
    yield replace(group, name="another")
    yield from (replace(group, state=state) for state in GroupState if state is not group.state)
    yield replace(group, pods=(("a",),), preempting=frozenset({"b"}))
    yield replace(
        group, physical=tuple(tuple(tuple(FIRST for _ in leaves) for leaves in row) for row in group.physical)
    )
    if group.virtual:  # what an opportunistic group says of its VC, nothing else knows
        yield replace(group, vc="B" if group.vc == "A" else "A")
        yield replace(group, pinned_id="pin")
        yield replace(group, priority=OPPORTUNISTIC)
        yield replace(group, virtual=tuple(tuple((NO_VIRTUAL,) * len(twins) for twins in row) for row in group.virtual))


def changes(table: Table) -> Iterator[tuple[object, Any, Any]]:
    """Each entry with another value, and without one (None) in a dict; not those that mean nothing."""
    entries: list[tuple[Any, Any]] = list(
        table.values.items() if isinstance(table.values, dict) else enumerate(table.values)
    )
    for key, value in entries:
        if key == 0 and table.name.startswith(("buddy.bits", "buddy.count")):
            continue  # leaves are level 1: there is no level 0
        if isinstance(value, int) and not isinstance(value, bool):
            yield key, value, value ^ 1
        elif isinstance(value, str):
            yield key, value, "another"
        elif isinstance(value, Group):
            for wrong in lies(value):
                yield key, value, wrong
        if isinstance(table.values, dict) and (
            value or table.name != "doomed.cells"
        ):  # an empty set is as good as none
            yield key, value, None


def complaints(engine: Engine) -> list[str]:
    """Lines of `validate`."""
    try:
        validate(engine.state)
    except InvariantError as error:
        return str(error).splitlines()
    except IndexError:  # a negative count has no place in a view
        return ["index"]
    return []


@cache
def judged(name: str) -> dict[tuple[str, object, Any], list[str]]:
    """For each change of one entry of a state, what is complained of."""
    engine = STATES[name]()
    said: dict[tuple[str, object, Any], list[str]] = {}
    for table in engine.state.journal.tables:
        for key, value, wrong in changes(table):
            if wrong is None:
                del table.values[key]
            else:
                table.values[key] = wrong
            said[table.name, key, wrong] = complaints(engine)
            table.values[key] = value
    assert complaints(engine) == []
    return said


@pytest.mark.parametrize("name", STATES)
def test_no_entry_of_the_state_can_be_wrong_without_its_check_complaining(name: str) -> None:
    said = judged(name)
    silent = []
    for (table, key, wrong), lines in said.items():
        judge = next(judge for prefix, judge in JUDGES.items() if table.startswith(prefix))
        if not any(line.startswith((*judge.split(": "), "index")) for line in lines):
            silent.append((table, key, wrong, lines))
    assert silent == []
    assert len(said) > 300


def test_every_check_complains_of_something() -> None:
    lines = {line for name in STATES for said in judged(name).values() for line in said}
    assert [phrase for phrase in SAID if not any(re.match(phrase, line) for line in lines)] == []
