"""Admission policies that keep claims on cells in the scheduler's hands, in namespaces with the label of the gate.

Without them a pod or claim that goes past the placer would have kube-scheduler choose devices of somebody's cells.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from paictl.placer.core import GATE

Json = dict[str, Any]
CLAIMS: Final = "hivedscheduler-claims"
TEMPLATES: Final = "hivedscheduler-claim-templates"
PODS: Final = "hivedscheduler-claiming-pods"
MAKERS: Final = ("system:serviceaccount:kube-system:resource-claim-controller", "system:kube-controller-manager")
"""Who makes claims of templates: kube-controller-manager, with an account for each controller or one for all."""
_VERSION: Final = "admissionregistration.k8s.io/v1"
_DOCS: Final = "(docs/devices.md)"


def claim_policies(classes: Sequence[str]) -> list[Json]:
    """ValidatingAdmissionPolicies (v1, Kubernetes 1.30 and newer) and their bindings for claims on these classes."""
    made_by_us = f"size(variables.mine) == 0 || request.userInfo.username in {json.dumps(MAKERS)}"
    only_templates = {
        "expression": f'request.operation != "CREATE" || {made_by_us}',
        "message": f"claims on devices of cells are made for one pod: use a ResourceClaimTemplate {_DOCS}",
    }
    of_claim, of_template = "object.spec", "object.spec.spec"
    claims = _policy(
        CLAIMS, _group("resourceclaims"), [only_templates, *_rules(of_claim)], _mine(of_claim, classes)
    )  # fmt: skip
    templates = _policy(
        TEMPLATES, _group("resourceclaimtemplates"), _rules(of_template), _mine(of_template, classes)
    )  # fmt: skip
    pods = _policy(PODS, {"apiGroups": [""], "resources": ["pods"], "operations": ["CREATE"]}, [_gated()], [])
    return [*claims, *templates, *pods]


def _group(resource: str) -> Json:
    return {"apiGroups": ["resource.k8s.io"], "resources": [resource], "operations": ["CREATE", "UPDATE"]}


def _mine(spec: str, classes: Sequence[str]) -> list[Json]:
    """Variables: all requests, and those for the devices of cells."""
    listed = json.dumps(list(classes))
    requests = f"has({spec}.devices.requests) ? {spec}.devices.requests : []"
    mine = (
        f"variables.requests.filter(r, has(r.exactly) ? r.exactly.deviceClassName in {listed} : "
        f"(has(r.firstAvailable) && r.firstAvailable.exists(s, s.deviceClassName in {listed})))"
    )
    return [{"name": "requests", "expression": requests}, {"name": "mine", "expression": mine}]


def _rules(spec: str) -> list[Json]:
    checks = (
        ("has(r.exactly)", "firstAvailable"),
        ("!has(r.exactly) || !has(r.exactly.selectors) || size(r.exactly.selectors) == 0", "selectors"),
        (
            '!has(r.exactly) || !has(r.exactly.allocationMode) || r.exactly.allocationMode == "ExactCount"',
            "allocationMode All",
        ),
        ("!has(r.exactly) || !has(r.exactly.adminAccess) || !r.exactly.adminAccess", "adminAccess"),
    )
    instead = (
        f"the scheduler chooses devices by cells: leave it out, and ask for a leaf cell type or pinned cell {_DOCS}"
    )
    rules = [
        {"expression": f"variables.mine.all(r, {check})", "message": f"a request names devices by {what}; {instead}"}
        for check, what in checks
    ]
    free = f"size(variables.mine) == 0 || !has({spec}.devices.constraints) || size({spec}.devices.constraints) == 0"
    return [*rules, {"expression": free, "message": f"a claim names devices by constraints; {instead}"}]


def _gated() -> Json:
    claims = "!has(object.spec.resourceClaims) || size(object.spec.resourceClaims) == 0"
    gated = f'has(object.spec.schedulingGates) && object.spec.schedulingGates.exists(g, g.name == "{GATE}")'
    message = (
        f"a pod with resourceClaims needs the scheduling gate {GATE} and the label paictl.io/virtual-cluster here, "
        f"or kube-scheduler would give it devices of somebody's cells {_DOCS}"
    )
    return {"expression": f"{claims} || ({gated})", "message": message}


def _policy(name: str, rule: Json, validations: list[Json], variables: list[Json]) -> list[Json]:
    """A policy and its binding to guarded namespaces."""
    version = "v1"
    spec: Json = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [{"apiVersions": [version], **rule}]},
        **({"variables": variables} if variables else {}),
        "validations": validations,
    }
    bound: Json = {
        "policyName": name,
        "validationActions": ["Deny"],
        "matchResources": {"namespaceSelector": {"matchLabels": {GATE: "enabled"}}},
    }
    return [
        {"apiVersion": _VERSION, "kind": f"ValidatingAdmissionPolicy{kind}", "metadata": {"name": name}, "spec": body}
        for kind, body in (("", spec), ("Binding", bound))
    ]
