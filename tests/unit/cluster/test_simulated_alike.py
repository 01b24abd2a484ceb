"""The same jobs on a cluster on this machine and in the simulator: both start them at the same instants, on the same
devices, whatever the configuration says of sharing."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from paictl.cli.clusters import plain
from paictl.cluster.interface import JobRequest, NodeChange
from paictl.cluster.reservations import ReservationRequest
from paictl.sim.cluster import Cluster
from paictl.sim.failures import FailureModel, LoggedOutage
from paictl.sim.job import Job, Share
from paictl.sim.simulate import simulate
from paictl.sim.specify import cluster_named
from paictl.units import Millis
from paictl.workload.job import Restart
from paictl.workload.reservations import Repeat
from tests.unit.cluster.conftest import MINUTE, Bench, MakeBench
from tests.unit.cluster.test_sharing import load

HOUR = 60 * MINUTE
DAY = 24 * HOUR


@dataclass
class Row:
    """A job: when it comes and how long it runs in minutes, and what it asks for."""

    at: int
    runs: int
    gpu: int = 1
    instances: int = 1
    vc: str = "tenanta"
    user: str = "ann"
    priority: str = "test"
    reservation: str = ""
    restart: str = "gang"
    most: int | None = None
    """Its limit in minutes; None: twice its run time."""

    @property
    def limit(self) -> int:
        """Minutes."""
        return self.most or 2 * self.runs


Start = tuple[int, tuple[tuple[str, int], ...]] | None
"""When a job started, in milliseconds since the first came, and its devices; None: it has not."""


@dataclass
class Twins:
    """A cluster on this machine with a section `sharing`, and its configuration as the simulator reads it."""

    lab: Bench
    folder: Path
    policy: str = "hived:order=created"

    def submit(self, name: str, row: Row) -> str:
        """The key of a job that was submitted to the cluster."""
        job = self.lab.job(
            f"job{name}",
            row.vc,
            gpu=row.gpu,
            instances=row.instances,
            max_run_time=f"{row.limit}m",
            restart=row.restart,
        )
        if row.reservation:
            job["extras"]["reservation"] = row.reservation
        request = JobRequest(row.user, job, None, row.priority, Millis(row.runs * MINUTE))
        return self.lab.cluster.submit([request])[0].key

    def jobs(self, rows: list[Row]) -> list[Job]:
        """The same jobs as a trace."""
        return [
            Job(
                str(number),
                Millis(row.at * MINUTE),
                row.gpu * row.instances,
                Millis(row.runs * MINUTE),
                row.user,
                row.vc,
                pod=row.gpu,
                priority=10,
                limit=Millis(row.limit * MINUTE),
                reservation=row.reservation,
                share=Share.OPPORTUNISTIC if row.priority == "oppo" else Share.GUARANTEED,
                restart=Restart(row.restart),
            )
            for number, row in enumerate(rows)
        ]

    def on_cluster(self, rows: list[Row], until: int) -> list[Start]:
        """What the cluster on this machine does until an instant in minutes."""
        began, keys, seen = self.lab.cluster.present, list[str](), dict[str, Start]()
        for number, row in enumerate(rows):
            self.lab.pass_time(row.at * MINUTE - (self.lab.cluster.present - began))
            keys.append(self.submit(str(number), row))
        self.lab.pass_time(until * MINUTE - (self.lab.cluster.present - began))
        zero = self.lab.cluster.epoch + timedelta(milliseconds=began)
        for key in keys:
            view = self.lab.cluster.job(key)
            devices = sorted((task.node, index) for task in view.tasks for index in task.devices)
            at = None if view.started is None else round((view.started - zero).total_seconds() * 1000)
            seen[key] = None if at is None else (at, tuple(devices))
        return [seen[key] for key in keys]

    def simulated(self, rows: list[Row]) -> list[Start]:
        """What the simulator does with the same jobs."""
        shape = cluster_named(str(self.folder))
        names = [(node.name, index) for node in Cluster(shape).nodes for index in range(node.devices)]
        found: dict[str, Start] = {}
        policy = f"{self.policy},start={self.lab.cluster.now:%Y-%m-%dT%H:%M:%S.%fZ}"
        for entry in simulate(self.jobs(rows), shape, policy, log=True).log:
            if entry.what == "start":
                found[entry.job] = entry.time, tuple(sorted(names[device] for device in entry.devices))
        return [found.get(str(number)) for number in range(len(rows))]

    def agree(self, rows: list[Row], until: int) -> list[int | None]:
        """Both do the same; when jobs start, in minutes."""
        simulated = self.simulated(rows)  # before the cluster's clock goes on: it says the month
        simulated = [start if start is not None and start[0] <= until * MINUTE else None for start in simulated]
        for number, (real, played) in enumerate(zip(self.on_cluster(rows, until), simulated, strict=True)):
            assert (number, played) == (number, real)
        return [None if start is None else start[0] // MINUTE for start in simulated]


@pytest.fixture
def twins(bench: MakeBench, tmp_path: Path) -> Twins:
    return Twins(bench("three-tenants"), tmp_path / "configuration")


def share(twins: Twins, section: str) -> None:
    load(twins.lab, f"sharing: {section}\n")
    twins.folder.mkdir(exist_ok=True)
    for name, text in twins.lab.cluster.configuration().files.items():
        (twins.folder / name).write_text(text, encoding="utf-8")


def test_jobs_of_a_user_wait_for_the_limit_and_those_of_others_go_before_them(twins: Twins) -> None:
    share(twins, "{user-limits: [{vc: tenanta, devices: 4}, {vc: tenanta, user: bob, devices: 8}]}")
    rows = [Row(0, 100, 4), Row(1, 10, 4), Row(2, 10, 4, user="bob"), Row(3, 30, 4, user="bob"), Row(4, 5, 1)]
    rows += [Row(5, 5, 4, priority="oppo")]
    assert twins.agree(rows, 200) == [0, 100, 2, 3, 110, 5]


def test_a_gang_that_is_larger_than_its_users_limit_never_starts(twins: Twins) -> None:
    share(twins, "{user-limits: [{vc: tenanta, devices: 4}]}")
    assert [start and start[0] for start in twins.simulated([Row(0, 10, 4, 2), Row(1, 10, 4)])] == [None, MINUTE]


def test_new_gangs_leave_spare_devices_free_and_opportunistic_ones_borrow_them(twins: Twins) -> None:
    share(twins, "{spares: [{vc: tenanta, devices: 4}]}")
    rows = [Row(0, 60, 8), Row(1, 10, 4), Row(2, 20, 4, priority="oppo"), Row(3, 10, 1, vc="tenantb")]
    assert twins.agree(rows, 120) == [0, 60, 2, 3]


def test_a_spent_budget_holds_new_jobs_until_the_month_ends(twins: Twins) -> None:
    share(twins, "{budgets: [{vc: tenanta, device-hours: 4}, {vc: tenantb, device-hours: 1, over: warn}]}")
    left = Millis(32 * DAY)
    rows = [Row(0, 60, 4), Row(59, 60), Row(61, 30), Row(62, 30, vc="tenantb"), Row(63, 5, priority="oppo")]
    found = twins.agree(rows, left // MINUTE)
    assert found[:2] + found[3:4] == [0, 59, 62]
    assert found[2] == found[4] is not None
    assert twins.lab.cluster.epoch + timedelta(minutes=found[2] or 0) >= twins.lab.cluster.epoch + timedelta(days=10)


def test_each_user_has_a_budget_and_one_of_nothing_never_ends(twins: Twins) -> None:
    rows = "{vc: tenanta, user: ann, device-hours: 2}, {user: '*', device-hours: 1}, {vc: tenantc, device-hours: 0}"
    share(twins, f"{{budgets: [{rows}]}}")
    given = [Row(0, 70), Row(1, 70, user="bob"), Row(80, 5), Row(81, 5, user="bob"), Row(82, 5, user="cyd")]
    assert twins.agree([*given, Row(83, 5, vc="tenantc", user="eve")], 200) == [0, 1, None, None, 82, None]


@pytest.mark.parametrize("seed", range(5))
def test_whatever_is_submitted_both_do_the_same(twins: Twins, seed: int) -> None:
    """Budgets are those of one tenant: where jobs of several start with a month, the simulator takes them by tenant."""
    dice = random.Random(seed)  # noqa: S311 the same jobs every time
    rows, at = list[Row](), 0
    for _ in range(30):
        at += dice.randrange(1, 40)
        gpu = dice.choice([1, 1, 2, 4, 4])
        vc = dice.choice(["tenanta", "tenantb"])
        rows.append(Row(at, dice.randrange(5, 500) * 7 + 1, gpu, dice.choice([1, 1, 2]), vc, dice.choice("abc")))
    share(
        twins,
        "{user-limits: [{vc: tenanta, devices: 8}, {vc: tenantb, user: a, devices: 8}], "
        "spares: [{vc: tenantb, devices: 2}], "
        "budgets: [{vc: tenanta, device-hours: 600}, {vc: tenanta, user: b, device-hours: 200}]}",
    )
    twins.agree(rows, 40 * DAY // MINUTE)


# --- reservations


def reserve(twins: Twins, *rows: str) -> None:
    """The same reservations for both; times in minutes from now."""
    for row in rows:
        name, vc, cells, start, span, repeat = row.split()
        number, _, kind = cells.partition("x")
        at = twins.lab.cluster.now + timedelta(minutes=int(start))
        of_promise = {"vc": vc, "cells": int(number), "cell_type": kind} if vc != "-" else {"nodes": (cells,)}
        request = ReservationRequest(Millis(int(span) * MINUTE), at, name=name, repeat=Repeat(repeat), **of_promise)
        twins.lab.cluster.add_reservation(request)
    listed = json.dumps([plain(known) for known in twins.lab.cluster.reservations()])
    path = twins.folder.parent / "reservations.json"
    path.write_text(listed, encoding="utf-8")
    twins.policy = f"{twins.policy},reservations={path}"


def test_a_reservation_is_free_when_it_begins_and_only_its_jobs_use_it(twins: Twins) -> None:
    share(twins, "{}")
    reserve(twins, "night tenanta 1xV100-NODE 60 120 once")
    rows = [
        Row(0, 20, 8, most=100),
        Row(1, 20, 8, most=50),
        Row(30, 20, 4, most=100),
        Row(40, 100, 1, most=200),
        Row(45, 30, 8, reservation="night", most=60),
        Row(100, 10, 8, most=20),
        Row(110, 50, 8, priority="oppo"),
    ]
    assert twins.agree(rows, 400) == [180, 1, 60, 80, 60, 200, 110]


def test_a_reservation_comes_again_every_day(twins: Twins) -> None:
    share(twins, "{}")
    reserve(twins, "night tenanta 1xV100-NODE 60 120 daily")
    day = 24 * 60
    rows = [Row(0, 20, 8, most=70), Row(day - 20, 30, 8, most=70), Row(day, 40, 8, most=60)]
    rows += [Row(day + 1, 30, 8, reservation="night", most=60)]
    assert twins.agree(rows, 2 * day) == [180, day - 20, day + 180, day + 60]


@pytest.mark.parametrize("backfill", ["", "backfill: [{mode: easy}]", "backfill: [{mode: conservative}]"])
@pytest.mark.parametrize("seed", range(3))
def test_whatever_runs_into_a_reservation_both_do_the_same(twins: Twins, seed: int, backfill: str) -> None:
    dice = random.Random(seed)  # noqa: S311 the same jobs every time
    share(twins, f"{{{backfill}}}")
    if backfill:
        twins.policy += f",backfill={'easy' if 'easy' in backfill else 'conservative'}"
    reserve(twins, "once tenanta 1xV100-NODE 300 400 once", "nightly tenantb 2xV100-SOCKET 200 150 daily")
    rows, at = list[Row](), 0
    for _ in range(25):
        at += dice.randrange(1, 60)
        vc = dice.choice(["tenanta", "tenantb"])
        name = dice.choice(["", "", {"tenanta": "once", "tenantb": "nightly"}[vc]]) if at < 600 else ""
        runs = dice.randrange(5, 50) * 7 + 1
        most = runs + dice.randrange(0, 100)
        rows.append(Row(at, runs, dice.choice([1, 2, 4]), 1, vc, reservation=name, most=most))
    assert any(twins.agree(rows, 5 * DAY // MINUTE))


# --- repair in place


Places = dict[str, tuple[tuple[str, int], ...]]


def repaired(twins: Twins, rows: list[Row], failing: list[tuple[str, int, int]], until: int) -> tuple[Places, Places]:
    """Where jobs are at an instant in minutes, on the cluster and simulated; nodes fail from one minute to another.

    A cluster gives up pods on a failed node seconds later, so that jobs must not come or end in between.
    """
    lab, played = twins.lab, Places()
    shape = cluster_named(str(twins.folder))
    names = [(node.name, index) for node in Cluster(shape).nodes for index in range(node.devices)]
    log = tuple(
        LoggedOutage(0, node, None, Millis(start * MINUTE), Millis(end * MINUTE))
        for node, start, end in sorted(failing, key=lambda one: one[1])
    )
    failures = FailureModel("log", log=log)
    for entry in simulate(twins.jobs(rows), shape, twins.policy, log=True, failures=failures).log:
        if entry.time < until * MINUTE:
            played[entry.job] = tuple(sorted(names[device] for device in entry.devices))
    began = lab.cluster.present
    todo = [(row.at, "", row) for row in rows] + [(start, node, NodeChange.FAIL) for node, start, _ in failing]
    todo += [(end, node, NodeChange.HEAL) for node, _, end in failing]
    keys = dict[str, str]()
    for at, node, what in sorted(todo, key=lambda one: one[0]):
        if at >= until:
            break
        lab.pass_time(at * MINUTE - (lab.cluster.present - began))
        if isinstance(what, Row):
            keys[str(rows.index(what))] = twins.submit(str(rows.index(what)), what)
        else:
            lab.cluster.set_node(node, what)
    lab.pass_time(until * MINUTE - (lab.cluster.present - began))
    real = {
        name: tuple(sorted((task.node, index) for task in lab.cluster.job(key).tasks for index in task.devices))
        for name, key in keys.items()
    }
    return real, played


@pytest.mark.parametrize(
    "failing",
    [
        [("worker2", 30, 900)],
        [("worker1", 30, 900)],
        [("worker1", 30, 60)],
        [("worker2", 30, 900), ("worker1", 50, 120)],
        [("worker1", 30, 90), ("worker2", 50, 70), ("worker3", 60, 80)],
    ],
)
def test_a_member_that_is_lost_with_its_node_gets_the_same_place(
    twins: Twins, failing: list[tuple[str, int, int]]
) -> None:
    share(twins, "{}")
    rows = [
        Row(0, 1000, 4, 3, restart="member"),
        Row(1, 1000, 2, 2, vc="tenantb", restart="member"),
        Row(2, 1000, 4, vc="tenantc", priority="oppo"),
    ]
    real, played = repaired(twins, rows, failing, 100)
    for name, whole in (("0", 12), ("1", 4)):
        assert len(real[name]) > 0, "the others run on"
        assert played[name] == (real[name] if len(real[name]) == whole else ()), "it stands still until it is whole"
