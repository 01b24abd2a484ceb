"""Disruption budgets, and whether they allow several evictions together: the Eviction API answers for one pod only."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any
from urllib.parse import quote

from paictl.frozen import frozen
from paictl.remote.kube import pods
from paictl.remote.kube.client import Json, KubeClient

Pod = tuple[str, str, str]
"""Namespace, name, uid."""


@frozen
class Budget:
    """A PodDisruptionBudget as it stands."""

    name: str
    selector: Mapping[str, Any] | None
    allowed: int
    """Evictions of healthy pods that it would still take."""


def overdrawn(client: KubeClient, victims: Iterable[Pod]) -> dict[Pod, str]:
    """Pods that cannot all be evicted now, because a budget allows fewer than it covers of them, and why.

    Counted as the Eviction API counts: pods that are not ready, or have ended, or are ending, take nothing from a
    budget. What others evict at the same moment is not known.
    """
    spaces: dict[str, list[Pod]] = defaultdict(list)
    for pod in victims:
        spaces[pod[0]].append(pod)
    refusals: dict[Pod, str] = {}
    for namespace, members in spaces.items():
        scarce = [budget for budget in _budgets(client, namespace) if budget.allowed < len(members)]
        if scarce:
            refusals |= _of(client, scarce, members)
    return refusals


def _of(client: KubeClient, scarce: Sequence[Budget], members: Sequence[Pod]) -> dict[Pod, str]:
    """Those pods of one namespace that one of these budgets covers and does not allow."""
    now = [(pod, pods.get(client, pod[0], pod[1])) for pod in members]
    counted = [(pod, thing) for pod, thing in now if thing is not None and _counts(thing, pod[2])]
    refusals: dict[Pod, str] = {}
    for budget in scarce:
        covered = [pod for pod, thing in counted if selects(budget.selector, thing["metadata"].get("labels") or {})]
        if len(covered) > budget.allowed:
            why = f"the disruption budget {budget.name} allows {budget.allowed} of the {len(covered)} evictions needed"
            refusals |= dict.fromkeys(covered, why)
    return refusals


def _budgets(client: KubeClient, namespace: str) -> list[Budget]:
    """The budgets of a namespace; of thousands the first page, since its owner can make any number of them.

    Each eviction is still refused by those beyond it, one pod after the other.
    """
    path = f"/apis/policy/v1/namespaces/{quote(namespace, safe='')}/poddisruptionbudgets"
    return [
        Budget(
            str(item["metadata"]["name"]),
            (item.get("spec") or {}).get("selector"),
            int((item.get("status") or {}).get("disruptionsAllowed") or 0),
        )
        for _, page in islice(client.list(path), 1)
        for item in page
    ]


def _counts(pod: Json, uid: str) -> bool:
    """Whether evicting a pod takes from its budget."""
    about, status = pod["metadata"], pod.get("status") or {}
    if about.get("uid") != uid or about.get("deletionTimestamp") or status.get("phase") != "Running":
        return False
    return any(
        condition["type"] == "Ready" and condition["status"] == "True" for condition in status.get("conditions") or ()
    )


def selects(selector: Mapping[str, Any] | None, labels: Mapping[str, str]) -> bool:
    """Whether a label selector of ``policy/v1`` selects these labels: an empty one selects all, none at all nothing."""
    if selector is None:
        return False
    equal = all(labels.get(key) == value for key, value in (selector.get("matchLabels") or {}).items())
    return equal and all(_holds(expression, labels) for expression in selector.get("matchExpressions") or ())


def _holds(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    key, values = expression["key"], expression.get("values") or ()
    match expression["operator"]:
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
    return True  # an operator of the future: rather protect than part a gang
