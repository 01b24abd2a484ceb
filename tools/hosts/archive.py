"""Container images without a builder: one layer of plain files, as an archive that `ctr images import` takes."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

_FOLDERS = ("dev", "etc", "proc", "run", "sys", "tmp", "usr/local/bin", "var")
_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def write_image(
    target: Path,
    reference: str,
    files: Mapping[str, Path],
    *,
    links: Mapping[str, str] | None = None,
    entrypoint: Sequence[str] = (),
    command: Sequence[str] = (),
) -> None:
    """Write an image; the same content gives the same bytes.

    Args:
        target: the archive, written beside its name first.
        reference: name and tag of the image.
        files: absolute path in the image → file or symbolic link here; files are owned by root.
        links: absolute path in the image → where a symbolic link there leads.
        entrypoint: words before those of whoever runs it.
        command: words where none are given.
    """
    layer = _layer(files, links or {})
    config = _json({
        "architecture": "amd64",
        "os": "linux",
        "config": {"Env": [_PATH], "Entrypoint": list(entrypoint) or None, "Cmd": list(command) or None},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{_digest(layer)}"]},
    })  # fmt: skip
    names = (f"{_digest(config)}.json", f"{_digest(layer)}/layer.tar")
    manifest = _json([{"Config": names[0], "RepoTags": [reference], "Layers": [names[1]]}])
    part = target.with_name(f".{target.name}.new")
    with tarfile.open(part, "w") as archive:
        for name, data in ((names[0], config), (names[1], layer), ("manifest.json", manifest)):
            _add(archive, tarfile.TarInfo(name), data)
    part.replace(target)


def _layer(files: Mapping[str, Path], links: Mapping[str, str]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as layer:
        known: set[str] = set()
        for folder in _FOLDERS:
            _folders(layer, PurePosixPath(folder), known)
        for name, source in sorted(files.items()):
            path = PurePosixPath(name.lstrip("/"))
            _folders(layer, path.parent, known)
            if source.is_symlink():
                _link(layer, path, str(source.readlink()))
                continue
            entry = tarfile.TarInfo(str(path))
            entry.mode = source.stat().st_mode & 0o777
            _add(layer, entry, source.read_bytes())
        for name, leads in sorted(links.items()):
            path = PurePosixPath(name.lstrip("/"))
            _folders(layer, path.parent, known)
            _link(layer, path, leads)
    return buffer.getvalue()


def _folders(layer: tarfile.TarFile, path: PurePosixPath, known: set[str]) -> None:
    """A folder and those above it, each once; the layer has no links that lead elsewhere above a file."""
    if str(path) in known or str(path) == ".":
        return
    _folders(layer, path.parent, known)
    known.add(str(path))
    entry = tarfile.TarInfo(str(path))
    entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if str(path) == "tmp" else 0o755
    layer.addfile(entry)


def _link(layer: tarfile.TarFile, path: PurePosixPath, leads: str) -> None:
    entry = tarfile.TarInfo(str(path))
    entry.type, entry.linkname, entry.mode = tarfile.SYMTYPE, leads, 0o777
    layer.addfile(entry)


def _add(archive: tarfile.TarFile, entry: tarfile.TarInfo, data: bytes) -> None:
    entry.size = len(data)
    archive.addfile(entry, io.BytesIO(data))


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
