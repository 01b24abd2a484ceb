"""Taints of machines as layout.yaml writes them, the way kubectl does: ``KEY[=VALUE]:EFFECT``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def taints_by_host(layout: Mapping[str, Any]) -> dict[str, list[dict[str, str]]]:
    """The taints of each machine that has some, by its hostname, as Kubernetes' objects write them."""
    return {
        str(machine.get("hostname")): [_parsed(str(word)) for word in machine["taints"]]
        for machine in layout.get("machine-list") or ()
        if isinstance(machine, Mapping) and machine.get("taints")
    }


def _parsed(word: str) -> dict[str, str]:
    about, _, effect = word.rpartition(":")
    key, _, value = about.partition("=")
    return {"key": key, **({"value": value} if value else {}), "effect": effect}
