"""A door with the abilities of the section `sharing` that its seed draws, and random events of all kinds.

Gangs come with and without limits, checkpoints, reservations and repair; kube-scheduler asks in any order; nodes and
devices fail and heal; windows, reservations and kills come between. After each operation the core is sound and no
device has two pods. A gang that starts keeps limits, budgets, spares, windows, reservations and minimum run times, and
gets no bad node or device. What each ability promises beyond that (who is first, when a gang starts, which cells are
kept) has tests of its own; here they meet.
`tests/unit/extender/test_abilities.py` plays a few hundred, ``tools/soak.py --abilities`` as many as one likes.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

from paictl.cells.spec import ClusterSpec
from paictl.cluster.kubernetes.names import JOB_KEY
from paictl.cluster.maintenance import KEY, windows_text
from paictl.cluster.pods.labels import Rules
from paictl.cluster.pods.nodes import NodeStatus
from paictl.cluster.pods.times import CHECKPOINT_EVERY, SAVES_ON_SIGTERM
from paictl.cluster.reservations import KEY as RESERVATIONS
from paictl.cluster.reservations import reservations_text
from paictl.doors import housekeeping
from paictl.doors.core import DoorOptions
from paictl.doors.gangs import AFTER
from paictl.doors.term import take_recent
from paictl.remote.kube.client import Json
from paictl.scheduler.decision import Wait
from paictl.scheduler.groups import GroupState
from paictl.scheduler.invariants import validate
from paictl.scheduler.wire import BIND_INFO, ISOLATION, SCHEDULING_SPEC
from paictl.units import Millis
from paictl.workload.budgets import EACH, OverBudget
from paictl.workload.departments import DevicesInUse
from paictl.workload.devicelimits import BorrowedDevices
from paictl.workload.lending import promises_by_vc
from paictl.workload.lentorder import HALF_LIFE, DecayedUse
from paictl.workload.reservations import Repeat, Reservation, ReservationError, Reservations
from paictl.workload.sharing import read_sharing
from paictl.workload.windows import Window, Windows
from tests.unit.extender.abilities_drawn import CELLS, LEAVES, NODES, SAYS, VCS, GangRun, UseBefore, drawn
from tests.unit.extender.harness import Harness, gang

HOUR: Final = 3600
BEGIN: Final = datetime(2026, 11, 25, tzinfo=UTC).timestamp()


class AbilitiesWorld:
    """The door, its API server, kube-scheduler and the job controller, by the dice of a seed."""

    harness_type = Harness
    unbound: float = 0
    """How often kube-scheduler does not bind a pod that has its node, for reasons of its own."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)  # noqa: S311 - a test
        self.spec = ClusterSpec.from_mapping(CELLS)
        self.drawn = drawn(self.dice)
        self.rules = read_sharing(self.drawn.section)
        options = DoorOptions(
            rules=Rules(skus=self.spec.sku_types),
            sharing=self.rules,
            heal_after=self.drawn.heal_after,
            bad_device_deadline=self.drawn.bad_device_deadline,
            longest_grace=self.drawn.longest_grace,
        )
        self.harness = self.harness_type(self.spec, options)
        self.harness.now = BEGIN
        self.gangs: dict[str, GangRun] = {}
        self.bad: dict[str, NodeStatus | None] = {}
        """Nodes that are not Ready, cordoned or (None) not there."""
        self.broken: set[tuple[str, int]] = set()
        """Bad devices."""
        self.windows, self.reservations = Windows(), Reservations()
        self.used: Counter[tuple[str, str]] = Counter()
        """Device-milliseconds of the month, as the accounts would say."""
        order = self.rules.order
        self.lately = DecayedUse(order.half_life if order is not None else HALF_LIFE)
        self.promised = promises_by_vc(self.harness.core.book.engine.state)
        self.number = 0
        self.repairing: set[str] = set()
        """Pods (uid) that take the place of a lost member."""
        self.chosen: set[tuple[str, str]] = set()
        """(gang that preempts, its victim)."""
        self.stats: Counter[str] = Counter()
        self.start()

    # --- what can happen

    def start(self) -> None:
        """A process begins: what it hears of first, and then it opens."""
        core = self.harness.core
        self.harness.nodes = list(NODES)
        self.tell_nodes()
        self.tell_devices()
        self.tell()
        for pod in self.harness.server.pods.values():
            core.pod_changed(pod)
        core.month_used(self.used)
        take_recent(core, self.lately.until(self.millis(), ()))
        core.open()

    def step(self) -> None:
        """One operation, and what must hold after it."""
        operations: dict[Callable[[], None], float] = {
            self.arrive: 10,
            self.schedule: 12,
            self.begin: 6,
            self.end: 3,
            self.leave: 6,
            self.reconcile: 6,
            self.wait: 6,
            self.kill: 1,
        }
        if not self.drawn.calm:
            operations |= {self.fail: 1, self.heal: 2, self.wear: 1, self.window: 1, self.reserve: 1, self.cancel: 0.5}
        operations |= self.more()
        (operation,) = self.dice.choices(list(operations), list(operations.values()))
        self.stats[operation.__name__] += 1
        operation()
        self.check()

    def more(self) -> dict[Callable[[], None], float]:
        """Operations of a subclass, and how often they come."""
        return {}

    def arrive(self) -> None:
        if len(self.gangs) > 14:
            return
        self.number += 1
        name, vc, user = f"g{self.number}", self.dice.choice(VCS), self.dice.choice(("ann", "bob"))
        pods, leaves = self.dice.choice(((1, 1), (1, 2), (1, 4), (2, 2), (2, 4), (3, 4)))
        priority = self.dice.choice((-1, -1, 0, 0, 5))
        unlimited = self.dice.random() < (0.02 if self.drawn.calm else 0.25)  # beside it, no start can be promised
        limit = None if unlimited else self.dice.choice((HOUR, 2 * HOUR, 6 * HOUR))
        named = [
            one.name
            for one in self.reservations
            if one.nodes or (one.vc == vc and one.leaves == leaves and priority >= 0)
        ]
        reservation = self.dice.choice(named) if named and self.dice.random() < 0.5 else ""
        more = {"lazyPreemptionEnable": self.dice.random() < 0.2}
        if pods > 1 and self.dice.random() < 0.5:
            more["memberRepairEnable"] = True
        checkpoints, grace = self.dice.random() < 0.3, self.dice.choice((0, 0, 0, 30, 120, 600))
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
            if checkpoints:
                noted[CHECKPOINT_EVERY] = "10m"
            if grace:
                noted[SAVES_ON_SIGTERM], pod["spec"]["terminationGracePeriodSeconds"] = "true", grace
        lazy = bool(more["lazyPreemptionEnable"])
        self.gangs[name] = GangRun(made, vc, user, priority, limit, lazy, reservation)
        for pod in made:
            self.harness.create(pod)

    def schedule(self) -> None:
        """kube-scheduler asks about some of those that wait, in any order."""
        waiting = [
            (run, pod)
            for run in self.gangs.values()
            if not run.going
            for pod in run.pods
            if not pod["spec"].get("nodeName")
        ]
        for run, pod in self.dice.sample(waiting, min(len(waiting), 6)):
            before = self.used_devices()
            name = pod["metadata"]["name"].rpartition("-")[0]
            has_place = f"paictl-jobs/{name}" in self.harness.core.book.engine.state.groups.by_name
            earlier = has_place or self.harness.core.book.holds(pod["metadata"]["uid"])
            answer = self.harness.ask(pod, self.ready())
            names = answer.names
            self.refused(" ".join(answer.failed.values()) + " ".join(answer.hopeless.values()))
            if self.unbound and self.dice.random() < self.unbound:
                names = ()
            if names and not pod["spec"].get("nodeName"):
                assert self.harness.bind(pod, self.dice.choice(names)) == ""
            if pod["spec"].get("nodeName"):
                self.started(run, pod, None if has_place else before, earlier=earlier)
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
                if run.priority < 0:
                    end = self.millis()
                    start = Millis(end - 1000 * seconds)
                    self.lately.spread((run.vc, run.user), 1000 * seconds * held, start, end)
        for run in list(self.gangs.values()):
            if run.limit is not None and run.began is not None and self.harness.now >= run.began + run.limit:
                self.remove(run)
        self.harness.core.month_used(self.used.copy())
        take_recent(self.harness.core, self.lately.until(self.millis(), ()))

    def fail(self) -> None:
        """A node, often one with pods, is not Ready, cordoned or removed; often for long enough to lose members."""
        busy = sorted({pod["spec"]["nodeName"] for run in self.gangs.values() for pod in run.bound})
        name = self.dice.choice(busy if busy and self.dice.random() < 0.7 else NODES)
        status = NodeStatus(name, ready=self.dice.random() < 0.3, schedulable=False)
        self.bad[name] = status if self.dice.random() < 0.8 else None
        self.tell_nodes()
        if self.dice.random() < 0.5:
            self.harness.now += AFTER
            self.reconcile()

    def heal(self) -> None:
        """A node or a device is good again."""
        if self.bad and self.dice.random() < 0.6:
            del self.bad[self.dice.choice(sorted(self.bad))]
            self.tell_nodes()
        elif self.broken:
            self.broken.remove(self.dice.choice(sorted(self.broken)))
            self.tell_devices()

    def wear(self) -> None:
        """A device breaks."""
        self.broken.add((self.dice.choice(NODES), self.dice.randrange(LEAVES)))
        self.tell_devices()

    def window(self) -> None:
        start = self.harness.now + self.dice.choice((0, HOUR, 4 * HOUR))
        end = start + self.dice.choice((1800, 2 * HOUR))
        nodes = tuple(sorted(self.dice.sample(NODES, self.dice.choice((1, 2)))))
        now = Millis(round(1000 * self.harness.now))
        kept = tuple(one for one in self.windows.all if one.end > now)[-1:]
        new = Window(
            f"w{self.stats['window']}",
            nodes,
            Millis(round(1000 * start)),
            Millis(round(1000 * end)),
            hold=self.dice.random() < 0.2,
        )
        self.windows = Windows((*kept, new))
        self.tell()

    def reserve(self) -> None:
        """Cells of a virtual cluster, or a node, for some hours, once or daily; two reservations at a time."""
        now = self.harness.now
        start = now + self.dice.choice((0, HOUR, 5 * HOUR))
        end = start + self.dice.choice((HOUR, 4 * HOUR))
        name, repeat = f"r{self.stats['reserve']}", self.dice.choice((Repeat.ONCE, Repeat.ONCE, Repeat.DAILY))
        if self.dice.random() < 0.7:
            vc = self.dice.choice("AAC")
            new = Reservation(
                name,
                Millis(round(1000 * start)),
                Millis(round(1000 * end)),
                vc=vc,
                cells=self.dice.choice((1, 2)),
                cell_type="NODE",
                leaf_type="",
                leaves=LEAVES,
                repeat=repeat,
            )
        else:
            nodes = (self.dice.choice(NODES),)
            new = Reservation(name, Millis(round(1000 * start)), Millis(round(1000 * end)), nodes=nodes, repeat=repeat)
        kept = [one for one in self.reservations.current(self.millis()) if one.vc != new.vc][-1:]
        try:
            self.reservations = Reservations(tuple(kept)).added(new, self.millis(), NODES)
        except ReservationError:
            return
        self.tell()

    def cancel(self) -> None:
        """An administrator removes a window or a reservation."""
        if self.windows and self.dice.random() < 0.5:
            self.windows = self.windows.without(self.dice.choice(self.windows.all).name)
        elif self.reservations:
            self.reservations = self.reservations.without(self.dice.choice(self.reservations.all).name)
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
            engine = self.harness.core.book.engine
            # what was chosen in one round is evicted in the next; the end of a window lets one begin at any time
            preempts = any(one.state is GroupState.PREEMPTING for one in engine.state.groups.by_name.values())
            same = (self.stats["bound"], self.stats["evicted"]) == (bound, evicted)
            quiet = quiet + 1 if same and not preempts else 0
            if quiet == 3:
                break
        else:
            raise AssertionError("gangs start, go or preempt for ever")
        for uid, why in refused.items():
            if not any(words in why for words in SAYS.values()):
                reading = self.harness.core.table.by_uid[uid].reading
                assert reading is not None
                request = reading.request
                run = self.gangs[request.name.rpartition("/")[2].rpartition("-")[0]]
                span = None if run.limit is None else Millis(1000 * run.limit)
                offered = set(self.ready()) - self.windows.closed(Millis(round(1000 * self.harness.now)), span)
                assert isinstance(engine.plan(request, offered), Wait), f"{request.group} waits needlessly: {why}"

    # --- how

    def ready(self) -> list[str]:
        """What kube-scheduler offers."""
        return [node for node in NODES if node not in self.bad]

    def some(self, wanted: Any) -> GangRun | None:
        chosen = [run for run in self.gangs.values() if wanted(run)]
        return self.dice.choice(chosen) if chosen else None

    def millis(self) -> Millis:
        return Millis(round(1000 * self.harness.now))

    def stamp(self) -> str:
        return f"{datetime.fromtimestamp(self.harness.now, UTC):%Y-%m-%dT%H:%M:%SZ}"

    def tell(self) -> None:
        data = {KEY: windows_text(self.windows), RESERVATIONS: reservations_text(self.reservations)}
        self.harness.core.windows_changed({"data": data})

    def tell_nodes(self) -> None:
        for node in NODES:
            status = self.bad.get(node, NodeStatus(node, ready=True, schedulable=True))
            if status is None:
                self.harness.core.node_gone(node)
            else:
                self.harness.core.node_changed(status)

    def tell_devices(self) -> None:
        """As the core does when a driver says so, of which there is none here."""
        core = self.harness.core
        for node in NODES:
            found = {index: "xid 79" for name, index in sorted(self.broken) if name == node}
            for index in core.health.judge_devices(node, found):
                good = index not in core.health.bad_devices.get(node, {})
                core.record_outcomes(core.book.report_device(node, index, good, self.harness.now))

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
        self.repairing.add(metadata["uid"])
        run.pods[number] = {**old, "metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}
        self.harness.create(run.pods[number])

    # --- what must hold

    def used_devices(self) -> UseBefore:
        """What gangs that have a place hold and borrow."""
        held, places = Counter[tuple[str, str]](), Counter[tuple[str, bool]]()
        state = self.harness.core.book.engine.state
        groups, reserver = state.groups.by_name, state.occupancy.reserver
        for name, run in self.gangs.items():
            group = groups.get(f"paictl-jobs/{name}")
            if group is not None:
                guaranteed = group.virtual is not None  # whoever was preempted lazily has no guarantee any more
                theirs = sum(reserver.get(leaf, group.name) != group.name for leaf in group.leaves())
                places[run.vc, guaranteed] += run.devices - theirs
                if guaranteed:
                    held[run.vc, run.user] += run.devices
        return UseBefore(held, places)

    def started(self, run: GangRun, pod: Json, before: UseBefore | None, *, earlier: bool) -> None:
        """A pod has just been bound: it may have been. `before`: what was used, None if it had a place already.
        `earlier`: whether it or its gang was answered before, when a window may not have been known."""
        node, name = pod["spec"]["nodeName"], pod["metadata"]["name"]
        self.stats["bound"] += 1
        first = len(run.bound) == 1
        if first or pod["metadata"]["uid"] in self.repairing:  # others of a gang follow the first
            assert node not in self.bad, f"{name} is bound to {node}, which is bad"
        if pod["metadata"]["uid"] in self.repairing:
            self.stats["members repaired"] += 1
        if first and not earlier:
            self.times(run, node, name)
        if first and before is not None:  # limits count when a gang gets its place, or begins to preempt for it
            self.limits(run, before)

    def times(self, run: GangRun, node: str, name: str) -> None:
        """A gang that starts meets no window and no reservation of others on its node."""
        now = self.harness.now
        ends = now + run.limit if run.limit is not None else float("inf")
        kept = [(one.name, one.nodes, one.start, one.end) for one in self.windows]
        for known in self.reservations:
            span = known.occurrence(self.millis())
            if known.nodes and known.name != run.reservation and span is not None:
                kept.append((known.name, known.nodes, *span))
        for what, nodes, start, end in kept:
            if node in nodes:
                clear = end <= 1000 * now or start >= 1000 * ends
                assert clear, f"{name} would still run on {node} in {what}"

    def limits(self, run: GangRun, before: UseBefore) -> None:
        """A gang that gets its place keeps budgets and limits."""
        rules = self.rules
        for budget in rules.budgets.all:
            if budget.vc == run.vc and budget.over is not OverBudget.WARN and budget.user in ("", EACH, run.user):
                users = ("ann", "bob") if not budget.user else (run.user,)
                used = sum(self.used[run.vc, user] for user in users)
                assert used < budget.most, f"the budget of {budget.vc} {budget.user} is used up"
        if run.priority >= 0:
            most = rules.limits.of(run.vc, run.user)
            held = before.held[run.vc, run.user]
            assert most is None or held + run.devices <= most, f"{run.user} holds {held} and more"
            if (spare := rules.spares.devices.get(run.vc)) is not None:
                held = before.places[run.vc, True]
                assert held + run.devices <= self.promised[run.vc] - spare, f"{run.vc} holds {held} of its spares"
        elif (borrows := rules.borrowing.devices.get(run.vc)) is not None:
            assert before.places[run.vc, False] + run.devices <= borrows, f"{run.vc} borrows too much"
        if run.priority < 0:
            self.lending(run, before)

    def lending(self, run: GangRun, before: UseBefore) -> None:
        """Whoever limits its lending keeps the rest of its idle promise when others borrow."""
        state, places = self.harness.core.book.engine.state, before.places + Counter({(run.vc, False): run.devices})
        tree, in_use = state.physical, {leaf for group in state.groups.by_name.values() for leaf in group.leaves()}
        leaves = [leaf for node in NODES for cell in tree.nodes.get(node, ()) for leaf in tree.leaves(cell)]
        free = sum(leaf not in in_use and not state.counts.bad[leaf] for leaf in leaves)
        unpromised = free + sum(places.values()) - sum(self.promised.values())
        idle = {vc: self.promised[vc] - places[vc, True] for vc in VCS}
        own = max(0, idle[run.vc] - before.places[run.vc, False])
        if run.devices <= own - min(own, self.rules.lending.devices.get(run.vc, own)):
            return  # what it does not lend anyway is its own, however much is bad
        for vc, most in self.rules.lending.devices.items():
            others = [other for other in VCS if other != vc]
            lends = min(most, max(0, idle[vc] - places[vc, False]))
            room = unpromised + sum(idle[other] for other in others) + lends
            borrowed = sum(places[other, False] for other in others)
            assert run.vc == vc or borrowed <= room, f"others borrow {borrowed} of {room} that {vc} leaves them"

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
        groups = self.harness.core.book.engine.state.groups.by_name
        for preemption in self.harness.core.book.preemptions():
            taker = preemption.group.rpartition("/")[2]
            for name in {names[uid] for _, uids in preemption.victims for uid in uids if uid in names}:
                chosen.add((taker, name))
                if name in doomed or taker not in self.gangs or name not in self.gangs:
                    continue
                by, run = self.gangs[taker], self.gangs[name]
                least = self.rules.preemption.min_run_time(run.vc) / 1000
                # after a restart one that was preempted lazily may have the guarantee of another, as in HiveD
                holds = groups[f"paictl-jobs/{name}"].virtual is not None
                if by.vc == run.vc and holds and not run.lazy:
                    self.stats["chosen by their own tenant"] += 1
                    began = any(pod["status"].get("startTime") for pod in run.bound)  # not if all were replaced
                    ran = self.harness.now - run.began if began and run.began is not None else least
                    assert ran >= least or run.going, f"{name} had run for {ran} s"
        self.chosen = chosen

    def check(self) -> None:
        """After each operation."""
        core = self.harness.core
        validate(core.book.engine.state)
        for counter in core.allowances._counters:  # of owners it remembers more than can be found out
            if isinstance(counter, BorrowedDevices | DevicesInUse):
                fresh = type(counter)()
                fresh.start(core.book.engine.state.groups.by_name)
                assert counter.devices == fresh.devices, f"{type(counter).__name__} has lost count"
        users: Counter[tuple[str, int]] = Counter()
        for run in self.gangs.values():
            for pod in run.bound:
                devices = pod["metadata"]["annotations"][ISOLATION].split(",")
                assert len(devices) == pod["leaves"]
                users.update((pod["spec"]["nodeName"], int(device)) for device in devices)
        assert all(number == 1 for number in users.values()), f"two pods have {users.most_common(1)}"
