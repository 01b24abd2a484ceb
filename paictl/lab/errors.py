"""What goes wrong in a lab, as keys and arguments; English until it is asked for in another language."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from paictl.errors import PaictlError
from paictl.lab.messages import DEFAULT, Message


class LabError(PaictlError):
    """A failure that a student can act on.

    `key` names two texts of the catalogue: ``error.KEY`` says what is wrong, ``error.KEY.hint`` what to do next; both
    take the arguments in `values`.
    """

    def __init__(self, key: str, *, where: str | None = None, hint_key: str | None = None, **values: Any) -> None:
        self.said = Message(f"error.{key}", values)
        self.way_on = Message(f"error.{hint_key or key}.hint", values)
        super().__init__(self.said.text(DEFAULT), hint=self.way_on.text(DEFAULT), where=where)

    def in_language(self, language: str) -> PaictlError:
        """The same error for a reader of a language."""
        return PaictlError(self.said.text(language), hint=self.way_on.text(language), where=self.where)


_WAYS_ON: Final = {errno.ENOENT: "no-folder", errno.ENOTDIR: "no-folder", errno.EISDIR: "is-folder"}


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Say what the disk refuses, and that the student can go on when it does not any more."""
    try:
        yield
    except OSError as error:
        way_on = _WAYS_ON.get(error.errno or 0, "unwritable")
        raise LabError(
            "unwritable", hint_key=way_on, where=str(path), reason=error.strerror or str(error)
        ) from None  # fmt: skip
