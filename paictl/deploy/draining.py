"""Emptying a node before its machine goes: cordon, evict within disruption budgets, undo the cordon if that fails."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final
from urllib.parse import quote

from paictl.deploy.site import DeployError
from paictl.errors import ExitCode
from paictl.plan.phase import Tell
from paictl.remote.kube.client import MERGE, Json, KubeClient, KubeError
from paictl.remote.kube.pods import Eviction, evict

MARK: Final = "paictl.io/cordoned-for"
"""Annotation of a node that was cordoned here: the next run knows that the cordon is its own to undo."""
_RUNNING: Final = "status.phase!=Succeeded,status.phase!=Failed"
_POLL: Final = 0.5
_SHOWN: Final = 4


def _node(name: str) -> str:
    return f"/api/v1/nodes/{quote(name, safe='')}"


def node_of(client: KubeClient, name: str) -> Json | None:
    """A node; None if there is none of that name."""
    try:
        return client.get(_node(name))
    except KubeError as error:
        if error.status == 404:
            return None
        raise


@contextmanager
def cordoned(client: KubeClient, name: str, why: str) -> Iterator[None]:
    """A node takes no new pods inside the block; a cordon of ours is undone if that raises, anybody else's never."""
    node = node_of(client, name)
    if node is None:
        yield
        return
    theirs = node["spec"].get("unschedulable") and MARK not in (node["metadata"].get("annotations") or {})
    if not theirs:
        client.request("PATCH", _node(name), _cordon(why), kind=MERGE)
    try:
        yield
    except BaseException:
        if not theirs and node_of(client, name) is not None:
            client.request("PATCH", _node(name), _cordon(None), kind=MERGE)
        raise


def _cordon(why: str | None) -> Json:
    return {"metadata": {"annotations": {MARK: why}}, "spec": {"unschedulable": True if why else None}}


def pods_to_move(client: KubeClient, name: str) -> list[Json]:
    """The pods of a node that have to go: not those of DaemonSets, static ones, or what has ended."""
    query = {"fieldSelector": f"spec.nodeName={name},{_RUNNING}"}
    pods = [one for _, page in client.list("/api/v1/pods", query) for one in page]
    return [one for one in pods if not _stays(one)]


def _stays(pod: Json) -> bool:
    about = pod["metadata"]
    if "kubernetes.io/config.mirror" in (about.get("annotations") or {}):
        return True
    return any(one.get("kind") == "DaemonSet" and one.get("controller") for one in about.get("ownerReferences") or ())


def orphans(pods: Iterable[Json]) -> list[str]:
    """Names of pods that nobody would start again elsewhere."""
    return [
        full_name(pod) for pod in pods
        if not any(one.get("controller") for one in pod["metadata"].get("ownerReferences") or ())
    ]  # fmt: skip


def full_name(pod: Json) -> str:
    """Namespace and name of a pod."""
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def drain(client: KubeClient, name: str, seconds: float, tell: Tell) -> None:
    """Evict all pods of a node that have to go, and wait until they are gone.

    Raises `DeployError` after `seconds`, with those that are left and why.
    """
    end, refused, shown = time.monotonic() + seconds, dict[str, str](), -1
    while pods := pods_to_move(client, name):
        for pod in pods:
            about = pod["metadata"]
            if about.get("deletionTimestamp"):
                refused.pop(full_name(pod), None)
                continue
            answer, said = evict(client, about["namespace"], about["name"], about["uid"])
            if answer is Eviction.REFUSED:
                refused[full_name(pod)] = said
        if len(pods) != shown:
            shown = len(pods)
            tell(f"{shown} pods to go", "")
        if time.monotonic() > end:
            left = [(one, refused.get(one, "it is ending still")) for one in map(full_name, pods)]
            raise _too_slow(name, seconds, left)
        time.sleep(_POLL)


def _too_slow(name: str, seconds: float, left: list[tuple[str, str]]) -> DeployError:
    said = "; ".join(f"{pod}: {why}" for pod, why in left[:_SHOWN])
    more = f"; and {len(left) - _SHOWN} more" if len(left) > _SHOWN else ""
    hint = "end those jobs, or wait longer: --timeout; the node takes pods as it did before"
    return DeployError(
        f"{name} was not empty after {seconds:.0f} s: {said}{more}", exit_code=ExitCode.NEGATIVE, hint=hint
    )
