"""A `PaiJob` as JSON and back: what its user asked for, what became of it, and the values of its secrets."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Final

from paictl.cluster.admission import with_wishes
from paictl.cluster.kubernetes.names import JOBS_NAMESPACE
from paictl.cluster.kubernetes.paijob.names import (
    API_VERSION,
    KEY,
    KIND,
    TAGS,
    USER,
    labels_of,
    object_name,
    user_label,
)
from paictl.cluster.kubernetes.paijob.record import JobRecord, read_record
from paictl.cluster.pods.times import read_time
from paictl.cluster.values import JobRequest
from paictl.frozen import frozen_caching
from paictl.units import Millis
from paictl.workload.job import Job
from paictl.workload.tags import known as known_tags
from paictl.workload.tags import tags_of

Json = dict[str, Any]
_NEVER = datetime(1970, 1, 1, tzinfo=UTC)


@frozen_caching
class PaiJob:
    """One object; `version` is its resourceVersion."""

    name: str
    uid: str
    version: str
    key: str
    user: str
    vc: str
    priority: str
    data: Mapping[str, Any]
    """Protocol v2 as submitted, secrets masked."""
    submitted: datetime
    order: str
    """Where it stands among those that were submitted in the same second."""
    duration: Millis | None
    secret: str
    """Name of the Secret with the values of its secrets, empty if it has none."""
    stopped: bool
    deleting: bool
    record: JobRecord | None
    ssh_keys: tuple[str, ...] = ()
    """Public keys of the user's account when the job was submitted, if its tasks let them in."""
    tags: tuple[str, ...] = ()
    """By what people find it again, as they are now."""
    damaged: bool = False
    """Whether its status cannot be read: somebody has written into it, or a newer paictl."""

    @cached_property
    def job(self) -> Job:
        """What is to be run, secrets masked; raises `JobError` for an object that was written by hand and wrongly."""
        return with_wishes(Job.from_mapping(self.data), self.vc, self.priority)

    @property
    def asked(self) -> int:
        """Devices that all tasks ask for together by what their user wrote; the scheduler may round up."""
        if self.record is not None and self.record.devices:
            return self.record.devices
        return sum(number * gpu for number, gpu in self._roles())

    @property
    def tasks(self) -> int:
        """How many tasks it has."""
        return sum(number for number, _ in self._roles())

    @property
    def sizes(self) -> list[int]:
        """Devices of a pod of each role, as `asked` counts them."""
        if self.record is not None and self.record.scheduling:
            counts = (spec.get("leafCellNumber") for spec in self.record.scheduling.values())
            return [size for size in counts if isinstance(size, int)]
        return [gpu for _, gpu in self._roles()]

    def _roles(self) -> list[tuple[int, int]]:
        roles = self.data.get("taskRoles")
        return list(map(_devices, roles.values())) if isinstance(roles, Mapping) else []


def _devices(role: object) -> tuple[int, int]:
    """Tasks of a role, and devices of each."""
    if not isinstance(role, Mapping):
        return 0, 0
    asked = role.get("resourcePerInstance")
    gpu = asked.get("gpu") if isinstance(asked, Mapping) else 0
    number = role.get("instances", 1)
    return (number, gpu) if isinstance(gpu, int) and isinstance(number, int) else (0, 0)


def manifest_of(request: JobRequest, job: Job, now: datetime, secret: str = "") -> Json:
    """The object to be made; `request` without the values of its secrets, `job` as its user wishes it."""
    key = f"{request.user}~{job.name}"
    name = object_name(key)
    spec: Json = {
        "user": request.user,
        "virtualCluster": job.vc,
        "priority": job.priority_class,
        "submitted": now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "job": dict(request.data),
    }
    if request.duration is not None:
        spec["duration"] = int(request.duration)
    if secret:
        spec["secretName"] = secret
    if request.ssh_keys:
        spec["sshKeys"] = list(request.ssh_keys)
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {
            "name": name,
            "namespace": JOBS_NAMESPACE,
            "annotations": {KEY: key},
            "labels": {**labels_of(name), USER: user_label(request.user)},
        },
        "spec": spec,
    }


def read_paijob(body: Mapping[str, Any]) -> PaiJob:
    """The inverse, as a server gives it back; tolerant of what somebody has left out who made it by hand."""
    about, spec, status = body["metadata"], body.get("spec") or {}, body.get("status") or {}
    data = spec.get("job")
    data = data if isinstance(data, Mapping) else {}
    user = str(spec.get("user") or "")
    record, damaged = None, False
    try:
        record = read_record(status)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError):
        damaged = True
    duration = spec.get("duration")
    return PaiJob(
        name=str(about["name"]),
        uid=str(about.get("uid", "")),
        version=str(about.get("resourceVersion", "")),
        key=f"{user}~{data.get('name', '')}",
        user=user,
        vc=str(spec.get("virtualCluster") or ""),
        priority=str(spec.get("priority") or ""),
        data=data,
        submitted=read_time(about.get("creationTimestamp")) or _NEVER,
        order=f"{spec.get('submitted', '')}/{about['name']}",
        duration=Millis(int(duration)) if isinstance(duration, int) else None,
        secret=str(spec.get("secretName") or ""),
        stopped=bool(spec.get("stopped")),
        deleting=bool(about.get("deletionTimestamp")),
        record=record,
        ssh_keys=tuple(map(str, spec.get("sshKeys") or ())),
        tags=_tags(about.get("annotations") or {}, data.get("extras")),
        damaged=damaged,
    )


def _tags(noted: Mapping[str, Any], extras: object) -> tuple[str, ...]:
    """The tags of a job: what was changed since is in an annotation, because its spec never changes."""
    if TAGS in noted:
        return known_tags(str(noted[TAGS]).split(","))
    return tags_of(extras) if isinstance(extras, Mapping) else ()


WHOLE: Final = "secrets.json"
"""The key that holds all of them; a Secret made by hand may have a key each instead."""
PASSWORDS: Final = "passwords.json"
"""Passwords of registries that were written into the job itself, by the name of the prerequisite."""


def values_of(data: Mapping[str, object]) -> dict[str, Any]:
    """What of a job must not be in its `PaiJob`: by key of the Secret; empty if nothing."""
    secrets = data.get("secrets")
    values: dict[str, Any] = {WHOLE: dict(secrets)} if isinstance(secrets, Mapping) and secrets else {}
    passwords = dict(_passwords(data))
    return {**values, PASSWORDS: passwords} if passwords else values


def _passwords(data: Mapping[str, object]) -> list[tuple[str, str]]:
    images = data.get("prerequisites")
    passwords = []
    for image in images if isinstance(images, list) else ():
        auth = image.get("auth") if isinstance(image, Mapping) else None
        word = auth.get("password") if isinstance(auth, Mapping) else None
        if isinstance(word, str) and not word.lstrip().startswith("<%"):
            passwords.append((str(image.get("name")), word))
    return passwords


def secret_of(name: str, values: Mapping[str, Any], about: Json) -> Json:
    """A Secret with these values."""
    data = {key: base64.b64encode(json.dumps(value).encode()).decode() for key, value in values.items()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {**about, "name": name}, "data": data}


def read_secret(secret: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """The secrets and the passwords of a Secret; raises `ValueError` for one that nobody of ours has written."""
    texts = {key: base64.b64decode(value).decode() for key, value in (secret.get("data") or {}).items()}
    whole, passwords = json.loads(texts.pop(WHOLE, "{}")), json.loads(texts.pop(PASSWORDS, "{}"))
    if not isinstance(whole, dict) or not isinstance(passwords, dict):
        raise ValueError(WHOLE)
    return {**texts, **whole}, passwords
