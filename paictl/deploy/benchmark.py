"""The benchmark's items and the verdict about each: pure, from evidence that was gathered before.

The items are rows of `playbooks/benchmark.yaml`; docs/audit.md says what their keys mean. No verdict without evidence:
where nothing could be looked at, an item fails and says why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from functools import cache
from typing import Any, Final

import yaml

from paictl.frozen import frozen
from paictl.i18n import text
from paictl.resources import resource_folder

CLUSTER: Final = "-"
"""Instead of a host, where an item is about the whole cluster."""
_SHOWN: Final = 4


class AuditState(StrEnum):
    """What an item came to."""

    PASS = "pass"  # noqa: S105 - the benchmark's word
    FAIL = "fail"
    NOT_APPLICABLE = "not-applicable"


class Scope(StrEnum):
    """What an item is about."""

    MASTERS = "masters"
    NODES = "nodes"
    CLUSTER = "cluster"


@frozen
class BenchmarkItem:
    """A row of the table; `rule` holds the keys that say what is looked at and what it must be."""

    id: str
    title: str
    severity: str
    scope: Scope
    remedy: str
    rule: Mapping[str, Any]


@frozen
class HostEvidence:
    """What was found on a machine, as files/paictl_audit.py tells it; `kubelet` is its configuration that runs."""

    host: str
    master: bool
    files: Mapping[str, Sequence[Sequence[str]]] = field(default_factory=dict)
    programs: Mapping[str, Sequence[str]] = field(default_factory=dict)
    probes: Mapping[str, str] = field(default_factory=dict)
    kubelet: Mapping[str, Any] | None = None
    secrets: Mapping[str, int] | None = None
    serving: str = ""
    """Who signed kubelet's server certificate; empty if that could not be determined."""


@frozen
class AuditFinding:
    """An item on a host: the verdict, what was looked at, what was found there, and the command that mends it."""

    id: str
    title: str
    severity: str
    host: str
    state: AuditState
    looked_at: str
    evidence: str
    remedy: str = ""


Verdict = tuple[AuditState, str, str]
"""State, what was looked at, evidence."""


@cache
def items() -> tuple[BenchmarkItem, ...]:
    """The table."""
    path = resource_folder("playbooks") / "benchmark.yaml"
    rows: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
    named = ("id", "title", "severity", "on", "remedy")
    return tuple(
        BenchmarkItem(
            str(row["id"]),
            row["title"],
            row["severity"],
            Scope(row["on"]),
            row.get("remedy", ""),
            {name: value for name, value in row.items() if name not in named},
        )
        for row in rows
    )


def patterns(*, master: bool) -> list[str]:
    """The files that are looked at on a machine."""
    paths = (path for item in items() if _about(item, master=master) for path in item.rule.get("files", ()))
    return list(dict.fromkeys(paths))


def probes(*, master: bool) -> dict[str, Any]:
    """The requests without a certificate that a machine is tried with, by item."""
    return {item.id: item.rule["probe"] for item in items() if _about(item, master=master) and "probe" in item.rule}


def _about(item: BenchmarkItem, *, master: bool) -> bool:
    return item.scope is Scope.NODES or (master and item.scope is Scope.MASTERS)


def judge_host(evidence: HostEvidence) -> list[AuditFinding]:
    """All items of a machine."""
    return [
        _finding(item, evidence.host, _verdict(item, evidence))
        for item in items()
        if _about(item, master=evidence.master)
    ]


def judge_cluster(looks: Mapping[str, Callable[[], Sequence[str]]]) -> list[AuditFinding]:
    """The items about the whole cluster; each look returns what is wrong, in words."""
    findings = []
    for item in items():
        if item.scope is Scope.CLUSTER:
            name = item.rule["look"]
            wrong = list(looks[name]())
            state = AuditState.FAIL if wrong else AuditState.PASS
            findings.append(_finding(item, CLUSTER, (state, _LOOKS[name], listed(wrong) or text("none"))))
    return findings


def _finding(item: BenchmarkItem, host: str, verdict: Verdict) -> AuditFinding:
    state, looked_at, evidence = verdict
    remedy = item.remedy if state is AuditState.FAIL else ""
    return AuditFinding(item.id, item.title, item.severity, host, state, looked_at, evidence, remedy)


def _verdict(item: BenchmarkItem, evidence: HostEvidence) -> Verdict:
    rule = item.rule
    if "reason" in rule:
        return AuditState.NOT_APPLICABLE, "-", rule["reason"]
    if "files" in rule:
        return _judge_files(rule, evidence)
    if "argument" in rule:
        words = evidence.programs.get(rule["program"])
        looked_at = f"{rule['program']} --{rule['argument']}"
        if words is None:
            return AuditState.FAIL, looked_at, text("{program} is not running on this machine", program=rule["program"])
        return _judge_value(rule, looked_at, argument(words, rule["argument"]))
    if "kubelet" in rule:
        looked_at = f"kubelet configz {rule['kubelet']}"
        if evidence.kubelet is None:
            return AuditState.FAIL, looked_at, text("kubelet does not answer")
        return _judge_value(rule, looked_at, _at(evidence.kubelet, rule["kubelet"]))
    if "probe" in rule:
        scheme, port, path = rule["probe"]
        answer = evidence.probes.get(item.id, "")
        state = AuditState.PASS if answer in rule["answers"] else AuditState.FAIL
        looked_at = f"{scheme}://127.0.0.1:{port}{path}"
        return state, looked_at, answer or text("not tried")
    return _HOST_LOOKS[rule["look"]](evidence)


def argument(words: Sequence[str], name: str) -> str | None:
    """The value of a flag on a command line: the last one counts, ``true`` without a value; None without the flag."""
    value = None
    for index, word in enumerate(words):
        if word == f"--{name}" or word == f"-{name}":
            following = words[index + 1] if index + 1 < len(words) else ""
            value = following if following and not following.startswith("-") else "true"
        elif word.startswith((f"--{name}=", f"-{name}=")):
            value = word.partition("=")[2]
    return value


def _at(values: Mapping[str, Any], path: str) -> str | None:
    value: Any = values
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    if value is None:
        return None
    if isinstance(value, list):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _judge_value(rule: Mapping[str, Any], looked_at: str, value: str | None) -> Verdict:
    """A value and what it must be; where it is not set, the program's own default counts."""
    evidence = text("not set") if value is None else value
    if "unset" in rule or "set" in rule:
        good = (value is None) if "unset" in rule else bool(value)
        return AuditState.PASS if good else AuditState.FAIL, looked_at, evidence
    if value is None and "default" in rule:
        value = str(rule["default"])
        evidence = text("not set (default: {value})", value=value or "-")
    if value is None:
        return AuditState.FAIL, looked_at, evidence
    return AuditState.PASS if _holds(rule, value) else AuditState.FAIL, looked_at, evidence


def _holds(rule: Mapping[str, Any], value: str) -> bool:
    """Whether a value is as a rule has it."""
    parts = {part for part in value.split(",") if part}
    if "equals" in rule:
        return value == str(rule["equals"])
    if "differs" in rule:
        return value not in rule["differs"]
    if "least" in rule:
        return value.isdecimal() and int(value) >= rule["least"]
    if "within" in rule:
        return bool(parts) and parts <= set(rule["within"])
    if "has" in rule:
        return set(rule["has"]) <= parts
    return not set(rule["lacks"]) & parts


def _judge_files(rule: Mapping[str, Any], evidence: HostEvidence) -> Verdict:
    looked_at = listed(rule["files"])
    rows = [row for pattern in rule["files"] for row in evidence.files.get(pattern, ())]
    if not rows:
        return AuditState.NOT_APPLICABLE, looked_at, text("no such file")
    if "mode" in rule:
        most = int(rule["mode"], 8)
        bad = [f"{path} {mode}" for path, mode, _ in rows if int(mode, 8) & ~most]
        good = text("{count} files, mode {mode} at most", count=len(rows), mode=rule["mode"])
    else:
        bad = [f"{path} {owner}" for path, _, owner in rows if owner != rule["owner"]]
        good = text("{count} files, {owner}", count=len(rows), owner=rule["owner"])
    return AuditState.FAIL if bad else AuditState.PASS, looked_at, listed(bad) or good


def listed(words: Iterable[str]) -> str:
    """Some of them, and how many more there are."""
    rows = list(words)
    more = f" (+{len(rows) - _SHOWN})" if len(rows) > _SHOWN else ""
    return ", ".join(rows[:_SHOWN]) + more


def _judge_secrets(evidence: HostEvidence) -> Verdict:
    looked_at = "etcd /registry/secrets/"
    secrets = evidence.secrets
    if secrets is None:
        return AuditState.FAIL, looked_at, text("etcd does not answer")
    detail = text("{plain} of {all} in plain text", plain=secrets["plain"], all=secrets["all"])
    return AuditState.FAIL if secrets["plain"] else AuditState.PASS, looked_at, detail


def _judge_etcd_authority(evidence: HostEvidence) -> Verdict:
    looked_at = "etcd --trusted-ca-file, kube-apiserver --client-ca-file"
    etcd = argument(evidence.programs.get("etcd", ()), "trusted-ca-file")
    clients = argument(evidence.programs.get("kube-apiserver", ()), "client-ca-file")
    detail = f"{etcd or '-'}, {clients or '-'}"
    return AuditState.PASS if etcd and clients and etcd != clients else AuditState.FAIL, looked_at, detail


def _judge_serving(evidence: HostEvidence) -> Verdict:
    state = AuditState.PASS if evidence.serving == "kubernetes" else AuditState.FAIL
    return (
        state,
        text("issuer of kubelet's serving certificate"),
        evidence.serving or text("kubelet does not answer"),
    )


_HOST_LOOKS: Final[Mapping[str, Callable[[HostEvidence], Verdict]]] = {
    "secrets": _judge_secrets,
    "etcd_authority": _judge_etcd_authority,
    "kubelet_serving": _judge_serving,
}
_LOOKS: Final[Mapping[str, str]] = {
    "cluster_admins": "subjects of ClusterRoleBindings to cluster-admin",
    "anonymous_rights": "bindings of system:anonymous and system:unauthenticated",
    "wildcard_roles": "ClusterRoles with * for groups, resources and verbs",
    "default_accounts": "bindings of service accounts named default",
    "pod_security": "labels of namespaces with jobs, and of those in deploy.pod_security",
}
