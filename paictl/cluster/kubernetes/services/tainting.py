"""Taints of nodes: ours come and go, everybody else's stay.

Kubernetes keeps a node's taints as one list with one owner, so that server-side apply of ours would take the others'
away: kubeadm's, those of a cordon, those of a node that does not answer. So the list is changed over the very version
of the node that was read, and an annotation says which entries are ours: by key and effect, which name a taint.
"""

from __future__ import annotations

import json
from typing import Any, Final

from paictl.remote.kube.client import MERGE, Json, KubeClient, KubeError
from paictl.remote.kube.objects import CONFLICT, MANAGER

TAINTS: Final = "paictl.io/taints"
"""Annotation of a node: which of its taints paictl has set, as ``[[KEY, EFFECT], …]``."""
_TRIES: Final = 10
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
    gone = _ours(notes) - shall.keys()
    kept = [_written(entry, shall) for entry in taints_of(live) if _name(entry) not in gone]
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
    for chance in reversed(range(_TRIES)):
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
