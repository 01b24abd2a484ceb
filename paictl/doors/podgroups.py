"""The PodGroups that the API server has told of, and the pods that name them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from paictl.cluster.pods.podgroups import PodGroup, gang_of, group_of
from paictl.cluster.pods.reading import noted_on, read_info
from paictl.scheduler.errors import RequestError
from paictl.scheduler.wire import BIND_INFO

Pod = Mapping[str, Any]


class PodGroups:
    """Groups and their pods by ``namespace/name`` of the group; either may be known first.

    As many pods as a group places together are its gang, those that came first; further ones are placed one by one.
    """

    def __init__(self) -> None:
        self.known: dict[str, PodGroup] = {}
        self.members: dict[str, dict[str, Pod]] = {}
        """Pods by uid: those that wait are read again when their group changes; of bound ones less is kept."""
        self._gangs: dict[str, set[str]] = {}
        """Uids of the members that are placed together."""

    def of(self, pod: Pod) -> PodGroup | None:
        """How a pod is placed by the group that it names, None if that is not known.

        A placed pod as when it got its place: a scheduler that starts again has to count what runs, whatever has become
        of the group.
        """
        key = group_of(pod)
        if not key:
            return None
        placed = _placed_with(pod, key)
        if placed is not None:
            return PodGroup(key, "", gang_of(placed))
        group, gang = self.known.get(key), self._gangs.get(key, set())
        if group is None or pod["metadata"].get("uid") in gang or len(gang) < group.size:
            return group
        return replace(group, size=0)

    def meet(self, pod: Pod) -> str:
        """The group that a pod names, which has it as a member from now on; empty if it names none."""
        key = group_of(pod)
        if key:
            uid, group, placed = str(pod["metadata"].get("uid")), self.known.get(key), _placed_with(pod, key)
            self.members.setdefault(key, {})[uid] = _kept_of(pod) if pod["spec"].get("nodeName") else pod
            gang = self._gangs.setdefault(key, set())
            if gang_of(placed) if placed is not None else group is not None and len(gang) < group.size:
                gang.add(uid)
        return key

    def forget(self, key: str, uid: str) -> list[Pod]:
        """A pod of a group is gone; the pods for which that makes a difference."""
        members, gang = self.members.get(key, {}), self._gangs.get(key, set())
        members.pop(uid, None)
        if not members:
            self.members.pop(key, None)
            self._gangs.pop(key, None)
        if uid not in gang:
            return []
        gang.discard(uid)
        return [pod for other, pod in members.items() if other not in gang]

    def change(self, group: PodGroup) -> list[Pod]:
        """A group is like this now; the pods for which that makes a difference."""
        before, self.known[group.key] = self.known.get(group.key), group
        same = before is not None and (before.uid, before.size, before.topology) == (
            group.uid, group.size, group.topology
        )  # fmt: skip
        return [] if same else self._anew(group.key)

    def remove(self, key: str) -> list[Pod]:
        """A group is no longer there; the pods that name it."""
        self.known.pop(key, None)
        return self._anew(key)

    def overfull(self) -> list[Pod]:
        """The pods of groups into whose gang some came before all of those that run were known."""
        keys = [key for key, group in self.known.items() if group.size and len(self._gangs.get(key, ())) > group.size]
        return [pod for key in keys for pod in self._anew(key)]

    def _anew(self, key: str) -> list[Pod]:
        """All members, for who waits to join the gang again."""
        members = self.members.get(key, {})
        self._gangs[key] = {uid for uid, pod in members.items() if gang_of(_placed_with(pod, key) or 0)}
        return list(members.values())


def _kept_of(pod: Pod) -> Pod:
    """What of a bound pod says with whom it was placed."""
    about = {name: pod["metadata"].get(name) for name in ("namespace", "name", "uid")}
    noted = {name: text for name, text in noted_on(pod).items() if name == BIND_INFO}
    return {"metadata": {**about, "annotations": noted}, "spec": {"schedulingGroup": pod["spec"]["schedulingGroup"]}}


def _placed_with(pod: Pod, key: str) -> int | None:
    """How many pods were placed together with one that has its place; None if it has none."""
    if BIND_INFO not in noted_on(pod):
        return None
    with suppress(RequestError):
        if (info := read_info(pod, key)) is not None:
            return sum(map(len, info.members))
    return None
