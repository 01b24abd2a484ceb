"""The template libraries of a cluster on this machine: a file beside the cluster's, changed under a lock."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from paictl.cluster.embedded.store import TEMPLATES_FILE, explained
from paictl.cluster.templates import TemplateLibrary, library_from, library_named, library_text, with_library
from paictl.files import write_together

Libraries = tuple[TemplateLibrary, ...]


class EmbeddedTemplates:
    """The libraries of the cluster in a folder, a line each; none where there is no file yet."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self) -> Libraries:
        """All libraries by name."""
        path = self._folder / TEMPLATES_FILE
        with explained(self._folder, TEMPLATES_FILE):
            lines = path.read_text(encoding="utf-8").split("\n") if path.is_file() else ()
        return tuple(map(library_from, filter(None, lines)))

    def put(self, library: TemplateLibrary, *, new: bool) -> None:
        """Add a library, or replace the one of its name."""
        self._change(lambda libraries: with_library(libraries, library, new=new))

    def remove(self, name: str) -> None:
        """Remove a library."""

        def without(libraries: Libraries) -> Libraries:
            library_named(libraries, name)
            return tuple(library for library in libraries if library.name != name)

        self._change(without)

    def _change(self, change: Callable[[Libraries], Libraries]) -> None:
        """Change the libraries; one process at a time."""
        import fcntl  # only on POSIX, and reading needs it not

        with explained(self._folder, TEMPLATES_FILE):
            handle = os.open(self._folder / f"{TEMPLATES_FILE}.lock", os.O_CREAT | os.O_RDWR, 0o600)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX)
                written = "".join(f"{library_text(library)}\n" for library in change(self.read()))
                write_together(self._folder, {TEMPLATES_FILE: written}, force=True, mode=0o600)
            finally:
                os.close(handle)
