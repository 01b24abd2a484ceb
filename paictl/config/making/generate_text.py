"""The text of the files that `paictl config generate` writes."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator

from paictl.config.making.generate import LAYOUT_FILE, MASTER_SKU, SERVICES_FILE, GeneratedFiles, WorkerPool
from paictl.config.making.skus import MachineSku
from paictl.config.reading.kinds import FileKind
from paictl.config.reading.schema import SCHEMA_NAMES, schema_comment
from paictl.config.reading.values import scalar

_ORIGIN = "# Made by `paictl config generate` from the host lists and config.yaml; yours to change from now on."
_LAYOUT, _SERVICES = (SCHEMA_NAMES[kind] for kind in (FileKind.LAYOUT, FileKind.SERVICES))


def render(plan: GeneratedFiles) -> dict[str, str]:
    """The texts by file name."""
    return {
        LAYOUT_FILE: "\n".join([schema_comment(_LAYOUT), _ORIGIN, *_layout(plan), ""]),
        SERVICES_FILE: "\n".join([schema_comment(_SERVICES), _ORIGIN, *_services(plan), ""]),
    }


def _layout(plan: GeneratedFiles) -> Iterator[str]:
    yield "machine-sku:"
    for sku in plan.skus:
        yield from _sku(sku)
    yield "machine-list:"
    for machine in plan.machines:
        yield f"  - hostname: {scalar(machine.name)}"
        yield f"    hostip: {machine.address}"
        yield f"    machine-type: {scalar(machine.sku)}"
        yield f'    {machine.role}: "true"'


def _sku(sku: MachineSku) -> Iterator[str]:
    note = "  # at least; nothing is divided by it" if sku.name == MASTER_SKU and not sku.hosts else ""
    memory = f"{sku.memory.mebibytes}Mi" if sku.memory.decimal or not sku.memory.suffix else None
    yield f"  {scalar(sku.name)}:{note}"
    yield f"    mem: {memory or f'{sku.memory.count}{sku.memory.suffix}'}"
    yield "    cpu:"
    yield f"      vcore: {sku.cpus}"
    if sku.devices:
        yield "    computing-device:"
        yield f"      type: {sku.device_type}"
        yield f"      model: {scalar(sku.model)}"
        yield f"      count: {sku.devices}"


def _services(plan: GeneratedFiles) -> Iterator[str]:
    registry = plan.registry
    yield from (
        "cluster:",
        "  common:",
        "    cluster-id: pai",
        "    cluster-type: k8s",
        '    k8s-rbac: "true"',
        '    job-history: "true"',
        "    data-path: /datastorage",
        f'    qos-switch: "{str(plan.qos).lower()}"',
        f"    docker-data-root: {scalar(plan.docker_root)}",
        "  docker-registry:",
        f"    namespace: {scalar(registry.namespace)}",
        f"    domain: {scalar(registry.domain)}",
        f"    tag: {scalar(registry.tag)}",
        "    secret-name: pai-secret",
    )
    if registry.account:
        user, password = registry.account
        yield f"    username: {scalar(user)}"
        yield f"    password: {json.dumps(password)}"
    yield from (
        "rest-server:",
        "  default-pai-admin-username: admin",
        f"  default-pai-admin-password: {json.dumps(plan.admin_password)}",
        f"  jwt-secret: {json.dumps(plan.jwt_secret)}",
    )
    if plan.pools:
        yield "hivedscheduler:"
        yield "  config: |"
        yield textwrap.indent("\n".join(_hived(plan.pools)), "    ")


def _hived(pools: tuple[WorkerPool, ...]) -> Iterator[str]:
    yield "physicalCluster:"
    yield "  skuTypes:"
    for pool in pools:
        yield f"    {scalar(pool.sku.name)}:"
        yield f"      gpu: {1 if pool.sku.devices else 0}"
        yield f"      cpu: {pool.cpus}"
        yield f"      memory: {pool.memory}Mi"
    yield "  cellTypes:"
    for pool in pools:
        yield f"    {pool.node_type}:"
        yield f"      childCellType: {scalar(pool.sku.name)}"
        yield f"      childCellNumber: {pool.leaves}"
        yield "      isNodeLevel: true"
        yield f"    {pool.pool_type}:"
        yield f"      childCellType: {pool.node_type}"
        yield f"      childCellNumber: {len(pool.nodes)}"
    yield "  physicalCells:"
    for pool in pools:
        yield f"  - cellType: {pool.pool_type}"
        yield "    cellChildren:"
        yield from (f"    - cellAddress: {scalar(node)}" for node in pool.nodes)
    yield "virtualClusters:"
    for pool in pools:
        yield f"  {pool.vc}:"
        yield "    virtualCells:"
        yield f"    - cellType: {pool.pool_type}.{pool.node_type}"
        yield f"      cellNumber: {len(pool.nodes)}"
