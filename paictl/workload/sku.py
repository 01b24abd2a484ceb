"""SKU arithmetic: which resources are devices, and how many leaf cells a task needs for what it asks for.

A leaf cell stands for the resources of its SKU. A task gets as many leaf cells as cover the scarcest of its
resources. Source: OpenPAI's rest-server, `middlewares/v2/hived.js`; where it goes wrong ours differs:

* memory and cpu are read as Kubernetes quantities, exactly (`paictl.units`);
* a SKU that has nothing at all of something that a group asks for (a CPU SKU, for a group with devices) is left out
  of the minimum, and the group is kept off its cells, instead of the whole job being refused;
* a cpu or memory that a SKU does not declare is not counted, and a cluster without `skuTypes` gives every leaf
  cell one device (rest-server does not start there);
* a task in a pinned cell is measured by the SKU of that cell, not by the minimum over the VC.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import ceil
from typing import TYPE_CHECKING, Final

from paictl.cells.spec import ClusterSpec, SpecError
from paictl.frozen import frozen
from paictl.units import exact_quantity

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from paictl.workload.job import Resources


MIB: Final = 2**20
RESOURCES: Final = ("gpu", "cpu", "memory")


@frozen
class Sku:
    """Resources of one leaf cell: devices, cores, MiB; None is not counted."""

    gpu: Fraction | None
    cpu: Fraction | None
    memory: Fraction | None


def read_skus(spec: ClusterSpec, types: Iterable[str]) -> dict[str, Sku]:
    """SKUs by leaf cell type; `types` are those that the cluster has, for when nothing is declared.

    Raises `SpecError` naming the field whose amount cannot be read.
    """
    if not spec.sku_types:
        return {name: Sku(Fraction(1), None, None) for name in types}
    path = "physicalCluster.skuTypes"
    return {name: _read_sku(declared, f"{path}.{name}") for name, declared in spec.sku_types.items()}


def _read_sku(declared: Mapping[str, int | str], path: str) -> Sku:
    amounts: dict[str, Fraction] = {}
    for resource in RESOURCES:
        if resource not in declared:
            continue
        try:
            amounts[resource] = exact_quantity(declared[resource])
        except ValueError as error:
            raise SpecError(f"{path}.{resource}", str(error)) from error
    memory = amounts.get("memory")
    # A SKU without gpu is a CPU SKU; one without cpu or memory has simply not been measured.
    return Sku(amounts.get("gpu", Fraction(0)), amounts.get("cpu"), None if memory is None else memory / MIB)


def smallest(skus: Sequence[Sku]) -> Sku:
    """The least of each resource over some SKUs, at least one."""

    def least(amounts: Iterable[Fraction | None]) -> Fraction | None:
        return min((amount for amount in amounts if amount is not None), default=None)

    return Sku(
        gpu=least(sku.gpu for sku in skus), cpu=least(sku.cpu for sku in skus), memory=least(sku.memory for sku in skus)
    )


def lacking(sku: Sku, resources: Resources) -> tuple[str, ...]:
    """Resources that a task asks for and of which a SKU has nothing."""
    return tuple(name for name in RESOURCES if getattr(resources, name) and getattr(sku, name) == 0)


def leaf_number(sku: Sku, resources: Resources) -> int:
    """Leaf cells that a task needs: the greatest of the quotients, each rounded up, at least 1.

    `sku` must not be lacking anything that is wanted.
    """
    number = 1  # HiveD refuses a pod without cells, and a task has to be somewhere
    for name in RESOURCES:
        amount: int = getattr(resources, name)
        unit: Fraction | None = getattr(sku, name)
        if amount and unit is not None:
            number = max(number, ceil(amount / unit))
    return number


def decisive(sku: Sku, resources: Resources) -> str | None:
    """The resource that makes a task need more leaf cells than its devices do; None if its devices decide."""
    by_devices = leaf_number(Sku(sku.gpu, None, None), resources)
    if leaf_number(sku, resources) == by_devices:
        return None
    return "cpu" if leaf_number(Sku(sku.gpu, sku.cpu, None), resources) == leaf_number(sku, resources) else "memory"


DEVICES: Final = (
    "nvidia.com/gpu",
    "amd.com/gpu",
    "gpu.intel.com/i915",
    "gpu.intel.com/xe",
    "habana.ai/gaudi",
    "aws.amazon.com/neuron",
    "google.com/tpu",
    "huawei.com/Ascend910",
)
"""Resources of device plugins that count as devices."""
