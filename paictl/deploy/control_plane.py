"""What hardens the control plane: audit log, encryption of Secrets, sign-in by OIDC, feature gates; and its arguments.

Read from config.yaml, turned into arguments and files of the masters. Files that the API server reads only when it
starts bear the hash of their content in their name, so that a change of the content changes an argument as well.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Final

import yaml

from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.i18n import text
from paictl.resources import resource_folder

FOLDER: Final = "/etc/kubernetes/paictl"
"""On masters: what the API server reads; mounted into it."""
AUTHORITY: Final = "/etc/kubernetes/pki/ca.crt"
LOGS: Final = "/var/log/kubernetes/audit"
ENCRYPTION: Final = "/etc/kubernetes/pki/paictl-encryption.json"
"""Made on the masters, where its keys stay (playbooks/module_utils/paictl_encryption.py)."""
CIPHERS: Final = (
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
)
"""TLS suites with forward secrecy and authenticated encryption; servers offer no others."""
_ANONYMOUS: Final = (
    "/livez",
    "/readyz",
    "/healthz",
    "/api/v1/namespaces/kube-public/configmaps/cluster-info",
)
"""What is answered without signing in: kubelet's probes of the API server, and what a machine that joins looks up."""
_OWN_SIGN_IN: Final = ("anonymous-auth", "authentication-config")
"""Arguments by which a user configures sign-in; they exclude paictl's file, as do those that begin with oidc-."""
_CERTIFICATE: Final = re.compile(r"-----BEGIN CERTIFICATE-----\s.+?-----END CERTIFICATE-----", re.DOTALL)
_PRIVATE: Final = "PRIVATE KEY-----"

Values = Mapping[str, Any]


@frozen
class AuditLog:
    """The API server's audit log; `policy` is the text of its policy, sizes are in megabytes, ages in days."""

    enabled: bool = True
    policy: str = ""
    days: int = 30
    files: int = 10
    megabytes: int = 100


@frozen
class TokenProvider:
    """Sign-in by tokens of an OpenID provider; `authority` is its CA in PEM, empty for those of the image."""

    issuer: str
    client: str
    username_claim: str = "sub"
    username_prefix: str = ""
    groups_claim: str = ""
    groups_prefix: str = ""
    required_claims: Mapping[str, str] = field(default_factory=dict)
    authority: str = ""


@frozen
class Hardening:
    """All of it; feature gates are those of every component."""

    encrypts: bool = True
    audit: AuditLog = field(default_factory=lambda: AuditLog(policy=_own_policy()))
    oidc: TokenProvider | None = None
    gates: Mapping[str, bool] = field(default_factory=dict)


def hardening_of(section: Values, folder: Path) -> Hardening:
    """What the section `deploy:` says; files are relative to `folder`. Raises `PaictlError` for unusable ones."""
    oidc = section.get("oidc")
    arguments = section.get("api_server_arguments") or {}
    conflicting = sorted(name for name in arguments if name in _OWN_SIGN_IN or name.startswith("oidc-"))
    if oidc and conflicting:
        message = text("deploy.oidc and deploy.api_server_arguments.{name} exclude each other", name=conflicting[0])
        raise PaictlError(message, hint=text("remove one of them"))
    return Hardening(
        section.get("secrets_encryption", True) is not False,
        _audit_log(section.get("audit_log") or {}, folder),
        _oidc(oidc, folder) if oidc else None,
        dict(section.get("feature_gates") or {}),
    )


def own_audit_log() -> AuditLog:
    """The audit log of a config.yaml that says nothing about it: with paictl's own policy."""
    return AuditLog(policy=_own_policy())


def _audit_log(section: Values, folder: Path) -> AuditLog:
    policy = section.get("policy_file")
    return AuditLog(
        section.get("enabled", True) is not False,
        _policy(folder / Path(policy).expanduser()) if policy else _own_policy(),
        section.get("max_days", 30),
        section.get("max_files", 10),
        section.get("max_megabytes", 100),
    )


def _own_policy() -> str:
    return (resource_folder("playbooks") / "files" / "audit-policy.yaml").read_text(encoding="utf-8")


def _policy(path: Path) -> str:
    """A policy that the API server takes; it would not start with another one."""
    content = _read(path, "deploy.audit_log.policy_file")
    hint = "https://kubernetes.io/docs/tasks/debug/debug-cluster/audit/"
    try:
        policy = yaml.safe_load(content)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else str(path)
        raise PaictlError(text("the audit policy is not valid YAML"), where=where, hint=hint) from None
    kind = policy.get("kind") if isinstance(policy, dict) else None
    version = policy.get("apiVersion") if isinstance(policy, dict) else None
    if kind != "Policy" or version != "audit.k8s.io/v1":
        message = text("the file is not an audit policy (apiVersion: audit.k8s.io/v1, kind: Policy)")
        raise PaictlError(message, where=str(path), hint=hint)
    rules = policy.get("rules")
    levels = ("None", "Metadata", "Request", "RequestResponse")
    if not isinstance(rules, list) or not rules:
        raise PaictlError(text("the audit policy has no rules"), where=str(path), hint=hint)
    for index, rule in enumerate(rules):
        if not isinstance(rule, dict) or rule.get("level") not in levels:
            message = text(
                "rules[{index}] of the audit policy: level must be one of {levels}",
                index=index,
                levels=", ".join(levels),
            )
            raise PaictlError(message, where=str(path), hint=hint)
    return content


def _oidc(section: Values, folder: Path) -> TokenProvider:
    file = section.get("ca_file")
    authority = ""
    if file:
        path = folder / Path(file).expanduser()
        content = _read(path, "deploy.oidc.ca_file")
        if _PRIVATE in content:
            raise PaictlError(
                text("the CA file contains a private key"), where=str(path), hint=text("keep only its certificates")
            )
        certificates = _CERTIFICATE.findall(content)
        if not certificates:
            raise PaictlError(text("the CA file has no PEM certificate"), where=str(path))
        authority = "\n".join(certificates) + "\n"
    return TokenProvider(
        section["issuer_url"],
        section["client_id"],
        section.get("username_claim", "sub"),
        section.get("username_prefix", ""),
        section.get("groups_claim", ""),
        section.get("groups_prefix", ""),
        dict(section.get("required_claims") or {}),
        authority,
    )


def _read(path: Path, key: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        message = text("{key}: the file cannot be read: {reason}", key=key, reason=error.strerror)
    except UnicodeDecodeError:
        message = text("{key}: the file is not text", key=key)
    raise PaictlError(message, where=str(path))


def _named(name: str, content: str, suffix: str) -> str:
    return f"{FOLDER}/{name}-{hashlib.sha256(content.encode()).hexdigest()[:12]}.{suffix}"


def master_files(hardening: Hardening) -> dict[str, str]:
    """Files of masters that the API server reads, by path."""
    signing_in = authentication(hardening.oidc)
    files = {_named("authentication", signing_in, "json"): signing_in}
    if hardening.audit.enabled:
        files[_named("audit-policy", hardening.audit.policy, "yaml")] = hardening.audit.policy
    return files


def authentication(oidc: TokenProvider | None) -> str:
    """The API server's AuthenticationConfiguration: tokens of the provider, and paths open to anonymous requests."""
    configuration = {
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AuthenticationConfiguration",
        "anonymous": {"enabled": True, "conditions": [{"path": path} for path in _ANONYMOUS]},
        "jwt": [_provider(oidc)] if oidc else [],
    }
    return json.dumps(configuration, indent=1) + "\n"


def _provider(oidc: TokenProvider) -> dict[str, Any]:
    """As the flags --oidc-* have it: names of users that are no addresses are told apart by the issuer."""
    prefix = oidc.username_prefix or ("-" if oidc.username_claim == "email" else f"{oidc.issuer}#")
    mappings: dict[str, Any] = {"username": {"claim": oidc.username_claim, "prefix": "" if prefix == "-" else prefix}}
    if oidc.groups_claim:
        mappings["groups"] = {"claim": oidc.groups_claim, "prefix": oidc.groups_prefix}
    issuer: dict[str, Any] = {"url": oidc.issuer, "audiences": [oidc.client]}
    if oidc.authority:
        issuer["certificateAuthority"] = oidc.authority
    rules = [{"claim": name, "requiredValue": value} for name, value in sorted(oidc.required_claims.items())]
    return {"issuer": issuer, "claimValidationRules": rules, "claimMappings": mappings}


def api_server_arguments(hardening: Hardening, own: Values, *, kubelets_are_signed: bool) -> dict[str, Any]:
    """All arguments of kube-apiserver that are not kubeadm's; `own` are the user's and win.

    Kubelets' certificates are verified where the cluster signs them (playbooks/files/paictl_certificates.py).
    """
    arguments: dict[str, Any] = {"profiling": False, "tls-cipher-suites": ",".join(CIPHERS)}
    log = hardening.audit
    if log.enabled:
        arguments |= {
            "audit-policy-file": _named("audit-policy", log.policy, "yaml"),
            "audit-log-path": f"{LOGS}/audit.log",
            "audit-log-maxage": log.days,
            "audit-log-maxbackup": log.files,
            "audit-log-maxsize": log.megabytes,
        }
    if kubelets_are_signed:
        arguments["kubelet-certificate-authority"] = AUTHORITY
    if hardening.encrypts:
        arguments["encryption-provider-config"] = ENCRYPTION
    if not any(name in _OWN_SIGN_IN or name.startswith("oidc-") for name in own):
        arguments["authentication-config"] = _named("authentication", authentication(hardening.oidc), "json")
    return {**arguments, **_gates(hardening), **own}


def component_arguments(hardening: Hardening) -> dict[str, Any]:
    """Arguments of kube-controller-manager and kube-scheduler that are not kubeadm's."""
    return {"profiling": False, **_gates(hardening)}


def api_server_volumes(hardening: Hardening) -> list[dict[str, Any]]:
    """What is mounted into kube-apiserver, as kubeadm has it."""
    volumes = [
        {"name": "paictl", "hostPath": FOLDER, "mountPath": FOLDER, "readOnly": True, "pathType": "DirectoryOrCreate"}
    ]
    if hardening.audit.enabled:
        volumes.append(
            {
                "name": "audit-log",
                "hostPath": LOGS,
                "mountPath": LOGS,
                "readOnly": False,
                "pathType": "DirectoryOrCreate",
            }
        )
    return volumes


def _gates(hardening: Hardening) -> dict[str, str]:
    gates = ",".join(f"{name}={str(value).lower()}" for name, value in sorted(hardening.gates.items()))
    return {"feature-gates": gates} if gates else {}
