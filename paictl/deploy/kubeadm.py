"""kubeadm's configuration (kubeadm.k8s.io/v1beta4), from what config.yaml wishes; secrets are variables of Ansible."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import yaml

from paictl.deploy.artifacts import Image
from paictl.deploy.control_plane import CIPHERS, api_server_arguments, api_server_volumes, component_arguments
from paictl.deploy.inventory import Deployment, Machine
from paictl.deploy.node_dns import ADDRESS, cluster_dns

API: Final = "kubeadm.k8s.io/v1beta4"
SOCKET: Final = "unix:///run/containerd/containerd.sock"
DISCOVERY: Final = "/run/paictl/discovery.conf"
"""Where a machine that joins finds the authority of the cluster; in memory, gone when it has joined."""
CERTIFICATE_KEY: Final = "@CERTIFICATE_KEY@"
TOKEN: Final = "@TOKEN@"  # noqa: S105 - what stands for it

Values = dict[str, Any]


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> Values:
    """A mapping merged over another at every depth; lists are replaced."""
    result = dict(base)
    for name, value in over.items():
        below = result.get(name)
        result[name] = merged(below, value) if isinstance(below, Mapping) and isinstance(value, Mapping) else value
    return result


def init_configuration(
    deployment: Deployment, version: str, images: Iterable[Image], timeout: float | None = None
) -> str:
    """The documents for `kubeadm init`; kubeadm waits `timeout` seconds, by default its own limits."""
    first = deployment.first
    init = {
        "apiVersion": API,
        "kind": "InitConfiguration",
        "certificateKey": CERTIFICATE_KEY,
        "localAPIEndpoint": {"advertiseAddress": first.address},
        "nodeRegistration": _registration(deployment, first),
        **_patience(timeout),
    }
    return yaml.safe_dump_all([init, *_of_all(deployment, version, images)], sort_keys=False)


def changed_configuration(deployment: Deployment, version: str, images: Iterable[Image]) -> str:
    """What a running cluster keeps from now on; kubeadm takes it as if the first master began."""
    first = deployment.first
    init = {
        "apiVersion": API,
        "kind": "InitConfiguration",
        "localAPIEndpoint": {"advertiseAddress": first.address},
        "nodeRegistration": _registration(deployment, first),
    }
    return yaml.safe_dump_all([init, *_of_all(deployment, version, images)], sort_keys=False)


def _of_all(deployment: Deployment, version: str, images: Iterable[Image]) -> list[Values]:
    cluster = _cluster(deployment, version, tuple(images))
    return [cluster, kubelet_configuration(deployment), kube_proxy_configuration(deployment)]


def join_configuration(deployment: Deployment, machine: Machine, timeout: float | None = None, *, master: bool) -> str:
    """What a further machine joins with; `timeout` as above."""
    join: Values = {
        "apiVersion": API,
        "kind": "JoinConfiguration",
        "discovery": {"file": {"kubeConfigPath": DISCOVERY}, "tlsBootstrapToken": TOKEN},
        "nodeRegistration": _registration(deployment, machine),
        **_patience(timeout),
    }
    if master:
        own = {"advertiseAddress": machine.address}
        join["controlPlane"] = {"certificateKey": CERTIFICATE_KEY, "localAPIEndpoint": own}
    return yaml.safe_dump(join, sort_keys=False)


def discovery(deployment: Deployment, authority: str) -> str:
    """A kubeconfig that says where the cluster is and whose certificates count; `authority` is base64."""
    cluster = {"server": f"https://{deployment.endpoint}", "certificate-authority-data": authority}
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "", "cluster": cluster}],
            "contexts": [],
            "users": [],
            "current-context": "",
        },
        sort_keys=False,
    )


def _patience(timeout: float | None) -> Values:
    """kubeadm's own limits: without them it gives up after four minutes, however long its caller would wait."""
    waits = ("controlPlaneComponentHealthCheck", "kubeletHealthCheck", "discovery", "tlsBootstrap")
    return {} if timeout is None else {"timeouts": dict.fromkeys(waits, f"{int(timeout)}s")}


def _registration(deployment: Deployment, machine: Machine) -> Values:
    registration: Values = {
        "name": machine.name,
        "criSocket": SOCKET,
        "imagePullPolicy": "IfNotPresent",
        "ignorePreflightErrors": list(deployment.settings.ignored_checks),
        "kubeletExtraArgs": _arguments({"node-ip": machine.address}),
    }
    if deployment.settings.jobs_on_masters:
        registration["taints"] = []
    return registration


def _arguments(values: Mapping[str, Any]) -> list[Values]:
    return [{"name": name, "value": _word(value)} for name, value in values.items()]


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _cluster(deployment: Deployment, version: str, images: tuple[Image, ...]) -> Values:
    settings = deployment.settings
    names = [settings.api_address] if settings.api_address else []
    names += [settings.endpoint.rpartition(":")[0]] if settings.endpoint else []
    etcd: Values = {"extraArgs": _arguments(settings.etcd)} if settings.etcd else {}
    tags = {
        image.reference.rpartition("/")[2].partition(":")[0]: image.reference.rpartition(":")[2] for image in images
    }
    if "etcd" in tags:
        etcd["imageTag"] = tags["etcd"]
    configuration: Values = {
        "apiVersion": API,
        "kind": "ClusterConfiguration",
        "clusterName": settings.cluster,
        "kubernetesVersion": version,
        "controlPlaneEndpoint": deployment.endpoint,
        "imageRepository": settings.repository,
        "networking": {
            "podSubnet": settings.pods,
            "serviceSubnet": settings.services,
            "dnsDomain": settings.domain,
        },
        "apiServer": {"certSANs": [master.address for master in deployment.masters] + names},
        "etcd": {"local": etcd},
    }
    configuration["apiServer"]["extraArgs"] = _arguments(all_api_server_arguments(deployment))
    if volumes := api_server_volumes(settings.hardening):
        configuration["apiServer"]["extraVolumes"] = volumes
    for component in ("controllerManager", "scheduler"):
        configuration[component] = {"extraArgs": _arguments(component_arguments(settings.hardening))}
    if "coredns" in tags:
        configuration["dns"] = {"imageTag": tags["coredns"]}
    return configuration


def all_api_server_arguments(deployment: Deployment) -> Values:
    """All arguments of kube-apiserver that are not kubeadm's own."""
    kubelet = kubelet_configuration(deployment)
    signed = bool(kubelet.get("serverTLSBootstrap")) and not kubelet.get("tlsCertFile")
    settings = deployment.settings
    return api_server_arguments(settings.hardening, settings.api_server, kubelets_are_signed=signed)


def kubelet_configuration(deployment: Deployment) -> Values:
    """KubeletConfiguration of all machines: what paictl needs, and over it what config.yaml says."""
    settings = deployment.settings
    base = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "cgroupDriver": "systemd",
        "failSwapOn": not settings.swap_allowed,
        "serverTLSBootstrap": True,
        "tlsCipherSuites": list(CIPHERS),
    }
    if settings.node_dns:  # resolvers take the second only where the first does not answer
        base["clusterDNS"] = [ADDRESS, cluster_dns(settings.services)]
    return merged({**base, **_feature_gates(deployment)}, settings.kubelet)


def kube_proxy_configuration(deployment: Deployment) -> Values:
    """KubeProxyConfiguration, likewise."""
    settings = deployment.settings
    base = {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": settings.proxy_mode,
        "clusterCIDR": settings.pods,
    }
    return merged({**base, **_feature_gates(deployment)}, settings.kube_proxy)


def _feature_gates(deployment: Deployment) -> Values:
    gates = deployment.settings.hardening.gates
    return {"featureGates": dict(gates)} if gates else {}
