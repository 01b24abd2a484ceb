"""Random commands on small clusters: whatever is asked in whatever order, what must always hold holds after each."""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from paictl.cluster.embedded import commands, serialization
from paictl.cluster.embedded.cluster import EmbeddedCluster
from paictl.cluster.embedded.views import view_of
from paictl.cluster.embedded.world import World
from paictl.cluster.interface import FOREVER, EventKind, JobRequest, MachineSpec, NodeChange, NodeRole
from paictl.cluster.machines import machines_in
from paictl.cluster.maintenance import WindowRequest
from paictl.cluster.presets import PRESETS, SERVICES, preset_files
from paictl.errors import PaictlError
from paictl.scheduler.invariants import validate
from paictl.units import Millis
from paictl.workload.job import PRIORITIES
from tests.unit.cluster.conftest import MINUTE, Bench
from tests.unit.cluster.conftest import SERVICES as RUNNING
from tests.unit.cluster.occupancy import check_books

SMALL = ("lab", "dgx2", "three-tenants")
CHANGES = tuple(NodeChange)
shapes = st.sampled_from([(1, 1), (1, 1), (2, 1), (1, 2), (2, 2), (3, 4), (1, 8), (2, 8), (1, 16)])
"""Tasks and devices of each."""


class Commands(RuleBasedStateMachine):
    """A cluster whose clock stands still unless a rule advances it."""

    folder: Path
    bench: Bench
    preset: str
    names: list[str]
    workers: list[MachineSpec]
    """Those of the preset, and one of which its configuration knows nothing."""

    @initialize(preset=st.sampled_from(SMALL))
    def bring_up(self, preset: str) -> None:
        self.folder, self.preset, self.names = Path(tempfile.mkdtemp(prefix="paictl-")), preset, []
        files = preset_files(preset)
        machines = machines_in(files)
        workers = [machine for machine in machines if machine.role is NodeRole.WORKER]
        self.workers = [*workers, replace(workers[0], name="worker9", address="10.0.9.9")]
        first, then = commands.bring_up("pai", RUNNING, machines, files)
        wall = [1_000_000.0]
        cluster = EmbeddedCluster.up(self.folder, first, then, clock=(0.0, False), wall=lambda: wall[0])
        self.bench = Bench(self.folder, cluster, wall)

    @property
    def cluster(self) -> EmbeddedCluster:
        return self.bench.cluster

    def nodes(self) -> list[str]:
        return [node.machine.name for node in self.cluster.nodes() if node.machine.role is NodeRole.WORKER]

    # --- what is asked; a refusal is an answer, a crash is not

    @rule(
        shape=shapes,
        vc=st.integers(0, 3),
        priority=st.sampled_from(list(PRIORITIES)),
        gang=st.booleans(),
        lazy=st.booleans(),
        minutes=st.sampled_from([0, 1, 5, 30, -1]),
        retries=st.sampled_from([0, 0, 1, -1]),
        name=st.integers(0, 1000),
        limit=st.sampled_from([None, None, "3m", "1h"]),
        helpers=st.sampled_from([0, 0, 1, 2]),
    )
    def submit(self, shape: tuple[int, int], vc: int, priority: str, minutes: int, **more: Any) -> None:
        instances, gpu = shape
        vcs = [*PRESETS[self.preset].vcs, "nowhere"]
        hived = {"lazyPreemptionEnable": more["lazy"]}
        options = {
            "instances": instances,
            "gpu": gpu,
            "gang": more["gang"],
            "retries": more["retries"],
            "hived": hived,
            "max_run_time": more["limit"],
            "helpers": more["helpers"],
        }
        name = f"job{more['name'] % (len(self.names) + 3)}"
        data = self.bench.job(name, vcs[min(vc, len(vcs) - 1)], **options)
        duration = FOREVER if minutes < 0 else Millis(minutes * MINUTE)
        try:
            self.cluster.submit([JobRequest("ann", data, None, priority, duration)])
        except PaictlError as error:
            self.refused(error)
        else:
            self.names.append(name)

    @precondition(lambda self: self.names)
    @rule(which=st.integers(0, 1000))
    def stop(self, which: int) -> None:
        self.attempt(lambda: self.cluster.stop_job(f"ann~{self.names[which % len(self.names)]}"))

    @rule(which=st.integers(0, 1000), change=st.sampled_from(CHANGES))
    def change_node(self, which: int, change: NodeChange) -> None:
        nodes = self.nodes()
        if nodes:
            self.cluster.set_node(nodes[which % len(nodes)], change)

    @rule(
        which=st.integers(0, 1000),
        devices=st.sets(st.integers(0, 17), min_size=1, max_size=3),
        change=st.sampled_from([NodeChange.FAIL, NodeChange.HEAL]),
    )
    def change_devices(self, which: int, devices: set[int], change: NodeChange) -> None:
        nodes = self.nodes()
        if nodes:
            self.attempt(lambda: self.cluster.set_devices(nodes[which % len(nodes)], change, sorted(devices)))

    @rule(which=st.integers(0, 1000))
    def remove_node(self, which: int) -> None:
        nodes = self.nodes()
        if len(nodes) > 1:
            self.cluster.remove_node(nodes[which % len(nodes)])

    @rule(which=st.integers(0, 1000))
    def add_node(self, which: int) -> None:
        """One that was removed comes back, or one that nobody knows."""
        machine = self.workers[which % len(self.workers)]
        self.attempt(lambda: self.cluster.add_node(machine))

    @rule(
        which=st.sets(st.integers(0, 1000), min_size=1, max_size=2),
        lasts=st.sampled_from([1, 10, 200]),
        after=st.sampled_from([None, 1, 30, 2000]),
    )
    def add_window(self, which: set[int], lasts: int, after: int | None) -> None:
        nodes = self.nodes()
        chosen = tuple(sorted({nodes[one % len(nodes)] for one in which})) if nodes else ()
        start = None if after is None else self.cluster.now + timedelta(minutes=after)
        request = WindowRequest(chosen, Millis(lasts * MINUTE), start)
        self.attempt(lambda: self.cluster.add_window(request))

    @rule(number=st.integers(1, 3))
    def remove_window(self, number: int) -> None:
        self.attempt(lambda: self.cluster.remove_window(f"maintenance-{number}"))

    @rule(name=st.sampled_from(RUNNING), running=st.booleans())
    def set_service(self, name: str, running: bool) -> None:
        self.attempt(lambda: self.cluster.set_service(name, running=running))

    @rule(name=st.sampled_from((*RUNNING, "postgresql")))
    def delete_service(self, name: str) -> None:
        self.attempt(lambda: self.cluster.losses(name))
        self.attempt(lambda: self.cluster.wipe_service(name))

    @rule(second=st.booleans())
    def push(self, second: bool) -> None:
        """The preset's own configuration, or one in which the first VC has all the cells that the second had."""
        self.attempt(lambda: self.cluster.push(second_files(self.preset) if second else preset_files(self.preset), ""))

    @rule(minutes=st.sampled_from([0, 1, 4, 7, 60]))
    def tick(self, minutes: int) -> None:
        self.cluster.tick(Millis(minutes * MINUTE))

    @rule(speed=st.sampled_from([0.0, 1.0, 60.0]), seconds=st.sampled_from([-100, 0, 1, 30, 400]))
    def let_wall_time_pass(self, speed: float, seconds: int) -> None:
        """The wall clock may go back; the cluster's never does."""
        before = self.cluster.now
        self.cluster.set_speed(speed, run_out=False)
        self.bench.wall[0] += seconds
        assert self.cluster.now >= before

    @rule()
    def run_out(self) -> None:
        self.cluster.tick(None)

    @precondition(lambda self: self.names)
    @rule(which=st.integers(0, 1000))
    def explain(self, which: int) -> None:
        before = self.cluster.stored()
        self.attempt(lambda: self.cluster.explain(f"ann~{self.names[which % len(self.names)]}"))
        assert self.cluster.stored() == before

    def attempt(self, work: Any) -> None:
        try:
            work()
        except PaictlError as error:
            self.refused(error)

    def refused(self, error: PaictlError) -> None:
        assert "\n" not in f"{error}{error.hint}"

    # --- what holds

    @invariant()
    def the_core_is_sound(self) -> None:
        engine = self.world().dispatcher.engine
        if engine is not None:
            validate(engine.state)

    @invariant()
    def no_device_has_two_users_and_every_pod_a_node(self) -> None:
        world = self.world()
        places = [
            (run.info.node, device)
            for job in world.jobs.values()
            for _, run in job.running()
            for device in run.info.devices
        ]
        assert len(places) == len(set(places))
        assert {node for node, _ in places} <= {node.machine.name for node in world.machines}

    @invariant()
    def the_scheduler_knows_which_devices_are_broken(self) -> None:
        world = self.world()
        if world.dispatcher.engine is not None:
            state = world.dispatcher.engine.state
            tree = state.physical
            known = {(tree.node_name(leaf), tree.device(leaf)) for leaf in state.health.bad_leaves}
            broken = {(node.machine.name, device) for node in world.machines for device in node.bad_devices}
            leaves = {
                (tree.node_name(leaf), tree.device(leaf))
                for cell in tree.nodes.values()
                for one in cell
                for leaf in tree.leaves(one)
            }
            assert known == broken & leaves

    @invariant()
    def no_job_starts_on_a_broken_device(self) -> None:
        broken: set[tuple[str, int]] = set()
        for event in self.cluster.events():
            name = event.subject.removeprefix("node/")
            match event.kind:
                case EventKind.DEVICE_FAILED | EventKind.DEVICE_HEALED:
                    for device in event.data["devices"]:
                        (broken.add if event.kind is EventKind.DEVICE_FAILED else broken.discard)((name, device))
                case EventKind.NODE_REMOVED:
                    broken = {place for place in broken if place[0] != name}
                case EventKind.STARTED if event.subject.startswith("job/"):
                    assert not broken & {(event.data["node"], device) for device in event.data["devices"]}

    @invariant()
    def nothing_runs_in_maintenance_or_beyond_its_limit(self) -> None:
        world = self.world()
        active = world.windows.active(world.now) if world.services.runs("hivedscheduler") else {}
        for job in world.jobs.values():
            assert active.keys().isdisjoint({run.info.node for _, run in job.running()})
            limit = job.job.max_run_time
            if limit is not None and job.started is not None and world.services.runs("frameworkcontroller"):
                assert job.started + limit > world.now

    @invariant()
    def a_name_is_used_once(self) -> None:
        keys = [job.key for job in self.cluster.jobs()]
        assert len(keys) == len(set(keys))

    @invariant()
    def the_log_alone_gives_the_same(self) -> None:
        assert self.cluster.replayed() == self.cluster.stored()

    @invariant()
    def another_process_sees_the_same(self) -> None:
        self.sees_the_same(self.bench.again())

    @invariant()
    def what_was_written_down_is_what_the_world_shows(self) -> None:
        cluster, written_down = self.bench.again(), self.bench.again()
        keys = [job.key for job in written_down.jobs()]
        with cluster._world() as world:
            computed = [view_of(cluster._job(world, key), cluster.epoch) for key in keys]
        assert computed == [written_down.job(key) for key in keys]
        self.sees_the_same(cluster)

    @invariant()
    def the_books_are_the_integral_of_occupancy(self) -> None:
        check_books(self.cluster)

    def sees_the_same(self, other: EmbeddedCluster) -> None:
        written_down = self.bench.again()
        for job in other.jobs():
            assert other.job(job.key) == written_down.job(job.key)
        assert other.jobs() == self.cluster.jobs()
        assert other.nodes() == self.cluster.nodes()
        assert other.services() == self.cluster.services()
        assert other.windows() == written_down.windows() == self.cluster.windows()
        assert other.events() == self.cluster.events()

    def world(self) -> World:
        return serialization.load(self.cluster.stored())

    def teardown(self) -> None:
        """With everything healthy and running, all jobs that can end do; what waits is explained."""
        if not hasattr(self, "folder"):
            return
        self.attempt(lambda: self.cluster.push(preset_files(self.preset), "the first again"))
        for machine in self.workers:
            self.attempt(lambda machine=machine: self.cluster.add_node(machine))
            for change in (NodeChange.HEAL, NodeChange.UNCORDON):
                self.cluster.set_node(machine.name, change)
            self.cluster.set_devices(machine.name, NodeChange.HEAL, range(machine.devices))
        for name in RUNNING:
            self.cluster.set_service(name, running=False)
        for name in RUNNING:
            self.cluster.set_service(name, running=True)
        for job in self.cluster.jobs(ended=False):
            if any(duration is None for duration in self.world().jobs[job.key].durations.values()):
                self.cluster.stop_job(job.key)
        self.cluster.tick(None)
        left = [job.key for job in self.cluster.jobs(ended=False)]
        assert left == []
        self.the_log_alone_gives_the_same()
        shutil.rmtree(self.folder)


def second_files(preset: str) -> dict[str, str]:
    """A configuration in which the second VC of a preset has given its cells to the first."""
    files = preset_files(preset)
    first, second = list(PRESETS[preset].vcs)[:2]
    lines = files[SERVICES].splitlines()
    start, end = lines.index(f"      {first}:"), lines.index(f"      {second}:")
    rest = lines[end + 2 :]
    cells = [line for line in rest if line.startswith("        - ")]
    after = next((i for i, line in enumerate(rest) if not line.startswith("        - ")), len(rest))
    files[SERVICES] = "\n".join([*lines[:end], *cells[:after], *rest[after:]]) + "\n"
    assert start < end
    return files


LONG = int(os.environ.get("PAICTL_SOAK", "0"))
"""How many sequences of commands to try, for ``make soak``."""

Commands.TestCase.settings = settings(
    max_examples=LONG or 12,
    stateful_step_count=60 if LONG else 20,
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),  # to shrink sixty commands takes longer than to read them
    suppress_health_check=list(HealthCheck),
)
test_random_commands = pytest.mark.slow(Commands.TestCase)


@pytest.mark.parametrize("preset", SMALL)
def test_the_second_configuration_is_valid(preset: str) -> None:
    from paictl.config.linting.validate import Choice, validate
    from paictl.config.reading.load import load_memory
    from paictl.config.reading.problem import Severity

    loaded = load_memory({name: text.encode() for name, text in second_files(preset).items()})
    assert validate(loaded, Choice(severity=Severity.ERROR)).problems == ()
