"""Names of ours in a Kubernetes cluster: the one place that says where our objects are and how they are told apart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from paictl.units import Millis

NAMESPACE: Final = "paictl-system"
"""Where the services run and the configuration is kept."""
JOBS_NAMESPACE: Final = "paictl-jobs"
"""Where the pods of jobs run."""

NAME: Final = "app.kubernetes.io/name"
PART_OF: Final = "app.kubernetes.io/part-of"
MANAGED_BY: Final = "app.kubernetes.io/managed-by"
VERSION: Final = "app.kubernetes.io/version"
OURS: Final = "paictl"
"""The value of `PART_OF` and `MANAGED_BY`."""

SERVICE: Final = "paictl.io/service"
"""Label: the service that an object belongs to; pruning looks for nothing else."""
INPUT_HASH: Final = "paictl.io/input-hash"
"""Annotation: the hash of all that the objects of a service were rendered from."""
JOB_KEY: Final = "paictl.io/key"
"""Annotation of a `PaiJob` and its pods: ``user~name``."""
MAX_RUN_TIME: Final = "paictl.io/max-run-time"
"""Annotation of the pods of jobs of ours: how long the job's attempt runs at most, as ``7200000ms``."""
KEEP: Final = "paictl.io/keep"
"""Annotation ``true``: the object holds data, which stop and delete leave alone unless they are told otherwise."""
LEADER: Final = "paictl.io/leader"
"""Label of the scheduler's pod that leads; its value is ``true``."""
ACCESS_ROLE: Final = "paictl.io/access-role"
"""Label of a binding that gives a person a role; its value is the role."""
FOR_JOBS: Final = "paictl.io/jobs"
"""Key of a taint that keeps a node for jobs: their pods tolerate it."""

API: Final = "rest-server"
"""The service that takes and stops jobs."""
CONTROLLER: Final = "frameworkcontroller"
"""The service that turns jobs into pods."""
SCHEDULER: Final = "hivedscheduler"
"""The service that places pods."""

GROUP: Final = "paictl.io"
"""API group of our custom resources."""
RBAC: Final = "/apis/rbac.authorization.k8s.io/v1"
"""The path of Kubernetes' API of roles and their bindings."""


def job_of(pod: Mapping[str, Any]) -> str:
    """The key of the job of ours that a pod belongs to, empty if there is none.

    Nobody else can make pods where jobs run; elsewhere anybody may have written the annotation.
    """
    about = pod["metadata"]
    return str((about.get("annotations") or {}).get(JOB_KEY, "")) if about.get("namespace") == JOBS_NAMESPACE else ""


def user_of(pod: Mapping[str, Any]) -> str:
    """Whose a pod is: the user of a job of ours, else its namespace."""
    return job_of(pod).partition("~")[0] or str(pod["metadata"].get("namespace") or "default")


ALLOWED: Final = 60
"""Seconds past its limit in which a pod makes no promised start late; most grace periods are shorter."""

_ENDLESS: Final = 10 * 366 * 86_400
"""Seconds from which a grace period is no limit: dates would overflow."""


def run_limit(pod: Mapping[str, Any]) -> Millis | None:
    """How long a pod runs at most for sure; None: nobody ends it.

    By the annotation for a pod of a job of ours, which the job controller ends; else by its own deadline, which its
    kubelet enforces, and a long grace period, which begins then. An annotation that a user wrote says nothing:
    maintenance and promised starts would trust a pod that runs on.
    """
    if job_of(pod):
        limit = str(pod["metadata"]["annotations"].get(MAX_RUN_TIME, ""))
        if limit.endswith("ms") and limit[:-2].isdecimal():
            return Millis(int(limit[:-2]))
    spec = pod.get("spec") or {}
    seconds, grace = spec.get("activeDeadlineSeconds"), spec.get("terminationGracePeriodSeconds")
    if not isinstance(seconds, int) or isinstance(seconds, bool):
        return None
    longer = max(0, grace - ALLOWED) if isinstance(grace, int) else 0
    return None if longer > _ENDLESS else Millis(1000 * (seconds + longer))


def access_binding(role: str, user: str) -> str:
    """The name of the binding that gives a person a role."""
    return f"paictl-access-{role}-{user}"


def labels(name: str, version: str = "") -> dict[str, str]:
    """The labels of an object of ours; with the version of paictl where one is given."""
    common = {NAME: name, PART_OF: OURS, MANAGED_BY: OURS}
    return {**common, VERSION: version} if version else common
