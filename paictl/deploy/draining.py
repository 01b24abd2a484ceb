"""Nodes taken out of work for a while: cordoned with a mark, emptied by the eviction API, and always given back."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

from paictl.deploy.nodes import patiently
from paictl.deploy.site import DeployError
from paictl.errors import ExitCode, PaictlError
from paictl.frozen import frozen
from paictl.i18n import text
from paictl.plan.run import Tell
from paictl.remote.kube.client import MERGE, Json, KubeClient, KubeError
from paictl.remote.kube.pods import Eviction, evict

MARK: Final = "paictl.io/cordoned-for"
"""Annotation of a node that paictl has cordoned, with the purpose: only such a one is uncordoned again."""
_MIRROR: Final = "kubernetes.io/config.mirror"
_MISSING: Final = 404
_CONFLICT: Final = 409
_TRIES: Final = 10
_SHOWN: Final = 4
_POLL: Final = 0.5


@frozen
class Purpose:
    """What nodes are emptied for, and the option that gives them more time for it."""

    name: str
    option: str


UPGRADE: Final = Purpose("upgrade", "--drain-timeout")
REMOVAL: Final = Purpose("removal", "--timeout")


def is_held(node: Json, purpose: Purpose) -> bool:
    """Whether paictl has cordoned a node for a purpose and not released it."""
    return bool((node["metadata"].get("annotations") or {}).get(MARK) == purpose.name)


def pods_to_move(client: KubeClient, node: str) -> list[Json]:
    """The pods that have to leave a node: neither a daemon's, nor kubelet's own, nor ended."""
    query = {"fieldSelector": f"spec.nodeName={node}"}
    pods = patiently(lambda: [pod for _, page in client.list("/api/v1/pods", query) for pod in page])
    return [pod for pod in pods if not _stays(pod)]


def refuse_lonely(pods: Iterable[Json], node: str) -> None:
    """Raise `DeployError` for a pod without a controller: nothing would create it again."""
    lonely = [pod for pod in pods if not any(owner.get("controller") for owner in _owners(pod))]
    if lonely:
        hint = text("delete it or wait for it to end, then run the same command again")
        message = text("nothing would recreate pod {pod}", pod=_name(lonely[0]))
        raise DeployError(message, exit_code=ExitCode.NEGATIVE, where=node, hint=hint)


class CordonedNodes:
    """The nodes that are held in one run; `release_all` at its end, however it ends."""

    def __init__(self, client: KubeClient, seconds: float, purpose: Purpose) -> None:
        self.client, self._seconds, self._purpose = client, seconds, purpose
        self._held: list[str] = []

    def adopt(self, names: Iterable[str]) -> None:
        """Nodes that an earlier run has left cordoned: they are released at the end of this one."""
        self._held += [name for name in names if name not in self._held]

    def drain(self, names: Sequence[str], tell: Tell) -> None:
        """Cordon nodes and empty them; raises `DeployError` if they are not empty in time, with what is in the way.

        A pod that nothing would make again is in the way at once. A node that is not there is empty.
        """
        for name in names:
            refuse_lonely(pods_to_move(self.client, name), name)
        for name in names:
            self.adopt([name])  # first: if the next step is interrupted, the node is in the list
            self._cordon(name)
        self._empty(names, tell)

    def release(self, name: str) -> None:
        """Uncordon a node if it has our mark; a node that someone else cordoned stays cordoned."""
        for _ in range(_TRIES):
            node = self._node(name)
            if node is None or not is_held(node, self._purpose):
                break
            if self._patched(node, unschedulable=None, mark=None):
                break
        else:
            raise DeployError(text("the node keeps changing"), exit_code=ExitCode.NEGATIVE, where=name)
        if name in self._held:
            self._held.remove(name)

    def release_all(self) -> None:
        """Release what is still held; raises the last error, after having tried all."""
        last: PaictlError | None = None
        for name in list(self._held):
            try:
                self.release(name)
            except PaictlError as error:
                last = error
        if last is not None:
            raise last

    def _cordon(self, name: str) -> None:
        for _ in range(_TRIES):
            node = self._node(name)
            if node is None or node["spec"].get("unschedulable"):
                return
            if self._patched(node, unschedulable=True, mark=self._purpose.name):
                return
        raise DeployError(text("the node keeps changing"), exit_code=ExitCode.NEGATIVE, where=name)

    def _node(self, name: str) -> Json | None:
        try:
            return patiently(partial(self.client.get, _path(name)))
        except KubeError as error:
            if error.status == _MISSING:
                return None
            raise

    def _patched(self, node: Json, *, unschedulable: bool | None, mark: str | None) -> bool:
        """Change mark and schedulability in one step, unless the node was changed in the meantime."""
        about = {"resourceVersion": node["metadata"]["resourceVersion"], "annotations": {MARK: mark}}
        body = {"metadata": about, "spec": {"unschedulable": unschedulable}}
        try:
            patiently(partial(self.client.request, "PATCH", _path(node["metadata"]["name"]), body, kind=MERGE))
        except KubeError as error:
            if error.status == _CONFLICT:
                return False
            raise
        return True

    def _empty(self, names: Sequence[str], tell: Tell) -> None:
        end = time.monotonic() + self._seconds
        reported: set[str] = set()
        while remaining := [pod for name in names for pod in pods_to_move(self.client, name)]:
            refused = self._evict(
                candidate for candidate in remaining if "deletionTimestamp" not in candidate["metadata"]
            )
            for pod, why in refused.items():
                if pod not in reported:
                    tell(text("{pod} stays for now: {why}", pod=pod, why=why), "")
                    reported.add(pod)
            if time.monotonic() > end:
                raise self._still_there(names, remaining, refused)
            time.sleep(_POLL)

    def _still_there(self, names: Sequence[str], remaining: Iterable[Json], refused: Mapping[str, str]) -> DeployError:
        pods = ", ".join(sorted(map(_name, remaining))[:_SHOWN])
        message = text("not empty after {seconds} s: {pods}", seconds=int(self._seconds), pods=pods)
        if refused:
            message = text("{message}; {why}", message=message, why=min(refused.values()))
        hint = text(
            "allow more time with {option}, or add replicas; the node is schedulable again", option=self._purpose.option
        )
        return DeployError(message, exit_code=ExitCode.NEGATIVE, where=", ".join(names), hint=hint)

    def _evict(self, pods: Iterable[Json]) -> dict[str, str]:
        """Ask for the end of pods; why a budget keeps some."""
        refused = {}
        for pod in pods:
            about = pod["metadata"]
            ask = partial(evict, self.client, about["namespace"], about["name"], about["uid"])
            answer, why = patiently(ask)  # by its uid: asked twice, it is evicted once
            if answer is Eviction.REFUSED:
                refused[_name(pod)] = why
        return refused


@contextmanager
def holding(client: KubeClient, seconds: float, purpose: Purpose) -> Iterator[CordonedNodes]:
    """A `CordonedNodes` for as long as the block lasts: however it ends, its nodes are given back."""
    held = CordonedNodes(client, seconds, purpose)
    try:
        yield held
    finally:
        held.release_all()


def _owners(pod: Json) -> Sequence[Json]:
    return pod["metadata"].get("ownerReferences") or ()


def _stays(pod: Json) -> bool:
    about: dict[str, Any] = pod["metadata"]
    daemon = any(owner.get("kind") == "DaemonSet" for owner in _owners(pod))
    ended = pod["status"].get("phase") in ("Succeeded", "Failed")
    return daemon or ended or _MIRROR in (about.get("annotations") or {})


def _name(pod: Json) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def _path(node: str) -> str:
    return f"/api/v1/nodes/{node}"
