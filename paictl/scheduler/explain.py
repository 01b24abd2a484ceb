"""Why a pod waits, and the smallest changes that would let it run now.

An explanation goes from the VC's quota over the cells of each view to the groups in the way. The changes are
found by trying: each is imagined in a journal transaction that rolls back, and the real search is asked again.
"""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from paictl.scheduler import transitions
from paictl.scheduler.binding import UNBOUND
from paictl.scheduler.decision import Attempt, Wait
from paictl.scheduler.groups import Group, GroupState
from paictl.scheduler.occupancy import FREE_PRIORITY, OPPORTUNISTIC
from paictl.scheduler.placement.pack import idle_steps, pack
from paictl.scheduler.placement.search import Found, candidate_views, search
from paictl.scheduler.placement.suggested import Suggested
from paictl.scheduler.request import MAX_PRIORITY

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from paictl.scheduler.engine import Engine
    from paictl.scheduler.request import PodRequest
    from paictl.scheduler.state import State
    from paictl.scheduler.views import NodeIndex

TRIED_GROUPS = 64
"""How many groups, smallest first, are tried for removal."""


@dataclass(frozen=True, slots=True)
class LevelReport:
    """Cells of one type in a view: how many are wholly free, at all, bad, or on nodes that are not suggested."""

    cell_type: str
    total: int
    free: int
    bad: int
    not_suggested: int


@dataclass(frozen=True, slots=True)
class Holder:
    """A group that uses leaves of a view."""

    group: str
    vc: str
    priority: int
    leaves: int


@dataclass(frozen=True, slots=True)
class ViewReport:
    """One view that was tried: its cells, from the largest type to the leaf, and who uses them."""

    attempt: Attempt
    levels: tuple[LevelReport, ...]
    holders: tuple[Holder, ...]


class ChangeKind(StrEnum):
    """What could be changed."""

    GROUPS_END = "groups end"
    PRIORITY = "higher priority"
    QUOTA = "more quota"
    OPPORTUNISTIC = "opportunistic"
    NODES_HEAL = "nodes heal"
    SUGGESTIONS = "ignore suggested nodes"


@dataclass(frozen=True, slots=True)
class Change:
    """A change that alone lets the pod run now (for a higher priority: perhaps after a preemption).

    `names` are the groups that end or the nodes that heal, `number` the priority or the further cells of
    `cell_type`.
    """

    kind: ChangeKind
    names: tuple[str, ...] = ()
    number: int = 0
    cell_type: str = ""


@dataclass(frozen=True, slots=True)
class Explanation:
    """The whole answer. Without views the pod does not wait."""

    pod: str
    group: str
    vc: str
    needed: int
    reason: str
    views: tuple[ViewReport, ...] = ()
    changes: tuple[Change, ...] = ()


def explain(engine: Engine, request: PodRequest, suggested: Collection[str] | None = None) -> Explanation:
    """Explain what `engine.plan` says to a request; changes nothing.

    Raises `RequestError` where `plan` does.
    """
    decision = engine.plan(request, suggested)
    needed = sum(leaves * pods for leaves, pods in request.members)
    if not isinstance(decision, Wait):
        kind = type(decision).__name__
        return Explanation(request.name, request.group, request.vc, needed, f"it does not wait: {kind}")
    offered = None
    if suggested is not None and not request.ignore_suggested:
        offered = Suggested(frozenset(suggested), engine.state.physical)
    explainer = _Explainer(engine.state, request, offered)
    views = tuple(
        explainer.view(attempt, index)
        for attempt, (_, index) in zip(decision.attempts, candidate_views(engine.state, request), strict=True)
    )
    changes = tuple(explainer.changes())
    return Explanation(request.name, request.group, request.vc, needed, decision.reason, views, changes)


class _Explainer:
    """One request that waits."""

    def __init__(self, state: State, request: PodRequest, suggested: Suggested | None) -> None:
        self.state = state
        self.request = request
        self.suggested = suggested

    # --- what is there

    def view(self, attempt: Attempt, index: NodeIndex) -> ViewReport:
        """The cells and users of one view."""
        rows: dict[int, Counter[str]] = {}
        tree = self.state.virtual if self.request.guaranteed else self.state.physical
        for node in index.cells:
            for cell in range(node, tree.end(node)):
                self._count(cell, rows.setdefault(tree.level[cell], Counter()))
        types = tree.chains[tree.chain[index.cells[0]]].types
        levels = tuple(
            LevelReport(types[level], row["total"], row["free"], row["bad"], row["not suggested"])
            for level, row in sorted(rows.items(), reverse=True)
        )
        return ViewReport(attempt, levels, tuple(self._holders(index)))

    def _count(self, cell: int, row: Counter[str]) -> None:
        state = self.state
        physical = state.binding.physical[cell] if self.request.guaranteed else cell
        used = state.counts.used[cell] if self.request.guaranteed else self._used(cell)
        bad = physical != UNBOUND and bool(state.counts.bad[physical])
        away = physical != UNBOUND and self.suggested is not None and not self.suggested.node(physical)
        row["total"] += 1
        row["bad"] += bad
        row["not suggested"] += away
        row["free"] += not used and not bad and not away

    def _used(self, cell: int) -> int:
        return self.state.counts.opportunistic[cell] + self.state.counts.guaranteed[cell]

    def _holders(self, index: NodeIndex) -> Iterator[Holder]:
        """Groups by the number of leaves they use in a view, smallest first."""
        state = self.state
        held: Counter[str] = Counter()
        for node in index.cells:
            for cell in (state.virtual if self.request.guaranteed else state.physical).leaves(node):
                leaf = state.binding.physical[cell] if self.request.guaranteed else cell
                used = cell in state.occupancy.virtual_priority if self.request.guaranteed else True
                name = state.occupancy.reserver.get(leaf) or state.occupancy.user.get(leaf)
                if used and name is not None:
                    held[name] += 1
        for name, leaves in sorted(held.items(), key=lambda item: (item[1], item[0])):
            group = state.groups.by_name[name]
            yield Holder(name, group.vc, group.priority, leaves)

    # --- what would help

    def changes(self) -> Iterator[Change]:
        """The smallest change of each kind that lets the pod run."""
        yield from self._groups_end()
        yield from self._priority()
        yield from self._quota()
        as_opportunistic = replace(self.request, priority=OPPORTUNISTIC, pinned_id="")
        if self.request.guaranteed and self._fits(as_opportunistic):
            yield Change(ChangeKind.OPPORTUNISTIC)
        yield from self._nodes_heal()
        if self.suggested is not None and isinstance(search(self.state, self.request, None), Found):
            yield Change(ChangeKind.SUGGESTIONS)

    def _fits(self, request: PodRequest | None = None) -> bool:
        return isinstance(search(self.state, request or self.request, self.suggested), Found)

    @contextmanager
    def _imagine(self) -> Iterator[None]:
        mark = self.state.journal.begin()
        try:
            yield
        finally:
            self.state.journal.rollback(mark)

    def _groups_end(self) -> Iterator[Change]:
        """The groups that use the views: one alone if that is enough, else as few as can be found greedily."""
        names = [
            holder.group for _, index in candidate_views(self.state, self.request) for holder in self._holders(index)
        ]
        names = list(dict.fromkeys(names))[:TRIED_GROUPS]
        for name in names:
            if self._fits_without([name]):
                yield Change(ChangeKind.GROUPS_END, (name,))
                return
        ended = self._smallest(names, self._fits_without)
        if ended:
            yield Change(ChangeKind.GROUPS_END, tuple(sorted(ended)))

    def _fits_without(self, names: list[str]) -> bool:
        with self._imagine():
            for name in names:
                self._end(self.state.groups.by_name[name])
            return self._fits()

    def _end(self, group: Group) -> None:
        if group.state is GroupState.PREEMPTING:
            transitions.cancel_preemption(self.state, group)
        else:
            transitions.delete(self.state, group)

    def _smallest(self, names: list[str], works: Callable[[list[str]], bool]) -> list[str]:
        """A subset that works and of which no element can be left out; empty if all together do not."""
        if not names or not works(names):
            return []
        kept = list(names)
        for name in reversed(names):  # the largest groups come last: do without them if possible
            rest = [other for other in kept if other != name]
            if rest and works(rest):
                kept = rest
        return kept

    def _priority(self) -> Iterator[Change]:
        """The lowest priority at which the pod runs, if need be by preempting."""
        if not self.request.guaranteed:
            return
        held = {
            priority + 1
            for priority in self.state.occupancy.virtual_priority.values()
            if FREE_PRIORITY < self.request.priority <= priority < MAX_PRIORITY
        }
        for priority in sorted(held):
            if self._fits(replace(self.request, priority=priority)):
                yield Change(ChangeKind.PRIORITY, number=priority)
                return

    def _quota(self) -> Iterator[Change]:
        """How many further cells of the smallest fitting type the VC would need, if the cluster can spare them."""
        if not self.request.guaranteed or self.request.pinned_id:
            return
        sizes = [leaves for leaves, pods in self.request.members for _ in range(pods)]
        for _, index in candidate_views(self.state, self.request):
            chain = self.state.virtual.chain[index.cells[0]]
            types = self.state.physical.chains[chain]
            level = next((at for at in range(1, types.node_level + 1) if types.leaves[at] >= sizes[-1]), 0)
            spare = min(self.state.ledger.surplus(chain)[level], len(sizes)) if level else 0
            for number in range(1, spare + 1):
                further = {types.leaves[level]: ((1 << number) - 1) << len(index.cells)}
                cells = [*index.cells, *[UNBOUND] * number]
                if pack([*idle_steps(index), further], sizes, cells, None) is not None:
                    yield Change(ChangeKind.QUOTA, number=number, cell_type=types.types[level])
                    return

    def _nodes_heal(self) -> Iterator[Change]:
        """The bad nodes that have to heal."""
        tree, bad = self.state.physical, sorted(self.state.health.bad_nodes)
        chains = {self._chain(index) for _, index in candidate_views(self.state, self.request)}
        names = [name for name in bad if any(tree.chain[node] in chains for node in tree.nodes[name])][:TRIED_GROUPS]
        for name in names:
            if self._fits_healed([name]):
                yield Change(ChangeKind.NODES_HEAL, (name,))
                return
        healed = self._smallest(names, self._fits_healed)
        if healed:
            yield Change(ChangeKind.NODES_HEAL, tuple(healed))

    def _chain(self, index: NodeIndex) -> int:
        return (self.state.virtual if self.request.guaranteed else self.state.physical).chain[index.cells[0]]

    def _fits_healed(self, names: list[str]) -> bool:
        with self._imagine():
            for name in names:
                self.state.health.turn_healthy(name)
            return self._fits()
