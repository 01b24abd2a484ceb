"""The administrator's access, merged into a kubeconfig as a context of its own; nothing else in it is changed."""

from __future__ import annotations

import copy
import os
from pathlib import Path
from typing import Any

import yaml

from paictl.errors import PaictlError
from paictl.files import write_together

Config = dict[str, Any]
_LISTS = ("clusters", "users", "contexts")


def default_kubeconfig() -> Path:
    """Where access goes: the first file of KUBECONFIG, else ~/.kube/config."""
    named = [part for part in os.environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    return Path(named[0]) if named else Path.home() / ".kube" / "config"


def merged_kubeconfig(present: Config, access: Config, name: str) -> Config:
    """A kubeconfig with the access as cluster, user and context `paictl-NAME`; the current context stays what it is.

    Only if the kubeconfig had no context does the new one become current.
    """
    own = context_name(name)
    merged: Config = copy.deepcopy(present) if present else {"apiVersion": "v1", "kind": "Config", "preferences": {}}
    rows: dict[str, Config] = {
        "clusters": {"name": own, "cluster": access["clusters"][0]["cluster"]},
        "users": {"name": own, "user": access["users"][0]["user"]},
        "contexts": {"name": own, "context": {"cluster": own, "user": own}},
    }
    alone = not merged.get("contexts")
    for kind in _LISTS:
        rows_before: list[Config] = merged.get(kind) or []
        others = [row for row in rows_before if row.get("name") != own]
        merged[kind] = [*others, rows[kind]]
    if alone and not merged.get("current-context"):
        merged["current-context"] = own
    return merged


def access_to(path: Path, cluster: str) -> Config | None:
    """The access to one cluster that paictl has merged into a kubeconfig, as a kubeconfig; None if it is not there."""
    config, own = read_kubeconfig(path), context_name(cluster)
    rows = {kind: [row for row in config.get(kind) or [] if row.get("name") == own] for kind in _LISTS}
    if not all(rows.values()):
        return None
    return {"apiVersion": "v1", "kind": "Config", "current-context": own, **rows}


def context_name(cluster: str) -> str:
    """The context of a cluster that paictl has made."""
    return f"paictl-{cluster}"


def read_kubeconfig(path: Path) -> Config:
    """Read a kubeconfig; empty if the file does not exist. Raises `PaictlError` if it is not a kubeconfig."""
    try:
        config = yaml.safe_load(path.read_text(encoding="utf-8")) if path.is_file() else {}
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise PaictlError(f"cannot be read: {error}".splitlines()[0], where=str(path)) from None
    if config is not None and not isinstance(config, dict):
        hint = "move it away, or give another one with KUBECONFIG"
        raise PaictlError("is not a kubeconfig", where=str(path), hint=hint)
    return config or {}


def merge_into(path: Path, access: Path, cluster: str) -> bool:
    """Put the access to a cluster into a kubeconfig (0600, in one step); whether anything changed."""
    present = read_kubeconfig(path)
    merged = merged_kubeconfig(present, read_kubeconfig(access), cluster)
    if merged == present:
        return False
    target = path.resolve()  # a link stays a link
    write_together(target.parent, {target.name: yaml.safe_dump(merged, sort_keys=False)}, force=True, mode=0o600)
    return True


def forget(path: Path, cluster: str) -> bool:
    """Take the access to a cluster out of a kubeconfig; whether it was there. The current context goes only with it."""
    present = read_kubeconfig(path)
    own = context_name(cluster)
    remaining = copy.deepcopy(present)
    for kind in _LISTS:
        if kind in remaining:
            remaining[kind] = [row for row in remaining[kind] or [] if row.get("name") != own]
    if remaining == present:
        return False
    if remaining.get("current-context") == own:
        remaining["current-context"] = ""
    target = path.resolve()
    write_together(target.parent, {target.name: yaml.safe_dump(remaining, sort_keys=False)}, force=True, mode=0o600)
    return True
