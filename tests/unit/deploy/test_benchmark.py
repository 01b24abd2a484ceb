"""The benchmark's table, and verdicts from evidence."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from paictl.deploy import auditing
from paictl.deploy.benchmark import (
    CLUSTER,
    AuditFinding,
    AuditState,
    HostEvidence,
    Scope,
    argument,
    items,
    judge_cluster,
    judge_host,
    patterns,
    probes,
)
from paictl.deploy.control_plane import CIPHERS, api_server_arguments, component_arguments
from paictl.deploy.settings import DeploySettings, LoginSettings
from paictl.i18n import in_language
from tests.unit.deploy.loading import load

SETTINGS = DeploySettings(LoginSettings("deploy", "x"))
KUBEADM = {
    "kube-apiserver": {
        "authorization-mode": "Node,RBAC",
        "client-ca-file": "/etc/kubernetes/pki/ca.crt",
        "etcd-cafile": "x",
        "enable-admission-plugins": "NodeRestriction",
        "etcd-certfile": "x",
        "kubelet-client-certificate": "x",
        "service-account-key-file": "x",
        "tls-cert-file": "x",
    },
    "kube-controller-manager": {
        "bind-address": "127.0.0.1",
        "root-ca-file": "x",
        "use-service-account-credentials": "true",
        "service-account-private-key-file": "x",
    },
    "kube-scheduler": {"bind-address": "127.0.0.1"},
    "etcd": {
        "cert-file": "x",
        "key-file": "x",
        "client-cert-auth": "true",
        "peer-cert-file": "x",
        "peer-client-cert-auth": "true",
        "trusted-ca-file": "/etc/kubernetes/pki/etcd/ca.crt",
    },
    "kubelet": {},
}
"""What kubeadm itself writes."""
KUBELET = {
    "authentication": {"anonymous": {"enabled": False}, "x509": {"clientCAFile": "/etc/kubernetes/pki/ca.crt"}},
    "authorization": {"mode": "Webhook"},
    "streamingConnectionIdleTimeout": "4h0m0s",
    "makeIPTablesUtilChains": True,
    "eventRecordQPS": 50,
    "rotateCertificates": True,
    "serverTLSBootstrap": True,
    "tlsCipherSuites": list(CIPHERS),
}


PROBED = {"1.2.1", "2.2b", "4.2.1", "4.2.4b"}


def words(arguments: Mapping[str, Any]) -> list[str]:
    return [
        "program",
        *(f"--{name}={str(value).lower() if isinstance(value, bool) else value}" for name, value in arguments.items()),
    ]


def hardened() -> HostEvidence:
    """A master that paictl has made."""
    own = {
        "kube-apiserver": api_server_arguments(SETTINGS.hardening, {}, kubelets_are_signed=True),
        "kube-controller-manager": component_arguments(SETTINGS.hardening),
        "kube-scheduler": component_arguments(SETTINGS.hardening),
    }
    programs = {name: words({**more, **own.get(name, {})}) for name, more in KUBEADM.items()}
    files = {pattern: [[pattern, "0600", "root:root"]] for pattern in patterns(master=True)}
    answers = {"1.2.1": "401", "2.2b": "refused", "4.2.1": "401", "4.2.4b": "closed"}
    return HostEvidence("m1", True, files, programs, answers, KUBELET, {"all": 9, "plain": 0}, "kubernetes")


def failing(evidence: HostEvidence) -> set[str]:
    return {one.id for one in judge_host(evidence) if one.state is AuditState.FAIL}


def test_the_table_is_whole() -> None:
    assert len(items()) > 80
    assert len({item.id for item in items()}) == len(items())
    for item in items():
        assert re.fullmatch(r"[1-5]\.\d+(\.\d+)?b?", item.id), item.id
        assert item.severity in ("high", "medium", "low"), item.id
        assert item.remedy or "reason" in item.rule, item.id
        kinds = {"files", "argument", "kubelet", "probe", "look", "reason"} & set(item.rule)
        assert len(kinds) == 1, item.id
        conditions = {"mode", "owner", "set", "unset", "equals", "differs", "least", "within", "has", "lacks"}
        due = 1 if kinds & {"files", "argument", "kubelet"} else 0
        assert len(conditions & set(item.rule)) == due, item.id
        for said in (item.title, item.rule.get("reason", "")):
            assert not said or in_language(said, "zh") != said, said
    with_looks = {item.rule["look"] for item in items() if item.scope is Scope.CLUSTER}
    assert with_looks == set(auditing.cluster_looks(None))  # type: ignore[arg-type]


def test_a_machine_as_paictl_makes_it_has_nothing_that_fails() -> None:
    assert failing(hardened()) == set()


def test_a_machine_as_kubeadm_makes_it_fails_where_paictl_hardens() -> None:
    plain = replace(hardened(), programs={name: words(more) for name, more in KUBEADM.items()})
    assert failing(plain) == {
        "1.2.5",
        "1.2.15",
        "1.2.16",
        "1.2.17",
        "1.2.18",
        "1.2.19",
        "1.2.27",
        "1.2.29",
        "1.3.2",
        "1.4.1",
        "3.2.1",
    }


@pytest.mark.parametrize(
    ("change", "ids"),
    [
        ({"probes": dict.fromkeys(PROBED, "200")}, PROBED),
        ({"probes": {}}, PROBED),
        ({"secrets": {"all": 9, "plain": 1}}, {"1.2.28"}),
        ({"secrets": None}, {"1.2.28"}),
        ({"serving": "self-signed certificate"}, {"4.2.9"}),
        ({"kubelet": {**KUBELET, "readOnlyPort": 10255}}, {"4.2.4"}),
        ({"kubelet": {**KUBELET, "tlsCipherSuites": [*CIPHERS, "TLS_RSA_WITH_AES_128_CBC_SHA"]}}, {"4.2.12"}),
        ({"kubelet": {**KUBELET, "authentication": {"anonymous": {"enabled": True}, "x509": {}}}}, {"4.2.1b", "4.2.3"}),
    ],
)
def test_what_is_wrong_fails_and_nothing_else(change: Mapping[str, Any], ids: set[str]) -> None:
    assert failing(replace(hardened(), **change)) == ids


def test_without_a_kubelet_or_a_program_nothing_passes_unseen() -> None:
    nothing = replace(hardened(), kubelet=None, programs={}, serving="")
    about = {item.id for item in items() if {"argument", "kubelet"} & set(item.rule)}
    assert about <= failing(nothing)


@pytest.mark.parametrize(
    ("mode", "owner", "bad"), [("0640", "root:root", 1), ("0600", "bo:root", 1), ("0400", "root:root", 0)]
)
def test_files(mode: str, owner: str, bad: int) -> None:
    path = "/etc/kubernetes/admin.conf"
    evidence = hardened()
    files = {**evidence.files, path: [[path, mode, owner]]}
    wrong = failing(replace(evidence, files=files))
    assert len(wrong) == bad
    assert wrong <= {"1.1.13", "1.1.14"}


def test_files_that_are_not_there_do_not_apply_and_a_finding_names_what_is_wrong() -> None:
    evidence = hardened()
    found = {
        one.id: one
        for one in judge_host(replace(evidence, files={**evidence.files, "/etc/kubernetes/kubelet.conf": []}))
    }
    assert found["4.1.5"].state is AuditState.NOT_APPLICABLE
    rows = {**evidence.files, "/etc/cni/net.d/*": [["/etc/cni/net.d/10-x.conflist", "0644", "root:root"]]}
    wrong = next(one for one in judge_host(replace(evidence, files=rows)) if one.id == "1.1.9")
    assert wrong == AuditFinding(
        "1.1.9",
        wrong.title,
        "medium",
        "m1",
        AuditState.FAIL,
        "/etc/cni/net.d/*",
        "/etc/cni/net.d/10-x.conflist 0644",
        "chmod go-rwx /etc/cni/net.d/*",
    )


def test_workers_are_not_asked_for_what_masters_have() -> None:
    worker = replace(hardened(), master=False, programs={"kubelet": ["kubelet"]}, secrets=None)
    assert failing(worker) == set()
    assert set(patterns(master=False)) < set(patterns(master=True))
    assert set(probes(master=False)) == {"4.2.1", "4.2.4b"}


@given(
    st.lists(st.tuples(st.sampled_from(["a", "b"]), st.text("xyz,", min_size=1, max_size=4), st.booleans()), max_size=6)
)
def test_the_last_flag_counts(flags: list[tuple[str, str, bool]]) -> None:
    line = [word for name, value, apart in flags for word in ([f"--{name}", value] if apart else [f"--{name}={value}"])]
    wanted = next((value for name, value, _ in reversed(flags) if name == "a"), None)
    assert argument(["program", *line], "a") == wanted


def test_a_flag_that_stands_alone_is_true() -> None:
    assert argument(["kubelet", "--profiling", "--v=2"], "profiling") == "true"
    assert argument(["kubelet", "--profiling-x=2"], "profiling") is None


class Rights:
    """An API server with roles, bindings and namespaces, given as YAML."""

    def __init__(self, text: str) -> None:
        self._items = yaml.safe_load(text)

    def list(self, path: str) -> Any:
        return iter([("1", self._items.get(path.rpartition("/")[2], []))])


GOOD = """
clusterrolebindings:
- {metadata: {name: cluster-admin}, roleRef: {name: cluster-admin}, subjects: [{kind: Group, name: system:masters}]}
- {metadata: {name: kubeadm:cluster-admins}, roleRef: {name: cluster-admin}, subjects:
   [{kind: Group, name: kubeadm:cluster-admins}]}
- {metadata: {name: system:public-info-viewer}, roleRef: {name: x}, subjects:
   [{kind: Group, name: system:unauthenticated}]}
- {metadata: {name: empty}, roleRef: {name: cluster-admin}}
- {metadata: {name: paictl-access-admin-eve, labels: {paictl.io/access-role: admin}}, roleRef: {name: cluster-admin},
   subjects: [{kind: User, name: eve}]}
clusterroles:
- {metadata: {name: cluster-admin}, rules: [{apiGroups: ['*'], resources: ['*'], verbs: ['*']}]}
- {metadata: {name: system:controller:x}, rules: [{apiGroups: ['*'], resources: ['*'], verbs: ['*']}]}
- {metadata: {name: reader}, rules: [{apiGroups: ['*'], resources: ['*'], verbs: [get]}]}
namespaces:
- {metadata: {name: jobs, labels: {paictl.io/cells: enabled, pod-security.kubernetes.io/enforce: baseline}}}
- {metadata: {name: default}}
"""
BAD = """
clusterrolebindings:
- {metadata: {name: b1}, roleRef: {name: cluster-admin}, subjects: [{kind: User, name: bo}]}
- {metadata: {name: paictl-access-admin-eve, labels: {paictl.io/access-role: admin}}, roleRef: {name: cluster-admin},
   subjects: [{kind: User, name: eve}, {kind: User, name: mallory}]}
- {metadata: {name: b2}, roleRef: {name: view}, subjects: [{kind: User, name: 'system:anonymous'}]}
rolebindings:
- {metadata: {name: b3, namespace: n}, roleRef: {name: edit}, subjects:
   [{kind: ServiceAccount, name: default, namespace: n}]}
clusterroles:
- {metadata: {name: everything}, rules: [{apiGroups: ['*'], resources: ['*'], verbs: ['*']}]}
namespaces:
- {metadata: {name: jobs, labels: {paictl.io/cells: enabled, pod-security.kubernetes.io/enforce: privileged}}}
"""


def test_rights() -> None:
    good = judge_cluster(auditing.cluster_looks(Rights(GOOD)))  # type: ignore[arg-type]
    assert {(one.state, one.host) for one in good} == {(AuditState.PASS, CLUSTER)}
    bad = {one.id: one.evidence for one in judge_cluster(auditing.cluster_looks(Rights(BAD)))}  # type: ignore[arg-type]
    assert bad == {
        "5.1.1": "b1: User bo, paictl-access-admin-eve: User mallory",
        "5.1.2": "b2",
        "5.1.3": "everything",
        "5.1.5": "n/b3: n/default",
        "5.2.1": "jobs",
    }


def test_the_program_on_machines_tells_modes_and_owners_and_reads_no_content(tmp_path: Any) -> None:
    program = load("files/paictl_audit.py")
    path = tmp_path / "pki/etcd/ca.key"
    path.parent.mkdir(parents=True)
    path.write_text("kelp-secret")
    path.chmod(0o640)
    found = program.files([f"{tmp_path}/**/*.key", f"{tmp_path}/none"])
    ((where, mode, _owner),) = found[f"{tmp_path}/**/*.key"]
    assert (where, mode, found[f"{tmp_path}/none"]) == (str(path), "0640", [])
    assert "kelp" not in str(found)
