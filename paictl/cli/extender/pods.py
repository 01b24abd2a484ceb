"""Pods from files, and readings as data."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from paictl.doors.asking import TEMPLATE, devices_of, door_of, run_time_of
from paictl.doors.owners import gang_of, label_for, owner_of, stands_for_pods
from paictl.errors import PaictlError

if TYPE_CHECKING:
    from paictl.cluster.pods.labels import Reading, Rules

Json = dict[str, Any]


def pods_of(file: str) -> tuple[list[Json], list[Json]]:
    """The pods of a file, and what they may belong to or need (Job, JobSet, ResourceClaimTemplate ...).

    They are documents, or in a List or PodList.

    Raises `PaictlError` naming the file.
    """
    where = "(stdin)" if file == "-" else file
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
        documents = [one for one in yaml.safe_load_all(text) if one is not None]
    except (OSError, UnicodeDecodeError) as error:
        raise PaictlError(
            f"cannot be read: {getattr(error, 'strerror', None) or 'it is not text'}", where=where
        ) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise PaictlError(f"not YAML: {' '.join(str(error).split())[:200]}", where=where) from None
    found: list[Any] = []
    for one in documents:
        items = one.get("items") if isinstance(one, dict) else None
        found += items if isinstance(items, list) else [one]
    pods: list[Json] = []
    owners: list[Json] = []
    for one in found:
        kind = one.get("kind", "Pod") if isinstance(one, dict) else None
        if kind and isinstance(one.get("metadata"), dict) and (kind in ("Pod", TEMPLATE) or stands_for_pods(one)):
            (pods if kind == "Pod" else owners).append(one)
        else:
            raise PaictlError(
                f"expected pods, found {kind or 'something else'}", where=where,
                hint="give the pods as they are in the cluster: kubectl get pods -o yaml",
            )  # fmt: skip
    if not pods:
        raise PaictlError("it contains no pod", where=where)
    return pods, owners


def counted(pod: Json, found: Reading, owners: list[Json], rules: Rules) -> Json:
    """How many pods the owner of a pod's gang runs, and which label would say so if the pod does not.

    Nothing if the owner is not among `owners`. Raises `RequestError` if a number in the owner is none.
    """
    owner = owner_of(pod, [one for one in owners if one.get("kind") != TEMPLATE])
    members = gang_of(owner, rules) if owner is not None else ()
    if owner is None or not members:
        return {}
    said = tuple((pods, cells) for cells, pods in sorted(found.request.members))
    count = ", ".join(f"{pods} x {cells}" for pods, cells in members)
    agrees = "as the pod says" if said == members else f"the pod does not say so; label {label_for(members)}"
    return {"owner": f"{owner.get('kind')} {owner['metadata'].get('name')} runs {count} ({agrees})"}


def ways_of(pod: Json, name: str, found: Reading, objects: list[Json]) -> Json:
    """By which door a pod comes, how its containers get devices, and for how long, if it says so.

    Raises `PaictlError` for a pod that would never get any.
    """
    ways = {"door": door_of(pod), "devices": devices_of(pod, name, objects, found.request.leaf_number)}
    return ways | ({"run time": limit} if (limit := run_time_of(pod)) else {})


def reading_data(found: Reading) -> Json:
    """A reading field by field, each with where it came from."""
    request = found.request
    members = ", ".join(f"{pods} x {cells}" for cells, pods in request.members)
    return {
        "read from": found.source,
        "virtual cluster": request.vc,
        "priority": f"{request.priority} ({'guaranteed' if request.guaranteed else 'opportunistic'})",
        "leaf cells": f"{request.leaf_number} ({found.leaves_from})",
        "group": f"{request.group} ({found.group_from})",
        "members": f"{members} (pods x leaf cells)",
        "leaf cell type": request.leaf_type or "any",
        "pinned cell": request.pinned_id or "none",
        "lazy preemption": request.lazy_preemption,
        "ignores suggested nodes": request.ignore_suggested,
    }
