"""Whether a cluster does its work: pods on every node, names, service addresses, node to node, all devices of a node.

A pod on each node serves; then a pod on each node asks: the API by its service's name, a service by its address, the
pod of every other node, and what must not answer: a pod that a NetworkPolicy closes, and the kubelets of this node and
of the next. What it found it writes as its last words (its termination message), so that nothing but the API is needed
to learn it.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from paictl.cluster.values import Protection
from paictl.deploy.archive import why as why_not
from paictl.deploy.certs import RENEW, SOON, Certificates, status
from paictl.deploy.inventory import Deployment, Machine
from paictl.deploy.node_dns import ADDRESS
from paictl.deploy.node_dns import NAME as NODE_DNS
from paictl.deploy.nodes import NO_NETWORK, lacks_network, nodes_of, not_ready
from paictl.deploy.pod_security import weaker
from paictl.deploy.preflight.node_checks import addresses_of, unlisted
from paictl.deploy.preflight.reach_checks import SKEW
from paictl.deploy.storage_class import problem_with
from paictl.errors import ExitCode, PaictlError
from paictl.frozen import frozen
from paictl.i18n import text
from paictl.remote.kube.client import KubeClient, KubeError
from paictl.remote.ssh.link import SshOptions

PORT: Final = 8080
LABEL: Final = "paictl.io/verify"
CLUSTER: Final = "-"
"""Instead of a node, where a finding is about the whole cluster."""
DEVICES: Final = ("nvidia.com/gpu", "amd.com/gpu")
_POLL: Final = 0.4
_SHOWN: Final = 4
_MOST_PEERS: Final = 8
"""So many others each node asks: all pairs of a large cluster would take longer than anybody waits."""

Tell = Callable[[str], object]


class CheckState(StrEnum):
    """What a check came to."""

    OK = "ok"
    FAILED = "failed"
    SKIPPED = "skipped"
    WARNING = "warning"
    """The cluster does its work, but does not protect its tenants from each other as it could."""


@frozen
class NodeCheck:
    """One check on one node."""

    check: str
    node: str
    verdict: CheckState
    message: str = ""


@frozen
class VerifyOptions:
    """How to try: the image of the pods (with sh, nc, grep, nslookup, httpd, as busybox has), seconds for each step.

    `domain` is the cluster's, `cache` the address of the nodes' DNS cache, empty where they have none; `own_network`
    says that the network of pods is not of paictl.
    """

    image: str
    seconds: float = 90.0
    domain: str = "cluster.local"
    cache: str = ""
    own_network: bool = False


def options_for(deployment: Deployment, image: str, seconds: float) -> VerifyOptions:
    """How to try a deployment."""
    settings = deployment.settings
    cache, own_network = ADDRESS if settings.node_dns else "", settings.network == "none"
    return VerifyOptions(image, seconds, settings.domain, cache, own_network)


def verify_cluster(client: KubeClient, trial: VerifyOptions, tell: Tell = lambda _: None) -> tuple[NodeCheck, ...]:
    """Try everything and leave nothing behind; raises `PaictlError` if the API does not answer."""
    nodes = {item["metadata"]["name"]: item for _, page in client.list("/api/v1/nodes") for item in page}
    waiting = not_ready(client, set(nodes))
    if trial.own_network:
        waiting |= {name: text(NO_NETWORK) for name, reason in waiting.items() if lacks_network(reason)}
    checks = [
        NodeCheck("node", name, CheckState.FAILED if name in waiting else CheckState.OK, waiting.get(name, ""))
        for name in sorted(nodes)
    ]
    usable = [name for name in sorted(nodes) if name not in waiting]
    space = f"paictl-verify-{secrets.token_hex(3)}"
    client.request("POST", "/api/v1/namespaces", {"metadata": {"name": space, "labels": {LABEL: "true"}}})
    try:
        checks += _Trying(client, trial, tell, space).all(usable, {name: nodes[name] for name in usable})
    finally:
        client.request("DELETE", f"/api/v1/namespaces/{space}")
    return tuple(checks)


def isolation_findings(guards: Iterable[Protection]) -> tuple[NodeCheck, ...]:
    """What protects tenants from each other, as findings about the whole cluster."""
    return tuple(
        NodeCheck(guard.name, CLUSTER, CheckState.OK if guard.in_force else CheckState.WARNING, guard.message)
        for guard in guards
    )


def storage_findings(client: KubeClient, deployment: Deployment) -> tuple[NodeCheck, ...]:
    """Whether the default storage class makes volumes; nothing for a cluster without one."""
    if deployment.settings.storage_class is None:
        return ()
    problem = problem_with(client)
    return (NodeCheck("storage-class", CLUSTER, CheckState.FAILED if problem else CheckState.OK, problem),)


def namespace_findings(client: KubeClient, deployment: Deployment) -> tuple[NodeCheck, ...]:
    """Whether namespaces enforce the Pod Security that config.yaml says; nothing where it says none."""
    if not deployment.settings.pod_security:
        return ()
    problem = "; ".join(weaker(client, deployment.settings.pod_security))
    state = CheckState.FAILED if problem else CheckState.OK
    return (NodeCheck("namespaces-pod-security", CLUSTER, state, problem),)


def certificates_of_masters(deployment: Deployment, options: SshOptions) -> Certificates:
    """When the certificates of all masters end, asked over SSH."""
    return status(deployment, options)


def certificate_findings(certificates: Certificates, now: datetime) -> tuple[NodeCheck, ...]:
    """When the first certificate of each master ends: a warning where that is soon, a failure where it has ended."""
    checks = []
    for host in dict.fromkeys(certificate.host for certificate in certificates.found):
        first = min(
            (certificate for certificate in certificates.found if certificate.host == host),
            key=lambda certificate: certificate.ends,
        )
        remaining = first.left(now)
        detail = text(
            "{name} expires on {day} (in {days} days)",
            name=first.name,
            day=first.ends.date().isoformat(),
            days=remaining.days,
        )
        state = CheckState.OK if remaining >= SOON else CheckState.WARNING if remaining.days >= 0 else CheckState.FAILED
        checks.append(NodeCheck(_CERTIFICATES, host, state, detail))
    return (
        *checks,
        *(NodeCheck(_CERTIFICATES, error.host, CheckState.WARNING, why_not(error)) for error in certificates.errors),
    )


def clock_findings(certificates: Certificates) -> tuple[NodeCheck, ...]:
    """Whether each machine's clock agrees with ours: certificates, tokens and leases depend on it."""
    return tuple(NodeCheck(_CLOCK, host, *_clock(ahead)) for host, ahead in certificates.clocks.items())


def _clock(ahead: float) -> tuple[CheckState, str]:
    if abs(ahead) <= SKEW:
        return CheckState.OK, ""
    way = text("{seconds:.0f} s ahead", seconds=ahead) if ahead > 0 else text("{seconds:.0f} s behind", seconds=-ahead)
    return CheckState.FAILED, text("{way}; on the machine: {command}", way=way, command="timedatectl set-ntp true")


def expired_problem(certificates: Certificates, now: datetime) -> PaictlError | None:
    """The error for expired certificates, the reason why the API does not answer; None if none has expired."""
    ended = certificates.ended(now)
    if not ended:
        return None
    names: dict[str, list[str]] = {}
    for certificate in ended:
        names.setdefault(certificate.host, []).append(certificate.name)
    hosts = "; ".join(f"{host}: {', '.join(of[:_SHOWN])}" for host, of in list(names.items())[:_SHOWN])
    error = PaictlError(
        text("certificates have expired on {hosts}", hosts=hosts),
        hint=text("renew them: {command}", command=f"{RENEW} -m … -w … -c …"),
    )
    error.exit_code = ExitCode.NEGATIVE
    return error


def nodes_not_listed(client: KubeClient, machines: Iterable[Machine]) -> tuple[str, ...]:
    """The nodes of a cluster that no list names, as ``name,address``."""
    return unlisted(machines, addresses_of(nodes_of(client).values()))


class _Trying:
    """The steps, in one namespace that is deleted afterwards."""

    def __init__(self, client: KubeClient, trial: VerifyOptions, tell: Tell, space: str) -> None:
        self._client, self._trial, self._tell, self._space = client, trial, tell, space
        self._path = f"/api/v1/namespaces/{space}"

    def all(self, names: Sequence[str], nodes: Mapping[str, Any]) -> list[NodeCheck]:
        """Servers, then those who ask, then the devices."""
        self._wait_for_account()
        self._tell(text("a pod on each of {count} nodes", count=len(names)))
        for number, name in enumerate(names):
            self._create(_pod(f"serve-{number}", name, self._trial.image, _SERVE, labels={"app": "serve"}))
        if names:
            self._close_off(names[0])
        served = [f"serve-{number}" for number in range(len(names))]
        pods = self._until([*served, *([_CLOSED] if names else [])], lambda pod: bool(_ip(pod) and _up(pod)))
        checks = [
            self._judged("pod", name, explained(self._client, pods[f"serve-{number}"]))
            for number, name in enumerate(names)
        ]
        serving = {
            name: _ip(pods[f"serve-{number}"])
            for number, name in enumerate(names)
            if checks[number].verdict is CheckState.OK
        }
        address, closed = self._service(), pods.get(_CLOSED, {})
        self._tell("names, service addresses, node to node")
        kubelets = {name: at for name in serving if (at := _kubelet(nodes[name]))}
        outcomes = self._asking(serving, address, _ip(closed) if _up(closed) else "", kubelets)
        return [*checks, *outcomes, *self._devices(nodes)]

    def _close_off(self, node: str) -> None:
        """A server that a NetworkPolicy keeps everybody from: who reaches it shows that the network obeys none."""
        policy = {
            "metadata": {"name": _CLOSED},
            "spec": {"podSelector": {"matchLabels": {"app": _CLOSED}}, "policyTypes": ["Ingress"]},
        }
        path = f"/apis/networking.k8s.io/v1/namespaces/{self._space}/networkpolicies"
        self._client.request("POST", path, policy)
        self._create(_pod(_CLOSED, node, self._trial.image, _SERVE, labels={"app": _CLOSED}))

    def _wait_for_account(self) -> None:
        """A new namespace takes no pods before its service account is there."""
        end = time.monotonic() + self._trial.seconds
        while time.monotonic() < end:
            try:
                self._client.get(f"{self._path}/serviceaccounts/default")
            except KubeError:
                time.sleep(_POLL)
            else:
                return

    def _create(self, pod: Mapping[str, Any]) -> None:
        self._client.request("POST", f"{self._path}/pods", pod)

    def _service(self) -> str:
        """A service in front of all servers; its address."""
        ports = [{"port": 80, "targetPort": PORT}]
        body = {"metadata": {"name": "serve"}, "spec": {"selector": {"app": "serve"}, "ports": ports}}
        return str(self._client.request("POST", f"{self._path}/services", body)["spec"]["clusterIP"])

    def _until(self, names: Iterable[str], fine: Callable[[Any], bool]) -> dict[str, Any]:
        """The pods of some names once all are fine, or as they are when the time is over."""
        expected, end = set(names), time.monotonic() + self._trial.seconds
        while True:
            pods = {
                item["metadata"]["name"]: item for _, page in self._client.list(f"{self._path}/pods") for item in page
            }
            if all(name in pods and (fine(pods[name]) or _over(pods[name])) for name in expected):
                return pods
            if time.monotonic() > end:
                return pods
            time.sleep(_POLL)

    def _judged(self, check: str, node: str, pod: Any) -> NodeCheck:
        return (
            NodeCheck(check, node, CheckState.OK) if _up(pod) else NodeCheck(check, node, CheckState.FAILED, why(pod))
        )

    def _asking(
        self, serving: Mapping[str, str], address: str, closed: str, kubelets: Mapping[str, tuple[str, int]]
    ) -> list[NodeCheck]:
        names = list(serving)
        for number, name in enumerate(names):
            others = (names[number + 1 :] + names[:number])[:_MOST_PEERS]
            private = {node: kubelets[node] for node in (name, *others[:1]) if node in kubelets}
            peers = {other: serving[other] for other in others}
            command = ask_script(address, peers, closed, private, domain=self._trial.domain, cache=self._trial.cache)
            self._create(_pod(f"ask-{number}", name, self._trial.image, command))
        pods = self._until([f"ask-{number}" for number in range(len(names))], _over)
        return [
            finding for number, name in enumerate(names) for finding in answers(name, pods.get(f"ask-{number}") or {})
        ]

    def _devices(self, nodes: Mapping[str, Any]) -> list[NodeCheck]:
        amounts = {
            name: (kind, int(count))
            for name, node in nodes.items()
            for kind in DEVICES
            if int(count := node["status"].get("allocatable", {}).get(kind, "0"))
        }
        if not amounts:
            return []
        self._tell(text("all devices of each of {count} nodes", count=len(amounts)))
        order = list(amounts)
        for number, name in enumerate(order):
            kind, count = amounts[name]
            self._create(_pod(f"devices-{number}", name, self._trial.image, "true", limits={kind: str(count)}))
        pods = self._until([f"devices-{number}" for number in range(len(order))], _over)
        return [
            device_finding(name, amounts[name], explained(self._client, pods[f"devices-{number}"]))
            for number, name in enumerate(order)
        ]


_SERVE: Final = f"exec httpd -f -p {PORT} -h /etc"
"""Every container has /etc/hostname; nothing else of the image is needed."""
_NO_REASON: Final = ("Pending", "ContainerCreating")
"""What the API says of a pod that has not started, if it says nothing."""
_CLOSED: Final = "closed"
_ENFORCED: Final = "network-policies-enforced"
_HOSTS: Final = "hosts-closed"
_CERTIFICATES: Final = "certificates"
_CLOCK: Final = "clock"
_PROBE: Final = {"httpGet": {"path": "/hostname", "port": PORT}, "periodSeconds": 1, "timeoutSeconds": 3}


def ask_script(
    address: str,
    peers: Mapping[str, str],
    closed: str = "",
    kubelets: Mapping[str, tuple[str, int]] | None = None,
    *,
    domain: str = "cluster.local",
    cache: str = "",
) -> str:
    """What a pod runs to try names, a service, its peers and what must not answer: ``check ok`` or ``check no``.

    `closed` is the address of a pod, `kubelets` are address and port by node. They have to answer three times before
    it counts: rules reach a node a moment after the pod. `cache` is the DNS cache of the node: resolvers pass over one
    that is down, so it is asked by its address.
    """

    def attempt(check: str, command: str) -> str:
        tries = f"for n in 1 2 3 4 5; do {command} >/dev/null 2>&1 && break; [ $n = 5 ] && exit 1; sleep 1; done"
        return f"( {tries} ) && r='{check} ok' || r='{check} no'; echo \"$r\" >> /dev/termination-log"

    name = f"kubernetes.default.svc.{domain}"
    lines = [
        attempt("dns", f"nslookup {name}"),
        attempt("service", _ask_command(address, 80)),
    ]
    if cache:
        lines.append(attempt(NODE_DNS, f"nslookup {name} {cache}"))
    lines += [attempt(f"peer:{name}", _ask_command(ip, PORT)) for name, ip in peers.items()]
    if closed:
        lines.append(_must_fail(_ENFORCED, _ask_command(closed, PORT)))
    for name, (ip, port) in (kubelets or {}).items():
        lines.append(_must_fail(f"{_HOSTS}:{name}", f"echo | nc -w 3 {ip} {port}"))
    return "\n".join(lines)


def _must_fail(check: str, command: str) -> str:
    answered = " && sleep 1 && ".join([f"{command} >/dev/null 2>&1"] * 3)
    return f"if {answered}; then r='{check} no'; else r='{check} ok'; fi\necho \"$r\" >> /dev/termination-log"


def _ask_command(address: str, port: int) -> str:
    """A command that asks a server by nc: wget of a static busybox does not survive without its C library."""
    return f"echo 'GET /hostname HTTP/1.0\n' | nc -w 3 {address} {port} | grep -q ' 200 '"


_NOT_ENFORCED: Final = (
    "the pod network ignores NetworkPolicies: isolation relies on TLS and tokens alone, and pods of jobs can "
    "reach each other (docs/security.md)"
)
_OPEN: Final = "pods reach the kubelet of {node} (docs/security.md)"
"""Seen from a pod without rights; its kubelet asks for a certificate, as SSH and etcd on the same machine do."""


def _kubelet(node: Mapping[str, Any]) -> tuple[str, int] | None:
    """Where a node's kubelet listens; None if the node does not say."""
    status = node["status"]
    port = status.get("daemonEndpoints", {}).get("kubeletEndpoint", {}).get("Port")
    address = next((entry["address"] for entry in status.get("addresses", ()) if entry["type"] == "InternalIP"), "")
    return (address, int(port)) if port and address else None


def answers(node: str, pod: Mapping[str, Any]) -> list[NodeCheck]:
    """The findings of a pod that asked, from its last words."""
    output = _last_words(pod)
    if not output:
        return [NodeCheck("dns", node, CheckState.FAILED, why(pod) or "no output")]
    checks = []
    for line in output.splitlines():
        check, _, verdict = line.rpartition(" ")
        name, _, peer = check.partition(":")
        if name == _ENFORCED and verdict != "ok":
            checks.append(NodeCheck(check, node, CheckState.WARNING, text(_NOT_ENFORCED)))
            continue
        if name == _HOSTS and verdict != "ok":
            checks.append(NodeCheck(check, node, CheckState.WARNING, text(_OPEN, node=peer)))
            continue
        words = {
            "dns": "the name of the API's service is not found",
            "service": "a service's address does not answer",
            NODE_DNS: text("the DNS cache of the node does not answer; see why: {command}", command=_cache_log(node)),
        }
        message = words.get(name) or text("the pod on {node} does not answer", node=peer) if verdict != "ok" else ""
        checks.append(NodeCheck(check, node, CheckState.OK if verdict == "ok" else CheckState.FAILED, message))
    return checks


def _cache_log(node: str) -> str:
    return f"kubectl -n kube-system logs -l k8s-app={NODE_DNS} --field-selector spec.nodeName={node}"


def device_finding(node: str, expected: tuple[str, int], pod: Mapping[str, Any]) -> NodeCheck:
    """The result of a pod that asked for all devices of a node; skipped if other pods use some of them."""
    kind, count = expected
    status = pod.get("status", {})
    if status.get("phase") == "Succeeded":
        return NodeCheck("devices", node, CheckState.OK, text("{count} of {kind}", count=count, kind=kind))
    if str(status.get("reason", "")).startswith(("OutOf", "UnexpectedAdmission")):
        return NodeCheck(
            "devices", node, CheckState.SKIPPED, text("some of {count} of {kind} are in use", count=count, kind=kind)
        )
    reason = why(pod) or text("{count} of {kind} were not given", count=count, kind=kind)
    return NodeCheck("devices", node, CheckState.FAILED, reason)


def explained(client: KubeClient, pod: Mapping[str, Any]) -> Mapping[str, Any]:
    """A pod; one that waits without a reason says what its newest warning says, or that no kubelet has taken it."""
    if why(pod) not in _NO_REASON:
        return pod
    about = pod["metadata"]
    query = {"fieldSelector": f"involvedObject.name={about['name']},type=Warning"}
    path = f"/api/v1/namespaces/{about['namespace']}/events"
    warnings = [item for _, page in client.list(path, query) for item in page]
    newest = max(warnings, key=lambda item: str(item.get("lastTimestamp") or item.get("eventTime")), default={})
    message = str(newest.get("message") or "")
    if not message and not pod["status"].get("containerStatuses"):
        message = text("the kubelet does not start pods: check that the machine runs, and `systemctl status kubelet`")
    return {**pod, "status": {"message": message}} if message else pod


def why(pod: Mapping[str, Any]) -> str:
    """Why a pod is not up, in the words of the API."""
    status = pod.get("status", {})
    for container in status.get("containerStatuses") or ():
        state = container.get("state", {})
        waiting = state.get("waiting") or state.get("terminated") or {}
        if waiting.get("reason") not in (None, "Completed"):
            return f"{waiting['reason']}: {waiting.get('message', '')}".rstrip(": ")
    return str(status.get("message") or status.get("reason") or status.get("phase") or "")


def _pod(
    name: str,
    node: str,
    image: str,
    command: str,
    *,
    labels: Mapping[str, str] | None = None,
    limits: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    container = {
        "name": "try",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", command],
        "resources": {"limits": dict(limits or {})},
        **({"readinessProbe": _PROBE} if command == _SERVE else {}),
    }
    spec = {
        "nodeName": node,
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "containers": [container],
        "tolerations": [{"operator": "Exists"}],
        "automountServiceAccountToken": False,
    }
    return {"metadata": {"name": name, "labels": dict(labels or {})}, "spec": spec}


def _ip(pod: Mapping[str, Any]) -> str:
    return str(pod.get("status", {}).get("podIP", ""))


def _up(pod: Mapping[str, Any]) -> bool:
    return any(container.get("ready") for container in pod.get("status", {}).get("containerStatuses") or ())


def _over(pod: Mapping[str, Any]) -> bool:
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


def _last_words(pod: Mapping[str, Any]) -> str:
    for container in pod.get("status", {}).get("containerStatuses") or ():
        ended = container.get("state", {}).get("terminated") or {}
        if ended.get("message"):
            return str(ended["message"])
    return ""


def image_for(references: Iterable[str]) -> str:
    """The image to try with, among those that a cluster has: busybox; empty where there is none."""
    return next((reference for reference in references if reference.rpartition("/")[2].startswith("busybox:")), "")


def data_of(findings: Iterable[NodeCheck]) -> dict[str, Any]:
    """The findings as values of JSON, with what they come to."""
    rows = [
        {"check": finding.check, "node": finding.node, "verdict": finding.verdict.value, "message": finding.message}
        for finding in findings
    ]
    return {
        "ok": all(row["verdict"] != CheckState.FAILED for row in rows),
        "findings": json.loads(json.dumps(rows)),
    }
