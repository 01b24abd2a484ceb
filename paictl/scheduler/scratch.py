"""Changes to a live engine that are only imagined and always rolled back, and the smallest part of one that helps."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Generic, TypeAlias, TypeVar

from paictl.frozen import frozen
from paictl.scheduler.decision import NO_LEAF, Bind, Phase, Preempt, Wait
from paictl.scheduler.errors import RequestError
from paictl.scheduler.events import LeafHealth, NodeHealth, PodGone
from paictl.scheduler.groups import Hold, hold_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from paictl.scheduler.decision import Decision
    from paictl.scheduler.engine import Engine
    from paictl.scheduler.groups import Group
    from paictl.scheduler.request import PodRequest
    from paictl.scheduler.state import State

Item = TypeVar("Item")

Repair: TypeAlias = "tuple[str, int | None]"
"""A node that heals, or one of its devices by number."""

BUDGET: Final = 2000
"""Changes that one search for a smallest part may try: a fraction of a second, whatever the size of the cluster."""


@frozen
class Holder:
    """A group that is in the way, or would be."""

    group: str
    vc: str
    priority: int
    hold: Hold
    leaves: int
    """Leaf cells of the whole group, which goes as a whole."""
    here: int
    """Those of them in the view that is explained."""


@frozen
class ChangeOutcome:
    """What would be decided after a change: run at `places`, once the `victims` are gone if there are any."""

    places: tuple[tuple[str, tuple[int, ...]], ...]
    """Node and device indices of each pod, in ascending order of their size."""
    victims: tuple[Holder, ...] = ()
    lazy: tuple[Holder, ...] = ()
    """Groups that would go on running without their guarantee."""
    instances: int = 0
    """MIG instances of each GPU where the devices are these; 0 for whole GPUs."""


@contextmanager
def imagined(engine: Engine) -> Iterator[None]:
    """All changes to the engine inside the context are undone at its end."""
    journal, version, names = engine.state.journal, engine.version, engine.state.groups.by_name
    mark = journal.begin()
    order = list(names)
    try:
        yield
    finally:
        journal.rollback(mark)
        engine.version = version
        if list(names) != order:  # dropped entries came back at the end; inspection lists groups in order
            groups = {name: names[name] for name in order}
            names.clear()
            names.update(groups)


class Scratch:
    """An engine on which changes for one request are imagined."""

    def __init__(
        self,
        engine: Engine,
        request: PodRequest,
        suggested: Collection[str] | None,
        siblings: Collection[str] = (),
    ) -> None:
        self.engine = engine
        self.request = request
        self.siblings = frozenset(siblings)
        """Groups that must not end for the request."""
        self.suggested = None if suggested is None else frozenset(suggested)

    @property
    def state(self) -> State:
        """The state as it is imagined at the moment."""
        return self.engine.state

    def imagine(self) -> AbstractContextManager[None]:
        """All changes to the engine inside the context are undone at its end."""
        return imagined(self.engine)

    def end(self, names: Iterable[str]) -> None:
        """All pods of some groups are gone; groups that no longer exist are skipped."""
        for name in names:
            group = self.state.groups.by_name.get(name)
            if group is not None:
                for uid in (*sorted(group.preempting), *(uid for pods in group.pods for uid in pods if uid)):
                    self.engine.observe(PodGone(uid))

    def heal(self, repairs: Iterable[Repair]) -> None:
        """Some nodes and devices turn healthy."""
        for name, device in repairs:
            event = NodeHealth(name, healthy=True) if device is None else LeafHealth(name, device, healthy=True)
            self.engine.observe(event)

    def helps(self) -> bool:
        """Whether the request would not wait for room now."""
        return self.decide(self.request, self.suggested) is not None

    def decide(self, request: PodRequest, suggested: Collection[str] | None) -> ChangeOutcome | None:
        """The outcome of a request now, None if it would wait for room, be refused, or preempt a sibling."""
        result = outcome_of(self.engine, request, suggested)
        if result is not None and self.siblings and any(victim.group in self.siblings for victim in result.victims):
            return None
        return result


def outcome_of(engine: Engine, request: PodRequest, suggested: Collection[str] | None) -> ChangeOutcome | None:
    """The outcome of a request, None if it would wait for room or be refused; the state is untouched."""
    try:
        decision = engine.plan(request, suggested)
        if isinstance(decision, Preempt) and not decision.joins:  # only this phase says where it would go
            decision = engine.plan(request, suggested, Phase.PREEMPTING)
    except RequestError:
        return None
    return outcome(engine.state, decision)


def outcome(state: State, decision: Decision) -> ChangeOutcome | None:
    """A decision as data, None for a `Wait`."""
    match decision:
        case Wait():
            return None
        case Bind(placement=placement):
            victims: Iterable[str] = ()
        case Preempt(placement=placement):
            victims = {state.groups.slots[uid][0] for _, uids in decision.victims for uid in uids}
    by_name, tree = state.groups.by_name, state.physical
    # without a placement of its own the group is preempting already
    physical = by_name[decision.request.group].physical if placement is None else placement.physical
    places = tuple(
        (tree.node_name(leaves[0]), tuple(map(tree.device, leaves)))
        for pods in physical
        for leaves in pods
        if NO_LEAF not in leaves
    )
    leaves = (leaf for pods in physical for row in pods for leaf in row if leaf != NO_LEAF)
    instances = next((tree.chains[tree.chain[leaf]].instances for leaf in leaves), 0)
    lazy = tuple(holder(by_name[name]) for name in sorted(decision.lazy) if name not in victims)
    return ChangeOutcome(places, tuple(holder(by_name[name]) for name in sorted(victims)), lazy, instances)


def holder(group: Group, counted: int | None = None) -> Holder:
    """A group as the holder of its leaves; `here` is how many of them count, None for all."""
    leaves = sum(leaf_number * pods for leaf_number, pods in group.members)
    return Holder(group.name, group.vc, group.priority, hold_of(group), leaves, leaves if counted is None else counted)


def smallest(scratch: Scratch, items: Sequence[Item], change: Callable[[Iterable[Item]], None]) -> list[Item] | None:
    """A subset of `items` that helps if all of it changes, and of which no single item can be left out.

    Earlier items are preferred. None if all items together do not help, or if it takes more than `BUDGET` changes to
    find out which do; the request must be waiting. Halves are tried before single items, so that k items out of n are
    found by about ``2 k log(n / k)`` attempts (U. Junker, "QuickXplain", AAAI '04).
    """
    search = _Smallest(scratch, change)
    try:
        with search.changed(items):
            if not scratch.helps():
                return None
        needed = search.needed(items, changed=False)
        for item in reversed(needed):  # more changes are not always better for the scheduler: verify each one
            rest = [other for other in needed if other != item]
            with search.changed(rest):
                if scratch.helps():
                    needed = rest
    except _OutOfBudgetError:
        return None
    return list(needed)


class _OutOfBudgetError(Exception):
    """The search has cost too much."""


class _Smallest(Generic[Item]):
    """One search for a smallest part, and how many changes it may still try."""

    def __init__(self, scratch: Scratch, change: Callable[[Iterable[Item]], None]) -> None:
        self.scratch = scratch
        self.change = change
        self.left = BUDGET

    @contextmanager
    def changed(self, items: Sequence[Item]) -> Iterator[None]:
        """Imagine the change of some items."""
        self.left -= len(items)
        if self.left < 0:
            raise _OutOfBudgetError
        with self.scratch.imagine():
            self.change(items)
            yield

    def needed(self, items: Sequence[Item], *, changed: bool) -> Sequence[Item]:
        """The items needed beyond the current changes; `changed` says whether these are new since the last test."""
        if changed and self.scratch.helps():
            return []
        if len(items) == 1:
            return items
        half = len(items) // 2
        with self.changed(items[:half]):
            second = self.needed(items[half:], changed=True)
        with self.changed(second):
            first = self.needed(items[:half], changed=bool(second))
        return [*first, *second]
