"""Settings of one file against those of another.

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
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath

from paictl.config.linting.rule import ERROR, WARNING, Bundle, Document, Finding, Findings, Located, rule
from paictl.config.models.hosts import Address, abridged, address_of
from paictl.config.models.inventory import layout_in, listed_hosts
from paictl.config.models.placeholders import is_placeholder
from paictl.config.models.services import DRIVER, STANDARD_NAME, services_of
from paictl.config.models.settings import EXTRA, cluster_networks, filled, ports_of_host_daemons
from paictl.config.reading.kinds import FileKind, kind_by_name
from paictl.config.reading.nodes import ScalarNode
from paictl.config.reading.source import place_of
from paictl.i18n import text


@rule("XRF913", "port-in-host-range", WARNING)
def port_in_host_range(bundle: Bundle) -> Findings:
    """A service's port is in the range that config.yaml leaves to the hosts' own programs.

    Why: an outgoing connection of any program may take the port first, and the service does not start until that one
    ends.

    Fails with::

        # config.yaml
         docker_image_tag: v1.8.1
        +host_daemon_port_start: 9000
        # services-configuration.yaml
           jwt-secret: 7f2c-salt-of-this-cluster
        +prometheus:
        +  port: 9991
    """
    # Each port, and the range for jobs, that meets a range which config.yaml gives itself.
    settings, document = bundle.only(FileKind.CONFIG), bundle.only(FileKind.SERVICES)
    bounds = ("host_daemon_port_start", "host_daemon_port_end")
    at = next((settings.top.scalar(key) for key in bounds if key in settings.top), None) if settings else None
    if settings is None or document is None or at is None:
        return
    services = services_of(document)
    start, end = ports_of_host_daemons(settings)
    for port in services.ports:
        if port.node is not None and start <= port.number <= end:
            message = text(
                "{label} {port} is among the ports {start}-{end} of the hosts' own programs",
                label=port.label,
                port=port.number,
                start=start,
                end=end,
            )
            yield Finding(port.node, message, text("take a port outside, or change {settings}", settings=settings.path))
    first, last = services.schedule_ports
    if start < last and first <= end and start < end:
        message = text(
            "ports {start}-{end} of the hosts' own programs overlap those of jobs, {first}-{last}",
            start=start,
            end=end,
            first=first,
            last=last - 1,
        )
        yield Finding(at, message, text("begin at {last}, or move rest-server.schedule-port-start and -end", last=last))


@rule("XRF914", "host-in-cluster-network", ERROR)
def host_in_cluster_network(bundle: Bundle) -> Findings:
    """A machine's address is in a network that belongs to pods or services.

    Why: inside the cluster such an address leads to a pod or service and never to the machine: it becomes unreachable
    as soon as the network starts. Where config.yaml says nothing, services have 10.192.0.0/13 and pods 10.200.0.0/13.

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
        machine-list:
        - {hostname: pai-master-1, hostip: 10.1.0.1, machine-type: head, pai-master: "true"}
        - {hostname: pai-worker-1, hostip: 10.1.1.1, machine-type: v100, pai-worker: "true"}
        - {hostname: pai-worker-2, hostip: 10.1.1.2, machine-type: v100, pai-worker: "true"}

    Fails with::

        # config.yaml
         docker_image_tag: v1.8.1
        +openpai_kubespray_extra_var:
        +  kube_pods_subnet: 10.1.0.0/16
    """
    # The first machine in each network, with how many more there are; hosts of the lists where there is no layout.
    settings = bundle.only(FileKind.CONFIG)
    networks = cluster_networks(settings) if settings else ()
    places = list(_places(bundle)) if networks else []
    for network in networks:
        inside = [(name, place) for name, address, place in places if address in network.network]
        if inside:
            name, first = inside[0]
            more = text(" and {count} more", count=len(inside) - 1) if len(inside) > 1 else ""
            message = text(
                "the address of {name}{more} lies in {network}, a network of the cluster itself",
                name=abridged(name),
                more=more,
                network=network.words,
            )
            hint = text("give {extra}.{network} a network that no machine is in", extra=EXTRA, network=network.name)
            yield Finding(network.at or first, message, hint)


def _places(bundle: Bundle) -> Iterator[tuple[str, Address, Located]]:
    """(name, address, place) of each machine that has an address."""
    layout_pair = layout_in(bundle)
    if layout_pair is not None:
        for machine in layout_pair[1].machines:
            address = address_of(machine.address.text) if machine.address else None
            if machine.address is not None and address is not None:
                yield machine.key, address, machine.address
        return
    for listed in listed_hosts(bundle):
        address = address_of(listed.host.address.stripped)
        if address is not None:
            yield listed.host.key, address, listed.host.address


_SAME = (
    ("docker_image_tag", ("cluster", "docker-registry", "tag")),
    ("docker_registry_domain", ("cluster", "docker-registry", "domain")),
    ("docker_registry_namespace", ("cluster", "docker-registry", "namespace")),
    ("qos-switch", ("cluster", "common", "qos-switch")),
    ("docker_data_root", ("cluster", "common", "docker-data-root")),
)


@rule("XRF915", "setting-differs", WARNING)
def setting_differs(bundle: Bundle) -> Findings:
    """config.yaml and services-configuration.yaml say different things about the same setting.

    Why: services-configuration.yaml is generated from config.yaml. If it has been changed by hand since, some tools
    deploy one value and others the other.

    Fails with::

        # services-configuration.yaml
           jwt-secret: 7f2c-salt-of-this-cluster
        +cluster:
        +  docker-registry:
        +    tag: v1.7.0
    """
    # Each setting that both files give, with different values; the finding stands at the service's.
    settings, services = bundle.only(FileKind.CONFIG), bundle.only(FileKind.SERVICES)
    if settings is None or services is None:
        return
    for key, (*sections, last) in _SAME:
        wanted, given = filled(settings, key), services.top.at(*sections).text(last)
        if wanted is not None and given is not None and wanted.text != given.text and not is_placeholder(given.text):
            path = ".".join((*sections, last))
            message = text(
                "{path} is {given!r}, but {key} in {settings} is {wanted!r}",
                path=path,
                given=given.text,
                key=key,
                settings=settings.path,
                wanted=wanted.text,
            )
            yield Finding(given, message, "write the same value in both files")


@rule("XRF932", "driver-half-set", WARNING)
def driver_half_set(bundle: Bundle) -> Findings:
    """Only one of config.yaml and services-configuration.yaml says that the service `gpu-driver` installs the driver.

    Why: `deploy: {gpu_driver: service}` lets NVIDIA's container toolkit look for the driver in /run/nvidia/driver, and
    `gpu-driver: {enabled: true}` puts it there. With one of them alone, jobs find no driver.

    Passes::

        # config.yaml
        user: pai-admin
        password: kelp-Tundra-41
        docker_image_tag: v1.8.1
        deploy: {gpu_driver: service}
        # services-configuration.yaml
        rest-server:
          default-pai-admin-username: chief
          default-pai-admin-password: Ember-Quay-90
          jwt-secret: 7f2c-salt-of-this-cluster
        gpu-driver: {enabled: true}

    Fails with::

        # services-configuration.yaml
        -gpu-driver: {enabled: true}
        +gpu-driver: {enabled: false}
    """
    # Both directions; the finding stands at the line that is written. Where config.yaml has no section `deploy`, the
    # cluster may not be one that paictl deploys, and the toolkit is set up by hand.
    settings, services = bundle.only(FileKind.CONFIG), bundle.only(FileKind.SERVICES)
    if settings is None or services is None or "deploy" not in settings.top:
        return
    chosen = settings.top.mapping("deploy").text("gpu_driver")
    switch = services.top.mapping(DRIVER).scalar("enabled")
    by_service, enabled = chosen is not None and chosen.text == "service", switch is not None and switch.value is True
    if chosen is not None and by_service and not enabled:
        message = text("nothing installs the driver: {file} does not enable gpu-driver", file=services.path)
        yield Finding(chosen, message, text("set gpu-driver.enabled to true there, or deploy.gpu_driver to host here"))
    if switch is not None and enabled and not by_service:
        message = text(
            "gpu-driver is on, but {file} lets the container toolkit look for the driver elsewhere", file=settings.path
        )
        yield Finding(switch, message, text("set deploy.gpu_driver to service there"))


@rule("XRF916", "service-set-twice", ERROR)
def service_set_twice(bundle: Bundle) -> Findings:
    """Two files set the same service.

    Why: only one of the two takes effect, and nothing shows which one. OpenPAI reads services-configuration.yaml,
    so changes in the other file are ignored; or they are used, and those in the first file are lost.

    Passes::

        # services-configuration.yaml
        rest-server:
          default-pai-admin-username: root-of-pai
          default-pai-admin-password: not-a-default-1
        webportal: {server-port: 9286}

    Fails::

        # services-configuration.yaml
        rest-server:
          default-pai-admin-username: root-of-pai
          default-pai-admin-password: not-a-default-1
        webportal: {server-port: 9286}

        # services-configuration-new.yaml
        rest-server:
          default-pai-admin-username: root-of-pai
          default-pai-admin-password: not-a-default-1
        webportal: {server-port: 9386}
    """
    # Every section that another file of a folder has, where one bears the name that is read, or one that is near it. A
    # folder of files with other names holds variants, to be pushed one at a time.
    folders: dict[PurePath, list[Document]] = {}
    for document in bundle.of(FileKind.SERVICES):
        folders.setdefault(PurePath(document.path).parent, []).append(document)
    for documents in folders.values():
        documents.sort(key=lambda document: PurePath(document.path).name != STANDARD_NAME)
        if any(kind_by_name(document.path) is FileKind.SERVICES for document in documents):
            yield from _repeated(documents)


def _repeated(documents: list[Document]) -> Findings:
    first: dict[str, ScalarNode] = {}
    for document in documents:
        for entry in document.top:
            other = first.setdefault(entry.name, entry.key)
            if other is not entry.key:
                place = place_of(other)
                message = text(
                    "{entry} is set in {place} too, line {line}", entry=entry.name, place=place.path, line=place.line
                )
                yield Finding(
                    entry.key, message, text("keep one of the two, in {standard_name}", standard_name=STANDARD_NAME)
                )
