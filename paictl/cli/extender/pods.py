"""Pods from files, and readings as data."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from paictl.errors import PaictlError

if TYPE_CHECKING:
    from paictl.extender.labels import Reading

Json = dict[str, Any]


def pods_of(file: str) -> list[Json]:
    """The pods of a file: documents of kind Pod, List or PodList. Raises `PaictlError` naming the file."""
    where = "(stdin)" if file == "-" else file
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
        documents = [one for one in yaml.safe_load_all(text) if one is not None]
    except (OSError, UnicodeDecodeError) as error:
        raise PaictlError(
            f"cannot be read: {getattr(error, 'strerror', None) or 'it is no text'}", where=where
        ) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise PaictlError(f"not YAML: {' '.join(str(error).split())[:200]}", where=where) from None
    found: list[Any] = []
    for one in documents:
        items = one.get("items") if isinstance(one, dict) else None
        found += items if isinstance(items, list) else [one]
    for one in found:
        kind = one.get("kind", "Pod") if isinstance(one, dict) else None
        if kind != "Pod" or not isinstance(one.get("metadata"), dict):
            raise PaictlError(
                f"expected pods, found {kind or 'something else'}", where=where,
                hint="give the pods as they are in the cluster: kubectl get pods -o yaml",
            )  # fmt: skip
    if not found:
        raise PaictlError("there is no pod in it", where=where)
    return found


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
