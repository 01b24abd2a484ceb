"""The text of files that `paictl config generate` and `paictl cluster import` write."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator

from paictl import i18n
from paictl.config.linting.validate import validate
from paictl.config.making.drafting import Draft
from paictl.config.making.generate import LAYOUT_FILE, MASTER_SKU, SERVICES_FILE, GeneratedFiles, WorkerPool
from paictl.config.making.shapes import DraftCell
from paictl.config.making.skus import MachineSku
from paictl.config.reading.document import Bundle
from paictl.config.reading.kinds import FileKind
from paictl.config.reading.load import Loaded, load_bytes
from paictl.config.reading.problem import Severity
from paictl.config.reading.schema import SCHEMA_NAMES, schema_comment
from paictl.config.reading.values import scalar
from paictl.errors import PaictlError

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


DRAFT_FILE = "hivedscheduler.yaml"


def draft_text(draft: Draft, cluster: str) -> str:
    """The file; raises `PaictlError` if it has an error, which is a fault of ours."""
    text = "\n".join([schema_comment(SCHEMA_NAMES[FileKind.HIVED]), *_head(draft, cluster), *_body(draft), ""])
    _check(text)
    return text


def _check(text: str) -> None:
    report = validate(Loaded((Bundle("draft", tuple(load_bytes(DRAFT_FILE, text.encode()))),)))
    for problem in report.problems:
        if problem.severity is Severity.ERROR:
            raise PaictlError(
                i18n.text("the draft would be wrong, {rule}: {message}", rule=problem.rule, message=problem.message),
                where=str(problem.place),
            )


def _head(draft: Draft, cluster: str) -> Iterator[str]:
    yield from _comment(f"Drafted by `paictl cluster import` from {cluster}; yours to change from now on.")
    for title, lines in (("Questions", draft.questions), ("Not taken over", draft.remarks)):
        if lines:
            yield "#"
            yield f"# {title}:"
            for line in lines:
                yield from _comment(line, "- ")


def _comment(text: str, mark: str = "") -> Iterator[str]:
    yield from textwrap.wrap(
        text,
        110,
        initial_indent=f"# {mark}",
        subsequent_indent=f"# {' ' * len(mark)}",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _body(draft: Draft) -> Iterator[str]:
    yield "physicalCluster:"
    yield "  skuTypes:"
    for name, (cpus, memory) in draft.skus.items():
        instances, profile = draft.mig.get(name, (0, ""))
        mig = f", migInstances: {instances}, migProfile: {profile}" if instances else ""
        yield f"    {scalar(name)}: {{gpu: 1, cpu: {cpus}, memory: {memory}Mi{mig}}}"
    yield "  cellTypes:"
    for name, kind in draft.types.items():
        node = ", isNodeLevel: true" if kind.is_node else ""
        yield f"    {scalar(name)}: {{childCellType: {scalar(kind.child)}, childCellNumber: {kind.number}{node}}}"
    yield "  physicalCells:"
    for cell in draft.cells:
        yield f"  - cellType: {scalar(cell.type)}"
        yield from _cell(cell, "    ")
    yield "virtualClusters:"
    for tenant in draft.tenants:
        yield f"  {scalar(tenant.name)}:{f'  # {tenant.source}' if tenant.source else ''}"
        yield "    virtualCells:"
        for path, number in tenant.cells.items():
            yield f"    - cellType: {scalar(path)}"
            yield f"      cellNumber: {number}"


def _cell(cell: DraftCell, indent: str) -> Iterator[str]:
    """Address (of a node) or children of a cell; the domain of the others as a comment."""
    if not cell.children:
        yield f"{indent}cellAddress: {scalar(cell.address)}"
        return
    yield f"{indent}cellChildren:{f'  # {cell.address}' if cell.address else ''}"
    for child in cell.children:
        lines = list(_cell(child, f"{indent}  "))
        yield f"{indent}- {lines[0].strip()}"
        yield from lines[1:]
