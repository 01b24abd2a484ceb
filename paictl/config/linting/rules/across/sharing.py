"""The section `sharing` against the virtual clusters that there are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from paictl.config.linting.rule import ERROR, Bundle, Document, Finding, Findings, rule
from paictl.config.linting.rules.services.departments import line_of, parents_of, rows_of
from paictl.config.linting.rules.shape.words import suggested
from paictl.config.models.hived import HivedConfig, hived
from paictl.config.models.inventory import hived_beside, virtual_clusters_beside
from paictl.config.reading.kinds import FileKind
from paictl.config.reading.nodes import MappingNode, ScalarNode
from paictl.i18n import listed, text

_KINDS: Final = (
    "budgets",
    "user-limits",
    "borrow-limits",
    "run-times",
    "backfill",
    "spares",
    "min-run-times",
    "lend-limits",
    "departments",
)


@rule("XRF930", "sharing-unknown-vc", ERROR)
def sharing_unknown_vc(bundle: Bundle) -> Findings:
    """An entry of the section `sharing` is for a virtual cluster that the hivedscheduler configuration does not have.

    Why: it has no effect, and the intended virtual cluster is not limited.

    Passes::

        # services-configuration.yaml
        rest-server:
          default-pai-admin-username: root-of-pai
          default-pai-admin-password: not-a-default-1
        sharing:
          budgets:
          - {vc: vision, device-hours: 5000}

        # hivedscheduler.yaml
        physicalCluster:
          skuTypes: {V100: {gpu: 1, cpu: 8, memory: 65536Mi}}
          cellTypes:
            NODE: {childCellType: V100, childCellNumber: 4, isNodeLevel: true}
          physicalCells:
          - {cellType: NODE, cellAddress: worker1}
          - {cellType: NODE, cellAddress: worker2}
        virtualClusters:
          vision:
            virtualCells:
            - {cellType: NODE, cellNumber: 1}
          default:
            virtualCells:
            - {cellType: NODE, cellNumber: 1}

    Fails with::

        # services-configuration.yaml
        -  - {vc: vision, device-hours: 5000}
        +  - {vc: vison, device-hours: 5000}
    """
    # Every virtual cluster of an entry that the configuration beside it does not promise anything.
    for document in bundle.of(FileKind.SERVICES):
        known = virtual_clusters_beside(document, bundle)
        for kind in _KINDS if known else ():
            for row in document.top.mapping("sharing").sequence(kind).mappings():
                for name in _named(row):
                    if name.text not in known:
                        hint = suggested(name, known, text("name one of: {names}", names=listed(known)))
                        yield Finding(name, text("no virtual cluster {name!r}", name=name.text), *hint)


def _named(row: MappingNode) -> Iterator[ScalarNode]:
    """The virtual clusters that an entry names: one, or those of a department."""
    if (name := row.text("vc")) is not None:
        yield name
    yield from row.sequence("vcs").scalars()


@rule("XRF931", "department-over-promised", ERROR)
def department_over_promised(bundle: Bundle) -> Findings:
    """The parts of a department are promised more devices than the department, or all departments and other virtual
    clusters more than the cluster has.

    Why: a department cannot divide what it does not have; it would have precedence for devices that others are
    promised.

    Passes::

        # services-configuration.yaml
        rest-server:
          default-pai-admin-username: root-of-pai
          default-pai-admin-password: not-a-default-1
        sharing:
          departments:
          - {name: research, vcs: [vision], devices: 4}

        # hivedscheduler.yaml
        physicalCluster:
          skuTypes: {V100: {gpu: 1, cpu: 8, memory: 65536Mi}}
          cellTypes:
            NODE: {childCellType: V100, childCellNumber: 4, isNodeLevel: true}
          physicalCells:
          - {cellType: NODE, cellAddress: worker1}
          - {cellType: NODE, cellAddress: worker2}
        virtualClusters:
          vision:
            virtualCells:
            - {cellType: NODE, cellNumber: 1}
          default:
            virtualCells:
            - {cellType: NODE, cellNumber: 1}

    Fails with::

        # services-configuration.yaml
        -  - {name: research, vcs: [vision], devices: 4}
        +  - {name: research, vcs: [vision], devices: 2}
    """
    # Every department with devices whose parts need more; the last of them if they are more than the cluster has.
    for document in bundle.of(FileKind.SERVICES):
        beside = hived_beside(document, bundle) if any(True for _ in rows_of(document)) else None
        if beside is not None and all(chain.countable for chain in hived(beside).sound_chains):
            yield from _over_promised(document, hived(beside))


def _over_promised(document: Document, cells: HivedConfig) -> Findings:
    promised: Counter[str] = Counter()
    for promise in cells.promises:
        if promise.chain is not None and promise.level:
            promised[promise.vc] += promise.number * promise.chain.leaves[promise.level]
    by_name = {key.text: row for row in rows_of(document) if (key := row.text("name")) is not None}
    parts: Counter[str] = Counter()
    for name, row in by_name.items():
        parts[name] += sum(promised[vc.text] for vc in row.sequence("vcs").scalars())
    above = parents_of(document)
    last: ScalarNode | None = None
    outermost = promised.total() - parts.total()
    for name in sorted(by_name, key=lambda name: -len(line_of(name, above))):  # parts before what they are part of
        devices = by_name[name].integer("devices")
        at = by_name[name].scalar("devices")
        if devices is not None and at is not None:
            if parts[name] > devices:
                message = text(
                    "department {name} is promised {devices} devices, and its parts {parts}",
                    name=name,
                    devices=devices,
                    parts=parts[name],
                )
                yield Finding(at, message, text("write at least {least}, or promise its parts less", least=parts[name]))
            parts[name], last = devices, at
        if above.get(name) in by_name:
            parts[above[name]] += parts[name]
        else:
            outermost += parts[name]
    size = sum(len(cells.tops_by_chain[chain.name]) * chain.leaves[chain.top] for chain in cells.sound_chains)
    if last is not None and outermost > size >= promised.total():
        message = text(
            "departments and virtual clusters without one are promised {devices} devices, and the cluster has {size}",
            devices=outermost,
            size=size,
        )
        yield Finding(last, message, "promise departments less")
