"""The objects that the placer runs as: the extender's, less kube-scheduler, and the policy that sets the gate."""

from __future__ import annotations

import json
from typing import Any, Final

from paictl.cluster.manifests.certificates import CertificateSet
from paictl.cluster.pods.labels import VC
from paictl.extender import manifests
from paictl.extender.manifests import Choices
from paictl.placer.core import GATE
from paictl.scheduler.wire import SCHEDULING_SPEC

Json = dict[str, Any]
_OTHER: Final = "hivedscheduler-extender"
NAME: Final = "hivedscheduler-placer"
GUARDED: Final = {GATE: "enabled"}
"""Label of the namespaces in which pods with a request of ours get the gate."""
_UNUSED: Final = ({"pods/binding", "pods/eviction"}, {"pods/status"}, {"namespaces"})
_RULES: Final = (
    {"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["delete"]},  # a stuck pod that its owner makes again
    {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["list", "watch"]},
)


def objects(
    choices: Choices, version: str, certificates: CertificateSet | None = None, *, policy: bool = True
) -> list[Json]:
    """All objects, in an order in which they can be applied. Raises `PaictlError` for an invalid name."""
    made = manifests.objects(choices, version, certificates)
    found: list[Json] = json.loads(json.dumps([one for one in made if _is_needed(one)]).replace(_OTHER, NAME))
    for one in found:
        if one["kind"] == "ConfigMap":
            one["metadata"]["name"] = NAME
            del one["data"]["scheduler.yaml"]
        elif one["kind"] == "ClusterRole" and one["metadata"]["name"] == NAME:
            one["rules"] = [rule for rule in one["rules"] if set(rule["resources"]) not in _UNUSED]
            one["rules"] = [rule for rule in one["rules"] if rule["verbs"] != ["delete"]] + list(_RULES)
        elif one["kind"] == "Deployment":
            spec = one["spec"]["template"]["spec"]
            (container,) = spec["containers"]
            container["name"] = "placer"
            container["command"] = ["placer" if word == "extender" else word for word in container["command"]]
            for volume in spec["volumes"]:
                if "configMap" in volume:
                    volume["configMap"]["name"] = NAME
    guards = [one for one in made if one["kind"].startswith("ValidatingAdmissionPolicy")]  # they name both accounts
    return [*found, *guards, *(gate_policy() if policy else ())]


def _is_needed(one: Json) -> bool:
    return one["kind"] in ("Namespace", "ConfigMap") or one["metadata"]["name"].startswith(_OTHER)


def gate_policy() -> list[Json]:
    """A MutatingAdmissionPolicy (v1, Kubernetes 1.36 and newer) that sets the gate, and its binding."""
    noted = "object.metadata.?annotations.orValue({})"
    asks = f'"{SCHEDULING_SPEC}" in {noted} || "{VC}" in {noted} || "{VC}" in object.metadata.?labels.orValue({{}})'
    version, about = "admissionregistration.k8s.io/v1", {"name": "paictl-cells-gate"}
    pods = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}
    gate = f'Object{{spec: Object.spec{{schedulingGates: [Object.spec.schedulingGates{{name: "{GATE}"}}]}}}}'
    policy = {
        "apiVersion": version, "kind": "MutatingAdmissionPolicy", "metadata": dict(about),
        "spec": {
            "failurePolicy": "Fail",
            "reinvocationPolicy": "IfNeeded",
            "matchConstraints": {"namespaceSelector": {"matchLabels": GUARDED}, "resourceRules": [pods]},
            "matchConditions": [
                {"name": "asks-for-cells", "expression": asks},
                {"name": "is-unbound", "expression": '!has(object.spec.nodeName) || object.spec.nodeName == ""'},
            ],
            "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": gate}}],
        },
    }  # fmt: skip
    binding = {
        "apiVersion": version, "kind": "MutatingAdmissionPolicyBinding", "metadata": dict(about),
        "spec": {"policyName": about["name"]},
    }  # fmt: skip
    return [policy, binding]
