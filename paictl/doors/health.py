"""Which nodes and devices new pods must not get: nodes as the API server reports them, and maintenance windows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from paictl.cells.spec import ClusterSpec
from paictl.cluster.maintenance import windows_of
from paictl.cluster.movetotals import MoveTotal, totals_of
from paictl.cluster.pods.nodes import NodeStatus, why_bad
from paictl.cluster.pods.recovering import is_redivided
from paictl.cluster.reservations import reservations_of
from paictl.cluster.values import ClusterError
from paictl.scheduler.decision import NO_LEAF, BindInfo, Slot
from paictl.scheduler.recovery import find_leaf
from paictl.scheduler.state import State
from paictl.scheduler.wire import ISOLATION
from paictl.units import Millis
from paictl.workload.reservations import Reservations
from paictl.workload.windows import Windows

_WHOLE: Final = -1
"""In place of a device's index: the node."""


class DoorHealth:
    """What is bad, why and since when; it stays bad until it has been healthy for `heal_after` seconds."""

    def __init__(self, promised: Mapping[str, int], clock: Callable[[], float], heal_after: float) -> None:
        self.nodes: dict[str, NodeStatus] = {}
        self.changes = 0
        """How often a node has changed."""
        self.bad: dict[str, str] = {}
        """Bad nodes of the configuration, and why."""
        self.bad_devices: dict[str, Mapping[int, str]] = {}
        """Bad devices of the configuration, by node and index, and why."""
        self.bad_since: dict[tuple[str, int], float] = {}
        """Since when each bad device has been bad."""
        self.away_since: dict[str, float] = {}
        """Since when nodes of the configuration have been gone or not Ready: their pods are lost."""
        self.unclear: dict[str, dict[str, str]] = {}
        """Nodes with pods (by uid) whose leaf cells are unknown, and why: such a node gets no other pod."""
        self.hung: dict[tuple[str, int], str] = {}
        """Devices (node and index) of pods that should have ended, and why they count as bad."""
        self._unjudged: set[str] = set()
        """Those of them that have not been judged since they were added."""
        self._promised = promised
        self._clock = clock
        self._heal_after = heal_after
        self._ending: dict[str, float] = {}
        """Nodes whose pods were given up, and for how many seconds their containers may run once the node is back."""
        self.ended: set[str] = set()
        """Nodes whose annotation about such pods has to be removed."""
        self.noted: dict[str, float] = {}
        """The seconds that this process has written into nodes."""
        self._good_since: dict[tuple[str, int], float] = {}
        """Since when bad nodes and devices have been healthy again, but are not used yet."""

    def note(self, node: NodeStatus, longest: float) -> bool:
        """A node was added or changed; whether that is news.

        It waits for no more than `longest` seconds: its kubelet and others can write its annotations, too.
        """
        before = self.nodes.get(node.name)
        self.nodes[node.name] = node
        self.changes += before != node
        if node.ending > (before.ending if before is not None else 0):  # another process has given up pods there
            self.give_up(node.name, min(node.ending, longest))
        return before != node

    def remove(self, name: str) -> None:
        """A node was removed."""
        self.changes += self.nodes.pop(name, None) is not None

    def judge(self, name: str, *, was_bad: bool) -> str:
        """Why a node of the configuration is bad; empty if it can be used."""
        self._unjudged.discard(name)
        node = self.nodes.get(name)
        if node is None or not node.ready:
            self.away_since.setdefault(name, self._clock())
        else:
            self.away_since.pop(name, None)
        reason = why_bad(node, self._promised[name]) or next(iter(self.unclear.get(name, {}).values()), "")
        if was_bad or name in self._ending:
            reason = self._lasting_reason((name, _WHOLE), reason)
        if reason:
            self.bad[name] = reason
        else:
            self.bad.pop(name, None)
        return reason

    def give_up(self, node: str, seconds: float) -> None:
        """A pod on a node that is away is given up, or removed by others: the kubelet ends its containers when it is
        back, which may take so many seconds."""
        self._ending[node] = max(seconds, self._ending.get(node, 0.0))
        self.ended.discard(node)

    def vanish(self, node: str, seconds: float) -> None:
        """A pod on a node is gone: if the node is away, no kubelet has said that its containers have ended.

        A node that was removed comes back with a kubelet that has just started, which ends them within a second.
        """
        if node in self.away_since and node in self.nodes:
            self.give_up(node, seconds)

    def unnoted(self) -> list[tuple[str, float]]:
        """Nodes with such pods that the next leader would not know of, and for how many seconds they have to wait."""
        known = {name: max(node.ending, self.noted.get(name, 0.0)) for name, node in self.nodes.items()}
        return [(name, seconds) for name, seconds in self._ending.items() if seconds > known.get(name, seconds)]

    def shun(self, uid: str, node: str, why: str) -> None:
        """Note a pod that could not be entered; its node has to be judged again."""
        self.unclear.setdefault(node, {})[uid] = why
        self._unjudged.add(node)

    def check_division(
        self, uid: str, info: BindInfo, noted: Mapping[str, object], spec: ClusterSpec, state: State
    ) -> str:
        """Note a pod that got its devices under another division of the node's GPUs; why, or empty if it did not.

        `noted` are its annotations.
        """
        if not is_redivided(info, noted, spec, state):
            return ""
        why = (
            f"a pod on node {info.node} has the devices {noted.get(ISOLATION)} and the leaf cells "
            f"{','.join(map(str, info.devices))}, which is not how migInstances divides the GPUs now: "
            "no other pod gets devices of this node before it has ended"
        )
        self.unclear.setdefault(info.node, {})[uid] = why
        return why

    def check_overlap(self, pod: str, uid: str, info: BindInfo, state: State) -> None:
        """Note a pod that was entered without devices that another one has: they are not free once that one has ended.

        A binding of an earlier leader that came too late does that.
        """
        name, slot, _ = state.groups.slots.get(uid, ("", Slot(0, 0), ""))
        own = state.groups.by_name.get(name)
        if own is not None and NO_LEAF not in own.physical[slot.member][slot.pod]:
            return
        leaves = (find_leaf(state, info.node, device, info.chain) for device in info.devices)
        if any(state.occupancy.user.get(leaf, name) != name for leaf in leaves):
            self.shun(uid, info.node, f"pod {pod} and another one have the same devices of node {info.node}")

    def release(self, uid: str) -> str:
        """Forget a pod that is gone; the node that it kept from other pods as `unclear`, empty if it did not."""
        node = next((name for name, pods in self.unclear.items() if uid in pods), "")
        if node:
            del self.unclear[node][uid]
        return node

    def hang(self, hung: dict[tuple[str, int], str]) -> set[str]:
        """Note the devices of pods that should have ended; returns the nodes whose devices have to be judged again."""
        nodes = {node for node, _ in self.hung.keys() ^ hung.keys()}
        self.hung = hung
        return nodes

    def judge_devices(self, name: str, reported: Mapping[int, str]) -> list[int]:
        """Note which devices of a node are bad now, and why; returns those that have turned bad or healthy.

        `reported` are those that are bad themselves: only they can have been bad for too long.
        """
        before = self.bad_devices.pop(name, {})
        for index in before.keys() - reported.keys():
            self.bad_since.pop((name, index), None)
        for index in reported:
            self.bad_since.setdefault((name, index), self._clock())
        reported = {index: why for (node, index), why in self.hung.items() if node == name} | dict(reported)
        reasons = {
            index: self._lasting_reason((name, index), reported.get(index, ""))
            for index in before.keys() | reported.keys()
        }
        bad = {index: why for index, why in sorted(reasons.items()) if why}
        if bad:
            self.bad_devices[name] = bad
        return sorted(before.keys() ^ bad.keys())

    def _lasting_reason(self, place: tuple[str, int], reason: str) -> str:
        """Why a place counts as bad: for `reason`, or because it has not been healthy for long enough."""
        pause = self._pause(place)
        if reason or not pause:
            self._good_since.pop(place, None)
            return reason
        if self._clock() - self._good_since.setdefault(place, self._clock()) < pause:
            return f"is good again, but not for {pause:g} s yet"
        del self._good_since[place]
        if place[1] == _WHOLE and place[0] in self._ending:
            del self._ending[place[0]]
            self.noted.pop(place[0], None)
            self.ended.add(place[0])
        return ""

    def _pause(self, place: tuple[str, int]) -> float:
        """For how many seconds a place has to be healthy before it is used again."""
        node, index = place
        return max(self._heal_after, self._ending.get(node, 0.0)) if index == _WHOLE else self._heal_after

    def healed(self) -> tuple[set[str], set[str]]:
        """Nodes, and nodes of devices, to judge again: those healthy for long enough, and those that `shun` added."""
        now = self._clock()
        due = [place for place, since in self._good_since.items() if now - since >= self._pause(place)]
        return self._unjudged | {name for name, at in due if at == _WHOLE}, {name for name, at in due if at != _WHOLE}


class DoorWindows:
    """The windows from the ConfigMap, and what is wrong with it."""

    def __init__(self) -> None:
        self.known = Windows()
        """All windows of the ConfigMap: one that seems over may not be, if a clock that was ahead is set back."""
        self._known_reservations = Reservations()
        self.current = Windows()
        self.reservations = Reservations()
        self.moves: Mapping[str, MoveTotal] = {}
        """What defragmentation has moved since the ConfigMap was created, by virtual cluster."""
        self.problem = ""
        self.warned_pods: set[tuple[str, str]] = set()
        """(window name, pod uid) of the pods that were warned."""
        self._closed: dict[tuple[int, ...], frozenset[str]] = {}
        """Closed nodes by the numbers of the windows: decisions ask for the same few sets again and again."""
        self._left: tuple[frozenset[str], frozenset[str], frozenset[str]] | None = None

    def change(self, config_map: Mapping[str, Any] | None) -> None:
        """The ConfigMap has changed; None: it does not exist. A damaged one changes nothing."""
        self.moves = totals_of(config_map)
        try:
            self.known, self._known_reservations, self.problem = windows_of(config_map), reservations_of(config_map), ""
            self.current, self.reservations = self.known, self._known_reservations
            self._closed.clear()
        except ClusterError as error:
            self.problem = f"{error}"

    def prune(self, now: Millis) -> None:
        """Leave out windows and reservations that are over, so that they cost nothing."""
        if (reservations := self._known_reservations.current(now)) != self.reservations:
            self.reservations = reservations
        if (windows := self.known.current(now)) != self.current:
            self.current = windows
            self._closed.clear()

    def closed(self, now: Millis, limit: Millis | None) -> frozenset[str]:
        """The nodes that a pod with a run limit of `limit` may not get now (see `Windows.closed`)."""
        numbers = tuple(number for number, window in enumerate(self.current) if window.closes(now, limit))
        if numbers not in self._closed:
            self._closed[numbers] = self.current.closed(now, limit)
        return self._closed[numbers]

    def __bool__(self) -> bool:
        """Whether nodes may be closed to any pod."""
        return bool(self.current) or any(reservation.nodes for reservation in self.reservations)

    def closed_to(self, now: Millis, limit: Millis | None, reservation: str, nodes: frozenset[str]) -> frozenset[str]:
        """The nodes (of all `nodes`) that a pod may not get now, including those reserved for others."""
        closed = self.closed(now, limit) if self.current else frozenset()
        if not any(reservation.nodes for reservation in self.reservations):
            return closed
        closed |= Windows(self.reservations.holds(now, reservation)).closed(now, limit)
        named = self.reservations.get(reservation) if reservation else None
        return closed | (nodes - frozenset(named.nodes)) if named is not None and named.nodes else closed

    def left(self, nodes: frozenset[str], closed: frozenset[str]) -> frozenset[str]:
        """The nodes without those that are closed; made once for the same sets."""
        if self._left is None or self._left[0] is not nodes or self._left[1] is not closed:
            self._left = nodes, closed, nodes - closed
        return self._left[2]
