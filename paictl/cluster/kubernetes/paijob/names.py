"""Names of everything that belongs to a job: deterministic, so that whoever makes an object twice makes it once."""

from __future__ import annotations

import hashlib
import re
from typing import Final
from urllib.parse import quote

from paictl.cluster.kubernetes.names import GROUP, JOB_KEY, JOBS_NAMESPACE, MANAGED_BY, NAME, OURS, PART_OF

VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
KIND: Final = "PaiJob"
PLURAL: Final = "paijobs"

JOB: Final = f"{GROUP}/job"
"""Label of all that belongs to a job: the name of its `PaiJob`."""
KEY: Final = JOB_KEY
OWNER: Final = f"{GROUP}/job-uid"
"""Annotation of Jobs and pods: the uid of the `PaiJob`, since another of the same name may have come before."""
USER: Final = f"{GROUP}/user"
"""Label of a `PaiJob`: hash of the user's name, which may have characters that no label can."""
TAGS: Final = f"{GROUP}/tags"
"""Annotation of a `PaiJob`: its tags as they are now, commas between them; without it those of the job file."""
ATTEMPT: Final = f"{GROUP}/attempt"
"""Label of Jobs and pods: the job's attempt, from 0."""
ROLE: Final = f"{GROUP}/role"
"""Annotation of Jobs and pods: the task role."""
TASK: Final = f"{GROUP}/task"
"""Annotation of the Jobs of a single task and of their pods: its index."""
RETRY: Final = f"{GROUP}/retry"
"""Annotation beside `TASK`: how often the task had been tried in this attempt before."""
DURATION: Final = f"{GROUP}/duration"
"""Annotation of pods: how long the task would run if its node were imagined (kwok); real nodes do not look at it."""

SSH_HOST_KEY: Final = f"{GROUP}/ssh-host-key"
"""Annotation of the Services for SSH: the public key of the servers, by which clients know them."""

SCRIPTS: Final = "scripts"
PULL: Final = "pull"

_SLUG: Final = 20
_LABEL: Final = 10


def object_name(key: str) -> str:
    """The name of the `PaiJob` of a job: what of its key may stand in a DNS label, and a hash of all of it."""
    user, _, name = key.partition("~")
    slug = re.sub(r"[^a-z0-9]+", "-", f"{user}-{name}".lower()).strip("-")[:_SLUG].strip("-")
    slug = slug if slug[:1].isalpha() else f"j{slug}"
    return f"{slug}-{hashlib.sha256(key.encode()).hexdigest()[:8]}"


def user_label(user: str) -> str:
    """The value of the label `USER`."""
    return hashlib.sha256(user.encode()).hexdigest()[:16]


def role_label(role: str) -> str:
    """What stands for a task role in names: different for each role of a job, as `workload.pods` has made sure."""
    label = re.sub(r"[^a-z0-9]", "", role.lower())
    return label if len(label) <= _LABEL else f"{label[:5]}{hashlib.sha256(label.encode()).hexdigest()[:5]}"


def work_name(job: str, role: str, attempt: int) -> str:
    """The Indexed Job that runs a task role in an attempt of a job (by the name of its `PaiJob`)."""
    return f"{job}-{role_label(role)}-{attempt}"


def retry_name(job: str, role: str, attempt: int, index: int, retry: int) -> str:
    """The Job that runs a task once more where its role's Indexed Job does not."""
    return f"{work_name(job, role, attempt)}-{index}r{retry}"


def ssh_name(job: str, role: str, index: int) -> str:
    """The Service that gives a task a port for SSH on every node."""
    return f"{job}-{role_label(role)}-ssh-{index}"


def labels_of(job: str, attempt: int | None = None) -> dict[str, str]:
    """The labels of an object that belongs to a job."""
    common = {NAME: "job", PART_OF: OURS, MANAGED_BY: OURS, JOB: job}
    return common if attempt is None else {**common, ATTEMPT: str(attempt)}


SELECTOR: Final = f"{NAME}=job,{PART_OF}={OURS}"
"""What Jobs and pods of ours are found by."""


def paijobs_path(name: str = "", part: str = "", namespace: str = JOBS_NAMESPACE) -> str:
    """The path of the `PaiJob`s, or of one of them, or of a subresource (``status``) of it."""
    path = f"/apis/{API_VERSION}/namespaces/{quote(namespace, safe='')}/{PLURAL}"
    path = f"{path}/{quote(name, safe='')}" if name else path
    return f"{path}/{part}" if part else path
