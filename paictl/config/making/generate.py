"""Host lists and cluster settings → a machine layout and service settings with a HiveD configuration.

The numbers follow OpenPAI's own generator (its newest form, one SKU a kind of worker). It asks Kubernetes what each
node has; we have no cluster yet, so that the SKUs say it. Data first: `plan` decides everything, `render` only writes
it down.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from decimal import Decimal

from paictl.config.linting.validate import Report, validate
from paictl.config.making.skus import FORM, MachineSku, assign, free_cpus, free_memory
from paictl.config.models.hosts import HostRow, host_list
from paictl.config.models.settings import filled
from paictl.config.reading.document import Bundle, Document
from paictl.config.reading.kinds import FileKind
from paictl.config.reading.load import Loaded, load_bytes, load_file
from paictl.config.reading.problem import Severity
from paictl.config.reading.source import place_of
from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.i18n import sayable, text
from paictl.units import Quantity

LAYOUT_FILE = "layout.yaml"
SERVICES_FILE = "services-configuration.yaml"

MASTER_SKU = "master-machine"
_MASTER = MachineSku(MASTER_SKU, 0, 8, Quantity(Decimal(40), "Gi"), "", "")
"""What a master gets that no SKU names: OpenPAI asks for 40 GB there. Nothing is divided by it."""

_DAEMONS_MIB = 128 + 512 + 256
"""Requests of node-exporter, job-exporter and log-manager on every node, if qos-switch is on."""


@frozen
class GenerateInputs:
    """The files to start from, and what is wrong with them."""

    documents: tuple[Document, ...]
    report: Report

    @property
    def usable(self) -> bool:
        """Whether none of the problems is an error."""
        return self.report.count(Severity.ERROR) == 0

    def of(self, kind: FileKind) -> Document:
        """The input of a kind."""
        return next(document for document in self.documents if document.kind is kind)


@frozen
class PlannedMachine:
    """A machine of the layout."""

    name: str
    address: str
    sku: str
    role: str


@frozen
class WorkerPool:
    """All workers of a SKU as cells: `leaves` devices (or CPU cores) a node, each with `cpus` and `memory` MiB."""

    sku: MachineSku
    vc: str
    nodes: tuple[str, ...]
    leaves: int
    cpus: int
    memory: int

    @property
    def node_type(self) -> str:
        """Name of the cell type that is one machine."""
        return f"{self.sku.name}-NODE"

    @property
    def pool_type(self) -> str:
        """Name of the cell type that is all these machines."""
        return f"{self.sku.name}-POOL"


@frozen
class ImageRegistry:
    """Where OpenPAI's images come from; `account` is name and password."""

    domain: str
    namespace: str
    tag: str
    account: tuple[str, str] | None


@frozen
class Named:
    """A machine as a list names it: `name` as it is compared, `address` as it is written, `place` as file:line."""

    name: str
    address: str
    place: str = field(default="", compare=False)


@frozen
class ClusterSettings:
    """What the cluster settings say that makes a difference; without any, OpenPAI's defaults."""

    hived: bool = True
    qos: bool = False
    docker_root: str = "/mnt/docker"
    registry: ImageRegistry = ImageRegistry("docker.io", "openpai", "latest", None)


@frozen
class MachineList:
    """The machines of a cluster, whoever has listed them, and its settings; the first master is the one."""

    masters: tuple[Named, ...]
    workers: tuple[Named, ...]
    settings: ClusterSettings = ClusterSettings()


@frozen
class GeneratedFiles:
    """All that the two files will say; `notes` is what the administrator should know about it."""

    skus: tuple[MachineSku, ...]
    machines: tuple[PlannedMachine, ...]
    pools: tuple[WorkerPool, ...]
    registry: ImageRegistry
    qos: bool
    docker_root: str
    admin_password: str
    jwt_secret: str
    notes: tuple[str, ...]


def read_inputs(masters: str, workers: str, settings: str) -> GenerateInputs:
    """Read and check the three files; raises `PaictlError` if one cannot be read at all."""
    kinds = ((masters, FileKind.MASTER_CSV), (workers, FileKind.WORKER_CSV), (settings, FileKind.CONFIG))
    documents = tuple(document for path, kind in kinds for document in load_file(path, kind))
    return GenerateInputs(documents, _check(documents))


def _check(documents: Iterable[Document]) -> Report:
    return validate(Loaded((Bundle("inputs", tuple(documents)),)))


def inventory_of(inputs: GenerateInputs) -> MachineList:
    """What the three files say; raises `PaictlError` for a list that names nobody."""
    masters, workers = (_hosts(inputs, kind) for kind in (FileKind.MASTER_CSV, FileKind.WORKER_CSV))
    document = inputs.of(FileKind.CONFIG)
    settings = ClusterSettings(
        _uses_hived(document),
        _text(document, "qos-switch", "false") == "true",
        _text(document, "docker_data_root", "/mnt/docker"),
        _registry(document),
    )
    return MachineList(_named(masters), _named(workers), settings)


def plan(inventory: MachineList, skus: Sequence[MachineSku], secret: Callable[[], str] | None = None) -> GeneratedFiles:
    """Decide what the files say; `secret` makes passwords (a random one by default).

    The SKUs keep the order of `skus`: the first that has workers goes to the VC `default`. Raises `PaictlError` if
    the SKUs do not fit the workers, or a machine is too small to be divided.
    """
    if not skus:
        hint = text("give it for each kind of worker: --sku '{form}'", form=FORM)
        raise PaictlError("the workers' hardware is not known", where="--sku", hint=hint)
    masters, workers, settings = inventory.masters, inventory.workers, inventory.settings
    chosen = assign([worker.name for worker in workers], [masters[0].name], skus)
    master = chosen.get(masters[0].name) or _default_master(masters[0], skus)
    members = {sku: [worker.name for worker in workers if chosen[worker.name] is sku] for sku in skus}
    used = [sku for sku in skus if members[sku]]
    pools = (
        [_pool(sku, members[sku], _vc(index), settings.qos) for index, sku in enumerate(used)] if settings.hived else []
    )
    _refuse_same_cell_types(pools)
    make = secret or (lambda: secrets.token_urlsafe(18))
    return GeneratedFiles(
        tuple(dict.fromkeys((master, *used))),
        (_machine(masters[0], master, "pai-master"), *(_machine(w, chosen[w.name], "pai-worker") for w in workers)),
        tuple(pools),
        settings.registry,
        settings.qos,
        settings.docker_root,
        make(),
        make(),
        tuple(_notes(masters, master, hived=settings.hived)),
    )


def _named(hosts: Iterable[HostRow]) -> tuple[Named, ...]:
    return tuple(Named(host.key, host.address.stripped, str(place_of(host.name))) for host in hosts)


def _hosts(inputs: GenerateInputs, kind: FileKind) -> tuple[HostRow, ...]:
    """The hosts of a list; comments can silence CSV216, so that there may be none."""
    document = inputs.of(kind)
    hosts = host_list(document).hosts
    if not hosts:
        raise PaictlError("the list names no host", where=document.path, hint="write a line hostname,address for each")
    return hosts


def _default_master(host: Named, skus: Iterable[MachineSku]) -> MachineSku:
    if any(sku.name == MASTER_SKU for sku in skus):
        hint = text("write {sku}@{host}=…, or give it another name", sku=MASTER_SKU, host=host.name)
        raise PaictlError(text("the SKU {sku!r} does not have the master", sku=MASTER_SKU), where="--sku", hint=hint)
    return _MASTER


def _uses_hived(settings: Document) -> bool:
    switch = settings.top.scalar("enable_hived_scheduler")
    return switch is None or switch.value is not False


def _vc(index: int) -> str:
    return f"vc{index}" if index else "default"


def _machine(named: Named, sku: MachineSku, role: str) -> PlannedMachine:
    return PlannedMachine(named.name, named.address, sku.name, role)


def _pool(sku: MachineSku, nodes: Sequence[str], vc: str, qos: bool) -> WorkerPool:
    """Divide a machine: by devices, or where it has none into single CPU cores."""
    cpus, memory = Decimal(sku.cpus), Decimal(sku.memory.bytes) / 1024**2
    cpus = free_cpus(cpus)
    memory = free_memory(memory) - (_DAEMONS_MIB if qos else 0)
    if sku.devices:
        leaves, each, share = sku.devices, int(cpus / sku.devices), int(memory / sku.devices)
    else:
        leaves, each, share = int(cpus), 1, int(memory / cpus)
    if min(leaves, each, share) < 1:
        parts = text("{count} devices", count=sku.devices) if sku.devices else text("its cores")
        template = "a machine of {sku!r} is too small: after the reserve, nothing is left for {parts}"
        message = text(template, sku=sku.name, parts=parts)
        raise PaictlError(message, where="--sku", hint="check cpu and memory, which are those of the whole machine")
    return WorkerPool(sku, vc, tuple(nodes), leaves, each, share)


def _refuse_same_cell_types(pools: Iterable[WorkerPool]) -> None:
    seen: set[str] = set()
    for pool in pools:
        for name in (pool.sku.name, pool.node_type, pool.pool_type):
            if name in seen:
                hint = "give one SKU a name that does not end in -NODE or -POOL"
                raise PaictlError(text("two cell types would be called {name!r}", name=name), where="--sku", hint=hint)
            seen.add(name)


def _text(settings: Document, key: str, default: str) -> str:
    scalar = filled(settings, key)
    return scalar.text if scalar else default


def _registry(settings: Document) -> ImageRegistry:
    user, password = filled(settings, "docker_registry_username"), filled(settings, "docker_registry_password")
    return ImageRegistry(
        _text(settings, "docker_registry_domain", "docker.io"),
        _text(settings, "docker_registry_namespace", "openpai"),
        _text(settings, "docker_image_tag", "latest"),
        (user.text, password.text) if user and password else None,
    )


def _notes(masters: Sequence[Named], master: MachineSku, *, hived: bool) -> Iterable[str]:
    if len(masters) > 1:
        others = ", ".join(master.name for master in masters[1:])
        template = "only {master} is in the layout: further masters ({others}) run etcd and the API server only"
        yield text(template, master=masters[0].name, others=others)
    if master is _MASTER:
        yield text(
            "{sku}, the master's SKU, has OpenPAI's minimum resources; to set them: --sku 'NAME@{master}=…'",
            sku=MASTER_SKU,
            master=masters[0].name,
        )
    if not hived:
        yield "no hivedscheduler section, because enable_hived_scheduler is false"
    yield text(
        "the administrator's password and the token secret in {file} are random; keep the file private",
        file=SERVICES_FILE,
    )


def recheck(inputs: GenerateInputs, texts: dict[str, str]) -> None:
    """Raise `PaictlError` if the files that were made have problems of their own: better none than wrong ones."""
    made = [document for name, text in texts.items() for document in load_bytes(name, text.encode())]
    report = _check([*inputs.documents, *made])
    for problem in report.problems:
        if problem.severity is not Severity.INFO and problem.place.path in texts:
            template = "the files generated from this input would have problems; the first is {rule}: {message}"
            message = text(template, rule=problem.rule, message=sayable(problem.message))
            raise PaictlError(message, where=str(problem.place), hint=problem.hint)
