"""The reconcile loop: gangs on failed devices, evictions, overdue bindings, pods to requeue. All of it may block on
the network."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from paictl.cluster.devices.claims import ClaimError, ResourceClaim
from paictl.cluster.devices.writing import ClaimWriter
from paictl.doors import claims, conditions, deciding, gangs, housekeeping, pod_events, windows
from paictl.doors.binder import MARGIN
from paictl.doors.core import DoorCore, NotServingError
from paictl.doors.gangs import LostMember
from paictl.doors.housekeeping import Victim
from paictl.doors.pod_events import PodEvent
from paictl.doors.table import GangKey, PodRef
from paictl.doors.windows import MovedGang
from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.remote.kube import budgets, pods
from paictl.remote.kube.client import KubeClient, KubeError
from paictl.remote.kube.pods import Eviction
from paictl.scheduler.book import Preemption
from paictl.scheduler.wire import PREEMPTED_FOR
from paictl.units import Millis

Row = TypeVar("Row")

_LOGGER = logging.getLogger("paictl.doors")


@frozen
class FailingGang:
    """A gang with a bad device."""

    gang: GangKey
    pods: tuple[PodRef, ...]
    """All of its pods that hold devices and do not leave in time; with `members`, only the pods to replace."""
    why: str
    members: bool = False
    """Whether these pods are replaced while the others of the gang keep running."""

    def event(self, pod: PodRef) -> PodEvent:
        """The event of one of its pods, once evicted."""
        return pod_events.left_bad_device(pod, self.why)


def due(core: DoorCore) -> list[FailingGang]:
    """Gangs with a device that has been bad for longer than the deadline; none without a deadline."""
    deadline = core.options.bad_device_deadline
    if deadline is None:
        return []
    with core.guarded():
        before = core.clock() - deadline
        bad = {place for place, since in core.health.bad_since.items() if since <= before}
        if not bad:
            return []
        why: dict[GangKey, str] = {}
        for uid, pod in core.book.pods.items():
            entry = core.table.by_uid.get(uid)
            for index in pod.info.devices if pod.info is not None else ():
                if pod.info is not None and entry is not None and (pod.info.node, index) in bad:
                    reason = core.health.bad_devices.get(pod.info.node, {}).get(index, "")
                    message = f"device {index} of node {pod.info.node} has been bad for {deadline:g} s: {reason}"
                    why.setdefault(core.table.gang(entry.ref, pod.request.group), message)
        gangs: dict[GangKey, list[PodRef]] = {gang: [] for gang in why}
        repaired: set[GangKey] = set()
        for uid, pod in core.book.pods.items():
            entry = core.table.by_uid.get(uid)
            if pod.info is None or entry is None or core.leaves(entry):
                continue
            if (gang := core.table.gang(entry.ref, pod.request.group)) not in gangs:
                continue
            if pod.request.repair:
                repaired.add(gang)
            if not pod.request.repair or any((pod.info.node, index) in bad for index in pod.info.devices):
                gangs[gang].append(entry.ref)
        return [FailingGang(gang, tuple(pods), why[gang], gang in repaired) for gang, pods in gangs.items() if pods]


PERIOD: Final = 0.5
"""Seconds between rounds when nothing wakes the loop."""
BETWEEN_EVICTIONS: Final = (1.0, 30.0)
"""First and longest pause before another attempt at a victim that a budget protects or that did not go."""
NOTED_AGAIN: Final = 10.0
"""Seconds after which a promised start is written again into a pod that does not have it yet."""
LONGEST_ROUND: Final = 2.0
"""Seconds of a round after which no other preemption is looked at: thousands of one tenant take minutes."""
FORGOTTEN: Final = 600.0
"""Seconds after which a failure counts no more."""
REQUEUE: Final = "paictl.io/asked-again"
"""Annotation whose change makes kube-scheduler ask about a pod again."""


@dataclass(slots=True)
class _Attempt:
    """A victim that was asked to go."""

    first: float
    due: float
    pause: float = BETWEEN_EVICTIONS[0]


class Reconciler:
    """One thread that brings the cluster to the state that the core wants."""

    def __init__(
        self,
        client: KubeClient,
        core: DoorCore,
        *,
        remaining: Callable[[], float],
        delete_after: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.client = client
        self.core = core
        self.remaining = remaining
        """Seconds for which this process is sure to lead."""
        self.delete_after = delete_after
        """Seconds after which a victim is deleted although a budget protects it; None: never."""
        self.clock = clock
        self.evicted = 0
        self._attempts: dict[str, _Attempt] = {}
        self._torn: set[str] = set()
        """Victims of whose gang a pod was evicted: what is left of it does no work."""
        self._failing: dict[GangKey, _Attempt] = {}
        """Gangs that are to leave a bad device or a node in maintenance."""
        self._seen: dict[str, float] = {}
        """When each preemption was looked at last, by group."""
        self._nominated: set[str] = set()
        self._noted: dict[tuple[PodRef, Millis | None], float] = {}
        """When promised starts were written into pods that are not known to have them yet."""
        self._written: dict[tuple[str, str, str], float] = {}
        """When conditions of groups were written that are not known to have them yet."""
        self._swept = 0.0
        self._counted = 0.0
        self._part = 0
        """With which part the next sweep begins: behind one that failed."""
        self._asking: dict[PodRef, None] = {}
        """Pods about which kube-scheduler is to be made to ask again."""
        self._failed: dict[Hashable, float] = {}
        """When the API server gave no answer about somebody, or something else went wrong."""
        self._vacant: dict[str, float] = {}
        """Since when the place of a preempting group has been free."""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="reconciler", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Start nothing new."""
        self._stop.set()
        self.core.work.set()

    def _run(self) -> None:
        while not self._stop.is_set():
            self.core.work.wait(PERIOD)
            self.core.work.clear()
            if self._stop.is_set() or self.remaining() <= MARGIN:
                continue
            self.round()

    def round(self) -> None:
        """What is due. A fault in one half keeps the other from nothing."""
        self._survive(self._preempt)
        if self.clock() - self._swept >= PERIOD:  # it looks at every pod: too costly for each change
            self._survive(self._sweep)

    def _survive(self, half: Callable[[], None]) -> None:
        try:
            half()
        except NotServingError:
            return
        except PaictlError:  # the API server is away; the next round tries again
            self._stop.wait(PERIOD)
        except Exception:  # a fault of ours: without this thread nothing would be evicted or repaired any more
            _LOGGER.exception("a round has ended early")
            self._stop.wait(PERIOD)

    def reconcile(self) -> None:
        """Do everything that is due; raises what goes wrong."""
        self._preempt()
        self._sweep()

    def _each(self, rows: Iterable[Row], about: Callable[[Row], Hashable], act: Callable[[Row], None]) -> None:
        """Do something about each; a failure ends the round, and the next one begins with the others.

        A webhook that never answers about the pods of one tenant costs each request about them 15 s.
        """
        for row in sorted(rows, key=lambda row: self._failed.get(about(row), -math.inf)):
            try:
                act(row)
            except Exception:
                self._failed[about(row)] = self.clock()
                raise
            self._failed.pop(about(row), None)

    def _sweep(self) -> None:
        """Everything but preemptions: overdue bindings, pods that would fit now, and so on.

        After a failure the next sweep begins with the part behind the one that failed.
        """
        self._swept = self.clock()
        self._failed = {row: at for row, at in self._failed.items() if self._swept - at < FORGOTTEN}
        parts = self._parts()
        for _ in parts:
            part, self._part = parts[self._part], (self._part + 1) % len(parts)
            part()

    def _parts(self) -> list[Callable[[], None]]:
        """The parts of a sweep. Conditions come last: nothing waits for them."""
        return [
            self._check_doubtful,
            self._requeue,
            self._give_back,
            lambda: housekeeping.note_hung(self.core),
            self.core.heal,
            self._lose_members,
            self._move_gangs,
            self._tell,
            self._note_starts,
            self._take_back_claims,
            self._count_gangs,
            self._preempt_unasked,
            self._write_conditions,
        ]

    def _check_doubtful(self) -> None:
        self._each((*housekeeping.overdue(self.core), *housekeeping.unlisted(self.core)), lambda ref: ref, self._check)

    def _requeue(self) -> None:
        """Have kube-scheduler ask again about pods that would get devices."""
        self._asking |= dict.fromkeys(housekeeping.to_requeue(self.core))
        self._each(tuple(self._asking), lambda ref: ref.namespace, self._ask_again)

    def _ask_again(self, ref: PodRef) -> None:
        if not self._may_act():  # another replica may lead by now and do this itself
            return
        del self._asking[ref]
        if not pods.annotate(self.client, (ref.namespace, ref.name, ref.uid), {REQUEUE: f"{time.time():.3f}"}):
            self._check(ref)

    def _tell(self) -> None:
        for event in [*windows.warned(self.core), *housekeeping.starts(self.core)]:
            self.core.record(event)

    def _count_gangs(self) -> None:
        """Tell pods whose gangs are incomplete, and end those that will not be complete."""
        if self._swept - self._counted >= gangs.PATIENCE / 6:
            self._counted = self._swept
            gangs.tell_missing(self.core)
            self._each(gangs.late(self.core), lambda row: row[0], lambda row: self._end_late(*row))

    def _preempt_unasked(self) -> None:
        for ref in housekeeping.unasked(self.core):
            began = time.perf_counter()
            deciding.preempt_unasked(self.core, ref)
            self._stop.wait(time.perf_counter() - began)  # leaves at least half of the time to questions

    def _write_conditions(self) -> None:
        """Write why groups wait; what was refused, or is not back yet, is not written again in each round."""
        now = self.clock()
        self._written = {row: at for row, at in self._written.items() if now - at < NOTED_AGAIN}
        for status in conditions.outdated(self.core) if self._may_act() else ():
            if self._written.setdefault((status.group.key, *status.condition), now) == now:
                conditions.write_condition(self.client, self.core.options.pod_groups, status)

    def _note_starts(self) -> None:
        """Write promised starts into pods, at most for the time of one round: evictions must not wait for hundreds."""
        began, unnoted = self.clock(), housekeeping.unnoted_starts(self.core)
        self._noted = {row: self._noted[row] for row in unnoted if row in self._noted}
        for row in sorted(unnoted, key=lambda start: self._noted.get(start, -math.inf)):
            now = self.clock()
            if now - self._noted.get(row, -math.inf) < NOTED_AGAIN:  # refused, or the change is not back yet
                break
            if now - began >= PERIOD or not self._may_act():
                break
            self._noted[row] = now
            conditions.note_start(self.client, *row)

    def _end_late(self, ref: PodRef, why: str) -> None:
        """Evict a pod of a gang that will not be complete."""
        if not self._may_act():
            return
        answer, refusal = self._evict_kindly(ref)
        match answer:
            case Eviction.TAKEN:
                self.core.record(pod_events.place_given_back(ref, why))
            case Eviction.REFUSED:
                self.core.record(pod_events.hindered(ref, ref.key, refusal))
            case Eviction.GONE:
                self._check(ref)

    def _move_gangs(self) -> None:
        """Evict gangs that have a bad device or are on a node in maintenance.

        As a whole or, while a budget protects one of their pods, not at all.
        """
        now = self.clock()
        gangs: list[FailingGang | MovedGang] = [*due(self.core), *windows.due(self.core)]
        self._failing = {gang.gang: self._failing.get(gang.gang) or _Attempt(now, now) for gang in gangs}
        self._each(gangs, lambda gang: gang.gang, self._move)

    def _move(self, gang: FailingGang | MovedGang) -> None:
        now, attempt = self.clock(), self._failing[gang.gang]
        if now < attempt.due or not self._may_act():
            return
        attempt.due, attempt.pause = now + attempt.pause, min(2 * attempt.pause, BETWEEN_EVICTIONS[1])
        hindered = self._protected(gang.pods)
        for ref, why in hindered.items():
            self.core.record(pod_events.hindered(ref, ref.key, why))
        for ref in () if hindered else gang.pods:
            if not self._may_act():  # the next leader finds the rest of the gang due
                return
            if isinstance(gang, FailingGang) and gang.members:
                self._lose(LostMember(ref, gang.why, dead=False, grace=self._grace(ref)))
                continue
            answer, refusal = self._evict_kindly(ref)
            if answer is Eviction.TAKEN:
                self.core.record(gang.event(ref))
            elif answer is Eviction.REFUSED:
                self.core.record(pod_events.hindered(ref, ref.key, refusal))
            else:
                self._check(ref)

    def _evict_kindly(self, ref: PodRef) -> tuple[Eviction, str]:
        """Evict a pod for which nobody waits, with the time that it asks for; but no node waits for years."""
        return pods.evict(self.client, ref.namespace, ref.name, ref.uid, grace=self._grace(ref))

    def _grace(self, ref: PodRef) -> int | None:
        entry = self.core.table.by_uid.get(ref.uid)
        return None if entry is None else self.core.grace_of(entry)

    def _lose_members(self) -> None:
        """Give up the pods on lost nodes whose gangs replace them."""
        self._each(gangs.due(self.core), lambda member: member.pod, self._give_up)
        self._note_given_up()
        for node in gangs.ended(self.core) if self._may_act() else ():
            conditions.note_given_up(self.client, node, None)
            self.core.health.ended.discard(node)

    def _give_up(self, member: LostMember) -> None:
        if self._may_act():
            gangs.expect_end(self.core, member)
            self._note_given_up()
            self._lose(member)

    def _note_given_up(self) -> None:
        """Write into nodes that are away which pods may still run there, once: the right may be missing."""
        for node, seconds in self.core.health.unnoted() if self._may_act() else ():
            conditions.note_given_up(self.client, node, int(seconds))
            self.core.health.noted[node] = seconds

    def _lose(self, member: LostMember) -> None:
        ref = member.pod
        pod = ref.namespace, ref.name, ref.uid
        try:
            was_there = pods.lose(self.client, pod, member.why, dead=member.dead, grace=member.grace)
        except KubeError as error:
            if not pods.is_refusal(error):
                raise
            self.core.record(pod_events.hindered(ref, ref.key, error.message))
            return
        if was_there:
            self.core.members["lost"] += 1
            self.core.record(member.event())
        else:
            self._check(ref)

    def _give_back(self) -> None:
        """Give back places that a preemption has freed and that were not taken."""
        now, names = self.clock(), gangs.vacant(self.core)
        self._vacant = {name: self._vacant.get(name, now) for name in names}
        for name, since in self._vacant.items():
            if now - since > self.core.options.deadline:
                gangs.give_back(self.core, name)

    def _take_back_claims(self) -> None:
        """Take back devices that were allocated for a place that was given up."""
        if self.core.claims is None:
            return
        given_up = claims.given_up(self.core)
        try:
            for claim in given_up:
                if self._may_act():
                    self._take_back(self.core.claims.writer, claim)
        finally:
            claims.settled(self.core, given_up)

    def _take_back(self, writer: ClaimWriter, claim: ResourceClaim) -> None:
        """Take back the devices of one claim; if it cannot be changed, others can."""
        try:
            writer.take_back(claim, pods.BIND)
        except ClaimError:
            return
        except KubeError as error:
            if not pods.is_refusal(error):
                raise

    def _check(self, ref: PodRef) -> None:
        """Ask the API server about a pod whose binding is overdue, or that may be gone."""
        pod = pods.get(self.client, ref.namespace, ref.name)
        if pod is None or pod["metadata"].get("uid") != ref.uid:
            self.core.pod_gone(ref.uid)
        elif pod["spec"].get("nodeName"):
            self.core.pod_changed(pod)
        else:
            self.core.pod_changed(pod)
            housekeeping.release(self.core, ref)

    def _preempt(self) -> None:
        """Evict victims gang by gang."""
        preemptions, began = housekeeping.preemptions(self.core, self._seen), self.clock()
        self._seen = {row.group: self._seen[row.group] for row in preemptions if row.group in self._seen}
        victim_uids = {uid for preemption in preemptions for _, uids in preemption.victims for uid in uids}
        self._attempts = {uid: attempt for uid, attempt in self._attempts.items() if uid in victim_uids}
        self._torn &= victim_uids
        self._nominated &= {uid for preemption in preemptions for uid in preemption.waiting}

        def clear(preemption: Preemption) -> None:
            if self.clock() - began > LONGEST_ROUND:
                self.core.work.set()  # the others have their turn when those that have come meanwhile are known, too
                return
            self._seen[preemption.group] = self.clock()
            self._clear(preemption)

        self._each(preemptions, lambda preemption: preemption.group, clear)

    def _clear(self, preemption: Preemption) -> None:
        """Have the victims of one preemption go."""
        self._nominate(preemption)  # first, because it finds out whether the waiting pods still exist
        for uids in housekeeping.gangs(self.core, preemption):
            self._evict_gang(preemption, uids)

    def _evict_gang(self, preemption: Preemption, uids: Sequence[str]) -> None:
        """Evict the pods of a gang, or none of them: half a gang holds devices and does no work.

        If budgets may be overruled, a budget that the owner creates in between does not keep the rest.
        """
        now = self.clock()
        due = (uid for uid in uids if uid not in self._attempts or now >= self._attempts[uid].due)
        candidates = (housekeeping.victim(self.core, preemption.group, uid) for uid in due)
        victims = [victim for victim in candidates if victim is not None]
        if not victims or not self._may_act():
            return
        attempts = [self._attempts.setdefault(victim.pod.uid, _Attempt(now, now)) for victim in victims]
        waited, torn = now - min(attempt.first for attempt in attempts), not self._torn.isdisjoint(uids)
        overrule = self.delete_after is not None and (torn or waited >= self.delete_after)
        hindered = {} if overrule else self._protected([victim.pod for victim in victims])
        for ref, why in hindered.items():
            self._tell_hindered(preemption, ref, why)
        for attempt, victim in zip(attempts, victims, strict=True):
            if not hindered and self._may_act() and self._evict(preemption, victim, overrule=overrule):
                self._torn.update(uids)
            attempt.due = self.clock() + attempt.pause
            attempt.pause = min(2 * attempt.pause, BETWEEN_EVICTIONS[1])

    def _may_act(self) -> bool:
        return not self._stop.is_set() and self.remaining() > MARGIN

    def _protected(self, refs: Sequence[PodRef]) -> dict[PodRef, str]:
        """Those that budgets protect now, individually (with the API server's message) or all together."""
        answers = ((ref, pods.evict(self.client, ref.namespace, ref.name, ref.uid, only_ask=True)) for ref in refs)
        refused = {ref: why for ref, (answer, why) in answers if answer is Eviction.REFUSED}
        if refused or len(refs) == 1:
            return refused
        together = budgets.overdrawn(self.client, [(ref.namespace, ref.name, ref.uid) for ref in refs])
        return {PodRef(*pod): why for pod, why in together.items()}

    def _tell_hindered(self, preemption: Preemption, victim: PodRef, why: str) -> None:
        for waiting_uid in preemption.waiting:
            entry = self.core.table.by_uid.get(waiting_uid)
            if entry is not None:
                own = self.core.table.same_user(waiting_uid, victim.uid)
                decision = (
                    pod_events.hindered(entry.ref, victim.key, why) if own else pod_events.hindered_elsewhere(entry.ref)
                )
                self.core.record(decision)

    def _evict(self, preemption: Preemption, victim: Victim, *, overrule: bool) -> bool:
        """Evict one pod; whether the API server has agreed."""
        ref, group = victim.pod, victim.group
        pods.annotate(self.client, (ref.namespace, ref.name, ref.uid), {PREEMPTED_FOR: group.name})
        answer, why = pods.evict(self.client, ref.namespace, ref.name, ref.uid, grace=victim.grace)
        if answer is Eviction.REFUSED and overrule:
            try:
                pods.delete(self.client, ref.namespace, ref.name, ref.uid, victim.grace)
            except KubeError as error:
                if not pods.is_refusal(error):
                    raise
                why = error.message
            else:
                self.core.record(pod_events.overruled(ref, group.name, why))
                answer = Eviction.TAKEN
        match answer:
            case Eviction.TAKEN:
                self.evicted += 1
                self.core.record(pod_events.preempted(ref, group, victim.node))
            case Eviction.REFUSED:
                self._tell_hindered(preemption, ref, why)
            case Eviction.GONE:
                self._check(ref)
        return answer is Eviction.TAKEN

    def _nominate(self, preemption: Preemption) -> None:
        """Nominate nodes, so that kube-scheduler keeps room for pods whose victims are terminating."""
        for ref, node in housekeeping.places(self.core, preemption):
            if ref.uid not in self._nominated and self._may_act():
                self._nominated.add(ref.uid)
                if not pods.nominate(self.client, (ref.namespace, ref.name, ref.uid), node):
                    self._check(ref)
