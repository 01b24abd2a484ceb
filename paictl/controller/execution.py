"""What a decision asks of the API server; every step may be done twice, by two processes, or not at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final
from urllib.parse import quote

from paictl.cluster.kubernetes.names import JOBS_NAMESPACE, OURS, PART_OF
from paictl.cluster.kubernetes.paijob.names import API_VERSION, JOB, KIND, paijobs_path
from paictl.cluster.kubernetes.paijob.record import JobRecord, status_json
from paictl.cluster.kubernetes.paijob.resource import PaiJob, read_secret
from paictl.cluster.kubernetes.storages import read_storages
from paictl.cluster.storages import Mount, mounts_by_role
from paictl.controller import manifests, ssh
from paictl.controller.cache import WORKS
from paictl.controller.deciding import JobActions
from paictl.controller.manifests import JobContext
from paictl.errors import PaictlError
from paictl.remote.kube.client import MERGE, Json, KubeClient, KubeError
from paictl.remote.kube.objects import CONFLICT, NOT_FOUND, create, delete, find, path_of
from paictl.workload.fields import JobError

INVALID: Final = 422
NO_PORTS: Final = "allocate a nodePort"
"""What the API server says when none is left, as an internal error."""


class LaterError(PaictlError):
    """It cannot be done yet, or was overtaken: the job is looked at again."""


class RefusedError(PaictlError):
    """The API server will never take an object of this job: the job has failed."""


def write_record(client: KubeClient, pai: PaiJob, record: JobRecord) -> Json:
    """Write the status over the version that was read; raises `LaterError` if that is not the newest any more."""
    body = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": pai.name, "namespace": JOBS_NAMESPACE, "resourceVersion": pai.version, "uid": pai.uid},
        "status": status_json(record),
    }
    try:
        return client.request("PUT", paijobs_path(pai.name, "status"), body)
    except KubeError as error:
        if error.status in (CONFLICT, NOT_FOUND):
            raise LaterError(f"{pai.name} has changed meanwhile") from None
        raise


def secrets_of(client: KubeClient, context: JobContext) -> tuple[Mapping[str, Any], Mapping[str, str]]:
    """The values of the job's secrets, and passwords of its registries; the Secret is adopted, to go with the job.

    Raises `LaterError` while the Secret is not there, `RefusedError` for one that is not this job's.
    """
    if not context.pai.secret:
        return {}, {}
    path = path_of(JOBS_NAMESPACE, "secrets", context.pai.secret)
    secret = find(client, path)
    if secret is None:
        raise LaterError(f"Secret {context.pai.secret} of {context.pai.key} is not there")
    _refuse_foreign(secret["metadata"], context)
    if not secret["metadata"].get("ownerReferences"):
        client.request("PATCH", path, {"metadata": {"ownerReferences": context.owner}}, kind=MERGE)
    try:
        return read_secret(secret)
    except ValueError:
        raise RefusedError(f"Secret {context.pai.secret} does not hold the job's secrets") from None


def _refuse_foreign(about: Json, context: JobContext) -> None:
    """Raise `RefusedError` for a Secret of another job or of paictl itself: the job could print what is in it.

    One without owner and labels was made by hand, and becomes this job's.
    """
    owners = {owner.get("uid") for owner in about.get("ownerReferences") or ()}
    labels = about.get("labels") or {}
    ours = JOB in labels or labels.get(PART_OF) == OURS
    if (owners and context.pai.uid not in owners) or (ours and labels.get(JOB) != context.pai.name):
        raise RefusedError(f"Secret {context.pai.secret} does not belong to this job")


def execute(client: KubeClient, context: JobContext, attempt: int, actions: JobActions) -> int:
    """Whatever is wanted; how many requests that took. Raises `LaterError`, `RefusedError`, `KubeError`."""
    before = client.sent.total()
    for name in actions.suspend:
        _change(client, "PATCH", name, {"spec": {"suspend": True}}, MERGE)
    for name in actions.delete:
        _change(client, "DELETE", name, {"propagationPolicy": "Background"})
    roles = {role.name: role for role in context.job.roles}
    if actions.roles or actions.tasks:
        context = replace(context, mounts=_mounts(client, context))
    if actions.roles:
        _prepare(client, context, attempt)
        for name in actions.roles:
            _make(client, WORKS, manifests.work(context, roles[name], attempt), context)
    for name, index, again in actions.tasks:
        _make(client, WORKS, manifests.retry(context, roles[name], attempt, index, again), context)
    return client.sent.total() - before


def _mounts(client: KubeClient, context: JobContext) -> Mapping[str, Sequence[Mount]]:
    """The storages of a job's containers as they are now.

    Whoever submits by `paictl` was told what the job cannot have; a `PaiJob` made by hand with wrong plugins, and one
    whose storage was removed since, ends here. Raises `RefusedError`.
    """
    try:
        _ = context.access, context.board, context.options()
        return mounts_by_role(context.pai.data, context.pai.vc or None, lambda: read_storages(client))
    except JobError as error:
        raise RefusedError(str(error)) from None


def _prepare(client: KubeClient, context: JobContext, attempt: int) -> None:
    """What the pods of an attempt need: scripts, names, and the right to pull their images."""
    secrets, passwords = secrets_of(client, context)
    kind = path_of(JOBS_NAMESPACE, "secrets")
    _make(client, kind, manifests.scripts(context, attempt, secrets), context)
    pull = manifests.pull_secret(context, secrets, passwords)
    if pull is not None:
        _make(client, kind, pull, context)
    access = context.access
    if access is not None:
        name = path_of(JOBS_NAMESPACE, "secrets", ssh.secret_name(context.pai))
        if find(client, name) is None:
            _make(client, kind, manifests.ssh_secret(context, access), context)
        _open_ports(client, manifests.ssh_services(context, find(client, name) or {}), context)
    if len(context.job.roles) > 1 or context.job.roles[0].instances > 1:
        _make(client, path_of(JOBS_NAMESPACE, "services"), manifests.service(context), context)


def _open_ports(client: KubeClient, services: Sequence[Json], context: JobContext) -> None:
    """Give tasks ports on the nodes while there are any: jobs of others may have taken all, and nobody waits then."""
    for body in services:
        try:
            _make(client, path_of(JOBS_NAMESPACE, "services"), body, context)
        except KubeError as error:
            if NO_PORTS not in error.message:
                raise
            return


def release_ports(client: KubeClient, context: JobContext) -> None:
    """Give the ports on the nodes back: the job has ended, and its object stays for weeks."""
    try:
        ports = list(ssh.task_ports(context.job, context.options(), context.access))
    except JobError:
        return  # it never had any
    for task in ports:
        delete(client, path_of(JOBS_NAMESPACE, "services", ssh.service_name(context.pai, task)))


def _make(client: KubeClient, kind: str, body: Json, context: JobContext) -> None:
    """Make an object unless the job has it; raises `LaterError` if a job of the same name has left one behind."""
    name = str(body["metadata"]["name"])
    try:
        if create(client, kind, body) is not None:
            return
    except KubeError as error:
        if error.status == INVALID:
            raise RefusedError(error.message) from None
        raise
    existing = find(client, f"{kind}/{quote(name, safe='')}")
    owners = (existing or {}).get("metadata", {}).get("ownerReferences") or ()
    if context.pai.uid not in {owner.get("uid") for owner in owners}:
        raise LaterError(f"{name} belongs to another job of the same name, which is being deleted")


def _change(client: KubeClient, method: str, name: str, body: Json, kind: str = "application/json") -> None:
    """Change or delete a Job, unless it is gone."""
    try:
        client.request(method, f"{WORKS}/{quote(name, safe='')}", body, kind=kind)
    except KubeError as error:
        if error.status not in (NOT_FOUND, CONFLICT):
            raise
