"""The known PodGroups, and the pods that name them."""

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

    The first pods, as many as the group places together, are its gang; further pods are placed one by one.
    """

    def __init__(self) -> None:
        self.known: dict[str, PodGroup] = {}
        self.members: dict[str, dict[str, Pod]] = {}
        """Pods by uid: waiting ones are read again when their group changes; of bound ones only a part is kept."""
        self._gangs: dict[str, set[str]] = {}
        """Uids of the members that are placed together."""

    def of(self, pod: Pod) -> PodGroup | None:
        """How the group that a pod names places it, None if the group is not known.

        For a placed pod, as when it got its place: a restarted scheduler has to count running pods whatever has become
        of the group.
        """
        key = group_of(pod)
        if not key:
            return None
        together = _placed_with(pod, key)
        if together is not None:
            return PodGroup(key, "", gang_of(together))
        group, gang = self.known.get(key), self._gangs.get(key, set())
        if group is None or pod["metadata"].get("uid") in gang or len(gang) < group.size:
            return group
        return replace(group, size=0)

    def meet(self, pod: Pod) -> str:
        """Enter a pod into the group that it names; returns the group's key, empty if it names none."""
        key = group_of(pod)
        if key:
            uid, group, together = str(pod["metadata"].get("uid")), self.known.get(key), _placed_with(pod, key)
            self.members.setdefault(key, {})[uid] = _bound_pod_data(pod) if pod["spec"].get("nodeName") else pod
            gang = self._gangs.setdefault(key, set())
            if gang_of(together) if together is not None else group is not None and len(gang) < group.size:
                gang.add(uid)
        return key

    def forget(self, key: str, uid: str) -> list[Pod]:
        """A pod of a group is gone; returns the pods to read again."""
        members, gang = self.members.get(key, {}), self._gangs.get(key, set())
        members.pop(uid, None)
        if not members:
            self.members.pop(key, None)
            self._gangs.pop(key, None)
        if uid not in gang:
            return []
        gang.discard(uid)
        return [pod for member_uid, pod in members.items() if member_uid not in gang]

    def change(self, group: PodGroup) -> list[Pod]:
        """A group was added or changed; returns the pods to read again."""
        before, self.known[group.key] = self.known.get(group.key), group
        is_same = before is not None and (before.uid, before.size, before.topology) == (
            group.uid,
            group.size,
            group.topology,
        )
        return [] if is_same else self._reset_gang(group.key)

    def remove(self, key: str) -> list[Pod]:
        """A group was removed; returns the pods that name it."""
        self.known.pop(key, None)
        return self._reset_gang(key)

    def overfull(self) -> list[Pod]:
        """The pods of groups whose gang is too large, since some pods joined before all running ones were known."""
        keys = [key for key, group in self.known.items() if group.size and len(self._gangs.get(key, ())) > group.size]
        return [pod for key in keys for pod in self._reset_gang(key)]

    def _reset_gang(self, key: str) -> list[Pod]:
        """Reduce a gang to its placed pods; returns all members, of which the waiting ones can join it again."""
        members = self.members.get(key, {})
        self._gangs[key] = {uid for uid, pod in members.items() if gang_of(_placed_with(pod, key) or 0)}
        return list(members.values())


def _bound_pod_data(pod: Pod) -> Pod:
    """The part of a bound pod that tells with which pods it was placed."""
    identity = {name: pod["metadata"].get(name) for name in ("namespace", "name", "uid")}
    notes = {name: text for name, text in noted_on(pod).items() if name == BIND_INFO}
    return {"metadata": {**identity, "annotations": notes}, "spec": {"schedulingGroup": pod["spec"]["schedulingGroup"]}}


def _placed_with(pod: Pod, key: str) -> int | None:
    """How many pods were placed together with a placed pod; None if it has no place."""
    if BIND_INFO not in noted_on(pod):
        return None
    with suppress(RequestError):
        if (info := read_info(pod, key)) is not None:
            return sum(map(len, info.members))
    return None
