"""No reservation that was admitted begins late, whatever happens: random operations on a world in memory.

`PAICTL_RESERVATION_OPERATIONS` says how many; 1000000 is the soak of issue 23.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from contextlib import suppress
from typing import Any

import pytest

from paictl.cluster.embedded import commands
from paictl.cluster.embedded.world import World
from paictl.cluster.interface import EventKind, JobRequest, MachineSpec, NodeChange, NodeRole
from paictl.cluster.presets import PRESETS, preset_files
from paictl.scheduler.invariants import validate
from paictl.units import Millis
from paictl.workload import reserving
from paictl.workload.backfill import Foresight
from paictl.workload.lifecycle import RunState
from paictl.workload.reservations import Reservation, ReservationError, Reservations
from paictl.workload.windows import NOTICE, WindowError
from tests.unit.cluster.conftest import MINUTE, SERVICES

HOUR = 60 * MINUTE
OPERATIONS = int(os.environ.get("PAICTL_RESERVATION_OPERATIONS", "1600"))
VCS = ("tenanta", "tenantb")
CELLS = (("V100-NODE", 1), ("V100-SOCKET", 1), ("V100-SOCKET", 2), ("V100-SWITCH", 1), ("V100-SWITCH", 3), ("V100", 5))
SHAPES = ((1, 1), (2, 1), (3, 1), (4, 1), (8, 1), (4, 2), (2, 3), (1, 5))


def world_of(preset: str, sharing: str = "") -> World:
    """A cluster with everything running."""
    chosen = PRESETS[preset]
    machines = [
        MachineSpec(name, f"10.0.1.{i}", NodeRole.WORKER, "gpu", devices=chosen.hardware.devices)
        for i, name in enumerate(chosen.nodes)
    ]
    files = dict(preset_files(preset))
    files["services-configuration.yaml"] += sharing
    up, then = commands.bring_up("pai", SERVICES, machines, files)
    world = up.begin()
    for command in then:
        commands.apply(world, Millis(0), command)
    return world


def job(name: str, vc: str, gpu: int, instances: int, limit: int | None, reservation: str = "") -> dict[str, Any]:
    extras: dict[str, Any] = {"gangAllocation": True}
    if limit is not None:
        extras["maxRunTime"] = f"{limit / 1000:g}s"
    if reservation:
        extras["reservation"] = reservation
    return {
        "protocolVersion": 2,
        "name": name,
        "type": "job",
        "jobRetryCount": 0,
        "extras": extras,
        "prerequisites": [{"name": "image", "type": "dockerimage", "uri": "pai/standard"}],
        "taskRoles": {
            "train": {
                "instances": instances,
                "dockerImage": "image",
                "commands": ["true"],
                "resourcePerInstance": {"gpu": gpu, "cpu": gpu, "memoryMB": 1024 * gpu},
            }
        },
        "defaults": {"virtualCluster": vc},
    }


class Walk:
    """A random walk, and what it has seen."""

    def __init__(self, seed: int, preset: str = "three-tenants", sharing: str = "") -> None:
        self.world = world_of(preset, sharing)
        self.rng = random.Random(seed)  # noqa: S311 - a property test
        self.seen: Counter[str] = Counter()
        self.checked: set[tuple[str, int]] = set()
        """Occurrences (name, begin) whose jobs have been submitted."""
        self.number = 0

    def step(self) -> None:
        match self.rng.randrange(12):
            case 0 if self.world.jobs:
                self.apply(commands.StopJob(self.rng.choice(list(self.world.jobs))))
            case 1 | 2 | 3:
                self.apply(commands.Tick(Millis(self.rng.randrange(1, 90) * MINUTE)))
            case 4 | 5:
                self.reserve()
            case 6 if self.world.reservations and self.rng.randrange(3) == 0:
                self.apply(commands.RemoveReservation(self.rng.choice(self.world.reservations.all).name))
            case _:
                self.submit()
        self.use_what_has_begun()
        self.world.events.clear()
        self.world.ended.clear()
        self.world.usage.closed.clear()

    def apply(self, command: commands.LoggedCommand) -> object:
        return commands.apply(self.world, self.world.now, command)

    def reserve(self) -> None:
        cell_type, most = self.rng.choice(CELLS)
        start = None if self.rng.randrange(6) == 0 else Millis(self.world.now + self.rng.randrange(0, 40) * 30 * MINUTE)
        repeat = self.rng.choice(("once", "once", "once", "daily", "weekly"))
        span = Millis(self.rng.randrange(1, 16) * HOUR)
        command = commands.AddReservation(
            span,
            start,
            self.rng.choice(VCS),
            self.rng.randrange(1, most + 1),
            cell_type,
            (),
            repeat,
            f"r{self.number}",
            "",
        )
        self.number += 1
        if len(self.world.reservations.all) >= 4:
            return
        try:
            self.apply(command)
            self.seen["admitted"] += 1
        except ReservationError:
            self.seen["refused"] += 1

    def submit(self) -> None:
        gpu, instances = self.rng.choice(SHAPES)
        limit = self.rng.choice((None, *(HOUR * hours for hours in (1, 2, 5, 9, 20, 40) for _ in range(3))))
        lasting = Millis(self.rng.choice((HOUR // 2, HOUR, 3 * HOUR, 20 * HOUR)))
        priority = self.rng.choice(("test", "test", "prod", "oppo"))
        self.number += 1
        with suppress(Exception):  # some shapes fit into no virtual cluster
            data = job(f"j{self.number}", self.rng.choice(VCS), gpu, instances, limit)
            self.apply(commands.Submit((JobRequest("ann", data, None, priority, lasting),)))

    def use_what_has_begun(self) -> None:
        """At the begin of an occurrence jobs that name it get all of its cells at once."""
        world = self.world
        for known in world.reservations:
            current = known.occurrence(world.now)
            assert current is not None
            if current[0] > world.now or (known.name, current[0]) in self.checked:
                continue
            self.checked.add((known.name, current[0]))
            self.check_short(known)
            left = known.cells - world.dispatcher.reserved.usage(self.foresight(), known)  # type: ignore[union-attr]
            while left and self.rng.randrange(8):
                left -= self.claim(known, self.rng.randrange(1, left + 1))

    def claim(self, known: Reservation, cells: int) -> int:
        """A job for some cells of a reservation runs at once, in one of the shapes that take them."""
        world, current = self.world, known.occurrence(self.world.now)
        assert current is not None
        until_end = current[1] - world.now
        limit = self.rng.choice((None, until_end, 30 * HOUR))
        gpu, instances = known.leaves, cells
        if known.leaves > 1 and self.rng.randrange(3) == 0:
            gpu, instances = known.leaves // 2, 2 * cells
        self.number += 1
        data = job(f"j{self.number}", known.vc, gpu, instances, limit, known.name)
        lasting = Millis(self.rng.choice((HOUR // 2, 3 * HOUR)))
        request = JobRequest("ann", data, None, "test", lasting)
        self.apply(commands.Submit((request,)))
        taken = world.jobs[f"ann~{data['name']}"]
        others = [one for one in world.reservations.of(known.vc) if one is not known]
        if limit == until_end or not others:  # else it may have to make way for another reservation
            assert taken.status.state is RunState.RUNNING, (known, world.now, cells, gpu)
            self.seen["claimed"] += 1
        elif taken.status.state is not RunState.RUNNING and taken.key in world.jobs:
            self.apply(commands.StopJob(taken.key))
        return cells

    def foresight(self) -> Any:
        return self.world.dispatcher.foresight(self.world.now, self.world.windows)

    def check_short(self, known: Reservation) -> None:
        kept = self.world.dispatcher.reserved
        assert kept is not None
        assert not list(kept.short(self.foresight(), known.vc)), (known, self.world.now)
        self.seen["begun"] += 1

    def check_all(self) -> None:
        kept, engine = self.world.dispatcher.reserved, self.world.dispatcher.engine
        for vc in VCS if kept is not None else ():
            assert kept is not None
            assert not list(kept.short(self.foresight(), vc)), self.world.now
        assert engine is not None
        validate(engine.state)


@pytest.mark.parametrize("seed", range(2))
def test_no_admitted_reservation_begins_late(seed: int) -> None:
    walk = Walk(seed)
    for number in range(OPERATIONS // 2):
        walk.step()
        if number % 20 == 0:
            walk.check_all()
    assert min(walk.seen[what] for what in ("admitted", "refused", "begun", "claimed")) > OPERATIONS // 500, walk.seen


def decided(world: World, command: commands.AddReservation) -> object:
    """All reservations after a new one, or what is said against it."""
    try:
        return world.try_reservation(command.reservation(world))
    except ReservationError as error:
        return error.message, error.hint


def every_moment(
    before: Reservations, after: Reservations, _: Reservation, scene: reserving.ReservationScene
) -> dict[str, list[Any]]:
    """Instead of the moments that a reservation changes all that there are then."""
    vcs = {known.vc for known in (*before, *after) if known.vc}
    return {vc: after.moments(vc, scene.foresight.now) for vc in sorted(vcs)}


@pytest.mark.parametrize("seed", range(2))
def test_to_ask_for_what_is_new_decides_as_to_ask_for_everything(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    walk = Walk(seed)
    rng, world, seen = walk.rng, walk.world, Counter[str]()
    for number in range(OPERATIONS // 16):
        match rng.randrange(9):
            case 0:
                walk.apply(commands.Tick(Millis(rng.randrange(1, 9) * HOUR)))
            case 1:
                node = rng.choice(PRESETS["three-tenants"].nodes)
                walk.apply(commands.SetNode(node, rng.choice((NodeChange.FAIL, NodeChange.HEAL, NodeChange.HEAL))))
            case 2 if number % 5 == 0:
                begin = Millis(world.now + rng.randrange(1, 60) * HOUR)
                nodes = (rng.choice(PRESETS["three-tenants"].nodes),)
                with suppress(WindowError):
                    walk.apply(commands.AddWindow(nodes, Millis(9 * HOUR), begin, "", NOTICE, ""))
            case 2 if len(world.reservations.all) > 8:
                walk.apply(commands.RemoveReservation(rng.choice(world.reservations.all).name))
            case 3 | 4 | 5:
                walk.submit()
            case _:
                cell_type, most = rng.choice(CELLS)
                start = Millis(world.now + rng.randrange(0, 40) * 30 * MINUTE)
                command = commands.AddReservation(
                    Millis(rng.randrange(1, 16) * HOUR),
                    start,
                    rng.choice(VCS),
                    rng.randrange(1, most + 1),
                    cell_type,
                    (),
                    rng.choice(("once", "once", "daily", "weekly")),
                    f"r{number}",
                    "",
                )
                found = decided(world, command)
                with monkeypatch.context() as patch:
                    patch.setattr(reserving, "_changed", every_moment)
                    assert decided(world, command) == found
                seen[str(found[0])[:14] if isinstance(found, tuple) else "admitted"] += 1
                if not isinstance(found, tuple):
                    walk.apply(command)
    assert seen["admitted"] > 3, seen
    assert len(seen) > 3, "refusals of several kinds"


def test_the_hundredth_reservation_is_asked_of_the_core_as_often_as_the_tenth(monkeypatch: pytest.MonkeyPatch) -> None:
    walk, asked = Walk(0), list[int]()
    start = Foresight.start

    def counted(*given: Any) -> bool:
        asked[-1] += 1
        return start(*given)

    monkeypatch.setattr(Foresight, "start", counted)
    for number in range(100):
        asked.append(0)
        begin = Millis(number * HOUR)
        command = commands.AddReservation(
            Millis(2 * HOUR), begin, "tenanta", 1, "V100-SOCKET", (), "once", f"r{number}", ""
        )
        walk.apply(command)
    assert asked[-1] == asked[9] > 0


def test_a_reservation_that_begins_short_of_cells_says_so_once() -> None:
    walk = Walk(0)
    for name, cells, start in (("now", 1, 2), ("later", 1, 9)):
        begin = Millis(start * HOUR)
        walk.apply(commands.AddReservation(Millis(HOUR), begin, "tenanta", cells, "V100-NODE", (), "once", name, ""))
    for node in PRESETS["three-tenants"].nodes:
        walk.apply(commands.SetNode(node, NodeChange.FAIL))
    walk.world.events.clear()
    walk.apply(commands.Tick(Millis(3 * HOUR)))
    short = [event for event in walk.world.events if event.kind is EventKind.RESERVATION_SHORT]
    assert [(event.subject, event.data["needed"], event.data["kept"]) for event in short] == [("reservation/now", 1, 0)]


def test_one_that_a_new_promise_cannot_keep_forbids_none_at_another_time() -> None:
    walk = Walk(0)
    larger = Reservation("larger", Millis(HOUR), Millis(2 * HOUR), "tenanta", 99, "V100-NODE", "V100", 8)
    walk.world.reserve(Reservations((larger,)))  # as after a push that promises less
    walk.apply(commands.AddReservation(Millis(HOUR), Millis(2 * HOUR), "tenanta", 1, "V100-NODE", (), "once", "", ""))
    with pytest.raises(ReservationError, match="it overlaps reservation larger: 0 of 1 cells"):
        walk.apply(commands.AddReservation(Millis(HOUR), Millis(HOUR), "tenanta", 1, "V100-NODE", (), "once", "", ""))


def test_cells_of_one_size_are_reserved_at_a_time() -> None:
    walk = Walk(0)

    def reserve(cells: int, cell_type: str, hours: float) -> None:
        start = Millis(round(hours * HOUR))
        walk.apply(commands.AddReservation(Millis(HOUR), start, "tenanta", cells, cell_type, (), "once", "", ""))

    reserve(1, "V100-NODE", 2)
    with pytest.raises(ReservationError, match="which has cells of type V100-NODE, not V100-SOCKET"):
        reserve(1, "V100-SOCKET", 2.5)
    reserve(1, "V100-SOCKET", 3)
