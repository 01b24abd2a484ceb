"""Container images of one layer with plain files, not compressed: they never leave this machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from tools.images import oci

_FOLDERS = ("dev", "etc", "proc", "run", "sys", "usr/local/bin", "var")
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
    tree = {name: oci.folder() for name in _FOLDERS} | {"tmp": oci.folder(0o1777)}
    tree |= {name.lstrip("/"): oci.link(leads) for name, leads in (links or {}).items()}
    tree |= {name.lstrip("/"): _entry(source) for name, source in files.items()}
    settings: oci.Json = {"Env": [_PATH], "Entrypoint": list(entrypoint) or None, "Cmd": list(command) or None}
    layer = oci.pack(tree, compressed=False)
    image = oci.Image(reference, "amd64", settings, ((target.stem, layer),))
    part = target.with_name(f".{target.name}.new")
    part.write_bytes(oci.archive(image))
    part.replace(target)


def _entry(source: Path) -> oci.Entry:
    if source.is_symlink():
        return oci.link(str(source.readlink()))
    return oci.file(source.read_bytes(), source.stat().st_mode & 0o777)
