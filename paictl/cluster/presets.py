"""Clusters to begin with: configuration files made from a few numbers, as an administrator would write them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from paictl.config.reading.schema import schema_comment
from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.i18n import text

LAYOUT: Final = "layout.yaml"
SERVICES: Final = "services-configuration.yaml"
PASSWORD: Final = "only-on-this-machine"  # noqa: S105 - of a cluster that is reached from this machine only
TOKEN_SECRET: Final = "only-on-this-machine-too"  # noqa: S105 - as above
PUBLIC_SECRET: Final = re.compile(rf"(?m)(?<=: )(?:{PASSWORD}|{TOKEN_SECRET})$")
"""These secrets in the files of a preset."""


@frozen
class Hardware:
    """One kind of worker. `levels` are the cells from the smallest to the node: (type, number of children)."""

    model: str
    levels: tuple[tuple[str, int], ...]
    cpu: int
    memory: int
    """GiB of a whole node."""

    @property
    def devices(self) -> int:
        """Devices of a node."""
        product = 1
        for _, number in self.levels:
            product *= number
        return product


@frozen
class Preset:
    """A cluster: equal pools of equal nodes, and the nodes that each VC is promised.

    `vcs` maps a VC to (path of cell types below the pool, number) pairs; the empty path means whole nodes.
    """

    title: str
    hardware: Hardware
    pool: str
    pools: int
    nodes_per_pool: int
    vcs: Mapping[str, tuple[tuple[str, int], ...]]

    @property
    def nodes(self) -> list[str]:
        """Names of all workers."""
        count = self.pools * self.nodes_per_pool
        width = len(str(count))
        return [f"worker{number:0{width}}" for number in range(1, count + 1)]


_ONE_GPU = Hardware("GPU", (("GPU-NODE", 1),), cpu=8, memory=32)
_DGX2 = Hardware("V100", (("V100-PAIR", 2), ("V100-QUAD", 2), ("V100-BOARD", 2), ("DGX2-NODE", 2)), cpu=96, memory=1440)
_EIGHT = Hardware("V100", (("V100-SWITCH", 2), ("V100-SOCKET", 2), ("V100-NODE", 2)), cpu=64, memory=448)

PRESETS: Final[Mapping[str, Preset]] = {
    "lab": Preset(
        "one master and two workers with a GPU each, in two virtual clusters (the textbook's lab)",
        _ONE_GPU,
        "GPU-POOL",
        1,
        2,
        {"default": (("", 1),), "vc1": (("", 1),)},
    ),
    "dgx2": Preset(
        "two DGX-2 with 16 GPUs each, in two virtual clusters",
        _DGX2,
        "DGX2-PAIR",
        1,
        2,
        {"default": (("", 1),), "vc1": (("V100-BOARD", 2),)},
    ),
    "three-tenants": Preset(
        "a rack of four nodes with eight GPUs, shared by three tenants down to pairs of GPUs",
        _EIGHT,
        "V100-RACK",
        1,
        4,
        {
            "tenanta": (("", 1), ("V100-SOCKET", 1)),
            "tenantb": (("", 1), ("V100-SOCKET", 1), ("V100-SWITCH", 1)),
            "tenantc": (("V100-SOCKET", 1), ("V100-SWITCH", 1)),
        },
    ),
    "production": Preset(
        "279 nodes with eight GPUs (2,232 GPUs) in 11 virtual clusters, as large as in the HiveD paper",
        _EIGHT,
        "V100-RACK",
        9,
        31,
        {f"vc{number}": (("", nodes),) for number, nodes in enumerate((60, 48, 40, 32, 28, 24, 16, 12, 9, 6, 4), 1)},
    ),
}
"""By name; the first is the default."""

DEFAULT: Final = "lab"


def preset_files(name: str) -> dict[str, str]:
    """The configuration files of a preset: file name → text; raises `PaictlError` for an unknown name."""
    if name not in PRESETS:
        raise PaictlError(text("no preset {name!r}", name=name), hint=text("one of: {value}", value=", ".join(PRESETS)))
    return _files(PRESETS[name])


def classroom_files(vcs: Iterable[str], secrets: Callable[[], str]) -> dict[str, str]:
    """A cluster with a node of one GPU for each VC and for ``default``; its secrets come from `secrets`, one a call."""
    promises = dict.fromkeys(("default", *vcs), (("", 1),))
    title = "a class: a worker with a GPU for each virtual cluster"
    files = _files(Preset(title, _ONE_GPU, "GPU-POOL", 1, len(promises), promises))
    return {name: PUBLIC_SECRET.sub(lambda _: secrets(), written) for name, written in files.items()}


def _files(preset: Preset) -> dict[str, str]:
    return {LAYOUT: _text(_layout(preset)), SERVICES: _text(_services(preset))}


def _text(lines: Iterator[str]) -> str:
    return "\n".join(lines) + "\n"


def _layout(preset: Preset) -> Iterator[str]:
    hardware = preset.hardware
    yield schema_comment("layout")
    yield f"# {preset.title}"
    yield "machine-sku:"
    yield from ("  master-machine:", "    mem: 60Gi", "    cpu:", "      vcore: 24")
    yield from (
        "  gpu-machine:",
        "    computing-device:",
        "      type: nvidia.com/gpu",
        f"      model: {hardware.model}",
    )
    yield from (
        f"      count: {hardware.devices}",
        f"    mem: {hardware.memory}Gi",
        "    cpu:",
        f"      vcore: {hardware.cpu}",
    )
    yield "machine-list:"
    yield from _machine("master1", "10.0.0.1", "master-machine", "pai-master")
    for number, node in enumerate(preset.nodes):
        yield from _machine(node, f"10.0.{1 + number // 250}.{1 + number % 250}", "gpu-machine", "pai-worker")


def _machine(name: str, address: str, kind: str, role: str) -> Iterator[str]:
    yield f"  - hostname: {name}"
    yield f"    hostip: {address}"
    yield f"    machine-type: {kind}"
    yield f'    {role}: "true"'


def _services(preset: Preset) -> Iterator[str]:
    yield schema_comment("services-configuration")
    yield "rest-server:"
    yield "  default-pai-admin-username: paiadmin"
    yield f"  default-pai-admin-password: {PASSWORD}"
    yield f"  jwt-secret: {TOKEN_SECRET}"
    yield "hivedscheduler:"
    yield "  config: |"
    for line in _hived(preset):
        yield f"    {line}"


def _hived(preset: Preset) -> Iterator[str]:
    hardware = preset.hardware
    cpu, memory = hardware.cpu // hardware.devices, hardware.memory * 1024 // hardware.devices
    yield "physicalCluster:"
    yield "  skuTypes:"
    yield f"    {hardware.model}: {{gpu: 1, cpu: {cpu}, memory: {memory}Mi}}"
    yield "  cellTypes:"
    child = hardware.model
    for kind, number in hardware.levels:
        node = ", isNodeLevel: true" if kind == hardware.levels[-1][0] else ""
        yield f"    {kind}: {{childCellType: {child}, childCellNumber: {number}{node}}}"
        child = kind
    yield f"    {preset.pool}: {{childCellType: {child}, childCellNumber: {preset.nodes_per_pool}}}"
    yield "  physicalCells:"
    for pool in range(preset.pools):
        yield f"  - cellType: {preset.pool}"
        yield "    cellChildren:"
        for node in preset.nodes[pool * preset.nodes_per_pool :][: preset.nodes_per_pool]:
            yield f"    - cellAddress: {node}"
    yield "virtualClusters:"
    for vc, cells in preset.vcs.items():
        yield f"  {vc}:"
        yield "    virtualCells:"
        for kind, number in cells:
            yield f"    - {{cellType: {_path(preset, kind)}, cellNumber: {number}}}"


def _path(preset: Preset, kind: str) -> str:
    """The path from the pool down to a cell type; to the node for the empty one."""
    types = [preset.pool, *(name for name, _ in reversed(preset.hardware.levels))]
    return ".".join(types[: types.index(kind) + 1] if kind else types[:2])
