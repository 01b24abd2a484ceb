"""Gathering the evidence of an audit: one program on each machine, kubelets and rights by the API; and the findings."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final

from paictl.cluster.kubernetes.names import ACCESS_ROLE, RBAC, access_binding
from paictl.deploy.archive import why
from paictl.deploy.benchmark import (
    AuditFinding,
    AuditState,
    HostEvidence,
    judge_cluster,
    judge_host,
    patterns,
    probes,
)
from paictl.deploy.inventory import Deployment, Machine, Role, hosts_of
from paictl.deploy.pod_security import Levels, weaker
from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.remote.kube.client import KubeClient
from paictl.remote.ssh.fleet import CommandOptions, Fleet
from paictl.remote.ssh.link import SshOptions
from paictl.remote.ssh.results import HostResult
from paictl.resources import resource_folder

_MANNER: Final = CommandOptions(sudo=True, timeout=120)
_AT_ONCE: Final = 16
_ADMINISTRATORS: Final = {("Group", "system:masters"), ("Group", "kubeadm:cluster-admins")}
_ANONYMOUS: Final = {"system:anonymous", "system:unauthenticated"}
_PUBLIC: Final = {"system:public-info-viewer", "kubeadm:bootstrap-signer-clusterinfo"}
"""Bindings that let anybody see the version of the cluster and its authority, which machines that join look up."""
_CELLS: Final = "paictl.io/cells"
_ENFORCE: Final = "pod-security.kubernetes.io/enforce"


@frozen
class Audit:
    """The findings, and the machines that could not be looked at."""

    findings: tuple[AuditFinding, ...]
    unreached: Mapping[str, HostResult]

    def count(self, state: AuditState) -> int:
        """How many findings have a state."""
        return sum(finding.state is state for finding in self.findings)


def audit(deployment: Deployment, options: SshOptions, client: KubeClient) -> Audit:
    """Look at all machines and at the API; nothing is changed. Raises `PaictlError` if the API does not answer."""
    answers, bad = _ask(deployment, options)
    machines = [machine for machine in deployment.machines if machine.name in answers]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        kubelets = dict(zip(answers, pool.map(partial(_kubelet, client), answers), strict=True))
    findings: list[AuditFinding] = []
    for machine in machines:
        findings += judge_host(_evidence(machine, answers[machine.name], kubelets[machine.name]))
    findings += judge_cluster(cluster_looks(client, deployment.settings.pod_security))
    return Audit(tuple(findings), bad)


def _ask(deployment: Deployment, options: SshOptions) -> tuple[dict[str, Any], dict[str, HostResult]]:
    """Each machine's answer by name, and the results of those that failed."""
    program = (resource_folder("playbooks") / "files" / "paictl_audit.py").read_bytes()
    answers: dict[str, Any] = {}
    bad: dict[str, HostResult] = {}
    everything = hosts_of(deployment)
    with Fleet(everything, options) as fleet:
        for role in Role:
            hosts = [
                host for host, machine in zip(everything, deployment.machines, strict=True) if machine.role is role
            ]
            master = role is Role.MASTER
            request = {"files": patterns(master=master), "probes": probes(master=master), "secrets": master}
            line = f"python3 -B - {shlex.quote(json.dumps(request))}"
            for name, result in fleet.run(line, stdin=program, manner=_MANNER, hosts=hosts).items() if hosts else ():
                if result.ok:
                    answers[name] = json.loads(result.stdout)
                else:
                    bad[name] = result
    return answers, bad


def _kubelet(client: KubeClient, name: str) -> Mapping[str, Any] | None:
    """A kubelet's configuration as it runs; None where it does not answer."""
    try:
        answer = client.get(f"/api/v1/nodes/{name}/proxy/configz", timeout=20.0)
    except PaictlError:
        return None
    config: Mapping[str, Any] = answer.get("kubeletconfig") or {}
    return config


def _evidence(machine: Machine, answer: Mapping[str, Any], kubelet: Mapping[str, Any] | None) -> HostEvidence:
    return HostEvidence(
        machine.name,
        machine.role is Role.MASTER,
        answer["files"],
        answer["programs"],
        answer["probes"],
        kubelet,
        answer.get("secrets"),
        answer.get("serving", ""),
    )


def cluster_looks(client: KubeClient, levels: Levels | None = None) -> dict[str, Callable[[], Sequence[str]]]:
    """What is looked at in the API, by the name that the table has for it: each returns what is wrong.

    `levels` are the namespaces whose Pod Security config.yaml sets.
    """
    return {
        "cluster_admins": lambda: list(_administrators(_all(client, "clusterrolebindings"))),
        "anonymous_rights": lambda: list(_anonymous(_bindings(client))),
        "wildcard_roles": lambda: list(_wildcards(_all(client, "clusterroles"))),
        "default_accounts": lambda: list(_default_accounts(_bindings(client))),
        "pod_security": lambda: [*_unenforced(_items(client, "/api/v1/namespaces")), *weaker(client, levels or {})],
    }


def _items(client: KubeClient, path: str) -> list[Any]:
    return [item for _, page in client.list(path) for item in page]


def _all(client: KubeClient, kind: str) -> list[Any]:
    return _items(client, f"{RBAC}/{kind}")


def _bindings(client: KubeClient) -> list[Any]:
    return [*_all(client, "clusterrolebindings"), *_all(client, "rolebindings")]


def _name(item: Mapping[str, Any]) -> str:
    meta = item["metadata"]
    return f"{meta['namespace']}/{meta['name']}" if meta.get("namespace") else str(meta["name"])


def _administrators(bindings: Iterable[Any]) -> Iterator[str]:
    """Subjects that may do everything, but for Kubernetes' own groups and people who were made administrators."""
    for binding in bindings:
        if binding["roleRef"]["name"] == "cluster-admin":
            for subject in binding.get("subjects") or ():
                if (subject["kind"], subject["name"]) not in _ADMINISTRATORS and not _is_access(binding, subject):
                    yield f"{_name(binding)}: {subject['kind']} {subject['name']}"


def _is_access(binding: Mapping[str, Any], subject: Mapping[str, Any]) -> bool:
    """Whether `paictl cluster kubeconfig add --role admin` made a binding for a subject."""
    about = binding["metadata"]
    is_admin_role = (about.get("labels") or {}).get(ACCESS_ROLE) == "admin"
    return is_admin_role and subject["kind"] == "User" and about["name"] == access_binding("admin", subject["name"])


def _anonymous(bindings: Iterable[Any]) -> Iterator[str]:
    for binding in bindings:
        anonymous = any(subject["name"] in _ANONYMOUS for subject in binding.get("subjects") or ())
        if anonymous and binding["metadata"]["name"] not in _PUBLIC:
            yield _name(binding)


def _wildcards(roles: Iterable[Any]) -> Iterator[str]:
    """Roles that may do everything; cluster-admin is one, and the controllers that delete what is left over."""
    for role in roles:
        name = str(role["metadata"]["name"])
        every = any(
            "*" in rule.get("apiGroups", ()) and "*" in rule.get("resources", ()) and "*" in rule.get("verbs", ())
            for rule in role.get("rules") or ()
        )
        if every and name != "cluster-admin" and not name.startswith("system:"):
            yield name


def _default_accounts(bindings: Iterable[Any]) -> Iterator[str]:
    for binding in bindings:
        for subject in binding.get("subjects") or ():
            if subject["kind"] == "ServiceAccount" and subject["name"] == "default":
                yield f"{_name(binding)}: {subject.get('namespace', '')}/default"


def _unenforced(namespaces: Iterable[Any]) -> Iterator[str]:
    for namespace in namespaces:
        labels = namespace["metadata"].get("labels") or {}
        if labels.get(_CELLS) == "enabled" and labels.get(_ENFORCE) not in ("baseline", "restricted"):
            yield _name(namespace)


def audit_data(report: Audit) -> dict[str, Any]:
    """An audit as JSON values."""
    return {
        "ok": not report.count(AuditState.FAIL) and not report.unreached,
        "counts": {state.value: report.count(state) for state in AuditState},
        "unreached": {name: why(result) for name, result in report.unreached.items()},
        "findings": [
            {
                "id": finding.id,
                "title": finding.title,
                "severity": finding.severity,
                "host": finding.host,
                "state": finding.state.value,
                "lookedAt": finding.looked_at,
                "evidence": finding.evidence,
                "remedy": finding.remedy,
            }
            for finding in report.findings
        ],
    }
