"""Reads a trace from a file, a compressed file, a file inside an archive, or one of our own small traces."""

from __future__ import annotations

import gzip
import hashlib
import io
import lzma
import posixpath
import tarfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO, Final

from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.i18n import did_you_mean, listed, text
from paictl.resources import resource_folder

_ARCHIVES: Final = (".tar.gz", ".tgz", ".tar", ".tar.xz")
_NOT_TRACES: Final = ("license", "readme", ".md", ".py.txt")
_SUFFIXES: Final = (".csv",)
_PACKERS: Final[Mapping[bytes, Callable[[BinaryIO], BinaryIO]]] = {b"\x1f\x8b": gzip.open, b"\xfd7zXZ\x00": lzma.open}  # type: ignore[dict-item]


class TraceError(PaictlError, ValueError):
    """A trace that cannot be read or played; `where` names the file, or the line of it, at fault."""


@frozen
class TraceFile:
    """A file with its bytes."""

    name: str
    """As requested, for messages; inside an archive ``archive.tar.gz/inner/file.csv``."""
    data: bytes

    @property
    def sha256(self) -> str:
        """Of the bytes after decompression, so that a trace and its compressed copy are the same trace."""
        return hashlib.sha256(self.data).hexdigest()

    def text(self) -> str:
        """The content; raises `TraceError` if it is not valid UTF-8."""
        try:
            return self.data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = self.data.count(b"\n", 0, error.start) + 1
            raise TraceError(
                "is not valid UTF-8", where=f"{self.name}:{line}", hint="paictl sim traces lists the formats"
            ) from None

    def sibling(self, path: str) -> TraceFile | None:
        """The file at a path relative to this one's folder, in the same archive; None if it is not there."""
        try:
            return source(posixpath.normpath(posixpath.join(posixpath.dirname(self.name), path)))
        except TraceError:
            return None


def source(name: str) -> TraceFile:
    """Read the file that a name stands for; raises `TraceError` if it does not exist or cannot be read.

    A name is the path of a file (``.gz`` and ``.xz`` are unpacked), a path into an archive
    (``x.tar.gz/inner/file.csv`` or ``x.tar.gz:file.csv``, archives in archives too), or one of `packaged`.
    """
    try:
        if Path(name).is_file():
            return _file(name)
        if inside := _split(name):
            return _member(*inside)
        packaged_file = packaged().get(name)
        if packaged_file is not None:
            return TraceFile(name, packaged_file.read_bytes())
        if Path(name).is_dir():
            raise TraceError("is a folder, not a trace", where=name, hint="name one of its files")
    except OSError as error:
        raise TraceError(
            text("cannot read: {reason}", reason=error.strerror or error), where=name, hint="check the path"
        ) from None
    near = did_you_mean(name, packaged())
    raise TraceError(
        "no such file",
        where=name,
        hint=near or text("give a file, or a bundled trace: {names}", names=listed(packaged())),
    )


def packaged() -> dict[str, Path]:
    """The small traces that come with paictl, by name; they are our own and free to use."""
    folder = resource_folder("traces")
    return {path.stem: path for path in sorted(folder.iterdir()) if path.suffix in _SUFFIXES}


def members(name: str) -> list[str]:
    """The files of an archive that may be traces."""
    return [inner for inner in _index(_load(name), name) if not any(word in inner.lower() for word in _NOT_TRACES)]


def _file(name: str) -> TraceFile:
    if name.endswith(_ARCHIVES):
        inner = members(name)
        raise TraceError(
            text("is an archive of {count} files", count=len(inner)),
            where=name,
            hint=text(
                "choose one, for example {name}/{inner}; it contains: {names}",
                name=name,
                inner=inner[0],
                names=listed(inner, 7),
            )
            if inner
            else "it holds no trace",
        )
    return TraceFile(name, _unpacked(Path(name).read_bytes(), name))


def _split(name: str) -> tuple[str, str] | None:
    """An existing archive and the path inside it; None if the name contains none."""
    for suffix in _ARCHIVES:
        for mark in ("/", ":"):
            outer, separator, inner = name.partition(suffix + mark)
            if separator and Path(outer + suffix).is_file():
                return outer + suffix, inner
    return None


def _member(archive: str, inner: str) -> TraceFile:
    """A file of an archive: by its path, or by the end of the path if that is unambiguous."""
    shown, data = archive, _load(archive)
    while True:
        head, rest = _cut(inner)
        index = _index(data, shown)
        name = _find_member(head, index, shown)
        shown, data = f"{shown}/{name}", index[name]
        if rest is None:
            return TraceFile(shown, _unpacked(data, shown))
        inner = rest


def _cut(inner: str) -> tuple[str, str | None]:
    """The first archive in a path and the rest after it; the whole path and None if there is none."""
    for suffix in _ARCHIVES:
        for mark in ("/", ":"):
            outer, separator, rest = inner.partition(suffix + mark)
            if separator:
                return outer + suffix, rest
    return inner, None


def _find_member(path: str, index: dict[str, bytes], archive: str) -> str:
    path = path.removeprefix("./")
    if path in index:
        return path
    ending = [name for name in index if name.endswith("/" + path)]
    if len(ending) == 1:
        return ending[0]
    if ending:
        raise TraceError(
            text("{wanted!r} is there {count} times", wanted=path, count=len(ending)),
            where=archive,
            hint=text("one of: {names}", names=listed(ending)),
        )
    raise TraceError(
        text("holds no {wanted!r}", wanted=path), where=archive, hint=text("it holds: {names}", names=listed(index))
    )


@lru_cache(maxsize=2)
def _load(archive: str) -> bytes:
    return Path(archive).read_bytes()


@lru_cache(maxsize=4)
def _index(data: bytes, shown: str) -> dict[str, bytes]:
    """The files of an archive by path, in its order."""
    try:
        return dict(_files(data, shown))
    except (tarfile.TarError, OSError, zlib.error, lzma.LZMAError, EOFError) as error:
        raise TraceError(
            text("is not an archive: {reason}", reason=error), where=shown, hint="pack it with tar czf"
        ) from None


def _files(data: bytes, shown: str) -> Iterator[tuple[str, bytes]]:
    budget = _most(data)
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        for member in tar:
            if member.isfile() and (stream := tar.extractfile(member)) is not None:
                budget -= member.size
                name = member.name.removeprefix("./")
                if budget < 0:
                    raise _bomb(f"{shown}/{name}")
                unpacked = stream.read()
                _refuse_bomb(unpacked, data, f"{shown}/{name}")
                yield name, unpacked


def _unpacked(data: bytes, name: str) -> bytes:
    opener = next((opens for magic, opens in _PACKERS.items() if data.startswith(magic)), None)
    if opener is None:
        return data
    try:
        with opener(io.BytesIO(data)) as stream:
            unpacked: bytes = stream.read(_most(data) + 1)
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise TraceError(
            text("cannot be unpacked: {reason}", reason=error),
            where=name,
            hint="copy it again; it is truncated or corrupt",
        ) from None
    _refuse_bomb(unpacked, data, name)
    return unpacked


def _most(packed: bytes) -> int:
    """Bytes to which packed data may unpack at most."""
    return 16 * 2**20 + 60 * len(packed)


def _refuse_bomb(unpacked: bytes, packed: bytes, name: str) -> None:
    """Raise `TraceError` for more data than a trace can unpack to: however it is packed, a line takes some bytes."""
    if len(unpacked) > _most(packed) or unpacked.count(b"\n") > 100_000 + len(packed):
        raise _bomb(name)


def _bomb(name: str) -> TraceError:
    return TraceError(
        "unpacks to far more data than a trace of its size can have",
        where=name,
        hint="if it really is a trace, unpack it yourself",
    )
