"""The named storages of a cluster: where each is, which virtual clusters may use it, and what a job gets mounted."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, field, replace
from typing import Any, Final

from paictl.cluster.values import ClusterError, ConflictError, JobRequest
from paictl.frozen import frozen
from paictl.i18n import did_you_mean, listed, text
from paictl.workload.fields import Fields, JobError
from paictl.workload.job import DEFAULT_VC
from paictl.workload.mounts import FOLDER, StorageMount, mounts_of, path_problem
from paictl.workload.plugins import refuse_unknown
from paictl.workload.ports import refuse_ports, tensorboard_of

NFS: Final = "nfs"
SMB: Final = "smb"
PVC: Final = "pvc"
KINDS: Final = (NFS, SMB, PVC)
EVERY_VC: Final = "*"
"""Among the virtual clusters of a storage: all of them."""

_NAME: Final = r"[a-z0-9]([a-z0-9-]{0,50}[a-z0-9])?"
_NFS: Final = r"(\[[0-9a-fA-F:]+\]|[A-Za-z0-9._-]+):(/[^\s:]*)"
_SMB: Final = r"//[A-Za-z0-9._-]+/[^\s/,][^,\n]*"
_CLAIM: Final = r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?"
_FORMS: Final = {
    NFS: (_NFS, "10.0.0.1:/data"),
    SMB: (_SMB, "//files.example/data"),
    PVC: (_CLAIM, "team-data"),
}
_OPTION: Final = r"[A-Za-z0-9_.:/=+-]+"
_SECRET_OPTIONS: Final = (
    "user",
    "username",
    "pass",
    "pass2",
    "passwd",
    "password",
    "password2",
    "cred",
    "credentials",
)
_NOT_IN_OPTIONS: Final = r"[,\x00-\x1f\x7f]"
"""What ends a mount option, or the line that it is on."""


@frozen
class Storage:
    """A storage: `address` is ``server:/path``, ``//server/share`` or the name of a claim, as `kind` says."""

    name: str
    kind: str
    address: str
    vcs: tuple[str, ...] = ()
    """Virtual clusters whose jobs may use it."""
    path: str = ""
    """Where it is mounted unless the job says it; empty: ``/mnt/NAME``."""
    read_only: bool = False
    own_folders: bool = False
    """Whether each user gets only the folder of its own name."""
    default: bool = False
    """Whether jobs get it that ask for the default storages."""
    options: tuple[str, ...] = ()
    """Options of mount."""

    @property
    def mount_path(self) -> str:
        """Where it is mounted in containers."""
        return self.path or f"{FOLDER}/{self.name}"

    @property
    def claim(self) -> str:
        """The PersistentVolumeClaim that pods name."""
        return self.address if self.kind == PVC else f"storage-{self.name}"

    def is_for(self, vc: str) -> bool:
        """Whether jobs of a virtual cluster may use it."""
        return EVERY_VC in self.vcs or vc in self.vcs


@frozen
class Credentials:
    """What opens a share of SMB; never in an argument, a log, or the list of storages."""

    username: str
    password: str = field(repr=False)
    domain: str = ""


@frozen
class Mount:
    """What a container gets."""

    storage: Storage
    path: str
    read_only: bool
    own_folder: bool

    def __str__(self) -> str:
        """One line for people."""
        kind = f"{self.storage.kind} {self.storage.address}"
        return f"{self.storage.name} at {self.path} ({kind}{', read-only' if self.read_only else ''})"


def check(storage: Storage) -> Storage:
    """The storage, if it can be one; raises `ClusterError` with what is wrong."""
    if not re.fullmatch(_NAME, storage.name):
        raise ClusterError(
            text("{name!r} is not a valid storage name", name=storage.name),
            hint=text("use up to 52 lowercase letters, digits and -"),
        )
    form, example = _FORMS[storage.kind]
    if not re.fullmatch(form, storage.address) or ".." in storage.address.split("/"):
        raise ClusterError(
            text("{address!r} is not an address of kind {kind}", address=storage.address, kind=storage.kind),
            hint=text("for instance {example}", example=example),
        )
    if storage.path and (problem := path_problem(storage.path)):
        raise ClusterError(problem, hint=text("for instance {example}", example=f"{FOLDER}/{storage.name}"))
    for option in storage.options:
        if not re.fullmatch(_OPTION, option) or option.partition("=")[0].lower() in _SECRET_OPTIONS:
            raise ClusterError(
                text("{option!r} cannot be a mount option here", option=option.partition("=")[0]),
                hint=text("write KEY or KEY=VALUE; a user and password go in --username and --password-stdin"),
            )
    return storage


def check_credentials(credentials: Credentials) -> Credentials:
    """The credentials, if a share can be opened by them; raises `ClusterError`, which never has the password.

    csi-driver-smb strips all three of them, and makes options of mount out of them (`NodeStageVolume`,
    pkg/smb/nodeserver.go): a comma would begin another option, and what is stripped opens nothing.
    """
    parts = {
        text("user name"): credentials.username,
        text("password"): credentials.password,
        text("domain"): credentials.domain,
    }
    for what, part in parts.items():
        if part != part.strip() or re.search(_NOT_IN_OPTIONS, part):
            raise ClusterError(
                text(
                    "the SMB driver cannot pass on this {what}: it has a comma, a control character, or a space at "
                    "an end",
                    what=what,
                ),
                hint=text("use another account, or change it on the file server"),
            )
    if not credentials.username:
        raise ClusterError(text("an SMB share needs a username"), hint=text("--username NAME --password-stdin"))
    return credentials


# --- the list of storages, as a cluster keeps it


def storages_text(storages: Iterable[Storage]) -> str:
    """Storages as JSON, by name."""
    return json.dumps([asdict(storage) for storage in sorted(storages, key=lambda storage: storage.name)], indent=1)


def storages_from(content: str) -> tuple[Storage, ...]:
    """The inverse of `storages_text`; raises `ClusterError` for a text that somebody has damaged."""
    try:
        rows: list[Mapping[str, Any]] = json.loads(content or "[]")
        storages = [Storage(**{**row, "vcs": tuple(row["vcs"]), "options": tuple(row["options"])}) for row in rows]
        return tuple(check(storage) for storage in storages)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ClusterError(
            text("the list of storages is corrupt: {error}", error=str(error)),
            hint=text("repair it, or delete it and add the storages again"),
        ) from None


def added(storages: Sequence[Storage], storage: Storage) -> tuple[Storage, ...]:
    """With another storage; raises `ClusterError` for one that cannot be, `ConflictError` for a name that is taken."""
    if any(known.name == storage.name for known in storages):
        raise ConflictError(
            text("storage {name!r} already exists", name=storage.name),
            hint=text("choose another name, or change who may use it: paictl storage grant {name}", name=storage.name),
        )
    return (*storages, check(storage))


def granted(storages: Sequence[Storage], name: str, add: Iterable[str], revoke: Iterable[str]) -> tuple[Storage, ...]:
    """With other virtual clusters that may use a storage; raises `ClusterError` if there is none of that name."""
    known = storage_named(storages, name)
    revoked = set(revoke)
    vcs = tuple(vc for vc in dict.fromkeys((*known.vcs, *add)) if vc not in revoked)
    return tuple(replace(storage, vcs=vcs) if storage is known else storage for storage in storages)


def without(storages: Sequence[Storage], name: str) -> tuple[Storage, ...]:
    """Without a storage; raises `ClusterError` if there is none of that name."""
    known = storage_named(storages, name)
    return tuple(storage for storage in storages if storage is not known)


def storage_named(storages: Sequence[Storage], name: str) -> Storage:
    """The storage of a name; raises `ClusterError` with what comes near if there is none."""
    for storage in storages:
        if storage.name == name:
            return storage
    hint = did_you_mean(name, [storage.name for storage in storages]) or text("list them with: paictl storage list")
    raise ClusterError(text("no storage {name!r}", name=name), hint=hint)


# --- what a job gets


def mounts_for(wishes: Iterable[StorageMount], vc: str, storages: Sequence[Storage], role: str) -> tuple[Mount, ...]:
    """What the containers of a task role get.

    Raises `JobError` naming the field for a storage that is not there or not for the virtual cluster, and for two at
    the same path.
    """
    mounts: dict[str, Mount] = {}
    for wish in wishes:
        if not wish.is_for(role):
            continue
        for storage in _meant(wish, vc, storages):
            mount = Mount(
                storage,
                wish.path or storage.mount_path,
                wish.read_only or storage.read_only,
                wish.own_folder or storage.own_folders,
            )
            other = mounts.setdefault(mount.path, mount)
            if other.storage != storage:
                raise JobError(
                    wish.where,
                    text(
                        "storages {one} and {other} would both be mounted at {path}",
                        one=other.storage.name,
                        other=storage.name,
                        path=mount.path,
                    ),
                    hint=text("give one of them another mountPath in extras.storages"),
                )
    return tuple(mounts.values())


def _meant(mount: StorageMount, vc: str, storages: Sequence[Storage]) -> Sequence[Storage]:
    usable = {storage.name: storage for storage in storages if storage.is_for(vc)}
    if not mount.name:
        return [storage for storage in usable.values() if storage.default]
    if mount.name in usable:
        return [usable[mount.name]]
    # The same answer whether or not there is one of that name: a user must not learn what other tenants have.
    if usable:
        hint = text(
            "virtual cluster {vc} may use: {names}; an administrator grants others: paictl storage grant NAME "
            "--vc {vc}",
            vc=vc,
            names=listed(sorted(usable)),
        )
    else:
        hint = text(
            "an administrator adds storages (paictl storage add) and grants them: paictl storage grant NAME --vc {vc}",
            vc=vc,
        )
    raise JobError(
        mount.where,
        text("virtual cluster {vc} has no storage {name!r}", vc=vc, name=mount.name),
        hint=did_you_mean(mount.name, usable) or hint,
    )


def mounts_by_role(
    data: Mapping[str, object], vc: str | None, read: Callable[[], Sequence[Storage]]
) -> dict[str, tuple[Mount, ...]]:
    """What the containers of each task role of a job get; `read` is asked for the storages only if it wants some."""
    fields = Fields(data, "")
    wishes = mounts_of(fields)
    if not wishes:
        return {}
    storages = read()
    of = vc or fields.mapping("defaults").text("virtualCluster", DEFAULT_VC)
    return {str(role): mounts_for(wishes, of, storages, str(role)) for role in fields.mapping("taskRoles").values}


def refuse_extras(requests: Iterable[JobRequest], read: Callable[[], Sequence[Storage]]) -> None:
    """Raise `JobError` for what a job cannot have that no scheduler hears of.

    That are a plugin that nobody knows or that cannot start, a storage, and too many ports.
    """
    for number, request in enumerate(requests):
        try:
            refuse_unknown(Fields(request.data, ""))
            tensorboard_of(Fields(request.data, ""))
            refuse_ports(Fields(request.data, ""))
            mounts_by_role(request.data, request.vc, read)
        except JobError as error:
            error.request = number
            raise
