"""The part of a scheduler around the core: the queue of waiting pods, and who is tried when.

Pods are tried by priority, then by submission, as OpenPAI's per-job priority classes make kube-scheduler do. What has
just been refused is not tried again before something was released that can matter to it: same state, same decision.
That makes a round cost as much as there are *different* requests, not as there are waiting pods. What it tells its
cluster are actions: pods that run, that must go, that lost their guarantee.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeAlias

from paictl.cluster.embedded.waiting import (
    OfVc,
    Signature,
    WaitingGangs,
    WithoutGuarantee,
    shown_as_bad,
)
from paictl.frozen import frozen
from paictl.scheduler.book import Allocation, Book, reclassed
from paictl.scheduler.decision import BindInfo, Preempt
from paictl.scheduler.engine import Engine
from paictl.scheduler.errors import RequestError
from paictl.scheduler.events import GroupChange, Outcome, RunningPod
from paictl.scheduler.groups import Group, GroupState
from paictl.units import Millis
from paictl.workload.backfill import Foresight, LineGang, LineStarts
from paictl.workload.devicelimits import devices_of
from paictl.workload.reserved import Clash, ReservedCells, Unready
from paictl.workload.usage import promises
from paictl.workload.windows import Windows

if TYPE_CHECKING:
    from paictl.cells.spec import ClusterSpec
    from paictl.scheduler.request import PodRequest
    from paictl.scheduler.sparing import Sparing
    from paictl.workload.lentorder import Rank, Turns
    from paictl.workload.startpromises import LineRow, StartPromises


@frozen
class Bound:
    """A pod runs now."""

    uid: str
    info: BindInfo


@frozen
class Evicted:
    """Pods that must go, so that another group can run."""

    uids: tuple[str, ...]
    preemptor: str


@frozen
class Demoted:
    """A group lost its guarantee (lazy preemption) and runs on."""

    group: str
    preemptor: str


Action: TypeAlias = Bound | Evicted | Demoted


@frozen
class Survivors:
    """What a scheduler finds when it starts."""

    healthy: Sequence[str]
    """Names of the nodes that may be used."""
    bad_devices: Sequence[tuple[str, int]]
    """(node, number) of devices that are broken, those of nodes that may not be used, too."""
    running: Sequence[RunningPod]
    """The pods that run, with their places."""


def demotions(outcomes: Iterable[Outcome]) -> Iterator[Demoted]:
    """Groups that lost their guarantee and run on; one whose devices are taken as well does not."""
    for outcome in outcomes:
        match outcome:
            case GroupChange(name, before, after) if before and after and before.virtual and not after.virtual:
                if after.state is not GroupState.BEING_PREEMPTED:
                    yield Demoted(name, after.preemptor or "")


NO_WINDOWS: Final = Windows()

Obstruction: TypeAlias = "Unready | Clash | None"
"""Why a gang waits for the sake of reservations."""


class Dispatcher:
    """Waiting pods and the book that places them; stands still while there is none."""

    def __init__(self) -> None:
        self._book: Book | None = None
        self._make: Callable[[], Book] | None = None
        """Makes the book when it is asked for the first time."""
        self._nodes: Collection[str] | None = None
        """Names of the nodes that the book to be made will have, where they are known."""
        self.waiting = WaitingGangs()
        self._joining: dict[str, None] = {}
        """Groups with waiting pods of which others run already: these have their places."""
        self.obstacle: Callable[[PodRequest], str] = lambda _: ""
        """Why a gang that holds nothing may not start now, whatever is free; empty if it may. Only after `hold_by`."""
        self.noted: Callable[[Sequence[object]], None] = lambda _: None
        """Told of what the book did."""
        self.end_of: Callable[[str], Millis | None] = lambda _: None
        """When a group that holds devices ends at the latest; None: it may run for ever."""
        self.backfill: StartPromises | None = None
        """Who has a promised start, and so must not be delayed by others; None: nobody has."""
        self.turns: Callable[[], Turns | None] | None = None
        """Who of the opportunistic gangs goes first; None: whoever was submitted first. Only after `hold_by`."""
        self.sparing: Sparing | None = None
        """What groups lose if they are preempted, where that decides who goes; set by `spare`."""
        self.reserved: ReservedCells | None = None
        """What is kept for gangs that name a reservation; None: nothing is."""
        self.windows = NO_WINDOWS
        """The maintenance windows as `next` was told last."""
        self._settled: tuple[int, dict[str, LineStarts]] | None = None
        """The promises as they are at a version of the engine, for the gangs that are tried in one call of `next`."""
        self._reclassed: dict[str, bool] = {}
        """Whether groups have a guarantee that lost theirs or got it back since the caller last asked."""

    @property
    def book(self) -> Book | None:
        """The book that places pods, None while the scheduler is stopped; may raise what its maker raises."""
        if self._make is not None:
            self._book, self._make = self._make(), None
            self._book.engine.sparing = self.sparing
            self._rejoin()
        return self._book

    @property
    def engine(self) -> Engine | None:
        """The engine that decides, None while the scheduler is stopped."""
        return None if self.book is None else self.book.engine

    @property
    def nodes(self) -> Collection[str] | None:
        """Names of the nodes of the scheduler's configuration, in its order; None while the scheduler is stopped."""
        if self._make is not None and self._nodes is not None:
            return self._nodes
        return None if self.engine is None else self.engine.state.physical.nodes

    # --- what device time is booked by

    def guaranteed(self, group: str) -> bool:
        """Whether a group holds its devices with a guarantee; not so if the scheduler does not know it."""
        known = None if self.engine is None else self.engine.state.groups.by_name.get(group)
        return known is not None and known.virtual is not None

    def leaf_type(self, chain: str) -> str:
        """The type of the devices of a chain; the chain's name if the scheduler does not know it."""
        chains = () if self.engine is None else self.engine.state.physical.chains
        return next((known.leaf_type for known in chains if known.name == chain), chain)

    def promises(self) -> dict[tuple[str, str], int]:
        """Devices that the scheduler's configuration promises, by virtual cluster and leaf type."""
        return {} if self.engine is None else promises(self.engine.state)

    def take_reclassed(self) -> dict[str, bool]:
        """Groups that lost their guarantee (False) or got it back since the last call."""
        taken, self._reclassed = self._reclassed, {}
        return taken

    # --- the queue

    def add(self, request: PodRequest, number: int, limit: Millis | None = None, reservation: str = "") -> None:
        """A pod waits; `number` is its job's place in the order of submission, `limit` how long it runs at most.

        `reservation` is the one that its job is for.
        """
        self.waiting.add(request, number, limit, reservation)
        self._join(request.group)

    def _join(self, group: str) -> None:
        if self.engine is not None and group in self.engine.state.groups.by_name:
            self._joining[group] = None

    def remove(self, uid: str, now: float) -> list[Outcome]:
        """A pod is gone, whether it waited or ran; what it held is free."""
        self._leave(uid)
        return [] if self.book is None else self._heard(self.book.gone(uid, now))

    def _leave(self, uid: str) -> None:
        """A pod waits no longer, if it did."""
        request = self.waiting.remove(uid)
        if request is not None and request.group not in self.waiting:
            self._joining.pop(request.group, None)

    def hold_by(self, owner: Callable[[PodRequest], str] | None) -> None:
        """From now on `obstacle` is asked, whose answer depends on the user too; never with None.

        Every group that waits gets another chance.
        """
        self.waiting.count_by(owner)

    def spare(self, sparing: Sparing | None) -> None:
        """From now on victims are chosen by what they lose; by HiveD's order with None."""
        self.sparing = sparing
        if self._book is not None:
            self._book.engine.sparing = sparing

    def held(self) -> Iterator[PodRequest]:
        """A pod of each kind of request that would be tried now if nothing held it back."""
        for bucket in self.waiting.buckets.values():
            request = self.waiting.head(bucket)
            if not bucket.refused and self._is_held_back(request):
                yield request

    def _is_held_back(self, request: PodRequest) -> bool:
        return self.waiting.owner is not None and bool(self.obstacle(request))

    # --- the book

    def start(self, spec: ClusterSpec, survivors: Survivors) -> None:
        """Start scheduling by a configuration; pods that run stay where they are, whatever it says."""
        book = Book(Engine(spec))
        for name in survivors.healthy:
            book.report(name, True)
        for name, device in survivors.bad_devices:
            book.report_device(name, device, healthy=False)
        book.recover(survivors.running)
        self.resume(book)

    def resume(self, book: Book | None) -> None:
        """Go on with a book as it is, or stop scheduling with None."""
        self._book, self._make = book, None
        if book is not None:
            book.engine.sparing = self.sparing
        self._rejoin()
        self.waiting.reconsider()

    def resume_later(self, make: Callable[[], Book], nodes: Iterable[str] | None) -> None:
        """Go on with the book that `make` gives when one is asked for: whoever only looks at a cluster never asks.

        `nodes` are the names of the nodes that it will have; None if that is not known before.
        """
        self._book, self._make = None, make
        self._nodes = None if nodes is None else dict.fromkeys(nodes)

    def _rejoin(self) -> None:
        self._joining.clear()
        for group in self.waiting.groups:
            self._join(group)

    def report(self, node: str, healthy: bool, now: float) -> list[Outcome]:
        """A node became healthy or bad: every refused group gets another chance."""
        if self.book is None:
            return []
        outcomes = self.book.report(node, healthy, now)
        self._note(outcomes)
        self.waiting.reconsider()
        return outcomes

    def report_device(self, node: str, device: int, healthy: bool, now: float) -> list[Outcome]:
        """A device became healthy or bad: every refused group gets another chance."""
        if self.book is None:
            return []
        outcomes = self.book.report_device(node, device, healthy, now)
        self._note(outcomes)
        self.waiting.reconsider()
        return outcomes

    def come_to_rest(self) -> None:
        """Doom what has to be, as storing the state does: which virtual cell shows a bad one depends on when."""
        if self.engine is not None:
            _ = self.engine.state  # settles

    def _heard(self, outcomes: list[Outcome]) -> list[Outcome]:
        """Give refused groups another chance for which a release matters."""
        assert self.engine is not None  # noqa: S101 - asked before
        self._note(outcomes)
        if self._is_entangled():
            self.waiting.reconsider()
        else:
            for outcome in outcomes:
                match outcome:
                    case GroupChange(_, Group() as before, _):
                        self.waiting.reconsider(WithoutGuarantee() if before.virtual is None else OfVc(before.vc))
        return outcomes

    def _is_entangled(self) -> bool:
        """Whether the end of any gang may let any other start: virtual cells may be mapped elsewhere then."""
        assert self.engine is not None  # noqa: S101 - asked by all callers
        health = self.engine.state.health
        return bool(health.bad_nodes or health.bad_leaves or self.windows) or self.reserved is not None

    def next(self, now: float, windows: Windows = NO_WINDOWS) -> list[Action]:
        """Decide about the next group that can be served and carry it out; nothing to do gives an empty list.

        The caller does what the actions say (removing evicted pods with `remove`) and calls again. `now` is in
        seconds of the cluster's clock; `windows` close nodes to who would still run in them.
        """
        self.windows = windows
        if self.engine is None:
            return []
        self._renew_promises(now)
        self._settled = None
        for group in self._candidates():
            if self._waits_for_reservation(group, now) or self._would_delay(group, now):
                self.waiting.refuse(group)
                continue
            actions = self._try(group, now)
            if actions:
                return actions
        return []

    def _candidates(self) -> Iterator[str]:
        """Groups to try, best first: one for each kind of request that was not refused since the last release."""
        heads = self._in_turn(self._heads())
        assert self.engine is not None  # noqa: S101 - asked before
        for group in list(self._joining):
            if group in self.engine.state.groups.by_name:
                if not (self.waiting.first_pod(group).repair and self.waiting.bucket(group).refused):
                    yield group
            else:
                del self._joining[group]
        yield from (group for _, _, group in heads)

    def _heads(self) -> Iterator[tuple[int, int, str]]:
        """The first group of each kind of request that may be tried; of one that is held back, those that preempt."""
        assert self.engine is not None  # noqa: S101 - asked before
        preempting = set(self.engine.state.groups.waiting.values()) if self.waiting.owner is not None else ()
        firsts = self._firsts()
        for key, bucket in self.waiting.buckets.items():
            if bucket.refused:
                continue
            if not self._is_held_back(self.waiting.head(bucket)):
                yield firsts.get(key, bucket.order[0])
            elif preempting:  # victims go for it already, and its place is reserved
                yield from (row for row in bucket.order if row[2] in preempting)

    def _in_turn(self, rows: Iterable[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
        """Groups in the order in which they are tried; opportunistic ones by departments and use, where they count.

        All groups of a kind have one owner and one size then.
        """
        turns = None if self.turns is None else self.turns()
        if turns is None:
            return sorted(rows)

        def place(row: tuple[int, int, str]) -> tuple[int, Rank, int, str]:
            priority, number, group = row
            request, owner, rank = self.waiting.first_pod(group), self.waiting.owner, (0, 0.0, 0)
            if not request.guaranteed and owner is not None:
                rank = turns.rank(request.vc, owner(request), devices_of(request.members))
            return priority, rank, number, group

        return sorted(rows, key=place)

    def waiting_opportunistic(self) -> Iterator[PodRequest]:
        """A pod of each opportunistic group that waits for a place and that nothing else holds back."""
        placed = {} if self.engine is None else self.engine.state.groups.by_name
        for bucket in self.waiting.buckets.values():
            request = self.waiting.head(bucket)
            if not request.guaranteed and not self._is_held_back(request):
                yield from (self.waiting.first_pod(group) for *_, group in bucket.order if group not in placed)

    def _firsts(self) -> dict[Signature, LineRow]:
        """By kind the group that goes before those of it that were submitted earlier, where there is one.

        That is one that preempts already: it has its place, and behind an older gang that comes back to the queue it
        would never be asked again. Else it is the one with the first promised start.
        """
        assert self.engine is not None  # noqa: S101 - asked by all callers
        earliest: dict[Signature, tuple[int, LineRow]] = {}
        promised = () if self.backfill is None else self.backfill.by_start()
        for at, group in (*((-1, group) for group in self.engine.state.groups.waiting.values()), *promised):
            if group in self.waiting:  # what stands in for a member of a gang does not wait itself
                key, row = self.waiting.row(group)
                earliest[key] = min((at, row), earliest.get(key, (at, row)))
        return {key: row for key, (_, row) in earliest.items()}

    # --- backfill

    def starts(self, now: Millis, windows: Windows) -> dict[str, LineStarts]:
        """The promises of each virtual cluster with backfill in which a gang waits; nothing is settled by it."""
        if self.backfill is None or self.engine is None:
            return {}
        made = {
            vc: self.backfill.starts(self.engine, now, windows, vc, line) for vc, line in sorted(self._lines().items())
        }
        return {vc: starts for vc, starts in made.items() if starts is not None}

    def _lines(self) -> dict[str, list[LineGang]]:
        """The first gangs that wait for cells of their virtual cluster where it has backfill, in order."""
        assert self.engine is not None  # noqa: S101 - asked before
        assert self.backfill is not None  # noqa: S101 - asked before
        placed, ranked = self.engine.state.groups.by_name, dict[str, list[tuple[tuple[int, int], int, str]]]()
        most, rules = self.backfill.rules.most, self.backfill.rules
        firsts = self._firsts()
        ahead: dict[Signature, list[LineRow]] = {}
        for _, group in self.backfill.by_start():
            if group in self.waiting:
                kind, row = self.waiting.row(group)
                ahead.setdefault(kind, []).append(row)
        for key, bucket in self.waiting.buckets.items():
            request = self.waiting.head(bucket)
            if not self.backfill.rules.covers(request) or self._is_held_back(request):
                continue
            rows = [firsts.get(key, bucket.order[0]), *islice(bucket.order, most(request.vc)), *ahead.get(key, ())]
            for _, number, group in dict.fromkeys(rows):
                if group not in placed and group not in self.waiting.reservations:  # its start is the reservation's
                    rank = self.backfill.rank(self.waiting.first_pod(group))
                    ranked.setdefault(request.vc, []).append((rank, number, group))
        return {
            vc: [
                LineGang(self.waiting.first_pod(group), self.waiting.limits[group])
                for *_, group in sorted(rows)[: rules.looked_at(vc)]
            ]
            for vc, rows in ranked.items()
        }

    def vc_of(self, group: str) -> str:
        """The virtual cluster of a group of which pods wait; empty if none do."""
        return self.waiting.first_pod(group).vc if group in self.waiting else ""

    def _renew_promises(self, now: float) -> None:
        """Settle who has a promised start; where another has it than before, all of that line get another chance."""
        if self.backfill is not None:
            assert self.engine is not None  # noqa: S101 - asked before
            at = Millis(round(1000 * now))
            for vc in sorted(self.backfill.renew(self.engine, at, self.windows, self._lines)[1]):
                self.waiting.reconsider(OfVc(vc))

    def _would_delay(self, group: str, now: float) -> bool:
        """Whether a group would take cells at this instant that are needed for a promised start."""
        if self.backfill is None or self.engine is None or group in self.engine.state.groups.by_name:
            return False
        request, at = self.waiting.first_pod(group), Millis(round(1000 * now))
        if not self.backfill.rules.covers(request) or group in self.waiting.reservations:
            return False
        if self._settled is None or self._settled[0] != self.engine.version:
            self._settled = self.engine.version, self.starts(at, self.windows)
        starts = self._settled[1].get(request.vc)
        foresight = self.backfill.foresight(self.engine, at, self.windows)
        gang = LineGang(request, self.waiting.limits[group])
        return starts is not None and foresight.delayed_by(gang, starts) is not None

    # --- reservations

    def reserve(self, reserved: ReservedCells | None) -> None:
        """From now on this is kept; every group that waits gets another chance."""
        self.reserved = reserved
        if self.backfill is not None:
            self.backfill.reserved = reserved
        self.waiting.reconsider()

    def foresight(self, now: Millis, windows: Windows) -> Foresight | None:
        """What the future holds from an instant on; None while the scheduler is stopped."""
        if self.engine is None:
            return None

        ahead = windows if self.reserved is None else self.reserved.windows(windows, now)
        return Foresight(self.engine, now, self.end_of, ahead, self.reserved)

    def obstruction(self, request: PodRequest, limit: Millis | None, name: str, foresight: Foresight) -> Obstruction:
        """What keeps a gang from a start for the sake of reservations, None if nothing does; `name` is that of its."""
        if self.reserved is None:
            return Unready(name) if name else None
        return self.reserved.obstruction(foresight, LineGang(request, limit), name)

    def _waits_for_reservation(self, group: str, now: float) -> bool:
        """Whether a group would take cells that are reserved for others, or its own reservation does not last."""
        name = self.waiting.reservations.get(group, "")
        if self.engine is None or (self.reserved is None and not name) or group in self.engine.state.groups.by_name:
            return False
        request, foresight = self.waiting.first_pod(group), self.foresight(Millis(round(1000 * now)), self.windows)
        assert foresight is not None  # noqa: S101 - asked above
        return self.obstruction(request, self.waiting.limits[group], name, foresight) is not None

    def _try(self, group: str, now: float) -> list[Action]:
        actions: list[Action] = []
        for request in self.waiting.pods_of(group):
            done = self._place(request, now)
            if not done:
                self.waiting.refuse(group)
                break
            actions.extend(done)
            if isinstance(done[-1], Evicted):
                break
        return actions

    def _place(self, request: PodRequest, now: float) -> list[Action]:
        """Place a pod or start its preemption; empty if it waits on, as it does for what the configuration lacks."""
        assert self.book is not None  # noqa: S101 - asked before
        asked, offered = self._offered(request, Millis(round(1000 * now)))
        state = self.book.engine.state
        is_new = request.group not in state.groups.by_name
        shown = shown_as_bad(state)
        try:
            answer = self.book.place(asked, offered, now)
        except RequestError:
            return []
        self._note(answer.outcomes)
        actions: list[Action] = list(demotions(answer.outcomes))
        match answer:
            case Allocation(info=info):
                closed = self.windows or self.reserved is not None or shown != shown_as_bad(state)
                if actions or (is_new and closed):  # then a start may let others start, too: `_is_entangled`
                    self.waiting.reconsider()
                self._leave(request.uid)
                actions.append(Bound(request.uid, info))
            case _:
                if answer.outcomes:
                    self.waiting.reconsider()
                if isinstance(answer.decision, Preempt):
                    uids = tuple(uid for _, pods in answer.decision.victims for uid in pods)
                    actions.append(Evicted(uids, request.group))
        return actions

    def _note(self, outcomes: Sequence[Outcome]) -> None:
        self._reclassed.update(reclassed(outcomes))
        self.noted(outcomes)

    def _offered(self, request: PodRequest, now: Millis) -> tuple[PodRequest, frozenset[str] | None]:
        """A request as it is asked, and the nodes that it may use; all (None) without windows and reserved nodes."""
        if self.engine is None:
            return request, None
        windows, limit = self.windows, self.waiting.limits[request.group]
        name, every = self.waiting.reservations.get(request.group, ""), frozenset(self.engine.state.physical.nodes)
        if self.reserved is not None:
            windows = self.reserved.windows(windows, now, name)
        nodes = every - windows.closed(now, limit) if windows else every
        if self.reserved is not None:
            nodes = self.reserved.within(nodes, name)
        return (replace(request, ignore_suggested=False), nodes) if windows or nodes != every else (request, None)
