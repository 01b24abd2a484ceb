"""The named storages of a cluster on this machine: a file beside the cluster's, changed under a lock."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from paictl.cluster.embedded.store import STORAGES_FILE, explained
from paictl.cluster.storages import Storage, added, granted, storage_named, storages_from, storages_text, without
from paictl.files import write_together


class EmbeddedStorages:
    """The storages of the cluster in a folder; none where there is no file yet."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self) -> tuple[Storage, ...]:
        """All storages by name."""
        path = self._folder / STORAGES_FILE
        with explained(self._folder, STORAGES_FILE):
            return storages_from(path.read_text(encoding="utf-8")) if path.is_file() else ()

    def add(self, storage: Storage) -> None:
        """Add a storage."""
        self._changed(lambda storages: added(storages, storage))

    def grant(self, name: str, add: Sequence[str], revoke: Sequence[str]) -> Storage:
        """Change which virtual clusters may use a storage."""
        return storage_named(self._changed(lambda storages: granted(storages, name, add, revoke)), name)

    def remove(self, name: str) -> None:
        """Remove a storage."""
        self._changed(lambda storages: without(storages, name))

    def _changed(self, change: Callable[[Sequence[Storage]], tuple[Storage, ...]]) -> tuple[Storage, ...]:
        """Storages after a change; one process at a time."""
        import fcntl  # only on POSIX, and reading needs it not

        with explained(self._folder, STORAGES_FILE):
            handle = os.open(self._folder / f"{STORAGES_FILE}.lock", os.O_CREAT | os.O_RDWR, 0o600)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX)
                after = change(self.read())
                write_together(self._folder, {STORAGES_FILE: storages_text(after)}, force=True, mode=0o600)
                return after
            finally:
                os.close(handle)
