"""The storages that a job wants mounted: ``extras.storages``, and the runtime's plugin `teamwise_storage`.

Which storages there are, and who may use them, the cluster knows (`cluster.storages`).
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from typing import Final

from paictl.frozen import frozen
from paictl.i18n import text
from paictl.workload.fields import Fields, JobError
from paictl.workload.plugins import STORAGE, plugins_of

STORAGES: Final = "storages"
"""Key of `extras`."""
FOLDER: Final = "/mnt"
"""Where OpenPAI mounts a storage whose path was not chosen, below its name."""
TAKEN: Final = ("/usr/local/pai", "/dev", "/proc", "/sys", "/etc")
"""Folders of the container in which nothing can be mounted, themselves included."""
_KEYS: Final = frozenset({"name", "mountPath", "readOnly", "share"})
_PARAMETERS: Final = frozenset({"storageConfigNames"})


@frozen
class StorageMount:
    """A storage that a job wants; `where` is the field that says so.

    An empty `name` stands for the default storages of the job's virtual cluster, an empty `path` for the storage's own.
    """

    name: str
    where: str
    path: str = ""
    read_only: bool = False
    own_folder: bool = False
    """Whether only the folder of the job's user is mounted."""
    roles: tuple[str, ...] = ()
    """The task roles that get it; none: all."""

    def is_for(self, role: str) -> bool:
        """Whether a task role gets it."""
        return not self.roles or role in self.roles


def mounts_of(job: Fields) -> tuple[StorageMount, ...]:
    """What a job wants mounted, in the order of the file; raises `JobError` for a wrong path or parameter."""
    return (*_storages(job.mapping("extras")), *_plugin(job))


def _storages(extras: Fields) -> Iterator[StorageMount]:
    if extras.get(STORAGES) is None:
        return
    items = extras.items(STORAGES)
    if not items:  # OpenPAI: an empty list mounts the user's default storages
        yield StorageMount("", extras.at(STORAGES))
    for i, item in enumerate(items):
        fields = Fields(item, f"{extras.at(STORAGES)}[{i}]", _KEYS)
        yield StorageMount(
            fields.text("name"),
            fields.at("name"),
            _path(fields),
            fields.flag("readOnly", default=False),
            not fields.flag("share", default=True),
        )


def _path(fields: Fields) -> str:
    path = fields.optional_text("mountPath")
    if path is None:
        return ""
    if problem := path_problem(path):
        raise fields.error("mountPath", problem, hint=text("for instance {path}", path=f"{FOLDER}/data"))
    return posixpath.normpath(path)


def path_problem(path: str) -> str:
    """Why nothing can be mounted at a path of a container; empty if it can."""
    if not path.startswith("/") or ":" in path or "\0" in path or ".." in path.split("/"):
        return text("{path!r} is not an absolute path", path=path)
    plain = posixpath.normpath("/" + path.lstrip("/"))
    if plain == "/" or any(plain == taken or plain.startswith(f"{taken}/") for taken in TAKEN):
        return text("nothing can be mounted at {path}", path=plain)
    return ""


def _plugin(job: Fields) -> Iterator[StorageMount]:
    for plugin in plugins_of(job):
        if plugin.name != STORAGE:
            continue
        parameters = plugin.parameters(_PARAMETERS)
        names = parameters.texts("storageConfigNames")
        for i, name in enumerate(names):
            where = f"{parameters.at('storageConfigNames')}[{i}]"
            if not name:
                raise JobError(where, text("expected the name of a storage"))
            yield StorageMount(name, where, roles=plugin.roles)
        if not names:
            yield StorageMount("", plugin.fields.at("plugin"), roles=plugin.roles)
