"""The end of a deployment: a configuration for the machines as they were found, pushed, and the services started."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from pathlib import Path

from paictl import __version__
from paictl.cluster.interface import Cluster, ConflictError, Services
from paictl.cluster.kubernetes.names import JOBS_NAMESPACE, NAMESPACE
from paictl.cluster.manifests.context import Renderer, RenderInputs
from paictl.config.making.generate import SERVICES_FILE, inventory_of, plan, read_inputs, recheck
from paictl.config.making.generate_text import render
from paictl.config.making.skus import MachineSku
from paictl.config.reading.schema import named_schemas
from paictl.deploy.desired import Desired
from paictl.deploy.facts import HostFacts
from paictl.deploy.inventory import Role
from paictl.deploy.preflight.gpu_checks import check_room
from paictl.deploy.preflight.node_checks import promise_of, promises_in
from paictl.deploy.preflight.verdict import DesiredHost, Level
from paictl.errors import PaictlError
from paictl.files import write_together
from paictl.frozen import frozen
from paictl.i18n import text
from paictl.operate.pushing.folder import note_base
from paictl.operate.pushing.plan import PushPlan, PushRequest, base_version, send
from paictl.operate.pushing.plan import plan as plan_push
from paictl.operate.services import LeftOut, perform, prepare
from paictl.plan.events import Listener
from paictl.service.carry_out import Patience, ServiceOutcome
from paictl.service.plan import ServiceRequest
from paictl.units import Quantity

_GIB = 1024**3


def skus_of(facts: Iterable[HostFacts]) -> list[MachineSku]:
    """The kinds of worker there are, by what was found on them; those with most devices first."""
    kinds: dict[tuple[int, int, int], list[str]] = {}
    for fact in facts:
        if fact.machine.role is Role.WORKER:
            key = (fact.gpus, int(fact.host["cpus"]), int(fact.host["memory"]["total"]) // _GIB)
            kinds.setdefault(key, []).append(fact.machine.name)
    return [
        MachineSku(
            f"gpu{gpus}-cpu{cpus}-mem{memory}" if gpus else f"cpu{cpus}-mem{memory}",
            gpus,
            cpus,
            Quantity(Decimal(memory), "Gi"),
            "nvidia.com/gpu" if gpus else "",
            "",
            tuple(hosts),
        )
        for (gpus, cpus, memory), hosts in sorted(kinds.items(), reverse=True)
    ]


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


def plan_configuration(cluster: Cluster, folder: Path) -> PushPlan:
    """What pushing a folder would change.

    Raises `PaictlError` as `config push` does, and where a cluster has another configuration while the folder does not
    say which version it was made from: nobody was asked whether the newer one may go.
    """
    push_request = PushRequest(str(folder))
    push_plan = plan_push(cluster, push_request)
    versions = {configuration.number: configuration for configuration in cluster.configurations()}
    if push_plan.changes and versions and base_version(cluster, push_request, versions) is None:
        message = text(
            "cluster {cluster} has configuration version {version}, and it is not known whether these files are newer",
            cluster=cluster.name,
            version=max(versions),
        )
        hint = text("compare: paictl config push -p DIR --dry-run; to push it anyway: paictl config push -p DIR")
        raise ConflictError(message, where=str(folder), hint=hint)
    return push_plan


def store_configuration(cluster: Cluster, push_plan: PushPlan, folder: Path) -> int:
    """Store what was planned, let running services load it, and note in the folder what it is as new as.

    The number of the new version. Raises `ConflictError` if another version was stored since the plan was made.
    """
    version = send(cluster, push_plan, "deployed", PushRequest(str(folder)))
    note_base(str(folder), cluster.name, version)
    for name in push_plan.readers.to_refresh:
        cluster.refresh_service(name)
    return version.number


def judge_room(files: Sequence[str], facts: Iterable[HostFacts], folder: Path) -> list[str]:
    """What keeps jobs from running on the machines as they were found, in words; nothing is changed.

    With a configuration in the folder its cells are compared with the machines. Raises `PaictlError` where there is
    none and none can be made, as for machines that are too small.
    """
    hosts = tuple(facts)
    if not (folder / SERVICES_FILE).is_file():
        try:
            plan(inventory_of(read_inputs(*files)), skus_of(hosts))
        except PaictlError as error:
            hint = text(
                "pass your own configuration (-p DIR), or stop before the services (--kubernetes-only); "
                "nothing was changed"
            )
            raise PaictlError(str(error), hint=hint) from None
        return []
    try:
        promises = promises_in(str(folder))
    except PaictlError:
        return []  # settings without cells; what is wrong with the files is said where they are pushed
    warnings: list[str] = []
    for host_facts in hosts:
        cpus = promise_of(promises, host_facts.machine.name).cpus
        desired = DesiredHost(
            host_facts.machine.name, host_facts.machine.address, host_facts.machine.role is Role.MASTER, cpus=cpus
        )
        verdict = check_room(host_facts.host, desired)
        if cpus is not None and verdict.level is Level.WARN:
            warnings.append(
                text("{host}: {found} ({fix})", host=host_facts.machine.name, found=verdict.found, fix=verdict.fix)
            )
    return warnings


@frozen
class Address:
    """Where a service is reached from outside: a port of every node; 0 where it is reached inside the cluster only."""

    service: str
    port: int


def keep_images(cluster: Services, desired: Desired) -> None:
    """Let the cluster know which images its machines have, if they can get no others, so that later starts heed it."""
    offline = desired.deployment.settings.offline
    cluster.note_images([image.reference for image in desired.images] if offline else None)


def address_of(cluster: Cluster, service: str) -> Address:
    """Where the newest configuration puts a service."""
    bodies = [manifest.body for manifest in _renderer(cluster).sealed(service) if manifest.kind == "Service"]
    ports = (port.get("nodePort") for body in bodies for port in body["spec"]["ports"])
    return Address(service, next((int(port) for port in ports if port), 0))


def _renderer(cluster: Cluster) -> Renderer:
    files = cluster.configuration().files
    return Renderer(RenderInputs(cluster.name, NAMESPACE, JOBS_NAMESPACE, __version__, files))


@frozen
class Started:
    """What became of the services: of each step, and which were left out."""

    outcomes: tuple[ServiceOutcome, ...]
    left: tuple[LeftOut, ...]


def start_services(
    cluster: Cluster,
    request: ServiceRequest,
    listen: Listener,
    say: Callable[[str], object],
    patience: Patience | None = None,
) -> Started:
    """Start services; those that run already are left alone."""
    prepared = prepare(cluster, request)
    for remark in prepared.plan.settled:
        say(f"{remark.service} {remark.text}")
    outcomes = perform(cluster, prepared, listen, patience) if prepared.plan.steps else ()
    return Started(outcomes, prepared.left)
