"""What paictl adds to the objects of a service: labels, namespace, and the hash of what they were rendered from."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Iterable
from typing import Any, Final

from paictl.cluster.kubernetes.names import INPUT_HASH, NAMESPACE, SERVICE, labels
from paictl.cluster.kubernetes.services.kinds import NODE, WORKLOADS
from paictl.remote.kube.client import Json

RESTARTED: Final = "paictl.io/restarted-at"
"""Annotation of pods: when somebody asked for a restart, so that there is one."""


def digest_of(bodies: Iterable[Json], version: str) -> str:
    """The hash of rendered objects (with seals in the place of secrets) and of the version of paictl."""
    text = json.dumps([version, list(bodies)], sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def marked(body: Json, service: str, version: str, digest: str, *, namespaced: bool, restarted: str = "") -> Json:
    """An object as it is applied; a node stays as it is, because it is not ours and must never be pruned."""
    found: Json = copy.deepcopy(body)
    about = found["metadata"]
    if namespaced:
        about.setdefault("namespace", NAMESPACE)
    else:
        about.pop("namespace", None)
    if found["kind"] == NODE:
        return found
    about["labels"] = {**labels(service, version), **_mapping(about, "labels"), SERVICE: service}
    about["annotations"] = {**_mapping(about, "annotations"), INPUT_HASH: digest}
    for claim in _spec(found).get("volumeClaimTemplates") or ():
        _add(claim, {SERVICE: service}, {})
    template = _template(found)
    if template is not None:
        _add(template, {SERVICE: service}, {INPUT_HASH: digest, **({RESTARTED: restarted} if restarted else {})})
    return found


def _template(body: Json) -> Json | None:
    """The template of the pods of a workload."""
    if body["kind"] not in WORKLOADS or body["kind"] == "Pod":
        return None
    spec = _spec(body)
    if body["kind"] == "CronJob":
        spec = _spec(spec.get("jobTemplate") or {})
    template = spec.get("template")
    return template if isinstance(template, dict) else None


def _add(thing: Json, names: dict[str, str], notes: dict[str, str]) -> None:
    about = thing.setdefault("metadata", {})
    about["labels"] = {**_mapping(about, "labels"), **names}
    if notes:
        about["annotations"] = {**_mapping(about, "annotations"), **notes}


def _spec(body: Json) -> Json:
    spec = body.get("spec")
    return spec if isinstance(spec, dict) else {}


def _mapping(about: Json, key: str) -> dict[str, Any]:
    return dict(about.get(key) or {})
