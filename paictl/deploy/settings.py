"""What config.yaml says about a deployment, with OpenPAI's names where they still mean something."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from paictl.cluster.kubernetes.names import JOBS_NAMESPACE, NAMESPACE
from paictl.config.models.settings import EXTRA, NETWORK_DEFAULTS, cluster_networks, filled, filled_items
from paictl.config.reading.document import Document
from paictl.config.reading.nodes import ScalarNode, to_data
from paictl.config.reading.source import place_of
from paictl.deploy.control_plane import AuditLog, Hardening, TokenProvider, hardening_of, own_audit_log
from paictl.deploy.downloads import Proxies, RegistryAccount, mirrors_of, proxies_of
from paictl.deploy.storage_class import NAMESPACE as LOCAL_PATH
from paictl.deploy.storage_class import StorageClass, storage_class_of
from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.i18n import text
from paictl.remote.inventory import Host

SECTION: Final = "deploy"
API_PORT: Final = 6443

Values = Mapping[str, Any]

_NETWORKS: Final = {"cni": "none", "calico": "calico", "flannel": "flannel"}
"""OpenPAI's names of network plugins → ours; the others have no counterpart."""
_FOLLOWED: Final = frozenset({*NETWORK_DEFAULTS, "kube_version", "kube_proxy_mode", "dns_domain"})
"""Variables for Kubespray that are followed here too."""
_NODE_DNS: Final = "enable_nodelocaldns"
"""Kubespray's variable for a DNS cache on each node."""
_IDLE: Final = (
    "branch_name",
    "docker_check",
    "docker_config_file_path",
    "docker_data_root",
    "docker_image_repo",
    "docker_iptables_enabled",
    "etcd_image_repo",
    "gcr_image_repo",
    "gpu_type",
    "hyperkube_download_url",
    "kubeadm_download_url",
    "kubelet_custom_flags",
    "pod_infra_image_repo",
    "quay_image_repo",
    "resource_check",
    "worker_default_docker_runtime",
)
"""Settings of OpenPAI about Docker and Kubespray, neither of which is used."""

_NAMESPACE: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_OUR_NAMESPACES: Final = (NAMESPACE, LOCAL_PATH, "calico-system", "tigera-operator")

CLOSED_PORTS: Final = (22, 2379, 2380, 10250, 10257, 10259)
"""Ports of machines that pods do not reach: SSH, etcd, kubelet, controller manager, scheduler."""
EXEMPT_NAMESPACES: Final = ("kube-system", "paictl-system")
"""Namespaces whose pods do: Prometheus asks kubelets."""


@frozen
class OwnAccess:
    """User and port of one machine; empty and 0 for those of all."""

    user: str = ""
    port: int = 0


@frozen
class LoginSettings:
    """How to get into every machine; `password` is for sudo too, and never shown.

    `own` are machines with a user or port of their own, `bastion` is the machine in the middle, if there is one.
    """

    user: str
    password: str = field(default="", repr=False)
    key_file: str = ""
    port: int = 22
    agent: bool = False
    own: Mapping[str, OwnAccess] = field(default_factory=dict)
    bastion: Host | None = None

    def access(self, machine: str) -> OwnAccess:
        """User and port of a machine."""
        own = self.own.get(machine, OwnAccess())
        return OwnAccess(own.user or self.user, own.port or self.port)


@frozen
class DeploySettings:
    """One cluster as config.yaml wishes it; `notes` is what it says without any effect here.

    `endpoint` is where the API of the cluster is reached, as host:port, empty for the first master's address.
    """

    login: LoginSettings
    cluster: str = "pai"
    version: str = ""
    artifacts: str = ""
    repository: str = "registry.k8s.io"
    mirrors: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    insecure: tuple[str, ...] = ()
    accounts: Mapping[str, RegistryAccount] = field(default_factory=dict)
    proxies: Proxies | None = None
    api_address: str = ""
    endpoint: str = ""
    network: str = "bridge"
    pods: str = NETWORK_DEFAULTS["kube_pods_subnet"]
    services: str = NETWORK_DEFAULTS["kube_service_addresses"]
    domain: str = "cluster.local"
    closed_ports: tuple[int, ...] = CLOSED_PORTS
    exempt_namespaces: tuple[str, ...] = EXEMPT_NAMESPACES
    proxy_mode: str = "nftables"
    swap_allowed: bool = False
    jobs_on_masters: bool = False
    offline: bool = False
    driver_by_service: bool = False
    ignored_checks: tuple[str, ...] = ()
    encrypts: bool = True
    audit: AuditLog = field(default_factory=own_audit_log)
    oidc: TokenProvider | None = None
    gates: Mapping[str, bool] = field(default_factory=dict)
    pod_security: Mapping[str, str] = field(default_factory=dict)
    storage_class: StorageClass | None = None
    node_dns: bool = False
    etcd: Values = field(default_factory=dict)
    api_server: Values = field(default_factory=dict)
    kubelet: Values = field(default_factory=dict)
    kube_proxy: Values = field(default_factory=dict)
    containerd: Values = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def hardening(self) -> Hardening:
        """What hardens the control plane."""
        return Hardening(self.encrypts, self.audit, self.oidc, self.gates)


def settings_of(document: Document) -> DeploySettings:
    """Read a config.yaml that has passed its rules; raises `PaictlError` for what paictl cannot deploy."""
    top = document.top
    section = top.mapping(SECTION)
    extra = {name: str(value) for name, value in _data(document, EXTRA).items()}
    firewall = _data(document, SECTION, "firewall")
    networks = {network.name: str(network.network) for network in cluster_networks(document)}

    def own(key: str, default: str = "") -> str:
        scalar = section.scalar(key)
        return default if scalar is None or scalar.value is None else scalar.text

    hardening = hardening_of(_data(document, SECTION), Path(document.path).parent)
    mirrors = mirrors_of(_data(document, SECTION), _mirrors(document), Path(document.path).parent, document.path)
    version = own("kubernetes_version") or extra.get("kube_version", "")
    return DeploySettings(
        login=_login(document),
        cluster=own("cluster_name", "pai"),
        version=f"v{version.removeprefix('v')}" if version else "",
        artifacts=own("artifacts"),
        repository=own("image_repository") or _text(document, "kube_image_repo") or "registry.k8s.io",
        mirrors=mirrors.urls,
        insecure=tuple(item.text for item in filled_items(document, "openpai_docker_insecure_registries")),
        accounts=mirrors.accounts,
        proxies=proxies_of(_data(document, SECTION), document.path),
        api_address=_address(own("api_address"), section.scalar("api_address")),
        endpoint=own("api_endpoint"),
        network=own("network") or _network(document),
        pods=networks.get("kube_pods_subnet", NETWORK_DEFAULTS["kube_pods_subnet"]),
        services=networks.get("kube_service_addresses", NETWORK_DEFAULTS["kube_service_addresses"]),
        domain=extra.get("dns_domain", "cluster.local"),
        closed_ports=tuple(firewall.get("ports", CLOSED_PORTS)),
        exempt_namespaces=tuple(firewall.get("namespaces", EXEMPT_NAMESPACES)),
        proxy_mode=own("proxy_mode") or _proxy(extra.get("kube_proxy_mode", "")),
        swap_allowed=own("swap", "off") == "allowed",
        jobs_on_masters=own("jobs_on_masters") == "true",
        offline=own("offline") == "true",
        driver_by_service=own("gpu_driver") == "service",
        ignored_checks=tuple(item.text for item in section.sequence("ignore_preflight_errors").scalars()),
        encrypts=hardening.encrypts,
        audit=hardening.audit,
        oidc=hardening.oidc,
        gates=hardening.gates,
        pod_security=_pod_security(document),
        storage_class=storage_class_of(_data(document, SECTION)),
        node_dns=own("node_dns") == "true",
        etcd=_data(document, SECTION, "etcd_arguments"),
        api_server=_data(document, SECTION, "api_server_arguments"),
        kubelet=_data(document, SECTION, "kubelet"),
        kube_proxy=_data(document, SECTION, "kube_proxy"),
        containerd=_data(document, SECTION, "containerd"),
        notes=tuple(_notes(document, extra)),
    )


def _login(document: Document) -> LoginSettings:
    user, password, key = (_text(document, name) for name in ("user", "password", "ssh_key_file_path"))
    section = _data(document, SECTION)
    agent = section.get("ssh_agent") is True
    if not user:
        raise PaictlError("user is missing: the account to log in with", where=document.path)
    if not (password or key or agent):
        hint = "set password or ssh_key_file_path"
        raise PaictlError(text("no way to log in as {user}", user=user), where=document.path, hint=hint)
    if key and agent:
        message = text("deploy.ssh_agent and ssh_key_file_path exclude each other")
        raise PaictlError(message, where=document.path, hint=text("remove one of them"))
    if key and not Path(key).expanduser().is_file():
        raise PaictlError("the SSH key does not exist", where=key, hint="correct ssh_key_file_path")
    bastion = _bastion(section.get("bastion") or "", user, document.path)
    if bastion is not None and not (key or agent):
        message = text("deploy.bastion needs ssh_key_file_path or deploy.ssh_agent: no password is sent to a bastion")
        raise PaictlError(message, where=document.path)
    own = {
        name: OwnAccess(entry.get("user", ""), entry.get("port", 0))
        for name, entry in (section.get("ssh_hosts") or {}).items()
    }
    file = str(Path(key).expanduser()) if key else ""
    return LoginSettings(user, password, file, section.get("ssh_port") or 22, agent, own, bastion)


def _bastion(written: str, user: str, where: str) -> Host | None:
    """``user@host:port``, of which the schema has seen that it is of this form; an IPv6 address is in brackets."""
    if not written:
        return None
    name, _, place = written.rpartition("@")
    parts = urlsplit(f"ssh://{place}")
    try:
        return Host("bastion", parts.hostname or "", name or user, parts.port or 22)
    except ValueError:
        raise PaictlError(text("deploy.bastion: a port is at most 65535"), where=where) from None


def _text(document: Document, key: str) -> str:
    scalar = filled(document, key)
    return scalar.text if scalar else ""


def _data(document: Document, *keys: str) -> dict[str, Any]:
    data = to_data(document.top.at(*keys))
    return dict(data) if isinstance(data, dict) else {}


def _mirrors(document: Document) -> dict[str, tuple[str, ...]]:
    """Mirrors by registry: our own setting, and OpenPAI's for Docker Hub behind it."""
    mirrors = {name: tuple(map(str, urls)) for name, urls in _data(document, SECTION, "registry_mirrors").items()}
    hub = tuple(item.text for item in filled_items(document, "openpai_docker_registry_mirrors"))
    return {**mirrors, "docker.io": (*mirrors.get("docker.io", ()), *hub)} if hub else mirrors


def _address(value: str, at: ScalarNode | None) -> str:
    if not value or at is None:
        return ""
    try:
        return str(ipaddress.ip_address(value))
    except ValueError:
        where = str(at.source.root.path)
        raise PaictlError(
            text("deploy.api_address: {value!r} is not a valid address", value=value), where=where
        ) from None


def _pod_security(document: Document) -> dict[str, str]:
    """Level by namespace, by name; raises `PaictlError` for namespaces that are not the user's."""
    written = _data(document, SECTION, "pod_security")
    for entry in document.top.at(SECTION, "pod_security"):
        name, where = entry.key.text, str(place_of(entry.key))
        if not _NAMESPACE.fullmatch(name):
            hint = text("lower-case letters, digits and hyphens, 63 at most")
            raise PaictlError(
                text("deploy.pod_security: {name!r} is not a valid namespace", name=name), where=where, hint=hint
            )
        if name == JOBS_NAMESPACE:
            hint = text("set cluster.common.jobs-pod-security in services-configuration.yaml")
            message = text("deploy.pod_security: {name} has a key of its own", name=name)
            raise PaictlError(message, where=where, hint=hint)
        if name.startswith("kube-") or name in _OUR_NAMESPACES:
            message = text("deploy.pod_security: {name} belongs to the system, whose pods need rights", name=name)
            raise PaictlError(message, where=where, hint=text("remove this line"))
    return {name: str(written[name]) for name in sorted(written)}


def _network(document: Document) -> str:
    wished = _text(document, "openpai_kube_network_plugin")
    if not wished:
        return "bridge"
    if wished not in _NETWORKS:
        hint = "write deploy: {network: bridge}, or flannel or calico"
        raise PaictlError(
            text("openpai_kube_network_plugin: {wished} is not supported", wished=wished),
            where=document.path,
            hint=hint,
        )
    return _NETWORKS[wished]


def _proxy(mode: str) -> str:
    return mode if mode in ("iptables", "nftables") else "nftables"


def _notes(document: Document, extra: Mapping[str, str]) -> Iterator[str]:
    """A note for each setting in the file that has no effect."""
    for name in (name for name in _IDLE if name in document.top):
        yield text("{name} has no effect: machines get containerd and kubeadm, not Docker and Kubespray", name=name)
    unknown = extra.keys() - _FOLLOWED
    if extra.get(_NODE_DNS, "").lower() == "true":
        unknown -= {_NODE_DNS}
        yield text(
            "{name} has no effect: write {instead}", name=f"{EXTRA}.{_NODE_DNS}", instead="deploy: {node_dns: true}"
        )
    for name in sorted(unknown):
        note = "{name} has no effect: it is a variable of Kubespray that paictl does not know"
        yield text(note, name=f"{EXTRA}.{name}")
    if extra.get("kube_proxy_mode") == "ipvs":
        yield "kube_proxy_mode: ipvs has no effect: Kubernetes has dropped it, and nftables is used"
    if filled(document, "password") and filled(document, "ssh_key_file_path"):
        yield "password and ssh_key_file_path are both set: the key logs in, the password is for sudo"
