"""How many pods a controller's object runs at the same time, and the label that declares this gang.

The extender itself only reads pods, which do not say so: it cannot have rights for every kind of object that people
install.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from paictl.cluster.pods.labels import GROUP_SIZE, JOBSET, KUBEFLOW, MEMBERS, Rules, leaf_cells
from paictl.scheduler.errors import RequestError

Json = Mapping[str, Any]
Members = tuple[tuple[int, int], ...]

_REPLICAS: Final = "ReplicaSpecs"
"""The end of the fields of PyTorchJob, TFJob, MPIJob and so on that list pods by role."""
_KINDS: Final = ("Job", "JobSet", "TrainJob", "StatefulSet", "ReplicaSet")


def stands_for_pods(body: Json) -> bool:
    """Whether an object is of a kind whose pods can be counted."""
    spec = _mapping(body.get("spec"))
    return body.get("kind") in _KINDS or any(str(key).endswith(_REPLICAS) for key in spec)


def owner_of(pod: Json, bodies: Iterable[Json]) -> Json | None:
    """The object among `things` that a pod's gang is named after, by the rules of ``docs/extender.md``."""
    metadata = _mapping(pod.get("metadata"))
    labels, namespace = _mapping(metadata.get("labels")), metadata.get("namespace") or "default"
    by_name = {
        (str(body.get("kind")), str(_mapping(body.get("metadata")).get("name"))): body
        for body in bodies
        if (_mapping(body.get("metadata")).get("namespace") or "default") == namespace
    }
    if name := labels.get(JOBSET):  # a TrainJob's JobSet has its name, and the pods are the JobSet's
        return by_name.get(("JobSet", name)) or by_name.get(("TrainJob", name))
    if name := labels.get(KUBEFLOW):
        return next(
            (body for (kind, owner_name), body in by_name.items() if owner_name == name and kind not in _KINDS), None
        )
    for owner in metadata.get("ownerReferences") or ():
        if isinstance(owner, dict) and owner.get("controller"):
            return by_name.get((str(owner.get("kind")), str(owner.get("name"))))
    return None


def gang_of(owner: Json, rules: Rules) -> Members:
    """(pods, leaf cells of each) that an object runs at the same time; pods without devices belong to no gang.

    Raises `RequestError` if one of its numbers is invalid.
    """
    counted: dict[int, int] = {}
    spec, name = _mapping(owner.get("spec")), f"{owner.get('kind')} {_mapping(owner.get('metadata')).get('name')}"
    for pods, template in _parts(str(owner.get("kind")), spec, name):
        pod = {"metadata": _mapping(template.get("metadata")), "spec": _mapping(template.get("spec"))}
        cells = leaf_cells(pod, rules, name)
        if pods and cells:
            counted[cells] = counted.get(cells, 0) + pods
    return tuple((pods, cells) for cells, pods in sorted(counted.items()))


def label_for(members: Members) -> str:
    """The label that declares a gang of these members."""
    if len(members) == 1:
        return f'{GROUP_SIZE}: "{members[0][0]}"'
    return f"{MEMBERS}: {'.'.join(f'{pods}x{cells}' for pods, cells in members)}"


def _parts(kind: str, spec: Json, name: str) -> Iterator[tuple[int, Json]]:
    """Pods of one template, and the template."""
    if kind == "Job":
        yield _job(spec, name)
    elif kind == "JobSet":
        for replicated in spec.get("replicatedJobs") or ():
            pods, template = _job(_mapping(_mapping(_mapping(replicated).get("template")).get("spec")), name)
            yield pods * _number(_mapping(replicated), "replicas", 1, name), template
    elif kind == "TrainJob":
        trainer = _mapping(spec.get("trainer"))
        container = {"resources": _mapping(trainer.get("resourcesPerNode"))}
        yield _number(trainer, "numNodes", 1, name), {"spec": {"containers": [container]}}
    elif kind in _KINDS:
        yield _number(spec, "replicas", 1, name), _mapping(spec.get("template"))
    for key, roles in spec.items():
        if str(key).endswith(_REPLICAS):
            for role in map(_mapping, _mapping(roles).values()):
                yield _number(role, "replicas", 1, name), _mapping(role.get("template"))


def _job(spec: Json, name: str) -> tuple[int, Json]:
    """Pods of a Job that run at the same time: `parallelism`, but no more than `completions`."""
    pods = _number(spec, "parallelism", 1, name)
    return min(pods, _number(spec, "completions", pods, name)), _mapping(spec.get("template"))


def _number(spec: Json, key: str, default: int, name: str) -> int:
    value = spec.get(key)
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise RequestError(name, key, f"expected a whole number, found {str(value)[:40]!r}")
    return value


def _mapping(value: object) -> Json:
    return value if isinstance(value, dict) else {}
