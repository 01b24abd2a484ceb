"""What goes wrong in a lab, in both languages."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from paictl.errors import PaictlError

Pair = tuple[str, str]
"""A text in English and in Chinese."""


class LabError(PaictlError):
    """A failure that a student can act on; English until `in_language` says otherwise."""

    def __init__(self, message: Pair, hint: Pair, where: str | None = None) -> None:
        super().__init__(message[0], hint=hint[0], where=where)
        self._pairs = (message, hint)

    def in_language(self, language: str) -> PaictlError:
        """The same error for a reader of a language."""
        message, hint = (pair[language == "zh"] for pair in self._pairs)
        return PaictlError(message, hint=hint, where=self.where)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Say what the disk refuses, and that the student can go on when it does not any more."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise LabError(
            (f"cannot be written: {reason}", f"无法写入：{reason}"), _WAYS_ON.get(error.errno or 0, _ANY_WAY_ON),
            where=str(path),
        ) from None  # fmt: skip


_ANY_WAY_ON: Pair = (
    "free some space or permissions, then type the command again",
    "请释放空间或修正权限，然后再次输入该命令",
)
_NO_FOLDER: Pair = ("make the folder first, or take another", "请先创建该文件夹，或换一个")
_WAYS_ON = {
    errno.ENOENT: _NO_FOLDER,
    errno.ENOTDIR: _NO_FOLDER,
    errno.EISDIR: ("name a file in it", "请给出其中的文件名"),
}
