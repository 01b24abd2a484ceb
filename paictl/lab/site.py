"""Where a lab runs that has no cluster of its own: on a cluster that was added by name, as a user of its own.

The user tells the lab's jobs from those of others and of earlier runs: a cluster keeps jobs that have ended, and two
cannot have one name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, field
from datetime import datetime
from typing import Any, Final

from paictl.cluster.interface import MachineSpec, NodeCondition, NodeRole, NodeView
from paictl.frozen import frozen
from paictl.lab.messages import LabError

TOLERANCE: Final = 6.0
"""Seconds by which what happens may be late: a pod has to be made, placed and seen to run."""


@frozen
class LabSite:
    """The `cluster` by its name here and its `cluster_id`; `nodes` maps the lab's names to those there, `addresses` the
    addresses of its machines to those there.

    `pace` is how many seconds of the lab pass in one of the cluster; what was before `began` is not the lab's, and
    `services` ran then. It began with `version` of the configuration.
    """

    cluster: str
    cluster_id: str
    user: str
    pace: float
    nodes: Mapping[str, str]
    began: str
    services: tuple[str, ...] = ()
    version: int = 1
    addresses: Mapping[str, str] = field(default_factory=dict)

    @property
    def beginning(self) -> datetime:
        """`began` as an instant."""
        return datetime.fromisoformat(self.began)

    @property
    def mark(self) -> str:
        """What the messages of the configurations begin with that the lab pushes (`registered` looks for it)."""
        return f"lab {self.lab} ({self.user})"

    @property
    def lab(self) -> str:
        """The lab's number, of which there is one at a time."""
        return self.user.rpartition("-lab")[2][:2]

    def data(self) -> dict[str, Any]:
        """As plain data, which `site_from` reads back."""
        return asdict(self) | {"nodes": dict(self.nodes), "addresses": dict(self.addresses)}

    @property
    def words(self) -> dict[str, str]:
        """What the lab calls machines and where they are → what is so there."""
        return {**self.nodes, **self.addresses}

    @property
    def lab_words(self) -> dict[str, str]:
        """`words` the other way round."""
        return {cluster_word: lab_word for lab_word, cluster_word in self.words.items()}

    def lab_name(self, node: str) -> str:
        """What the lab calls a node."""
        return self.lab_words.get(node, node)


def site_from(data: Mapping[str, Any]) -> LabSite:
    """A site from plain data."""
    return LabSite(**{**data, "services": tuple(data.get("services", ()))})


def chosen_nodes(specs: Iterable[MachineSpec], there: Iterable[NodeView]) -> dict[str, str]:
    """The nodes for a lab's workers, both in order of name; raises `LabError` that says what is lacking or in use."""
    workers = sorted((spec for spec in specs if spec.role is NodeRole.WORKER), key=lambda spec: spec.name)
    able = [node for node in there if node.machine.role is NodeRole.WORKER and node.condition is NodeCondition.READY]
    free = sorted((node for node in able if not node.reason), key=lambda node: node.machine.name)
    chosen: dict[str, str] = {}
    for worker in workers:
        fit = next((node for node in free if node.machine.devices == worker.devices), None)
        if fit is None:
            raise LabError("too-small", workers=len(workers), devices=worker.devices, found=_devices_of(able))
        free.remove(fit)
        chosen[worker.name] = fit.machine.name
    return chosen


def _devices_of(nodes: Iterable[NodeView]) -> str:
    words = [f"{node.machine.name} ({node.machine.devices})" for node in nodes]
    return ", ".join(words[:8]) + (", …" if len(words) > 8 else "") if words else "-"


def renamed(text: str, names: Mapping[str, str]) -> str:
    """A text with names in place of others, all at once; only whole words are names."""
    words = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    return re.sub(rf"(?<![\w.-])(?:{words})(?![\w-]|\.\w)", lambda match: names[match[0]], text) if names else text
