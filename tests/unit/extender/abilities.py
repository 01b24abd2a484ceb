"""A door with every ability of the section `sharing` on, and whatever can happen to it, in random order.

Gangs come with and without limits, checkpoints, reservations and repair; kube-scheduler asks in any order; nodes fail
and heal; windows, reservations and kills come between. After each operation the core is sound and no device has two
pods; whoever begins keeps limits, budget, windows and minimum run times, and nobody gets a bad node. What each ability
promises beyond that (who is first, when a gang starts, which cells are kept) has tests of its own; here they meet.
`tests/unit/extender/test_abilities.py` plays a few hundred, ``tools/soak.py --abilities`` as many as one likes.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from paictl.cells.spec import ClusterSpec
from paictl.cluster.kubernetes.names import JOB_KEY
from paictl.cluster.maintenance import KEY, windows_text
from paictl.cluster.pods.labels import Rules
from paictl.cluster.pods.nodes import NodeStatus
from paictl.cluster.pods.times import CHECKPOINT_EVERY
from paictl.cluster.reservations import KEY as RESERVATIONS
from paictl.cluster.reservations import reservations_text
from paictl.doors import housekeeping
from paictl.doors.core import DoorOptions
from paictl.remote.kube.client import Json
from paictl.scheduler.decision import Wait
from paictl.scheduler.groups import GroupState
from paictl.scheduler.invariants import validate
from paictl.scheduler.wire import BIND_INFO, ISOLATION, SCHEDULING_SPEC
from paictl.units import Millis
from paictl.workload.reservations import Reservation, ReservationError, Reservations
from paictl.workload.sharing import read_sharing
from paictl.workload.windows import Window, Windows
from tests.unit.extender.conftest import CONFIG
from tests.unit.extender.harness import Harness, gang

NODES: Final = [f"n{number}" for number in range(8)]
LEAVES: Final = 4
HOUR: Final = 3600
BEGIN: Final = datetime(2026, 11, 25, tzinfo=UTC).timestamp()
VCS: Final = ("A", "B", "C")
CELLS: Final[Json] = {
    "physicalCluster": {
        "cellTypes": {
            **CONFIG["physicalCluster"]["cellTypes"],
            "POOL": {"childCellType": "NODE", "childCellNumber": len(NODES)},
        },
        "physicalCells": [{"cellType": "POOL", "cellChildren": [{"cellAddress": node} for node in NODES]}],
    },
    "virtualClusters": {
        "A": {"virtualCells": [{"cellType": "POOL.NODE", "cellNumber": 3}]},
        "B": {
            "virtualCells": [
                {"cellType": "POOL.NODE", "cellNumber": 1}, {"cellType": "POOL.NODE.SWITCH", "cellNumber": 2},
            ]
        },
        "C": {"virtualCells": [{"cellType": "POOL.NODE", "cellNumber": 2}]},
    },
}  # fmt: skip
USER_LIMIT, BORROW_LIMIT, LEND_LIMIT, MIN_RUN_TIME, BUDGET = 10, 6, 4, 600, 60
ABILITIES: Final[Json] = {
    "budgets": [{"vc": "C", "device-hours": BUDGET}],
    "user-limits": [{"vc": "A", "devices": USER_LIMIT}],
    "borrow-limits": [{"vc": "B", "devices": BORROW_LIMIT}],
    "lend-limits": [{"vc": "A", "devices": LEND_LIMIT}],
    "spares": [{"vc": "A", "devices": 2}],
    "departments": [{"name": "research", "vcs": ["A", "B"]}],
    "opportunistic-order": {"by": "decayed-use", "half-life": "24h"},
    "preemption": {"victims": "least-loss"},
    "min-run-times": [{"vc": "A", "time": f"{MIN_RUN_TIME}s"}, {"vc": "C", "time": f"{MIN_RUN_TIME}s"}],
    "backfill": [{"mode": "easy"}],
}

SAYS: Final = {
    "budgets": "the budget of",
    "user-limits": "guaranteed devices in virtual cluster A",
    "borrow-limits": "virtual cluster B may borrow",
    "lend-limits": "lend limits keep",
    "spares": "for repairs",
    "order": "another gang goes first",
    "min-run-times": "minimum run time",
    "backfill": "it would delay",
    "windows": "maintenance windows close",
    "reservations": "reserv",
}
"""By ability what the reason says of a pod that it holds back."""


@dataclass
class GangRun:
    """A gang and how far it is."""

    pods: list[Json]
    vc: str
    user: str
    priority: int
    limit: int | None
    """Seconds; None for none."""
    lazy: bool = False
    began: float | None = None
    """When the first of its containers did."""
    going: bool = False
    """Whether one of its pods was evicted: all go."""

    @property
    def bound(self) -> list[Json]:
        return [pod for pod in self.pods if pod["spec"].get("nodeName")]

    @property
    def devices(self) -> int:
        return sum(int(pod["leaves"]) for pod in self.pods)


class AbilitiesWorld:
    """The door, its API server, kube-scheduler and the job controller, by the dice of a seed."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)  # noqa: S311 - a test
        self.spec = ClusterSpec.from_mapping(CELLS)
        # in three of four worlds one virtual cluster promises a start to all gangs in line
        backfill = {"backfill": [{"mode": "easy"}, {"vc": VCS[seed % 4 % 3], "mode": "conservative"}]}
        sharing = read_sharing(ABILITIES | (backfill if seed % 4 else {}))
        options = DoorOptions(rules=Rules(skus=self.spec.sku_types), sharing=sharing, heal_after=0.0)
        self.harness = Harness(self.spec, options)
        self.harness.now = BEGIN
        self.gangs: dict[str, GangRun] = {}
        self.bad: set[str] = set()
        self.windows, self.reservations = Windows(), Reservations()
        self.used: Counter[tuple[str, str]] = Counter()
        """Device-milliseconds of the month, as the accounts would say."""
        self.number = 0
        self.chosen: set[tuple[str, str]] = set()
        """(gang that preempts, its victim)."""
        self.stats: Counter[str] = Counter()
        self.start()

    # --- what can happen

    def start(self) -> None:
        """A process begins: what it hears of first, and then it opens."""
        core = self.harness.core
        self.harness.nodes = list(NODES)
        for node in NODES:
            core.node_changed(NodeStatus(node, ready=node not in self.bad, schedulable=True))
        self.tell()
        for pod in self.harness.server.pods.values():
            core.pod_changed(pod)
        core.month_used(self.used)
        core.open()

    def step(self) -> None:
        """One operation, and what must hold after it."""
        operations = {
            self.arrive: 10, self.schedule: 12, self.begin: 6, self.end: 3, self.leave: 6, self.reconcile: 6,
            self.wait: 6, self.fail: 1, self.heal: 2, self.window: 1, self.reserve: 1, self.kill: 1,
        }  # fmt: skip
        (operation,) = self.dice.choices(list(operations), list(operations.values()))
        self.stats[operation.__name__] += 1
        operation()
        self.check()

    def arrive(self) -> None:
        if len(self.gangs) > 14:
            return
        self.number += 1
        name, vc, user = f"g{self.number}", self.dice.choice(VCS), self.dice.choice(("ann", "bob"))
        pods, leaves = self.dice.choice(((1, 1), (1, 2), (1, 4), (2, 2), (2, 4), (3, 4)))
        priority, limit = self.dice.choice((-1, -1, 0, 0, 5)), self.dice.choice((None, HOUR, 2 * HOUR, 6 * HOUR))
        named = [one.name for one in self.reservations if one.vc == vc and one.leaves == leaves and priority >= 0]
        reservation = self.dice.choice(named) if named and self.dice.random() < 0.5 else ""
        more = {"lazyPreemptionEnable": self.dice.random() < 0.2}
        if pods > 1 and self.dice.random() < 0.3:
            more["memberRepairEnable"] = True
        made = gang(name, pods, leaves, vc, priority, **more)
        for pod in made:
            noted = pod["metadata"]["annotations"]
            pod["metadata"]["namespace"] = "paictl-jobs"
            pod["metadata"]["creationTimestamp"] = self.stamp()
            pod["leaves"] = leaves
            noted[JOB_KEY] = f"{user}~{name}"
            noted[SCHEDULING_SPEC] = noted[SCHEDULING_SPEC].replace("default/", "paictl-jobs/")
            if limit is not None:
                pod["spec"]["activeDeadlineSeconds"] = limit
            if reservation:
                noted["paictl.io/reservation"] = reservation
            if self.dice.random() < 0.3:
                noted[CHECKPOINT_EVERY] = "10m"
        self.gangs[name] = GangRun(made, vc, user, priority, limit, bool(more["lazyPreemptionEnable"]))
        for pod in made:
            self.harness.create(pod)

    def schedule(self) -> None:
        """kube-scheduler asks about some of those that wait, in any order."""
        waiting = [
            (run, pod) for run in self.gangs.values() if not run.going
            for pod in run.pods if not pod["spec"].get("nodeName")
        ]  # fmt: skip
        for run, pod in self.dice.sample(waiting, min(len(waiting), 6)):
            before = self.held()
            name = pod["metadata"]["name"].rpartition("-")[0]
            has_place = f"paictl-jobs/{name}" in self.harness.core.book.engine.state.groups.by_name
            answer = self.harness.ask(pod, self.ready())
            names = answer.names
            self.refused(" ".join(answer.failed.values()) + " ".join(answer.hopeless.values()))
            if names and not pod["spec"].get("nodeName"):
                assert self.harness.bind(pod, self.dice.choice(names)) == ""
            if pod["spec"].get("nodeName"):
                self.started(run, pod, None if has_place else before)
            self.victims()

    def begin(self) -> None:
        run = self.some(lambda run: not run.going and any(not pod["status"].get("startTime") for pod in run.bound))
        if run is not None:
            run.began = self.harness.now if run.began is None else run.began
            for pod in run.bound:
                if not pod["status"].get("startTime"):
                    pod["status"] |= {"startTime": self.stamp(), "phase": "Running"}
                    self.harness.core.pod_changed(pod)

    def end(self) -> None:
        run = self.some(lambda run: run.began is not None and len(run.bound) == len(run.pods))
        if run is not None:
            self.remove(run)

    def leave(self) -> None:
        """A gang that was evicted is gone; its controller does not make it again."""
        run = self.some(lambda run: run.going)
        if run is not None:
            self.remove(run)

    def reconcile(self) -> None:
        """What the door does by itself: it evicts, and gives up members on lost nodes, which come again."""
        self.stats["lines with a start for all"] += len(self.harness.core.starts._backfill.planned)
        server = self.harness.server
        server.calls.clear()
        server._bodies.clear()
        self.harness.reconciler.reconcile()
        housekeeping.starts(self.harness.core)
        for call in list(server.calls):
            name = call.split()[-1]
            run = self.gangs.get(name.rpartition("-")[0])
            if run is None:
                continue
            if call.startswith("POST eviction"):
                self.evicted(run)
            elif call.startswith("DELETE pod"):
                self.again(run, name)

    def wait(self) -> None:
        """Time passes; nobody runs beyond a limit, and the accounts are read."""
        seconds = self.dice.choice((1, 30, 300, 1800, HOUR))
        self.harness.now += seconds
        for run in self.gangs.values():
            if run.bound:
                held = sum(int(pod["leaves"]) for pod in run.bound)
                self.used[run.vc, run.user] += 1000 * seconds * held
        for run in list(self.gangs.values()):
            if run.limit is not None and run.began is not None and self.harness.now >= run.began + run.limit:
                self.remove(run)
        self.harness.core.month_used(self.used.copy())

    def fail(self) -> None:
        self.bad.add(self.dice.choice(NODES))
        self.tell_nodes()

    def heal(self) -> None:
        if self.bad:
            self.bad.remove(self.dice.choice(sorted(self.bad)))
            self.tell_nodes()

    def window(self) -> None:
        start = self.harness.now + self.dice.choice((0, HOUR, 4 * HOUR))
        end = start + self.dice.choice((1800, 2 * HOUR))
        nodes = tuple(sorted(self.dice.sample(NODES, self.dice.choice((1, 2)))))
        now = Millis(round(1000 * self.harness.now))
        kept = tuple(one for one in self.windows.all if one.end > now)[-1:]
        new = Window(f"w{self.stats['window']}", nodes, Millis(round(1000 * start)), Millis(round(1000 * end)))
        self.windows = Windows((*kept, new))
        self.tell()

    def reserve(self) -> None:
        """Cells of A for some hours; one at a time."""
        now = self.harness.now
        start = now + self.dice.choice((0, HOUR, 5 * HOUR))
        end = start + self.dice.choice((HOUR, 4 * HOUR))
        new = Reservation(
            f"r{self.stats['reserve']}", Millis(round(1000 * start)), Millis(round(1000 * end)),
            vc="A", cells=self.dice.choice((1, 2)), cell_type="NODE", leaf_type="", leaves=LEAVES,
        )  # fmt: skip
        try:
            self.reservations = Reservations().added(new, Millis(round(1000 * now)))
        except ReservationError:
            return
        self.tell()

    def kill(self) -> None:
        """The process is gone with all that it knew."""
        self.harness.begin(self.spec)
        self.start()

    def rest(self) -> None:
        """Nothing comes, ends or fails any more, while the door, kube-scheduler and the controller work on.

        Then no gang preempts, and whoever waits is held back, or would get no place from a core that is asked anew.
        """
        refused, quiet = dict[str, str](), 0
        for _ in range(60):
            self.harness.now += 90
            bound, evicted = self.stats["bound"], self.stats["evicted"]
            self.harness.core.month_used(self.used.copy())
            self.reconcile()
            while any(run.going for run in self.gangs.values()):
                self.leave()
            refused = {}
            for run in sorted(self.gangs.values(), key=lambda run: -run.priority):
                for pod in run.pods:
                    if not pod["spec"].get("nodeName"):
                        answer = self.harness.ask(pod, self.ready())
                        refused[pod["metadata"]["uid"]] = " ".join([*answer.failed.values(), *answer.hopeless.values()])
                        if answer.names and not pod["spec"].get("nodeName"):
                            assert self.harness.bind(pod, answer.names[0]) == ""
                        self.stats["bound"] += bool(pod["spec"].get("nodeName"))
            quiet = quiet + 1 if (self.stats["bound"], self.stats["evicted"]) == (bound, evicted) else 0
            if quiet == 3:  # what was chosen in one round is evicted in the next
                break
        else:
            raise AssertionError("gangs start and go for ever")
        engine = self.harness.core.book.engine
        assert [one.name for one in engine.state.groups.by_name.values() if one.state is GroupState.PREEMPTING] == []
        for uid, why in refused.items():
            if not any(words in why for words in SAYS.values()):
                request = self.harness.core.book.pods[uid].request
                limit = self.gangs[request.name.rpartition("/")[2].rpartition("-")[0]].limit
                span = None if limit is None else Millis(1000 * limit)
                offered = set(self.ready()) - self.windows.closed(Millis(round(1000 * self.harness.now)), span)
                assert isinstance(engine.plan(request, offered), Wait), f"{request.group} waits needlessly: {why}"

    # --- how

    def ready(self) -> list[str]:
        """What kube-scheduler offers."""
        return [node for node in NODES if node not in self.bad]

    def some(self, wanted: Any) -> GangRun | None:
        chosen = [run for run in self.gangs.values() if wanted(run)]
        return self.dice.choice(chosen) if chosen else None

    def stamp(self) -> str:
        return f"{datetime.fromtimestamp(self.harness.now, UTC):%Y-%m-%dT%H:%M:%SZ}"

    def tell(self) -> None:
        data = {KEY: windows_text(self.windows), RESERVATIONS: reservations_text(self.reservations)}
        self.harness.core.windows_changed({"data": data})

    def tell_nodes(self) -> None:
        for node in NODES:
            self.harness.core.node_changed(NodeStatus(node, ready=node not in self.bad, schedulable=True))

    def remove(self, run: GangRun) -> None:
        name = next(name for name, one in self.gangs.items() if one is run)
        del self.gangs[name]
        for pod in run.pods:
            self.harness.delete(pod["metadata"]["name"], "paictl-jobs")

    def again(self, run: GangRun, name: str) -> None:
        """The job controller makes the pod of a lost member again."""
        self.stats["members lost"] += 1
        number = next(at for at, pod in enumerate(run.pods) if pod["metadata"]["name"] == name)
        old = run.pods[number]
        self.harness.delete(name, "paictl-jobs")
        self.number += 1
        metadata = {**old["metadata"], "uid": f"uid-{name}-{self.number}", "creationTimestamp": self.stamp()}
        noted = old["metadata"]["annotations"]
        metadata["annotations"] = {key: word for key, word in noted.items() if key not in (ISOLATION, BIND_INFO)}
        spec = {key: word for key, word in old["spec"].items() if key != "nodeName"}
        run.pods[number] = {**old, "metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}
        self.harness.create(run.pods[number])

    # --- what must hold

    def held(self) -> Counter[str]:
        """Guaranteed devices in A by user."""
        found: Counter[str] = Counter()
        for run in self.gangs.values():
            if run.vc == "A" and run.priority >= 0 and run.bound:
                found[run.user] += run.devices
        return found

    def started(self, run: GangRun, pod: Json, before: Counter[str] | None) -> None:
        """A pod has just been bound: it may have been. `before`: what users held, None if it had a place already."""
        now, node = self.harness.now, pod["spec"]["nodeName"]
        self.stats["bound"] += 1
        first = len(run.bound) == 1
        assert node not in self.bad or not first, f"bound to {node}, which is bad"  # others of a gang follow the first
        ends = now + run.limit if run.limit is not None else float("inf")
        for window in self.windows.all:
            if node in window.nodes and first:
                clear = window.end <= 1000 * now or window.start >= 1000 * ends
                assert clear, f"{pod['metadata']['name']} would still run on {node} in {window.name}"
        if not first or before is None:  # limits count when a gang gets its place, or begins to preempt for it
            return
        if run.priority >= 0 and run.vc == "A":
            assert before[run.user] + run.devices <= USER_LIMIT, f"{run.user} holds {before[run.user]} and more"
        if run.vc == "C":
            used = sum(amount for (vc, _), amount in self.used.items() if vc == "C")
            assert used < BUDGET * HOUR * 1000, "the budget of C is used up"
        if run.vc == "B" and run.priority < 0:
            assert self.harness.core.allowances.borrowers()[0][1] <= BORROW_LIMIT

    def evicted(self, run: GangRun) -> None:
        """A pod of the gang has to go, so its controller ends all."""
        if run.going:
            return
        self.stats["evicted"] += 1
        run.going = True
        for pod in run.pods:
            pod["metadata"]["deletionTimestamp"] = self.stamp()
            self.harness.core.pod_changed(pod)

    def refused(self, why: str) -> None:
        """Count what has held gangs back: a world in which an ability never does says nothing of it."""
        for ability, words in SAYS.items():
            if words in why:
                self.stats[f"held back by {ability}"] += 1

    def victims(self) -> None:
        """Whoever has just been chosen has run for its time, if its own tenant needs the place."""
        chosen: set[tuple[str, str]] = set()
        doomed = {name for _, name in self.chosen}  # whoever has to go anyway goes for others, too
        names = {pod["metadata"]["uid"]: name for name, run in self.gangs.items() for pod in run.pods}
        for preemption in self.harness.core.book.preemptions():
            taker = preemption.group.rpartition("/")[2]
            for name in {names[uid] for _, uids in preemption.victims for uid in uids if uid in names}:
                chosen.add((taker, name))
                if name in doomed or taker not in self.gangs or name not in self.gangs:
                    continue
                by, run = self.gangs[taker], self.gangs[name]
                if by.vc == run.vc and run.vc in "AC" and run.priority >= 0 and not run.lazy:
                    self.stats["chosen by their own tenant"] += 1
                    ran = MIN_RUN_TIME if run.began is None else self.harness.now - run.began
                    assert ran >= MIN_RUN_TIME or run.going, f"{name} had run for {ran} s"
        self.chosen = chosen

    def check(self) -> None:
        """After each operation."""
        core = self.harness.core
        validate(core.book.engine.state)
        users: Counter[tuple[str, int]] = Counter()
        for run in self.gangs.values():
            for pod in run.bound:
                devices = pod["metadata"]["annotations"][ISOLATION].split(",")
                assert len(devices) == pod["leaves"]
                users.update((pod["spec"]["nodeName"], int(device)) for device in devices)
        assert all(number == 1 for number in users.values()), f"two pods have {users.most_common(1)}"
