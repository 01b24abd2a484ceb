"""Departments behind both doors; and that embedded cluster, doors and simulator let the same jobs borrow first."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

import pytest
import yaml

from paictl.cells.spec import ClusterSpec
from paictl.cluster.interface import JobRequest
from paictl.cluster.pods.labels import Rules
from paictl.cluster.presets import preset_files
from paictl.doors.core import DoorOptions
from paictl.doors.metrics import DoorMetrics
from paictl.doors.views import explain_pod
from paictl.operate import recorded_decisions
from paictl.remote.kube.client import Json
from paictl.sim.job import Job, Share
from paictl.sim.simulate import simulate
from paictl.sim.specify import hived_cluster
from paictl.units import Millis
from paictl.workload.sharing import Sharing, read_sharing
from tests.unit.cluster import conftest
from tests.unit.cluster.conftest import MINUTE, Bench, MakeBench
from tests.unit.cluster.test_sharing import load
from tests.unit.extender.harness import Harness, gang, served
from tests.unit.placer import test_placing as placing

bench = conftest.bench
SECTION: Json = {"departments": [{"name": "research", "vcs": ["tenanta", "tenantc"]}]}
WORKERS = [f"worker{number}" for number in range(1, 5)]
SETTINGS = yaml.safe_load(preset_files("three-tenants")["services-configuration.yaml"])
HIVED = yaml.safe_load(SETTINGS["hivedscheduler"]["config"])


def lent(name: str, vc: str, devices: int, second: int, priority: int = -1) -> Json:
    """A pod that came in this second."""
    (made,) = gang(name, 1, devices, vc, priority)
    made["metadata"]["creationTimestamp"] = f"2026-11-25T00:{second // 60:02}:{second % 60:02}Z"
    return made


@pytest.fixture
def placer(monkeypatch: pytest.MonkeyPatch) -> Callable[[Sharing], placing.Placer]:
    """Makes placers of the cluster with three tenants."""
    monkeypatch.setattr(placing, "spec", lambda: ClusterSpec.from_mapping(HIVED))
    monkeypatch.setattr(placing, "NODES", WORKERS)

    def make(rules: Sharing) -> placing.Placer:
        made: placing.Placer = type("Sharer", (placing.Placer,), {"sharing": rules})()
        return made

    return make


def extender(rules: Sharing) -> Harness:
    spec = ClusterSpec.from_mapping(HIVED)
    made = Harness(spec, DoorOptions(rules=Rules(skus=spec.sku_types), sharing=rules))
    made.open(WORKERS)
    return made


def test_what_sisters_lose_is_recorded_and_can_be_fetched() -> None:
    harness = extender(read_sharing(SECTION))
    for vc in ("tenanta", "tenantc"):
        for number in range(12):
            if harness.ask(pod := lent(f"{vc}{number}", vc, 8, number)).names:
                harness.run(pod)
    for number in range(8):
        if harness.ask(pod := lent(f"owner{number}", "tenanta", 8, 50 + number, 0)).names:
            harness.run(pod)
    with served(harness) as caller:
        status, record = caller.call("GET", "/v1/inspect/decisions")
    assert status == 200
    losses = [one[4] for part in record["parts"] for one in part["operations"] if one[4]]
    assert max(loss or 0 for row in losses for loss, _ in row.values()) > 2**64
    assert recorded_decisions.replayed(record, "record").difference == ""


def test_behind_the_extender_a_stranger_waits_for_a_sister_and_metrics_say_how_departments_stand() -> None:
    harness = extender(read_sharing(SECTION))
    harness.run(lent("own", "tenantb", 8, 0, 0))
    for number in range(3):
        harness.run(lent(f"lent{number}", "tenantb", 8, 0))
    stranger, sister = lent("stranger", "tenantb", 8, 1), lent("sister", "tenantc", 8, 2)
    for made in (stranger, sister):
        assert not harness.ask(made).names
    said = explain_pod(harness.core, "default", "stranger-0")
    reason = "virtual cluster tenantc goes first: department research has 18 unused devices"
    assert said["ahead"] == {
        "gangs": 1,
        "vc": "tenantc",
        "user": "",
        "used": 0.0,
        "than": "tenantb",
        "more": 0.0,
        "department": "research",
        "unused": 18,
    }
    assert reason in said["text"][-1]
    harness.delete("lent0-0")
    failed = str(harness.ask(stranger).failed)
    assert "another gang goes first: its virtual cluster or department has unused devices" in failed
    assert "tenantc" not in failed, "the pod's owner reads it"
    assert explain_pod(harness.core, "default", "stranger-0")["situation"] == "order"
    harness.run(sister)
    text = DoorMetrics(lambda: harness.core).text().decode()
    assert 'paictl_extender_department_devices{department="research"} 8.0' in text
    assert 'paictl_extender_department_promise{department="research"} 18.0' in text
    assert "department" not in DoorMetrics(lambda: extender(Sharing()).core).text().decode()
    harness.begin(ClusterSpec.from_mapping(HIVED))
    harness.open(WORKERS)
    again = DoorMetrics(lambda: harness.core).text().decode()
    assert 'paictl_extender_department_devices{department="research"} 8.0' in again, "known again after a restart"


def test_the_placer_tries_the_sister_first(placer: Callable[[Sharing], placing.Placer]) -> None:
    for section, first in ((SECTION, "sister-0"), ({}, "stranger-0")):
        made = placer(read_sharing(section))
        made.create([lent("own", "tenantb", 8, 0, 0), *(lent(f"lent{number}", "tenantb", 8, 0) for number in range(3))])
        made.round()
        made.create([lent("stranger", "tenantb", 8, 1), lent("sister", "tenantc", 8, 2)])
        made.round()
        made.delete("lent0-0")
        made.round()
        assert [name for name in ("stranger-0", "sister-0") if made.node(name)] == [first]


def test_both_doors_evict_a_stranger_before_a_sister(placer: Callable[[Sharing], placing.Placer]) -> None:
    rules = read_sharing(SECTION)
    crowd = [("sister", "tenantc"), ("b0", "tenantb"), ("b1", "tenantb"), ("b2", "tenantb")]
    made = placer(rules)
    made.create([lent(name, vc, 8, place) for place, (name, vc) in enumerate(crowd)])
    made.round()
    made.create([lent("owner", "tenanta", 8, 9, 0)])
    made.round()
    (taken,) = made.core.book.preemptions()
    assert [uid for _, uids in taken.victims for uid in uids] == ["uid-b0-0"]
    harness = extender(rules)
    for place, (name, vc) in enumerate(crowd):
        harness.run(lent(name, vc, 8, place))
    assert not harness.ask(lent("owner", "tenanta", 8, 9, 0)).names
    (taken,) = harness.core.book.preemptions()
    assert [uid for _, uids in taken.victims for uid in uids] == ["uid-b0-0"]


# --- conformity

Row = tuple[str, str, int, int, int]
"""Name, virtual cluster, devices, minute at which it comes, minutes for which it runs."""


def rows(seed: int) -> list[Row]:
    """Jobs that fill the cluster, then a minute later a dozen that wait. No two of them end at one instant."""
    dice = random.Random(seed)  # noqa: S311 - the same cases every time
    vcs = ["tenanta", "tenantb", "tenantc"]
    first = [(f"full{number}", dice.choice(vcs), 8, 0, 60 + 7 * number) for number in range(4)]
    sizes = [(number, dice.choice((4, 8)), dice.choice(vcs)) for number in range(12)]
    return first + [(f"wait{number}", vc, size, 1, 97 + 101 * number) for number, size, vc in sizes]


Times = dict[str, tuple[int, int]]
"""When jobs start and end, in minutes."""


def embedded(lab: Bench, jobs: list[Row], section: Json) -> Times:
    load(lab, f"sharing: {json.dumps(section)}\n")
    keys, zero = dict[str, str](), lab.cluster.present
    for name, vc, devices, at, minutes in jobs:
        lab.pass_time(zero + at * MINUTE - lab.cluster.present)
        asked = JobRequest("ann", lab.job(name, vc, gpu=devices), None, "oppo", Millis(minutes * MINUTE))
        keys[name] = lab.cluster.submit([asked])[0].key
    lab.pass_time(5000 * MINUTE)
    found, base = Times(), lab.at(zero)
    for name, key in keys.items():
        view = lab.cluster.job(key)
        assert view.started is not None
        assert view.ended is not None
        found[name] = round((view.started - base).total_seconds() / 60), round((view.ended - base).total_seconds() / 60)
    return found


def simulated(jobs: list[Row], section: Json) -> Times:
    shape = hived_cluster(ClusterSpec.from_mapping(HIVED), "three-tenants", json.dumps(HIVED))
    trace = [
        Job(name, Millis(at * MINUTE), devices, Millis(minutes * MINUTE), vc=vc, share=Share.OPPORTUNISTIC)
        for name, vc, devices, at, minutes in jobs
    ]
    run = simulate(trace, replace(shape, sharing=json.dumps(section)), "hived:order=created")
    return {one.id: ((one.first_start or 0) // MINUTE, (one.end or 0) // MINUTE) for one in run.outcomes}


def replayed(jobs: list[Row], times: Times, door: Door) -> Times:
    """The starts behind a door where jobs end as they should: what the door lets start then."""
    pods = {name: lent(name, vc, devices, place) for place, (name, vc, devices, *_) in enumerate(jobs)}
    begun, runs, ended = dict[str, int](), {name: minutes for name, *_, minutes in jobs}, set[str]()
    for now in sorted({0, 1, *(end for _, end in times.values())}):
        for name in [name for name, start in begun.items() if start + runs[name] == now]:
            door.end(name)
            ended.add(name)
        fresh = {name: pods[name] for name, _, _, at, _ in jobs if at <= now and name not in begun}
        for name in door.start(fresh):
            begun[name] = now
    assert ended == set(pods)
    return {name: (start, start + runs[name]) for name, start in begun.items()}


class Door(Protocol):
    """A door to which pods come."""

    def start(self, waiting: dict[str, Json]) -> list[str]:
        """Of the pods that wait, those that start."""

    def end(self, name: str) -> None:
        """A pod that runs has ended."""


class Placing:
    def __init__(self, placer: placing.Placer) -> None:
        self.placer = placer

    def start(self, waiting: dict[str, Json]) -> list[str]:
        self.placer.create(made for name, made in waiting.items() if f"default/{name}-0" not in self.placer.server.pods)
        self.placer.round()
        return [name for name in waiting if self.placer.node(f"{name}-0")]

    def end(self, name: str) -> None:
        self.placer.delete(f"{name}-0")


class Extending:
    """kube-scheduler asks about the pods in the order in which they came, and from the first one after each start."""

    def __init__(self, harness: Harness) -> None:
        self.harness = harness

    def start(self, waiting: dict[str, Json]) -> list[str]:
        for made in waiting.values():
            self.harness.create(made)
        started = list[str]()
        while (
            name := next((name for name in waiting if name not in started and self._starts(waiting[name])), "")
        ) != "":
            started.append(name)
        return started

    def _starts(self, made: Json) -> bool:
        names = self.harness.ask(made).names
        return bool(names) and self.harness.bind(made, next(iter(names))) == ""

    def end(self, name: str) -> None:
        self.harness.delete(f"{name}-0")


@pytest.mark.parametrize("seed", range(3))
def test_everywhere_the_same_jobs_start_at_the_same_instant(
    seed: int, bench: MakeBench, placer: Callable[[Sharing], placing.Placer]
) -> None:
    jobs = rows(seed)
    times = embedded(bench("three-tenants"), jobs, SECTION)
    assert times != simulated(jobs, {}), "departments make a difference"
    assert simulated(jobs, SECTION) == times
    assert replayed(jobs, times, Placing(placer(read_sharing(SECTION)))) == times
    assert replayed(jobs, times, Extending(extender(read_sharing(SECTION)))) == times
