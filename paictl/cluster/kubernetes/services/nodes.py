"""Taints that services set on nodes, and the GPU driver that each node runs.

Taints of ours come and go, everybody else's stay. Kubernetes keeps a node's taints as one list with one owner, so that
server-side apply of ours would take the others' away: kubeadm's, those of a cordon, those of a node that does not
answer. So the list is changed over the very version of the node that was read, and an annotation says which entries are
ours: by key and effect, which name a taint.

Which GPU driver each node runs is as the pods of the service `gpu-driver` say, one on each node that it serves. A pod's
init container decides on its machine and writes what it decided into the pod's state
(`templates/gpu-driver/_gpu-driver.sh`), so that no pod needs a token and nobody has to read logs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from paictl.cluster.kubernetes.names import NAMESPACE, SERVICE
from paictl.cluster.kubernetes.services.workloads import LOOK
from paictl.cluster.values import DriverSource, NodeDriver
from paictl.config.models.services import DRIVER
from paictl.i18n import Text, text
from paictl.remote.kube.client import MERGE, Json, KubeClient, KubeError
from paictl.remote.kube.objects import CONFLICT, MANAGER

TAINTS: Final = "paictl.io/taints"
"""Annotation of a node: which of its taints paictl has set, as ``[[KEY, EFFECT], …]``."""
_TAINT_TRIES: Final = 10
"""How often somebody else may write the node between our reading and our writing: kubelets do so every few seconds."""

Taint = dict[str, Any]


def untainted(body: Json) -> Json:
    """A node as it is applied: without its taints."""
    rest = {key: value for key, value in (body.get("spec") or {}).items() if key != "taints"}
    return {**{key: value for key, value in body.items() if key != "spec"}, **({"spec": rest} if rest else {})}


def taints_of(body: Json) -> list[Taint]:
    """The taints that a node has, or shall have."""
    return list((body.get("spec") or {}).get("taints") or ())


def tainted(live: Json, wanted: list[Taint]) -> Json:
    """A node with our taints as `wanted` and those of others as they are."""
    about = live["metadata"]
    notes = dict(about.get("annotations") or {})
    shall = {_name(entry): entry for entry in wanted}
    if not shall and TAINTS not in notes:
        return live
    withdrawn = _ours(notes) - shall.keys()
    kept = [_written(entry, shall) for entry in taints_of(live) if _name(entry) not in withdrawn]
    there = {_name(entry) for entry in kept}
    if shall:
        notes[TAINTS] = json.dumps(sorted(shall), separators=(",", ":"))
    else:
        del notes[TAINTS]
    taints = [*kept, *(entry for name, entry in shall.items() if name not in there)]
    spec = {key: value for key, value in (live.get("spec") or {}).items() if key != "taints"}
    return {
        **live,
        "metadata": {**about, "annotations": notes},
        "spec": {**spec, **({"taints": taints} if taints else {})},
    }


def taint(client: KubeClient, path: str, live: Json, wanted: list[Taint], *, dry_run: bool = False) -> None:
    """Make our taints of a node, as it was read, what `wanted` says; nothing is written if they are.

    Raises `KubeError`: 422 for a taint that the server refuses, 409 if others write the node again and again.
    """
    query = {"fieldManager": MANAGER, **({"dryRun": "All"} if dry_run else {})}
    for chance in reversed(range(_TAINT_TRIES)):
        node = tainted(live, wanted)
        if node == live:
            return
        patch = {
            "metadata": {
                "resourceVersion": live["metadata"]["resourceVersion"],
                "annotations": {TAINTS: node["metadata"]["annotations"].get(TAINTS)},
            },
            "spec": {"taints": taints_of(node) or None},
        }
        try:
            client.request("PATCH", path, patch, query=query, kind=MERGE)
        except KubeError as error:
            if error.status != CONFLICT or not chance:
                raise
            live = client.get(path)
        else:
            return


def _name(entry: Taint) -> tuple[str, str]:
    return str(entry.get("key")), str(entry.get("effect"))


def _ours(notes: Json) -> set[tuple[str, str]]:
    try:
        return {(str(key), str(effect)) for key, effect in json.loads(notes.get(TAINTS) or "[]")}
    except (ValueError, TypeError):
        return set()  # somebody has written into it: better a taint too many than another's taken away


def _written(entry: Taint, shall: dict[tuple[str, str], Taint]) -> Taint:
    """An entry as it stays: of ours the value may have changed, when it was added is the server's."""
    ours = shall.get(_name(entry))
    return entry if ours is None or ours.get("value") == entry.get("value") else ours


# --- GPU drivers

SYSTEM: Final = "paictl.io/system"
"""Label of a DaemonSet and its pods: the operating system that their driver is for, as ``ubuntu24.04``."""
_GPUS: Final = "paictl.io/devices=nvidia.com"
_RESOURCE: Final = "nvidia.com/gpu"
_DRIVER, _WANTED = "driver", "WANTED"
_IDS: Final = {
    "Debian GNU/Linux": "debian",
    "Red Hat Enterprise Linux": "rhel",
    "Rocky Linux": "rocky",
    "AlmaLinux": "almalinux",
    "Oracle Linux Server": "ol",
    "Amazon Linux": "amzn",
}
"""What /etc/os-release calls systems for people, and for programs where that is not the first word of it."""
_VERSION: Final = re.compile(r"(?P<name>.*?)\s+v?(?P<version>\d+(?:\.\d+)?)")
_IN_USE: Final = re.compile(r"driver (\S+) is in use")


def systems_of(client: KubeClient) -> dict[str, str]:
    """Node → its operating system, named as images of drivers are: ``ubuntu24.04``, ``debian12``, ``rhel9.4``."""
    return {str(node["metadata"]["name"]): _system(node) for node in _all(client, "/api/v1/nodes")}


def system_named(os_image: str) -> str:
    """ID and VERSION_ID of a system by what the kubelet calls it; of one without a version its first word.

    >>> system_named("Ubuntu 24.04.1 LTS"), system_named("Red Hat Enterprise Linux 9.4 (Plow)")
    ('ubuntu24.04', 'rhel9.4')
    """
    match = _VERSION.match(os_image)
    name, version = (match["name"], match["version"]) if match else (os_image, "")
    word = _IDS.get(name) or (name.split() or ["unknown"])[0].lower()
    return word + (version.partition(".")[0] if word == "amzn" else version)  # its VERSION_ID is the year alone


def drivers_of(client: KubeClient) -> tuple[NodeDriver, ...]:
    """The driver of each node with NVIDIA GPUs, by name of the node; raises `KubeError` if the API refuses."""
    ours = {"labelSelector": f"{SERVICE}={DRIVER}"}
    sets = {
        str(daemon_set["metadata"]["labels"].get(SYSTEM)): _wanted(daemon_set)
        for daemon_set in _all(client, f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets", ours)
    }
    pods: dict[str, list[Json]] = {}
    for pod in _all(client, f"/api/v1/namespaces/{NAMESPACE}/pods", ours):
        pods.setdefault(str(pod["spec"].get("nodeName")), []).append(pod)
    nodes = _all(client, "/api/v1/nodes", {"labelSelector": _GPUS})
    drivers = (_driver(node, sets, pods.get(str(node["metadata"]["name"]), [])) for node in nodes)
    return tuple(sorted(drivers, key=lambda driver: driver.node))


def _driver(node: Json, sets: Mapping[str, str], pods: Sequence[Json]) -> NodeDriver:
    name, system = str(node["metadata"]["name"]), _system(node)
    pod = min(pods, key=lambda pod: _rank(pod, system), default=None)
    if pod is not None:
        return _by_pod(name, pod, sets.get(str(pod["metadata"]["labels"].get(SYSTEM)), ""))
    if system in sets:
        return NodeDriver(name, DriverSource.NONE, wanted=sets[system], reason=text("no pod of the service runs there"))
    if int((node.get("status") or {}).get("allocatable", {}).get(_RESOURCE, 0)):
        return NodeDriver(name, DriverSource.HOST)
    return NodeDriver(
        name,
        DriverSource.NONE,
        reason=text(
            "there is no driver image for {system}: install a driver on the machine, or name an image "
            "nvidia-driver-{system} in the section `images`",
            system=system,
        ),
    )


def _rank(pod: Json, system: str) -> tuple[bool, bool]:
    """Pods that stay first, and of them the one that is for the system of the node."""
    about = pod["metadata"]
    return bool(about.get("deletionTimestamp")), about["labels"].get(SYSTEM) != system


def _by_pod(node: str, pod: Json, wanted: str) -> NodeDriver:
    name, status = str(pod["metadata"]["name"]), pod.get("status") or {}
    look = _container(status.get("initContainerStatuses"), LOOK)
    decision = _message(look, "state")
    if decision is None:
        refused = _message(look, "lastState")
        stays = _IN_USE.match(refused or "")
        source, version = (DriverSource.SERVICE, stays[1]) if stays else (DriverSource.NONE, "")
        return NodeDriver(node, source, version, wanted, refused or _waiting(look), name)
    kind, *versions = decision.split()
    version = versions[-1] if versions else ""
    if kind == "host":
        return NodeDriver(node, DriverSource.HOST, version)
    driver = _container(status.get("containerStatuses"), _DRIVER)
    if driver.get("ready"):
        return NodeDriver(node, DriverSource.SERVICE, version, wanted, pod=name)
    failed = _message(driver, "lastState") or _message(driver, "state")
    reason = failed or text("{version} is being installed", version=version)
    return NodeDriver(node, DriverSource.NONE, "", wanted, reason, name)


def _message(container: Json, state: str) -> str | None:
    """What a container that ended has said; None if it has not ended like this.

    Only the decision of one that ended well counts as its present state.
    """
    ended = (container.get(state) or {}).get("terminated")
    if not ended or (state == "state" and container.get("name") == LOOK and ended.get("exitCode")):
        return None
    code = text("ended with code {code}", code=ended.get("exitCode", "?"))
    return _printable(str(ended.get("message") or "")) or code


def _waiting(container: Json) -> str | Text:
    """Why the init container has not decided yet."""
    state = container.get("state") or {}
    ended = state.get("terminated") or {}
    waiting = state.get("waiting") or {}
    reason = ended.get("message") or waiting.get("message") or waiting.get("reason")
    return _printable(str(reason)) if reason else text("its pod is starting")


def _container(statuses: Iterable[Json] | None, name: str) -> Json:
    return next((status for status in statuses or () if status.get("name") == name), {})


def _wanted(daemon_set: Json) -> str:
    """The version that a DaemonSet installs."""
    (container,) = daemon_set["spec"]["template"]["spec"]["containers"]
    return next(
        (str(variable["value"]) for variable in container.get("env") or () if variable.get("name") == _WANTED), ""
    )


def _system(node: Json) -> str:
    return system_named(str(((node.get("status") or {}).get("nodeInfo") or {}).get("osImage") or ""))


def _printable(words: str) -> str:
    return " ".join("".join(letter if letter.isprintable() else " " for letter in words).split())


def _all(client: KubeClient, path: str, query: Mapping[str, Any] | None = None) -> list[Json]:
    return [body for _, page in client.list(path, query) for body in page]
