"""Nodes of HiveD's configuration against the machines of the layout."""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, WARNING, Bundle, Finding, Findings, Severity, renamed, rule
from paictl.config.models.hosts import abridged
from paictl.config.models.inventory import (
    NodeKind,
    hived_in,
    hosts_in,
    layout_in,
    misspelt_host,
    named_in_cells,
    node_kinds,
    outvoted,
)
from paictl.config.reading.kinds import FileKind
from paictl.config.reading.nodes import MappingNode
from paictl.config.reading.source import place_of
from paictl.i18n import text
from paictl.units import parse_quantity, shown_bytes


@rule("XRF907", "unknown-node", ERROR)
def unknown_node(bundle: Bundle) -> Findings:
    """A node of the HiveD configuration is not a worker of the cluster.

    Why: HiveD waits for a node of that name. Because it never joins, its cells stay bad, and the VCs that were
    promised them get less than promised.

    Fails with::

        # hivedscheduler.yaml
        -  - {cellType: V100-NODE, cellAddress: pai-worker-2}
        +  - {cellType: V100-NODE, cellAddress: pai-worker-3}
    """
    # Each node that neither the layout nor, where there is none, the list of workers names; each name once.
    cells, (where, workers, others) = hived_in(bundle), _names(bundle)
    if cells is None or not workers:
        return
    nodes = {cell.name: cell.address for cell in reversed(cells.nodes) if cell.address is not None}
    wrong = {name: at for name, at in reversed(nodes.items()) if name.lower() not in workers}
    if len(wrong) == len(nodes) > 2 and not {name.lower() for name in wrong} & others:
        first = next(iter(wrong.values()))
        yield Finding(
            first,
            text("none of the {count} nodes is in {where}", count=len(wrong), where=where),
            "these two files belong to different clusters",
        )
        return
    renamed_there = outvoted(bundle)
    for name, at in wrong.items():
        if name.lower() in renamed_there:
            continue  # the host lists have it, too: the layout is wrong (XRF903)
        if name.lower() in others:
            yield Finding(
                at,
                text("node {name} is not a worker in {where}", name=abridged(name), where=where),
                'give it pai-worker: "true" there',
            )
        else:
            near = misspelt_host(name, workers)
            edits = renamed(at, near) if near else ()
            hint = text("did you mean {near!r}?", near=near) if near else "correct the name, or add the machine there"
            yield Finding(at, text("node {name} is not in {where}", name=abridged(name), where=where), hint, edits)


def _names(bundle: Bundle) -> tuple[str, frozenset[str], frozenset[str]]:
    """The file that names the machines, the names of workers in it, and those of other machines."""
    layout_pair, hosts = layout_in(bundle), hosts_in(bundle, FileKind.WORKER_CSV)
    if layout_pair is not None:
        machines = [machine for machine in layout_pair[1].machines if machine.name]
        workers = frozenset(machine.key for machine in machines if machine.has("pai-worker"))
        return layout_pair[0].path, workers, frozenset(machine.key for machine in machines) - workers
    document = bundle.only(FileKind.WORKER_CSV)
    if hosts is None or document is None:
        return "", frozenset(), frozenset()
    return document.path, frozenset(host.key for host in hosts.hosts), frozenset()


@rule("XRF908", "worker-without-cell", WARNING)
def worker_without_cell(bundle: Bundle) -> Findings:
    """A worker of the layout is in no cell of the HiveD configuration.

    Why: HiveD only allocates what its configuration lists: no job ever runs on such a machine.

    Fails with::

        # hivedscheduler.yaml
        -  - {cellType: V100-NODE, cellAddress: pai-worker-2}
        @@
        -    - {cellType: V100-NODE, cellNumber: 2}
        +    - {cellType: V100-NODE, cellNumber: 1}
    """
    # Each worker that no cell of HiveD is called after; silent where no node is (XRF907).
    layout_pair, cells = layout_in(bundle), hived_in(bundle)
    if layout_pair is None or cells is None:
        return
    nodes = {cell.name.lower() for cell in cells.nodes if cell.address is not None}
    workers = [machine for machine in layout_pair[1].with_role("pai-worker") if machine.name is not None]
    known = {machine.key for machine in workers}
    unknown = nodes - known
    if not nodes & known:
        return
    missing = [machine for machine in workers if machine.key not in nodes]
    written = named_in_cells(cells) if missing else set()
    renamed = [id(machine) for machine in outvoted(bundle).values()]
    if len(missing) == sum(cells.node_names.values()) - len(cells.node_names):
        return  # as many nodes stand twice (HVD510): most likely in the place of these
    for machine in missing:
        at = machine.name
        if machine.key in written or id(machine) in renamed:
            continue  # a cell that is not a node, or a name that another rule reports
        if at is not None and misspelt_host(machine.key, unknown) is None:
            message = text("{machine} is in no cell, so no job runs on it", machine=machine.words)
            yield Finding(at, message, "add it to physicalCells, or remove it")


@rule("XRF909", "device-count-differs", ERROR)
def device_count_differs(bundle: Bundle) -> Findings:
    """A node of the HiveD configuration has another number of devices than its machine.

    Why: with more leaf cells than devices, pods are bound to devices that do not exist, and fail. With fewer,
    devices stay idle (then it is a warning).

    Fails with::

        # layout.yaml
        -    computing-device: {type: nvidia.com/gpu, model: V100, count: 8}
        +    computing-device: {type: nvidia.com/gpu, model: V100, count: 4}
    """
    # Each node-level cell type that does not fit the SKU of its machines; machines without devices are left out.
    cells = hived_in(bundle)
    without_devices = cells.types.without_devices if cells else frozenset()
    for kind in node_kinds(bundle):
        count = kind.device_count
        if not count or count == kind.leaves or kind.chain.leaf_type in without_devices:
            continue
        node_type = kind.chain.types[kind.chain.node_level]
        at = kind.cells[0].address or kind.cells[0].place
        message = text(
            "a {node_type} has {leaves} devices, machines of SKU {sku!r} have {count} ({nodes})",
            node_type=node_type,
            leaves=kind.leaves,
            sku=kind.sku.name,
            count=count,
            nodes=kind.nodes,
        )
        severity = Severity.ERROR if kind.leaves > count else Severity.WARNING
        yield Finding(at, message, "correct childCellNumber, or the count of the SKU", severity=severity)


@rule("XRF910", "resources-over-machine", ERROR)
def resources_over_machine(bundle: Bundle) -> Findings:
    """The leaf cells of a node together have more CPU or memory than its machine.

    Why: a job that takes all devices of a node asks for the sum. Kubernetes never finds room for it, so it waits
    forever.

    Fails with::

        # hivedscheduler.yaml
        -    V100: {gpu: 1, cpu: 7, memory: 60000Mi}
        +    V100: {gpu: 1, cpu: 9, memory: 60000Mi}
    """
    # Each resource of skuTypes that, times the leaf cells of a node, is above what the SKU of the machine has.
    cells = hived_in(bundle)
    worst: dict[int, Finding] = {}
    for kind in node_kinds(bundle):
        if kind.device_count and kind.leaves > kind.device_count:
            continue  # too many devices (XRF909), and their resources with them
        spec = cells.skus.mapping(kind.chain.leaf_type) if cells else None
        for finding in _over(spec, kind) if spec else ():
            worst.setdefault(finding.at.start, finding)
    yield from worst.values()


def _over(spec: MappingNode, kind: NodeKind) -> Findings:
    cpu, vcores, leaves = spec.integer("cpu"), kind.sku.vcores, kind.leaves
    where = text("but machines of SKU {sku!r} have", sku=kind.sku.name)
    at = spec.scalar("cpu")
    if at and cpu and vcores and cpu * leaves > vcores:
        message = text(
            "{leaves} x {cpu} = {cpus} CPUs a node, {where} {vcores} ({nodes})",
            leaves=leaves,
            cpu=cpu,
            cpus=cpu * leaves,
            where=where,
            vcores=vcores,
            nodes=kind.nodes,
        )
        yield Finding(at, message, text("at most {most} fit", most=vcores // leaves))
    at = spec.scalar("memory")
    each, whole = parse_quantity(at.text) if at else None, kind.sku.memory
    if at and each and whole and each.bytes * leaves > whole.bytes:
        message = text(
            "{leaves} x {memory} = {bytes} a node, {where} {most} ({nodes})",
            leaves=leaves,
            memory=at.text,
            bytes=shown_bytes(each.bytes * leaves),
            where=where,
            most=shown_bytes(whole.bytes),
            nodes=kind.nodes,
        )
        yield Finding(at, message, text("at most {most}Mi fit", most=whole.mebibytes // leaves))


@rule("XRF911", "hived-switched-off", WARNING)
def hived_switched_off(bundle: Bundle) -> Findings:
    """HiveD is switched off in config.yaml, but configured in services-configuration.yaml.

    Why: with enable_hived_scheduler: false the default scheduler runs, and the promises to virtual clusters are not
    kept.

    Passes::

        # config.yaml
        user: pai-admin
        password: kelp-Tundra-41
        docker_image_tag: v1.8.1
        # services-configuration.yaml
        rest-server:
          default-pai-admin-username: chief
          default-pai-admin-password: Ember-Quay-90
          jwt-secret: 7f2c-salt-of-this-cluster
        hivedscheduler:
          config: |
            physicalCluster:
              skuTypes:
                V100: {gpu: 1, cpu: 7, memory: 60000Mi}
              cellTypes:
                V100-NODE: {childCellType: V100, childCellNumber: 8, isNodeLevel: true}
              physicalCells:
              - {cellType: V100-NODE, cellAddress: pai-worker-1}
              - {cellType: V100-NODE, cellAddress: pai-worker-2}
            virtualClusters:
              default:
                virtualCells:
                - {cellType: V100-NODE, cellNumber: 2}

    Fails with::

        # config.yaml
         docker_image_tag: v1.8.1
        +enable_hived_scheduler: false
    """
    # A real `false` beside a hivedscheduler section that holds a configuration.
    settings, services = bundle.only(FileKind.CONFIG), bundle.only(FileKind.SERVICES)
    if settings is None or services is None:
        return
    switch = settings.top.scalar("enable_hived_scheduler")
    config = services.top.mapping("hivedscheduler").text("config")
    if switch is not None and switch.value is False and config is not None and config.text.strip():
        message = text(
            "HiveD is switched off, but {file} configures it in line {line}",
            file=services.path,
            line=place_of(config).line,
        )
        yield Finding(switch, message, "write true, or remove the section hivedscheduler")


@rule("XRF912", "mixed-devices", ERROR)
def mixed_devices(bundle: Bundle) -> Findings:
    """The workers have devices of several types, but HiveD is switched off.

    Why: without HiveD OpenPAI asks Kubernetes for one kind of device, the same for all jobs; its quick-start refuses
    such a cluster.

    Passes::

        # config.yaml
        user: pai-admin
        password: kelp-Tundra-41
        docker_image_tag: v1.8.1
        # layout.yaml
        machine-sku:
          head: {mem: 64Gi, cpu: {vcore: 16}}
          v100:
            mem: 480Gi
            cpu: {vcore: 64}
            computing-device: {type: nvidia.com/gpu, model: V100, count: 8}
          mi50:
            mem: 480Gi
            cpu: {vcore: 64}
            computing-device: {type: amd.com/gpu, model: MI50, count: 8}
        machine-list:
        - {hostname: pai-master-1, hostip: 10.1.0.1, machine-type: head, pai-master: "true"}
        - {hostname: pai-worker-1, hostip: 10.1.1.1, machine-type: v100, pai-worker: "true"}
        - {hostname: pai-worker-2, hostip: 10.1.1.2, machine-type: mi50, pai-worker: "true"}

    Fails with::

        # config.yaml
         docker_image_tag: v1.8.1
        +enable_hived_scheduler: false
    """
    # A second type of device among the SKUs of workers; the finding stands at that type.
    settings, layout_pair = bundle.only(FileKind.CONFIG), layout_in(bundle)
    switch = settings.top.scalar("enable_hived_scheduler") if settings else None
    if switch is None or switch.value is not False or layout_pair is None:
        return
    layout = layout_pair[1]
    used = {machine.sku.text for machine in layout.with_role("pai-worker") if machine.sku}
    types = [sku.device.text("type") for name, sku in layout.skus.items() if name in used]
    devices = [device for device in types if device is not None]
    for device in devices[1:]:
        if device.text != devices[0].text:
            message = text(
                "devices of type {device} beside {first} need HiveD, which is switched off",
                device=device.text,
                first=devices[0].text,
            )
            yield Finding(device, message, "remove enable_hived_scheduler: false, or keep to one type of device")
            return
