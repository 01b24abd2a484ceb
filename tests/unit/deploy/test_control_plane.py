"""Keys of `deploy:` that harden the control plane: what the API server gets, and what is refused with its place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from paictl.deploy.control_plane import (
    ENCRYPTION,
    FOLDER,
    Hardening,
    api_server_arguments,
    api_server_volumes,
    authentication,
    component_arguments,
    hardening_of,
    master_files,
)
from paictl.deploy.kubeadm import init_configuration, kube_proxy_configuration, kubelet_configuration
from paictl.errors import PaictlError
from tests.unit.deploy.test_cluster_settings import changed
from tests.unit.deploy.test_inventory import made

POLICY = b"apiVersion: audit.k8s.io/v1\nkind: Policy\n"
CERTIFICATE = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"


def arguments(hardening: Hardening, **own: Any) -> dict[str, Any]:
    return api_server_arguments(hardening, own, kubelets_are_signed=True)


def test_without_a_word_secrets_are_encrypted_and_requests_are_logged(tmp_path: Path) -> None:
    found = arguments(hardening_of({}, tmp_path))
    assert found["encryption-provider-config"] == ENCRYPTION
    assert (found["audit-log-maxage"], found["audit-log-maxbackup"], found["audit-log-maxsize"]) == (30, 10, 100)
    assert found["profiling"] is False


def test_every_file_that_an_argument_names_is_there_and_mounted(tmp_path: Path) -> None:
    hardening = hardening_of({"oidc": {"issuer_url": "https://id.example", "client_id": "k"}}, tmp_path)
    named = {value for value in arguments(hardening).values() if str(value).startswith(f"{FOLDER}/")}
    assert named == set(master_files(hardening))
    mounts = {one["mountPath"] for one in api_server_volumes(hardening)}
    assert {str(Path(path).parent) for path in named} <= mounts
    assert str(Path(arguments(hardening)["audit-log-path"]).parent) in mounts


def test_another_policy_is_another_argument_so_that_the_api_server_starts_again(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    found = []
    for level in ("Metadata", "Request"):
        policy.write_text(f"apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- level: {level}\n")
        found.append(arguments(hardening_of({"audit_log": {"policy_file": "policy.yaml"}}, tmp_path)))
    assert found[0]["audit-policy-file"] != found[1]["audit-policy-file"]


def test_off_is_off(tmp_path: Path) -> None:
    found = arguments(hardening_of({"secrets_encryption": False, "audit_log": {"enabled": False}}, tmp_path))
    assert not [name for name in found if name.startswith(("audit", "encryption"))]


def test_paictl_s_own_policy_never_writes_the_content_of_secrets() -> None:
    policy = yaml.safe_load(Hardening().audit.policy)
    for rule in policy["rules"]:
        groups = rule.get("resources")
        names = {name for group in groups or () if group["group"] == "" for name in group.get("resources", ())}
        if groups is None or "secrets" in names:
            assert rule["level"] in ("None", "Metadata"), rule


def test_tokens_of_a_provider(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text(f"a comment\n{CERTIFICATE}")
    section = {
        "issuer_url": "https://id.example",
        "client_id": "kube",
        "groups_claim": "groups",
        "groups_prefix": "id:",
        "required_claims": {"team": "gpu"},
        "ca_file": "ca.pem",
    }
    data = json.loads(authentication(hardening_of({"oidc": section}, tmp_path).oidc))
    (jwt,) = data["jwt"]
    assert jwt["issuer"] == {"url": "https://id.example", "audiences": ["kube"], "certificateAuthority": CERTIFICATE}
    assert jwt["claimMappings"]["username"] == {"claim": "sub", "prefix": "https://id.example#"}
    assert jwt["claimMappings"]["groups"] == {"claim": "groups", "prefix": "id:"}
    assert jwt["claimValidationRules"] == [{"claim": "team", "requiredValue": "gpu"}]


@pytest.mark.parametrize(
    ("words", "prefix"),
    [({"username_claim": "email"}, ""), ({"username_prefix": "-"}, ""), ({"username_prefix": "id:"}, "id:")],
)
def test_prefixes_of_users(tmp_path: Path, words: dict[str, str], prefix: str) -> None:
    section = {"issuer_url": "https://id.example", "client_id": "kube", **words}
    data = json.loads(authentication(hardening_of({"oidc": section}, tmp_path).oidc))
    assert data["jwt"][0]["claimMappings"]["username"]["prefix"] == prefix


def test_nobody_is_answered_without_signing_in_but_where_kubernetes_needs_it() -> None:
    data = json.loads(authentication(None))
    paths = {one["path"] for one in data["anonymous"]["conditions"]}
    assert paths == {"/livez", "/readyz", "/healthz", "/api/v1/namespaces/kube-public/configmaps/cluster-info"}
    assert data["jwt"] == []


@pytest.mark.parametrize("name", ["anonymous-auth", "authentication-config", "oidc-issuer-url"])
def test_who_configures_sign_in_by_arguments_keeps_them(tmp_path: Path, name: str) -> None:
    found = arguments(Hardening(), **{name: "x"})
    assert found[name] == "x"
    assert name == "authentication-config" or "authentication-config" not in found
    section = {"oidc": {"issuer_url": "https://id.example", "client_id": "k"}, "api_server_arguments": {name: "x"}}
    with pytest.raises(PaictlError, match=name):
        hardening_of(section, tmp_path)


def test_feature_gates_reach_every_component(tmp_path: Path) -> None:
    after = changed(made(tmp_path), gates={"WatchList": True, "Alpha": False})
    parts = list(yaml.safe_load_all(init_configuration(after, "v1.37.1", ())))
    cluster = next(one for one in parts if one["kind"] == "ClusterConfiguration")
    wanted = {"name": "feature-gates", "value": "Alpha=false,WatchList=true"}
    for component in ("apiServer", "controllerManager", "scheduler"):
        assert wanted in cluster[component]["extraArgs"], component
    for configuration in (kubelet_configuration(after), kube_proxy_configuration(after)):
        assert configuration["featureGates"] == {"WatchList": True, "Alpha": False}
    assert "feature-gates" not in component_arguments(Hardening())


def test_kubelets_that_have_certificates_of_their_own_are_not_verified(tmp_path: Path) -> None:
    for kubelet in ({"serverTLSBootstrap": False}, {"tlsCertFile": "/x.crt", "tlsPrivateKeyFile": "/x.key"}):
        parts = init_configuration(changed(made(tmp_path), kubelet=kubelet), "v1.37.1", ())
        assert "kubelet-certificate-authority" not in parts
    assert "kubelet-certificate-authority" in init_configuration(made(tmp_path), "v1.37.1", ())


@pytest.mark.parametrize(
    ("content", "said", "where"),
    [
        (None, "deploy.audit_log.policy_file: the file cannot be read: No such file", "policy.yaml"),
        (b"\xff\xfe", "the file is not text", "policy.yaml"),
        (b"a: [", "not valid YAML", "policy.yaml:1:5"),
        (b"kind: Pod\n", "not an audit policy", "policy.yaml"),
        (b"- x\n", "not an audit policy", "policy.yaml"),
        (POLICY, "has no rules", "policy.yaml"),
        (POLICY + b"rules: [{level: None}, {level: All}]\n", "rules\\[1\\]", "policy.yaml"),
    ],
)
def test_a_policy_that_the_api_server_would_not_start_with(
    tmp_path: Path, content: bytes | None, said: str, where: str
) -> None:
    if content is not None:
        (tmp_path / "policy.yaml").write_bytes(content)
    with pytest.raises(PaictlError, match=said) as caught:
        hardening_of({"audit_log": {"policy_file": "policy.yaml"}}, tmp_path)
    assert str(caught.value.where).endswith(where)


@pytest.mark.parametrize(
    ("content", "said"),
    [("", "no PEM certificate"), (f"{CERTIFICATE}-----BEGIN PRIVATE KEY-----\n", "contains a private key")],
)
def test_a_ca_file_that_is_none(tmp_path: Path, content: str, said: str) -> None:
    (tmp_path / "ca.pem").write_text(content)
    with pytest.raises(PaictlError, match=said):
        hardening_of({"oidc": {"issuer_url": "https://a", "client_id": "b", "ca_file": "ca.pem"}}, tmp_path)
