"""The end of a deployment: a configuration for the machines as they were found, pushed, and the services started."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from paictl import __version__
from paictl.cluster.interface import Cluster
from paictl.cluster.kubernetes.names import JOBS_NAMESPACE, NAMESPACE
from paictl.cluster.manifests.context import Renderer, RenderInputs, images_of
from paictl.config.making.generate import SERVICES_FILE, inventory_of, plan, read_inputs, recheck
from paictl.config.making.generate_text import render
from paictl.config.making.skus import MachineSku
from paictl.config.reading.schema import named_schemas
from paictl.deploy.facts import HostFacts
from paictl.deploy.inventory import Role
from paictl.files import write_together
from paictl.operate.pushing.plan import PushRequest, send
from paictl.operate.pushing.plan import plan as plan_push
from paictl.operate.services import perform, prepare
from paictl.plan.events import Listener
from paictl.service.carry_out import ServiceOutcome
from paictl.service.catalogue import load_catalogue
from paictl.service.plan import ServiceRequest
from paictl.units import Quantity

_GIB = 1024**3


def skus_of(facts: Iterable[HostFacts]) -> list[MachineSku]:
    """The kinds of worker there are, by what was found on them; those with most devices first."""
    kinds: dict[tuple[int, int, int], list[str]] = {}
    for one in facts:
        if one.machine.role is Role.WORKER:
            key = (one.gpus, int(one.host["cpus"]), int(one.host["memory"]["total"]) // _GIB)
            kinds.setdefault(key, []).append(one.machine.name)
    return [
        MachineSku(
            f"gpu{gpus}-cpu{cpus}-mem{memory}" if gpus else f"cpu{cpus}-mem{memory}",
            gpus, cpus, Quantity(Decimal(memory), "Gi"), "nvidia.com/gpu" if gpus else "", "", tuple(hosts),
        )
        for (gpus, cpus, memory), hosts in sorted(kinds.items(), reverse=True)
    ]  # fmt: skip


def make_configuration(files: Sequence[str], facts: Iterable[HostFacts], folder: Path) -> list[Path]:
    """Write layout and service settings of a new cluster, unless the folder has them; the paths written.

    Raises `PaictlError` if the machines are too small to be divided, or nothing can be written.
    """
    if (folder / SERVICES_FILE).is_file():
        return []
    inputs = read_inputs(*files)
    texts = render(plan(inventory_of(inputs), skus_of(facts)))
    recheck(inputs, texts)
    return write_together(folder, {**texts, **named_schemas(texts.values())}, mode=0o600)


def push_configuration(cluster: Cluster, folder: Path) -> int | None:
    """Push a folder; the number of the new version, None if the cluster has it already."""
    order = PushRequest(str(folder))
    made = plan_push(cluster, order)
    return send(cluster, made, "deployed", order).number if made.changes else None


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A service that machines without a registry cannot run: images that it lacks, or a service that is left out."""

    service: str
    images: tuple[str, ...] = ()
    needs: str = ""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a service is reached from outside: a port of every node; 0 where it is reached inside the cluster only."""

    service: str
    port: int


def left_out(cluster: Cluster, images: Iterable[str]) -> tuple[LeftOut, ...]:
    """The services that cannot run with these images alone, in start order; raises `PaictlError` as rendering does."""
    here, catalogue, renderer = set(images), load_catalogue(), _renderer(cluster)
    found: dict[str, LeftOut] = {}
    for name in catalogue.services:
        lacking = tuple(one for one in images_of(renderer.sealed(name)) if one not in here)
        need = next((need for need in catalogue[name].prerequisites if need in found), "")
        if lacking or need:
            found[name] = LeftOut(name, lacking, need)
    return tuple(found.values())


def address_of(cluster: Cluster, service: str) -> Address:
    """Where the newest configuration puts a service."""
    bodies = [one.body for one in _renderer(cluster).sealed(service) if one.kind == "Service"]
    ports = (port.get("nodePort") for body in bodies for port in body["spec"]["ports"])
    return Address(service, next((int(port) for port in ports if port), 0))


def _renderer(cluster: Cluster) -> Renderer:
    files = cluster.configuration().files
    return Renderer(RenderInputs(cluster.name, NAMESPACE, JOBS_NAMESPACE, __version__, files))


def start_services(
    cluster: Cluster, request: ServiceRequest, listen: Listener, say: Callable[[str], object]
) -> tuple[ServiceOutcome, ...]:
    """Start services; those that run already are left alone."""
    prepared = prepare(cluster, request)
    for remark in prepared.plan.settled:
        say(f"{remark.service} {remark.text}")
    return perform(cluster, prepared, listen) if prepared.plan.steps else ()
