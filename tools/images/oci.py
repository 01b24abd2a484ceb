"""Container images as files: a tree of entries becomes a layer, layers an OCI archive. Same entries, same digest.

Source: OCI image specification 1.1 (image layout, manifest, configuration). The archive also carries the
``manifest.json`` of ``docker save``, so that docker, podman, ctr, skopeo and crane can all read it.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import stat
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

Json = dict[str, Any]

MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
CONFIG: Final = "application/vnd.oci.image.config.v1+json"
LAYER: Final = "application/vnd.oci.image.layer.v1.tar+gzip"
PLAIN_LAYER: Final = "application/vnd.oci.image.layer.v1.tar"
INDEX: Final = "application/vnd.oci.image.index.v1+json"
LEVEL: Final = 6
"""Of gzip: 9 takes three times as long for 1 % less."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A file, folder or symbolic link of an image; all belongs to root and nothing has a date."""

    mode: int
    """File type and permissions, as ``stat`` has them."""
    data: bytes = b""
    """Content of a file, UTF-8 target of a link."""


Tree = dict[str, Entry]
"""Entries by path without a leading slash."""


def file(data: bytes | str, mode: int = 0o644) -> Entry:
    """A file."""
    return Entry(stat.S_IFREG | mode, data if isinstance(data, bytes) else data.encode())


def folder(mode: int = 0o755) -> Entry:
    """A folder."""
    return Entry(stat.S_IFDIR | mode)


def link(target: str) -> Entry:
    """A symbolic link."""
    return Entry(stat.S_IFLNK | 0o777, target.encode())


@dataclass(frozen=True, slots=True)
class Layer:
    """A tar archive, compressed or not, and the two digests that an image names it by."""

    blob: bytes
    diff_id: str
    """``sha256:`` of the archive before compression."""
    media_type: str = LAYER

    @property
    def digest(self) -> str:
        """``sha256:`` of the blob."""
        return digest_of(self.blob)


@dataclass(frozen=True, slots=True)
class Image:
    """What an archive is made of."""

    name: str
    """Full reference, such as ``localhost/paictl:0.1.0``."""
    architecture: str
    settings: Json
    """``config`` of the image configuration: User, Entrypoint, Env, Labels, ..."""
    layers: tuple[tuple[str, Layer], ...]
    """What each layer is, for ``history``, and the layer."""


def digest_of(data: bytes) -> str:
    """``sha256:HEX``."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def with_folders(tree: Mapping[str, Entry]) -> Tree:
    """The tree with every folder that its paths lead through."""
    found: Tree = {}
    for path in tree:
        parts = path.split("/")
        for end in range(1, len(parts)):
            found.setdefault("/".join(parts[:end]), folder())
    return found | dict(tree)


def pack(tree: Mapping[str, Entry], *, compressed: bool = True) -> Layer:
    """A layer with all entries of a tree, by name. Raises `ValueError` for a path that leaves it."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for path, entry in sorted(with_folders(tree).items()):
            if path.startswith("/") or {"", ".", ".."} & set(path.split("/")):
                raise ValueError(f"{path!r} is no path inside an image")
            info = tarfile.TarInfo(path)
            info.mode = stat.S_IMODE(entry.mode)
            if stat.S_ISDIR(entry.mode):
                info.type = tarfile.DIRTYPE
            elif stat.S_ISLNK(entry.mode):
                info.type, info.linkname = tarfile.SYMTYPE, entry.data.decode()
            else:
                info.size = len(entry.data)
            archive.addfile(info, io.BytesIO(entry.data) if info.size else None)
    plain = out.getvalue()
    if not compressed:
        return Layer(plain, digest_of(plain), PLAIN_LAYER)
    return Layer(gzip.compress(plain, LEVEL, mtime=0), digest_of(plain))


def _json(value: Json) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _named(kind: str, data: bytes) -> Json:
    return {"mediaType": kind, "digest": digest_of(data), "size": len(data)}


def _documents(image: Image) -> tuple[bytes, bytes]:
    """Configuration and manifest."""
    config = _json(
        {
            "architecture": image.architecture,
            "os": "linux",
            "created": "1970-01-01T00:00:00Z",
            "config": image.settings,
            "rootfs": {"type": "layers", "diff_ids": [layer.diff_id for _, layer in image.layers]},
            "history": [{"created": "1970-01-01T00:00:00Z", "created_by": what} for what, _ in image.layers],
        }
    )
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": _named(CONFIG, config),
            "layers": [_named(layer.media_type, layer.blob) for _, layer in image.layers],
        }
    )
    return config, manifest


def digest(image: Image) -> str:
    """The digest that a registry and a container runtime name the image by."""
    return digest_of(_documents(image)[1])


def archive(image: Image) -> bytes:
    """The OCI archive of one image: what ``ctr -n k8s.io images import`` and ``docker load`` read."""
    config, manifest = _documents(image)
    tag = image.name.rpartition(":")[2]
    about = {"io.containerd.image.name": image.name, "org.opencontainers.image.ref.name": tag}
    index = {
        "schemaVersion": 2,
        "mediaType": INDEX,
        "manifests": [{**_named(MANIFEST, manifest), "annotations": about}],
    }
    blobs = [config, manifest, *(layer.blob for _, layer in image.layers)]
    docker = [
        {"Config": _path(config), "RepoTags": [image.name], "Layers": [_path(layer.blob) for _, layer in image.layers]}
    ]
    files = {_path(blob): blob for blob in blobs} | {
        "oci-layout": b'{"imageLayoutVersion":"1.0.0"}',
        "index.json": _json(index),
        "manifest.json": json.dumps(docker).encode(),
    }
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as packed:
        for path, data in sorted(files.items()):
            info = tarfile.TarInfo(path)
            info.size, info.mode = len(data), 0o644
            packed.addfile(info, io.BytesIO(data))
    return out.getvalue()


def _path(blob: bytes) -> str:
    return f"blobs/sha256/{hashlib.sha256(blob).hexdigest()}"


def unpack(path: Path, into: Path) -> Json:
    """Unpack the root file system of an archive of ours and return its image configuration.

    Every digest is checked on the way. Raises `ValueError` if one does not fit.
    """
    with tarfile.open(path) as packed:

        def blob(named: Json) -> bytes:
            member = packed.extractfile("blobs/" + named["digest"].replace(":", "/"))
            data = member.read() if member else b""
            if digest_of(data) != named["digest"] or len(data) != named["size"]:
                raise ValueError(f"{path}: {named['digest']} has another content")
            return data

        file_of_index = packed.extractfile("index.json")
        assert file_of_index is not None
        manifest = json.loads(blob(json.load(file_of_index)["manifests"][0]))
        config: Json = json.loads(blob(manifest["config"]))
        for named, diff_id in zip(manifest["layers"], config["rootfs"]["diff_ids"], strict=True):
            plain = gzip.decompress(blob(named)) if named["mediaType"] == LAYER else blob(named)
            if digest_of(plain) != diff_id:
                raise ValueError(f"{path}: layer {diff_id} has another content")
            with tarfile.open(fileobj=io.BytesIO(plain)) as layer:
                layer.extractall(into, filter="tar")
    return config
