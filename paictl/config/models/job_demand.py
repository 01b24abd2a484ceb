"""A job beside the hivedscheduler configuration that it is to run under: what its pods need in leaf cells.

The arithmetic is that of OpenPAI's rest server: a pod needs as many leaf cells (devices) as its largest demand is
worth, measured in the resources that come with one leaf cell of its type (`skuTypes`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from paictl.config.models import per_document
from paictl.config.models.hived import Hived, hived
from paictl.config.models.hived_promises import Promise, VirtualCluster
from paictl.config.models.job import DEFAULT_VC, RESOURCES, Job, Role, job_of
from paictl.config.reading.document import Bundle
from paictl.config.reading.kinds import Kind
from paictl.config.reading.nodes import Mapping
from paictl.units import parse_quantity

Unit = dict[str, int]
"""What comes with one leaf cell, by the resource's name in jobs; a resource that is not said is left out."""


@dataclass(frozen=True, slots=True)
class Submission:
    """A job and the cluster that it is for; `vc` is None where the cluster does not have it."""

    job: Job
    cluster: Hived
    vc: VirtualCluster | None
    units: dict[str, Unit]

    @property
    def vc_name(self) -> str:
        """The VC that the job asks for."""
        return self.job.virtual_cluster.text if self.job.virtual_cluster else DEFAULT_VC

    @property
    def clear(self) -> bool:
        """Whether everything that the VC is promised is understood; if not, nothing can be said about fitting."""
        promises = self.vc.promises if self.vc else ()
        return bool(promises) and all(one.chain and one.chain.countable and one.level for one in promises)

    @property
    def sku_names(self) -> set[str]:
        """Device types that the VC has."""
        return {one.chain.leaf_type for one in (self.vc.promises if self.vc else ()) if one.chain is not None}

    def promises_for(self, role: Role) -> list[Promise]:
        """The promises of the VC that may serve a role: its pinned cell, or those of its type that are not pinned."""
        promises = self.vc.promises if self.vc else ()
        if role.pin is not None:
            return [one for one in promises if one.pin_id == role.pin.text]
        wanted = None if role.sku is None else role.sku.text
        free = (one for one in promises if one.pin_id is None and one.chain is not None)
        return [one for one in free if one.chain and wanted in (None, one.chain.leaf_type)]

    def unit(self, role: Role) -> Unit:
        """What one leaf cell brings for a role: that of its type, else the least of the types it may get."""
        if role.sku is not None:
            return self.units.get(role.sku.text, {})
        names = self.units.keys() if self.job.opportunistic else self.units.keys() & self.sku_names
        offered = [self.units[name] for name in names]
        keys = set.intersection(*(set(unit) for unit in offered)) if offered else set()
        return {key: min(unit[key] for unit in offered) for key in keys}

    def leaf_cells(self, role: Role) -> int:
        """Leaf cells that one pod of a role needs; 0 where that cannot be told."""
        unit = self.unit(role)
        asked = {key: role.resources.integer(key) or 0 for key in RESOURCES}
        return max((-(-asked[key] // unit[key]) for key in RESOURCES if unit.get(key) and asked[key] > 0), default=0)

    def largest_pod(self, role: Role) -> int:
        """Leaf cells of the largest pod of a role that could ever be placed; 0 where nothing is known."""
        if self.job.opportunistic:
            wanted = None if role.sku is None else role.sku.text
            chains = (chain for chain in self.cluster.sound_chains if chain.countable)
            return max((chain.pod(chain.top) for chain in chains if wanted in (None, chain.leaf_type)), default=0)
        promises = self.promises_for(role) if self.clear else []
        return max((one.chain.pod(one.level) for one in promises if one.chain is not None), default=0)


@per_document
def submissions(bundle: Bundle) -> list[Submission]:
    """The jobs of a bundle with its only hivedscheduler configuration; empty where there is none or several."""
    document = bundle.only(Kind.HIVED)
    if document is None:
        return []
    cluster = hived(document)
    if not cluster.vcs:
        return []
    by_name = {vc.name: vc for vc in cluster.vcs}
    units = {entry.name: dict(_unit(cluster.skus.mapping(entry.name))) for entry in cluster.skus}
    jobs = [job_of(one) for one in bundle.of(Kind.JOB)]
    asked = ((job, job.virtual_cluster.text if job.virtual_cluster else DEFAULT_VC) for job in jobs)
    return [Submission(job, cluster, by_name.get(name), units) for job, name in asked]


def _unit(sku: Mapping) -> Iterator[tuple[str, int]]:
    for key in ("gpu", "cpu"):
        number = sku.integer(key)
        if number is not None and number >= 0:
            yield key, number
    memory = sku.text("memory")
    quantity = parse_quantity(memory.text) if memory else None
    if quantity is not None:
        yield "memoryMB", quantity.mebibytes
