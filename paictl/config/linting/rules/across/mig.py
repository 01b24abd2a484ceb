"""MIG instances in the cells against the services that hand out devices.

Passes::

    # services-configuration.yaml
    rest-server:
      default-pai-admin-username: root-of-pai
      default-pai-admin-password: not-a-default-1
    device-plugin:
      nvidia: {mig-strategy: single}
    hivedscheduler:
      devices: environment
      config: |
        physicalCluster:
          skuTypes:
            A100-1G: {gpu: 1, cpu: 2, memory: 16384Mi, migInstances: 7}
          cellTypes:
            NODE: {childCellType: A100-1G, childCellNumber: 56, isNodeLevel: true}
          physicalCells:
          - {cellType: NODE, cellAddress: worker1}
        virtualClusters:
          default:
            virtualCells:
            - {cellType: NODE, cellNumber: 1}
"""

from __future__ import annotations

from paictl.cells.spec import MIG_INSTANCES
from paictl.config.linting.rule import ERROR, WARNING, Bundle, Document, Finding, Findings, rule
from paictl.config.models.hived import hived
from paictl.config.models.inventory import hived_beside, layout_in, listed_hosts
from paictl.config.reading.kinds import FileKind
from paictl.config.reading.nodes import MappingNode, ScalarNode
from paictl.i18n import text


@rule("XRF917", "mig-strategy", ERROR)
def mig_strategy(bundle: Bundle) -> Findings:
    """Leaf cells are MIG instances, and NVIDIA's device plugin offers something else.

    Why: with the strategy `none`, a node offers whole GPUs; with `mixed`, it offers resources that do not count as
    devices. Either way it has fewer devices than leaf cells, and the scheduler treats it as bad.

    Fails with::

        # services-configuration.yaml
        -  nvidia: {mig-strategy: single}
        +  nvidia: {mig-strategy: mixed}
    """
    # The strategy, or where it is left out the SKU, unless somebody else runs the device plugin.
    for document in bundle.of(FileKind.SERVICES):
        sku, plugin = _first_sku(document, bundle), document.top.mapping("device-plugin")
        strategy = plugin.mapping("nvidia").scalar("mig-strategy")
        if sku is None or not _runs_plugin(plugin) or (strategy is not None and strategy.text == "single"):
            continue
        message = text(
            "SKU {sku} is for MIG instances, which the device plugin only offers with mig-strategy: single",
            sku=sku.text,
        )
        yield Finding(strategy or sku, message, "set device-plugin: {nvidia: {mig-strategy: single}}")


@rule("XRF918", "mig-strategy-unused", WARNING)
def mig_strategy_unused(bundle: Bundle) -> Findings:
    """NVIDIA's device plugin offers MIG instances as devices, and no leaf cell is one.

    Why: if GPUs are divided, the containers of a leaf cell get a whole GPU, including the instances of other jobs.

    Fails with::

        # services-configuration.yaml
        -        A100-1G: {gpu: 1, cpu: 2, memory: 16384Mi, migInstances: 7}
        +        A100-1G: {gpu: 1, cpu: 2, memory: 16384Mi}
    """
    # The strategy `single`, where there are cells and none of their SKUs has migInstances. The strategy is one for all
    # nodes and leaves those with whole GPUs as they are: a worker with GPUs outside the cells can be why it is set.
    for document in bundle.of(FileKind.SERVICES):
        plugin = document.top.mapping("device-plugin")
        strategy = plugin.mapping("nvidia").scalar("mig-strategy")
        if strategy is None or strategy.text != "single" or not _runs_plugin(plugin):
            continue
        cells = hived_beside(document, bundle)
        if cells is not None and _first_sku(document, bundle) is None and not _gpus_outside(cells, bundle):
            message = text("the device plugin offers MIG instances as devices, and no SKU has migInstances")
            yield Finding(strategy, message, "add migInstances to the SKU of the divided GPUs, or remove mig-strategy")


@rule("XRF919", "mig-by-claims", ERROR)
def mig_by_claims(bundle: Bundle) -> Findings:
    """Leaf cells are MIG instances, and pods are to get their devices by claims.

    Why: claims count whole GPUs. The MIG devices that a driver publishes do not count as leaf cells.

    Fails with::

        # services-configuration.yaml
        -  devices: environment
        +  devices: auto
    """
    # The way to get devices, unless it is the environment.
    for document in bundle.of(FileKind.SERVICES):
        devices = document.top.mapping("hivedscheduler").scalar("devices")
        sku = _first_sku(document, bundle)
        if devices is not None and devices.text in ("claims", "auto") and sku is not None:
            message = text(
                "SKU {sku} is for MIG instances, and devices: {devices} only knows whole GPUs",
                sku=sku.text,
                devices=devices.text,
            )
            yield Finding(devices, message, "set devices: environment")


def _first_sku(document: Document, bundle: Bundle) -> ScalarNode | None:
    """The name of the first SKU for MIG instances in the cells beside service settings; None without one."""
    beside = hived_beside(document, bundle)
    skus = hived(beside).skus if beside is not None else ()
    divided = (sku.key for sku in skus if isinstance(sku.value, MappingNode) and sku.value.integer(MIG_INSTANCES))
    return next(divided, None)


def _gpus_outside(cells: Document, bundle: Bundle) -> bool:
    """Whether a worker is known that has NVIDIA GPUs, as far as the files say, and is in no cell."""
    inside, layout_pair = {cell.name.lower() for cell in hived(cells).nodes}, layout_in(bundle)
    known = (
        {machine.key: machine for machine in layout_pair[1].with_role("pai-worker") if machine.key}
        if layout_pair
        else {}
    )
    listed = {host.host.key for host in listed_hosts(bundle) if host.role == "pai-worker"}
    for name in (known.keys() | listed) - inside:
        sku = layout_pair[1].sku_of(known[name]) if layout_pair and name in known else None
        if sku is None:
            return True
        kind = sku.device.scalar("type")
        if sku.device_count != 0 and (kind is None or kind.text.startswith("nvidia.com/")):
            return True
    return False


def _runs_plugin(plugin: MappingNode) -> bool:
    """Whether paictl runs NVIDIA's device plugin."""
    switch = plugin.scalar("enabled")
    named = [scalar.text for scalar in plugin.sequence("devices").scalars()]
    return (switch is None or switch.value is not False) and (
        not named or any("/" not in device or device.startswith("nvidia.com/") for device in named)
    )
