"""Pods from files, and how the scheduler reads them, as data."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml

from paictl.cluster.pods.labels import DEVICES, Rules
from paictl.cluster.pods.reading import asks, read_pod
from paictl.config.reading.source import Source
from paictl.config.reading.yamltree import IssueKind, ReadIssue, parse_yaml
from paictl.doors.configuration import read
from paictl.doors.owners import gang_of, label_for, owner_of, stands_for_pods
from paictl.doors.pod_manifest import TEMPLATE, devices_of, door_of, run_time_of
from paictl.errors import PaictlError
from paictl.i18n import text

if TYPE_CHECKING:
    from paictl.cluster.pods.labels import Reading

Json = dict[str, Any]


def explained(file: str, config: Path | None, device: Sequence[str] | None) -> list[Json]:
    """How the scheduler reads each pod of a file: `read` is yes, with the details, or no, with `why`.

    `config` says how many devices a leaf cell of each SKU has; `device` are the resources that count as devices.
    Raises `PaictlError` naming the file.
    """
    devices = tuple(device) if device else DEVICES
    rules = Rules.from_spec(devices, read(config).spec) if config else Rules(devices)
    pods, owners = _pods_of(file)
    return [_explained(pod, owners, rules) for pod in pods]


def _explained(pod: Json, owners: list[Json], rules: Rules) -> Json:
    about = pod["metadata"]
    name = f"{about.get('namespace') or 'default'}/{about.get('name') or about.get('generateName') or '?'}"
    if not asks(pod):
        return {"pod": name, "read": "no", "why": "it does not ask for this scheduler"}
    try:
        reading = read_pod(pod, str(about.get("uid") or name), name, rules)
        details = _reading_data(reading) | _counted(pod, reading, owners, rules) | _ways_of(pod, name, reading, owners)
    except PaictlError as error:
        return {"pod": name, "read": "no", "why": error.message}
    return {"pod": name, "read": "yes", **details}


def _pods_of(file: str) -> tuple[list[Json], list[Json]]:
    """The pods of a file, and what they may belong to or need (Job, JobSet, ResourceClaimTemplate ...).

    They are documents, or in a List or PodList.

    Raises `PaictlError` naming the file.
    """
    where = "(stdin)" if file == "-" else file
    try:
        content = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or text("it is not text")
        raise PaictlError(text("cannot be read: {reason}", reason=reason), where=where) from None
    objects: list[Any] = []
    for document in _documents(content, where):
        items = document.get("items") if isinstance(document, dict) else None
        objects += items if isinstance(items, list) else [document]
    pods: list[Json] = []
    owners: list[Json] = []
    for item in objects:
        kind = item.get("kind", "Pod") if isinstance(item, dict) else None
        if kind and isinstance(item.get("metadata"), dict) and (kind in ("Pod", TEMPLATE) or stands_for_pods(item)):
            (pods if kind == "Pod" else owners).append(item)
        else:
            raise PaictlError(
                text("expected pods, found {kind}", kind=kind or text("something else")),
                where=where,
                hint="give the pods as they are in the cluster: kubectl get pods -o yaml",
            )
    if not pods:
        raise PaictlError("it contains no pods", where=where)
    for pod in pods:
        _check_texts(pod["metadata"], where)
    return pods, owners


_FAST_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_BETWEEN = re.compile(r"^---(?=\s|$)", re.MULTILINE)


def _documents(content: str, where: str) -> list[Any]:
    """The documents of a YAML text; raises `PaictlError` with line and column for what kubectl rejects too.

    A duplicate key is such a mistake: most likely the line --- between two objects is missing.
    """
    deep = False
    starts = [0, *(match.start() for match in _BETWEEN.finditer(content)), len(content)]
    for start, end in pairwise(starts):
        above = "\n" * content.count("\n", 0, start)  # so that line numbers are those of the file
        tree = parse_yaml(Source(where, above + content[start:end]))
        for issue in tree.issues:
            if issue.kind in _REFUSED:
                raise _refused(issue)
            deep = deep or issue.kind is IssueKind.TOO_DEEP
    # libyaml's loader is ten times as fast, but deeply nested lists overflow its stack.
    loader = yaml.SafeLoader if deep else _FAST_LOADER
    try:
        return [document for document in yaml.load_all(content, Loader=loader) if document is not None]
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise PaictlError(text("not YAML: {reason}", reason=" ".join(str(error).split())[:200]), where=where) from None


_REFUSED = (IssueKind.SYNTAX, IssueKind.TAB, IssueKind.DUPLICATE_KEY)


def _refused(issue: ReadIssue) -> PaictlError:
    """The error for an issue that makes a file unreadable."""
    line, column = issue.at.source.position(issue.at.start)
    where = f"{issue.at.source.path}:{line}:{column}"
    if issue.kind is IssueKind.TAB:
        return PaictlError(text("a tab indents this line"), where=where, hint=text("replace the tab with spaces"))
    if issue.kind is IssueKind.DUPLICATE_KEY and issue.other is not None:
        first = issue.other.source.position(issue.other.start)[0]
        return PaictlError(
            text("the key {key} is given twice, first in line {line}", key=issue.detail, line=first),
            where=where,
            hint=text("remove one, or write --- on a line of its own between two objects"),
        )
    return PaictlError(text("not YAML: {reason}", reason=issue.detail), where=where, hint=issue.hint)


def _check_texts(about: Json, where: str) -> None:
    """Raise `PaictlError` for a label or annotation that is not a string: the API server rejects such a pod."""
    for field in ("labels", "annotations"):
        values = about.get(field)
        for key, value in values.items() if isinstance(values, dict) else ():
            if not isinstance(value, str):
                shown = str(value).lower() if isinstance(value, bool | int) else "…"
                raise PaictlError(
                    text(
                        "metadata.{field}: the value of {key} is not a string, and Kubernetes takes only strings",
                        field=field,
                        key=key,
                    ),
                    where=where,
                    hint=text("put it in quotes: {key}: {value}", key=key, value=f'"{shown}"'),
                )


def _counted(pod: Json, reading: Reading, owners: list[Json], rules: Rules) -> Json:
    """How many pods the owner of a pod's gang runs, and the label to add if the pod does not agree.

    Empty if the owner is not among `owners`. Raises `RequestError` for an invalid number in the owner.
    """
    owner = owner_of(pod, [owner for owner in owners if owner.get("kind") != TEMPLATE])
    members = gang_of(owner, rules) if owner is not None else ()
    if owner is None or not members:
        return {}
    declared = tuple((pods, cells) for cells, pods in sorted(reading.request.members))
    count = ", ".join(f"{pods} x {cells}" for pods, cells in members)
    agrees = "as the pod says" if declared == members else f"the pod does not say so; label {label_for(members)}"
    return {"owner": f"{owner.get('kind')} {owner['metadata'].get('name')} runs {count} ({agrees})"}


def _ways_of(pod: Json, name: str, reading: Reading, objects: list[Json]) -> Json:
    """The door of a pod, how its containers get devices, and its time limit if it has one.

    Raises `PaictlError` for a pod that would never get devices.
    """
    ways = {"door": door_of(pod), "devices": devices_of(pod, name, objects, reading.request.leaf_number)}
    return ways | ({"run time": limit} if (limit := run_time_of(pod)) else {})


def _reading_data(reading: Reading) -> Json:
    """The fields of a reading, with their sources."""
    request = reading.request
    members = ", ".join(f"{pods} x {cells}" for cells, pods in request.members)
    return {
        "read from": reading.source,
        "virtual cluster": request.vc,
        "priority": text("{priority} (guaranteed)", priority=request.priority)
        if request.guaranteed
        else text("{priority} (opportunistic)", priority=request.priority),
        "leaf cells": text("{value} ({source})", value=request.leaf_number, source=text(reading.leaves_from)),
        "group": text("{value} ({source})", value=request.group, source=text(reading.group_from)),
        "members": text("{members} (pods x leaf cells)", members=members),
        "leaf cell type": request.leaf_type or "any",
        "pinned cell": request.pinned_id or "not pinned",
        "lazy preemption": request.lazy_preemption,
        "ignores suggested nodes": request.ignore_suggested,
    }
