"""Every invariant of the state, recomputed from scratch.

Walks the whole cluster: run it after each step of a test, and in production only when asked to (``--validate``).
Nothing is taken from an index that could be recomputed from the bindings, the users and the bad nodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from paictl.cells.ids import NO_PARENT, NO_VIRTUAL
from paictl.cells.spec import LEAF_LEVEL
from paictl.scheduler.binding import UNBOUND
from paictl.scheduler.buddy import PARTLY_BAD
from paictl.scheduler.decision import NO_LEAF, Slot
from paictl.scheduler.errors import InvariantError
from paictl.scheduler.groups import Group, GroupState
from paictl.scheduler.occupancy import OPPORTUNISTIC
from paictl.scheduler.views import VirtualIndex, members

if TYPE_CHECKING:
    from collections.abc import Iterator

    from paictl.cells.ids import C, ChainIndex, PhysicalCell
    from paictl.cells.tree import Tree
    from paictl.scheduler.binding import RootKey
    from paictl.scheduler.state import State


def validate(state: State) -> None:
    """Raise `InvariantError` with everything that is wrong, a line each."""
    checks = (_health, _occupancy, _groups, _pods, _binding, _roots, _buddy, _ledger, _doomed, _views)
    problems = [f"{check.__name__[1:]}: {problem}" for check in checks for problem in check(state)]
    if not problems:  # recomputing the doomed cells may fail on a state that is wrong in other ways
        problems = [f"doomed: {problem}" for problem in _required(state)]
    if problems:
        raise InvariantError("\n".join(problems[:40]))


def _leaves(tree: Tree[C]) -> Iterator[C]:
    return (cell for cell in tree.cells() if tree.level[cell] == LEAF_LEVEL)


def _sums(tree: Tree[C], leaves: dict[C, int]) -> list[int]:
    """Per cell the sum over its leaves."""
    total = [0] * len(tree)
    for cell in reversed(tree.cells()):  # children come after their parent
        total[cell] += leaves.get(cell, 0)
        if tree.parent[cell] != NO_PARENT:
            total[tree.parent[cell]] += total[cell]
    return total


def _health(state: State) -> Iterator[str]:
    """A cell is bad iff one of its leaves is, dead iff all are; bad are those of bad nodes and those reported bad."""
    tree, bad, health = state.physical, state.counts.bad, state.health
    leaves = {
        leaf: 1 for leaf in _leaves(tree) if tree.node_name(leaf) in health.bad_nodes or leaf in health.bad_leaves
    }
    total = _sums(tree, leaves)
    for cell in tree.cells():
        if state.counts.dead[cell] != (total[cell] == len(tree.leaves(cell))):
            yield f"{tree.address(cell)} is {'not ' if not state.counts.dead[cell] else ''}marked dead"
        if health.dead_children[cell] != sum(state.counts.dead[child] for child in tree.children(cell)):
            yield f"{tree.address(cell)} counts {health.dead_children[cell]} dead children"
        if bad[cell] != (total[cell] > 0):
            yield f"{tree.address(cell)} is marked {'bad' if bad[cell] else 'healthy'}"
        if state.health.bad_children[cell] != sum(bad[child] for child in tree.children(cell)):
            yield f"{tree.address(cell)} counts {state.health.bad_children[cell]} bad children"


def _occupancy(state: State) -> Iterator[str]:
    """Counts are sums, held leaves are those with a user or a reserver, at the priority of that group."""
    occupancy, counts, groups = state.occupancy, state.counts, state.groups.by_name
    expected = {}
    for leaf in {*occupancy.user, *occupancy.reserver}:
        group = groups.get(occupancy.reserver.get(leaf) or occupancy.user[leaf])
        if group is None:
            yield f"{state.physical.address(leaf)} belongs to a group that does not exist"
            continue
        expected[leaf] = group.priority if group.virtual is not None else OPPORTUNISTIC
    if expected != occupancy.priority:
        wrong = {leaf for leaf, _ in expected.items() ^ occupancy.priority.items()}
        yield f"priorities are wrong at {[state.physical.address(leaf) for leaf in sorted(wrong)][:5]}"
    low = {leaf: 1 for leaf, priority in occupancy.priority.items() if priority == OPPORTUNISTIC}
    high = {leaf: 1 for leaf, priority in occupancy.priority.items() if priority != OPPORTUNISTIC}
    if counts.opportunistic != _sums(state.physical, low) or counts.guaranteed != _sums(state.physical, high):
        yield "physical counts are not the sums of their leaves"
    if counts.used != _sums(state.virtual, dict.fromkeys(occupancy.virtual_priority, 1)):
        yield "virtual counts are not the sums of their leaves"
    bound = {
        state.binding.virtual[leaf]: priority
        for leaf, priority in occupancy.priority.items()
        if priority != OPPORTUNISTIC
    }
    if bound != occupancy.virtual_priority:
        yield "the used virtual leaves are not those that guaranteed leaves are bound to"


def _groups(state: State) -> Iterator[str]:
    """Each group holds exactly its leaves, and those of its VC; states follow from reservations."""
    occupancy = state.occupancy
    users: dict[int, str] = {}
    reservers: dict[int, str] = {}
    for name, group in state.groups.by_name.items():
        holders = reservers if group.state is GroupState.PREEMPTING else users
        for leaf in group.leaves():
            if leaf in holders:
                yield f"{state.physical.address(leaf)} is allocated twice, to {holders[leaf]} and {name}"
            holders[leaf] = name
        victim = any(leaf in occupancy.reserver for leaf in group.leaves())
        if group.state is not GroupState.PREEMPTING and victim != (group.state is GroupState.BEING_PREEMPTED):
            yield f"group {name} is {group.state}, its leaves are {'' if victim else 'not '}reserved"
        if group.name != name or (group.priority == OPPORTUNISTIC and group.virtual is not None):
            yield f"group {name} is inconsistent"
        yield from _virtual_placement(state, group)
    if users != occupancy.user or reservers != occupancy.reserver:
        yield "users or reservers of leaves are not those of the groups' placements"


def _virtual_placement(state: State, group: Group) -> Iterator[str]:
    for _, leaves, twins in group.placements():
        for leaf, twin in zip(leaves, twins or (NO_VIRTUAL,) * len(leaves), strict=True):
            if (leaf == NO_LEAF or twins is None) != (twin == UNBOUND):
                yield f"group {group.name} has a physical without a virtual leaf, or the reverse"
            elif twin != UNBOUND and state.binding.virtual[leaf] != twin:
                yield f"group {group.name}: {state.physical.address(leaf)} is not on {state.virtual.address(twin)}"
            elif twin != UNBOUND and state.virtual.vc(twin) != group.vc:
                yield f"group {group.name} of VC {group.vc} holds {state.virtual.address(twin)}"
            elif twin != UNBOUND:
                pin = state.virtual.preassigned[state.virtual.root[twin]].pinned_id or ""
                if pin != group.pinned_id:
                    yield f"group {group.name} for pinned cell '{group.pinned_id}' holds {state.virtual.address(twin)}"


def _pods(state: State) -> Iterator[str]:
    """Pods and slots agree; a preempting group has waiting pods, any other has running pods."""
    groups = state.groups
    slots: dict[str, tuple[str, Slot]] = {}
    waiting: dict[str, str] = {}
    for name, group in groups.by_name.items():
        for slot, _, _ in group.placements():
            uid = group.pods[slot.member][slot.pod]
            if uid in slots:
                yield f"pod {uid} runs in {slots[uid][0]} and in {name}"
            if uid:
                slots[uid] = (name, slot)
        for uid in group.preempting:
            if uid in waiting:
                yield f"pod {uid} waits in {waiting[uid]} and in {name}"
            waiting[uid] = name
        preempting = group.state is GroupState.PREEMPTING
        if preempting != bool(group.preempting) or preempting == any(any(row) for row in group.pods):
            yield f"group {name} is {group.state} with pods {group.pods} and {sorted(group.preempting)} waiting"
    if slots != {uid: (name, slot) for uid, (name, slot, _) in groups.slots.items()}:
        yield "the pods' slots are not those of the groups"
    if waiting != groups.waiting:
        yield "the waiting pods are not those of the groups"


def _binding(state: State) -> Iterator[str]:
    """A bijection, parents bound to parents; a bound cell is in use, pinned, or shows a bad cell."""
    binding, physical, virtual = state.binding, state.physical, state.virtual
    children = [0] * len(virtual)
    for twin, cell in zip(virtual.cells(), binding.physical, strict=True):
        if cell == UNBOUND:
            continue
        if binding.virtual[cell] != twin:
            yield f"{virtual.address(twin)} is bound to {physical.address(cell)}, not the reverse"
        if (physical.chain[cell], physical.level[cell]) != (virtual.chain[twin], virtual.level[twin]):
            yield f"{virtual.address(twin)} is bound to a cell of another level or chain"
        above = virtual.parent[twin]
        if above != NO_PARENT:
            children[above] += 1
            if binding.physical[above] != physical.parent[cell]:
                yield f"parent of {virtual.address(twin)} is not bound to that of {physical.address(cell)}"
        if not (state.counts.guaranteed[cell] or state.counts.bad[cell] or cell in binding.pinned):
            yield f"{virtual.address(twin)} is bound to {physical.address(cell)} for no reason"
    if sum(twin != UNBOUND for twin in binding.virtual) != sum(cell != UNBOUND for cell in binding.physical):
        yield "more physical than virtual cells are bound"
    if children != binding.children:
        yield "bound children are miscounted"
    for cell, bad in zip(physical.cells(), state.counts.bad, strict=True):
        parent = physical.parent[cell]
        if bad and parent != NO_PARENT and binding.virtual[parent] != UNBOUND == binding.virtual[cell]:
            yield f"bad cell {physical.address(cell)} below a bound one is not shown"


def _roots(state: State) -> Iterator[str]:
    """Preassigned cells: unbound ones are listed, pinned ones bound for good, others in use or doomed."""
    binding, virtual = state.binding, state.virtual
    opened: dict[RootKey, int] = dict.fromkeys(binding.roots, 0)
    for root, top in virtual.preassigned.items():
        cell = binding.physical[root]
        if top.pinned_id is not None:
            if cell != state.physical.pinned[top.pinned_id] or binding.pinned.get(cell) != root:
                yield f"pinned cell {top.pinned_id} is not bound as it should be"
        elif cell == UNBOUND:
            opened[binding.key(root)] |= 1 << binding.roots[binding.key(root)].index(root)
        elif not state.counts.used[root] and not state.doomed.is_doomed(cell, top.vc):
            yield f"{virtual.address(root)} is neither used nor doomed but bound"
    if opened != binding.open_roots:
        yield "the unbound preassigned cells are not those listed"


def _taken(state: State) -> list[PhysicalCell]:
    """The physical cells that serve a preassigned cell."""
    return [cell for root in state.virtual.preassigned if (cell := state.binding.physical[root]) != UNBOUND]


def _buddy(state: State) -> Iterator[str]:
    """Free and taken cells partition the leaves, fully merged, and the free lists agree."""
    tree, buddy = state.physical, state.buddy
    taken = [0] * len(tree)
    for cell in _taken(state):
        for below in tree.subtree(cell):
            taken[below] += 1
    whole = {cell for cell in tree.cells() if not any(taken[cell : tree.end(cell)])}
    free = {cell for cell in whole if tree.parent[cell] not in whole}
    if any(count > 1 for count in taken):
        yield "a cell is taken twice"
    if free != {cell for cell, flag in enumerate(buddy.free) if flag}:
        yield "the free cells are not the merged complement of the taken ones"
    for index, chain in enumerate(tree.chains):
        for level in range(1, chain.top + 1):
            cells = [cell for cell in tree.at[index][level] if cell in free]
            if sorted(tree.at[index][level][rank] for rank in members(buddy.bits[index][level])) != cells:
                yield f"free list of {chain.types[level]} is wrong"
            if buddy.count[index][level] != len(cells):
                yield f"free cells of {chain.types[level]} are miscounted"
            usable: dict[int, int] = {}
            for cell in cells:
                if not (state.counts.dead[cell] and chain.nodes(level) == 1):
                    partly_bad = state.counts.bad[cell] and chain.nodes(level) == 1
                    used = state.counts.opportunistic[cell] + (PARTLY_BAD if partly_bad else 0)
                    usable[used] = usable.get(used, 0) | 1 << tree.rank[cell]
            if usable != buddy.open[index][level]:
                yield f"usable free cells of {chain.types[level]} are wrong"


def _ledger(state: State) -> Iterator[str]:
    """Held and free quota add up to what is configured, and every promise can be kept."""
    tree, ledger = state.physical, state.ledger
    free: dict[str, dict[ChainIndex, list[int]]] = {}
    quota = [[0] * (chain.top + 1) for chain in tree.chains]
    for root, top in state.virtual.preassigned.items():
        chain, level = state.virtual.chain[root], state.virtual.level[root]
        levels = free.setdefault(top.vc, {}).setdefault(chain, [0] * (tree.chains[chain].top + 1))
        if state.binding.physical[root] == UNBOUND:
            levels[level] += 1
            quota[chain][level] += 1
    if free != ledger.free or quota != ledger.quota:
        yield "free quota is not what is configured less what is held"
    left = [[0] * (chain.top + 1) for chain in tree.chains]
    for cell in tree.cells():
        if state.buddy.holder(cell) != NO_PARENT:
            left[tree.chain[cell]][tree.level[cell]] += 1
    if left != ledger.left:
        yield "cells left are miscounted"
    for index, types in zip(tree.chain_indexes(), tree.chains, strict=True):
        if min(ledger.surplus(index)) < 0:
            yield f"promises of chain {types.name} cannot all be kept: surplus {ledger.surplus(index)}"


def _doomed(state: State) -> Iterator[str]:
    """Bad cells left are noted; doomed cells serve their VC and are bad and idle."""
    tree, doomed = state.physical, state.doomed
    noted = [[0] * (chain.top + 1) for chain in tree.chains]
    for cell, bad in zip(tree.cells(), state.counts.bad, strict=True):
        if bad and state.buddy.holder(cell) != NO_PARENT:
            noted[tree.chain[cell]][tree.level[cell]] |= 1 << tree.rank[cell]
    if noted != doomed.bad or [[bits.bit_count() for bits in row] for row in noted] != doomed.bad_count:
        yield "bad cells left are not those noted"
    count = [[0] * (chain.top + 1) for chain in tree.chains]
    for (vc, chain, level), bits in doomed.cells.items():
        count[chain][level] += bits.bit_count()
        for rank in members(bits):
            cell = tree.at[chain][level][rank]
            twin = state.binding.virtual[cell]
            if twin == UNBOUND or state.virtual.parent[twin] != NO_PARENT or state.virtual.vc(twin) != vc:
                yield f"{tree.address(cell)} does not serve a preassigned cell of {vc}"
            if state.counts.guaranteed[cell] or not state.counts.bad[cell]:
                yield f"{tree.address(cell)} is doomed without being bad and idle"
    if count != doomed.count:
        yield "doomed cells are miscounted"


def _required(state: State) -> Iterator[str]:
    """Exactly the cells that have to be doomed are."""
    for index in state.physical.chain_indexes():
        if set(state.doomed.cells_in(index)) != state.doomed.required(index):
            yield f"what is doomed in chain {state.physical.chains[index].name} is not what has to be"


def _views(state: State) -> Iterator[str]:
    """Every view holds its healthy nodes where their counts put them."""
    counts, tree = state.counts, state.physical
    for index, chain_view in enumerate(state.views.physical):
        rows: list[dict[int, int]] = [{} for _ in chain_view.rows]
        for slot, cell in enumerate(chain_view.cells):
            if not counts.dead[cell]:
                _place(rows, slot, counts.opportunistic[cell], counts.guaranteed[cell])
        bad = sum(1 << slot for slot, cell in enumerate(chain_view.cells) if counts.bad[cell])
        if rows != chain_view.rows or chain_view.bad[0] != bad:
            yield f"view of chain {tree.chains[index].name} is wrong"
    by_view: dict[int, tuple[VirtualIndex, list[dict[int, int]]]] = {}
    for twin, (view, slot) in state.views.nodes.items():
        rows = by_view.setdefault(id(view), (view, [{} for _ in view.rows]))[1]
        bound = state.binding.physical[twin]
        if bool(view.bad[0] >> slot & 1) != (bound != UNBOUND and bool(counts.bad[bound])):
            yield f"{state.virtual.address(twin)} is wrongly {'' if view.bad[0] >> slot & 1 else 'not '}marked bad"
        if bound == UNBOUND or not counts.dead[bound]:
            _place(rows, slot, counts.used[twin], len(state.virtual.shape(twin).leaves) - counts.used[twin])
    for view, rows in by_view.values():
        if rows != view.rows:
            yield f"view of {state.virtual.vc(view.cells[0])} is wrong"
        yield from _priorities(state, view)


def _priorities(state: State, view: VirtualIndex) -> Iterator[str]:
    """The counts of a view by priority follow from its leaves."""
    priorities = state.occupancy.virtual_priority
    used: dict[int, int] = {}
    for cell in view.cells:
        for leaf in state.virtual.leaves(cell):
            if leaf in priorities:
                used[priorities[leaf]] = used.get(priorities[leaf], 0) + 1
    if used != view.by_priority:
        yield f"used leaves by priority of {state.virtual.vc(view.cells[0])} are miscounted"
    for priority, weaker in view.weaker.items():
        rows: list[dict[int, int]] = [{} for _ in view.rows]
        for row, by_column in enumerate(view.rows):
            for slot in (slot for slots in by_column.values() for slot in members(slots)):
                leaves = state.virtual.leaves(view.cells[slot])
                _place(rows, slot, row, sum(priorities.get(leaf, priority - 1) < priority for leaf in leaves))
        if rows != weaker.rows:
            yield f"view of {state.virtual.vc(view.cells[0])} for priority {priority} is wrong"


def _place(rows: list[dict[int, int]], slot: int, row: int, column: int) -> None:
    rows[row][column] = rows[row].get(column, 0) | 1 << slot
