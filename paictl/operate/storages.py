"""Named storages: added, given to virtual clusters, removed when no job needs them; and what a job gets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from paictl.cluster.interface import ClusterError, Jobs, Scheduling, Stored
from paictl.cluster.jobpages import KeepsJobData
from paictl.cluster.storages import (
    EVERY_VC,
    NFS,
    SMB,
    Credentials,
    Mount,
    Storage,
    check,
    check_credentials,
    mounts_by_role,
    storage_named,
)
from paictl.errors import PaictlError
from paictl.i18n import listed, text
from paictl.operate.users.accounts import check_vcs
from paictl.workload.fields import Fields, JobError
from paictl.workload.mounts import mounts_of


class StoragePorts(Jobs, Scheduling, Stored, Protocol):
    """What storages need of a cluster."""


def add(cluster: StoragePorts, storage: Storage, credentials: Credentials | None = None) -> Storage:
    """Add a storage, with what opens it.

    Raises `ClusterError` for a virtual cluster that is not there and for what cannot be a storage.
    """
    check(storage)
    check_vcs(cluster, (vc for vc in storage.vcs if vc != EVERY_VC))
    if storage.kind == NFS and credentials is not None:
        raise PaictlError(text("NFS takes no username"), hint=text("leave it out, or give --smb"))
    if storage.kind == SMB and credentials is None:
        raise PaictlError(text("an SMB share needs a username"), hint=text("--username NAME --password-stdin"))
    if credentials is not None:
        check_credentials(credentials)
    cluster.add_storage(storage, credentials)
    return storage


def grant(cluster: StoragePorts, name: str, vcs: Sequence[str], revoke: Sequence[str]) -> Storage:
    """Change which virtual clusters may use a storage; raises `ClusterError` for one that is not there."""
    storage_named(cluster.storages(), name)
    check_vcs(cluster, (vc for vc in vcs if vc != EVERY_VC))
    return cluster.grant_storage(name, vcs, revoke)


def remove(cluster: StoragePorts, name: str) -> None:
    """Remove a storage; raises `ClusterError` while jobs that have not ended want it."""
    storage_named(cluster.storages(), name)
    users = list(jobs_with(cluster, name))
    if users:
        raise ClusterError(
            text("jobs that have not ended use storage {name!r}: {jobs}", name=name, jobs=listed(users, 5)),
            hint=text(
                "keep new ones away with paictl storage grant {name} --revoke VC, then remove it when they have ended",
                name=name,
            ),
        )
    cluster.remove_storage(name)


def jobs_with(cluster: StoragePorts, name: str) -> Iterable[str]:
    """The unfinished jobs that get a storage."""
    storages = cluster.storages()
    for job in cluster.jobs(ended=False):
        if any(mount.storage.name == name for mount in mounts_of_job(cluster, job.key, job.vc, storages)):
            yield job.key


def mounts_of_job(cluster: Jobs, key: str, vc: str, storages: Sequence[Storage] | None = None) -> tuple[Mount, ...]:
    """What the containers of a job get, all task roles together; nothing of a storage that it cannot have any more."""
    if not isinstance(cluster, KeepsJobData):
        return ()
    data = cluster.job_data(key)
    try:
        if not mounts_of(Fields(data, "")):
            return ()
        if storages is None:
            storages = cluster.storages() if isinstance(cluster, Stored) else ()
        present = storages
        roles = mounts_by_role(data, vc, lambda: present)
    except JobError:
        return ()
    return tuple(dict.fromkeys(mount for mounts in roles.values() for mount in mounts))
