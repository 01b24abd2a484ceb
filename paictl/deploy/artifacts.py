"""The artifact folder: every file that a deployment puts on a host, with a lock file that says which one it must be.

``artifacts.json`` is ``{"schemaVersion": 1, "artifacts": [{name, kind, version, arch, url, sha256, path}]}``: `kind` is
binary, archive, image or manifest, `path` is below the folder, `sha256` of the file. Hosts never download anything:
files are verified here, before any of them is touched, and again there.
"""

from __future__ import annotations

import hashlib
import json
import tarfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, fields
from enum import StrEnum
from pathlib import Path, PurePosixPath
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from paictl.errors import ExitCode, PaictlError
from paictl.files import write_together
from paictl.frozen import frozen
from paictl.i18n import Text, text

LOCK: Final = "artifacts.json"
ANY: Final = "noarch"
"""The architecture of files that have none."""
_SCHEMA: Final = 1
_HASHING: Final = 4


class ArtifactKind(StrEnum):
    """What is done with a file on a host: put in place, unpacked, imported, applied."""

    BINARY = "binary"
    ARCHIVE = "archive"
    IMAGE = "image"
    MANIFEST = "manifest"


@frozen
class Artifact:
    """One file of the folder, as the lock file has it."""

    name: str
    kind: ArtifactKind
    version: str
    arch: str
    url: str
    sha256: str
    path: str


@frozen
class ArtifactFault:
    """Why a file cannot be used."""

    artifact: str
    path: str
    message: str

    def __str__(self) -> str:
        return self.sentence

    @property
    def sentence(self) -> Text:
        """The fault for people."""
        return text("{path}: {message} ({artifact})", path=self.path, message=self.message, artifact=self.artifact)


@frozen
class Image:
    """A container image of an archive: its name, and the digest of its configuration, by which a runtime knows it."""

    reference: str
    id: str


class ArtifactError(PaictlError):
    """Files of the folder are missing or wrong; `faults` has each."""

    exit_code = ExitCode.NEGATIVE

    def __init__(self, folder: Path, faults: Sequence[ArtifactFault]) -> None:
        hint = "no host was changed; create the folder again: paictl deploy bundle create"
        first, more = faults[0].sentence, len(faults) - 1
        message = text("{fault} and {count} more", fault=first, count=more) if more else first
        super().__init__(message, where=str(folder), hint=hint)
        self.faults = tuple(faults)


@frozen
class Artifacts:
    """A folder and its lock."""

    folder: Path
    all: tuple[Artifact, ...]

    def file(self, artifact: Artifact) -> Path:
        """Where a file is."""
        return self.folder / artifact.path

    def of(self, kind: ArtifactKind, arch: str = "amd64") -> tuple[Artifact, ...]:
        """The files of a kind that fit an architecture."""
        return tuple(artifact for artifact in self.all if artifact.kind is kind and artifact.arch in (arch, ANY))

    def find(self, name: str, arch: str = "amd64") -> Artifact | None:
        """The file with a name and an architecture; None if the folder has no such file."""
        return next((artifact for artifact in self.all if artifact.name == name and artifact.arch in (arch, ANY)), None)

    def need(self, name: str, arch: str = "amd64") -> Artifact:
        """The same; raises `PaictlError` if the folder has no such file."""
        artifact = self.find(name, arch)
        if artifact is None:
            hint = "to see what is available: paictl deploy bundle list"
            raise PaictlError(
                text("{name} for {arch} is not among the artifacts", name=name, arch=arch),
                where=str(self.folder),
                hint=hint,
            )
        return artifact

    def version(self, wished: str = "") -> str:
        """The folder's Kubernetes version; raises `PaictlError` if another is required, or if versions are mixed."""
        versions = {artifact.version for artifact in self.all if artifact.name in ("kubeadm", "kubelet", "kubectl")}
        if len(versions) != 1:
            listed = ", ".join(sorted(versions)) or "no version"
            raise PaictlError(
                text("kubeadm, kubelet and kubectl must have the same version; found: {said}", said=listed),
                where=self.where,
            )
        (version,) = versions
        if wished and wished != version:
            hint = text("create a folder with it: paictl deploy bundle create --kubernetes {version}", version=wished)
            raise PaictlError(
                text("Kubernetes {wished} is required, but this is {version}", wished=wished, version=version),
                where=self.where,
                hint=hint,
            )
        return version

    @property
    def where(self) -> str:
        """The lock file, for messages."""
        return str(self.folder / LOCK)


def local_folder(source: str) -> Path | None:
    """The folder that a source means, or None where it is a place in the web."""
    parts = urlsplit(source)
    if parts.scheme in ("http", "https"):
        return None
    if parts.scheme == "file":
        return Path(unquote(parts.path))
    if "://" in source:
        raise PaictlError(
            text("{scheme}:// is not a supported source of artifacts", scheme=parts.scheme),
            where=source,
            hint="a folder, file:, https:",
        )
    return Path(source).expanduser()


def read_lock(folder: Path) -> Artifacts:
    """Read the folder's lock file; raises `PaictlError` if it is missing or cannot be trusted."""
    path = folder / LOCK
    try:
        lock: Any = json.loads(path.read_text(encoding="utf-8"))
        if lock["schemaVersion"] != _SCHEMA:
            raise PaictlError(
                text("was written by another version of paictl (schema {value})", value=lock["schemaVersion"]),
                where=str(path),
            )
        rows = tuple(_artifact(row) for row in lock["artifacts"])
    except FileNotFoundError:
        hint = "create it: paictl deploy bundle create -o DIR, or say where it is: deploy: {artifacts: DIR}"
        raise PaictlError("no artifact folder here", where=str(folder), hint=hint) from None
    except OSError as error:
        raise PaictlError(text("cannot be read: {strerror}", strerror=error.strerror), where=str(path)) from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise PaictlError(text("is not an artifact lock file: {error!r}", error=error), where=str(path)) from None
    for artifact in rows:
        pure = PurePosixPath(artifact.path)
        if pure.is_absolute() or ".." in pure.parts:
            raise PaictlError(
                text("{name}: the path {path!r} is outside the folder", name=artifact.name, path=artifact.path),
                where=str(path),
            )
    return Artifacts(folder, rows)


def _artifact(row: Mapping[str, Any]) -> Artifact:
    values = {field.name: str(row.get(field.name, "")) for field in fields(Artifact) if field.name != "kind"}
    artifact = Artifact(kind=ArtifactKind(row["kind"]), **values)
    if len(artifact.sha256) != 64 or not artifact.name or not artifact.path:
        raise ValueError(f"{artifact.name or '?'}: name, path and a SHA-256 of 64 digits are needed")
    return artifact


def write_lock(folder: Path, rows: Iterable[Artifact]) -> None:
    """Write the lock of a folder, in one step."""
    ordered = sorted(rows, key=lambda row: (row.kind.value, row.name, row.arch))
    data = {"schemaVersion": _SCHEMA, "artifacts": [asdict(artifact) for artifact in ordered]}
    write_together(folder, {LOCK: json.dumps(data, indent=2) + "\n"}, force=True)


def faults_of(artifacts: Artifacts, chosen: Iterable[Artifact] | None = None) -> tuple[ArtifactFault, ...]:
    """Every file that is missing or differs from the lock, among all files or the `chosen` ones."""
    selected = list(artifacts.all if chosen is None else dict.fromkeys(chosen))
    with ThreadPoolExecutor(_HASHING) as pool:
        faults = pool.map(lambda artifact: _fault(artifacts.file(artifact), artifact), selected)
        return tuple(fault for fault in faults if fault is not None)


def _fault(path: Path, artifact: Artifact) -> ArtifactFault | None:
    try:
        sum_ = sha256_of(path)
    except FileNotFoundError:
        return ArtifactFault(artifact.name, str(path), "is missing")
    except OSError as error:
        return ArtifactFault(artifact.name, str(path), text("cannot be read: {strerror}", strerror=error.strerror))
    if sum_ == artifact.sha256:
        return None
    message = text(
        "is another file: SHA-256 {found}…, expected {wanted}…", found=sum_[:12], wanted=artifact.sha256[:12]
    )
    return ArtifactFault(artifact.name, str(path), message)


def verify(artifacts: Artifacts, chosen: Iterable[Artifact] | None = None) -> None:
    """Raise `ArtifactError`, which names each file, unless all are there and are those of the lock."""
    faults = faults_of(artifacts, chosen)
    if faults:
        raise ArtifactError(artifacts.folder, faults)


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file, as 64 digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def images_in(path: Path) -> tuple[Image, ...]:
    """The images of an archive, of Docker's form or OCI's; raises `PaictlError` for what is neither."""
    try:
        with tarfile.open(path) as archive:
            names = set(archive.getnames())
            if "manifest.json" in names:
                return tuple(_docker(_json(archive, "manifest.json")))
            return tuple(_oci(archive))
    except (tarfile.TarError, KeyError, ValueError, TypeError) as error:
        raise PaictlError(
            text("is not an archive of container images: {error}", error=error), where=str(path)
        ) from None
    except OSError as error:
        raise PaictlError(text("cannot be read: {strerror}", strerror=error.strerror), where=str(path)) from None


def _json(archive: tarfile.TarFile, name: str) -> Any:
    file = archive.extractfile(name)
    if file is None:
        raise KeyError(name)
    return json.load(file)


def _docker(manifest: Any) -> Iterator[Image]:
    for row in manifest:
        digest = PurePosixPath(row["Config"]).name.removesuffix(".json")
        yield from (Image(str(tag), f"sha256:{digest}") for tag in row.get("RepoTags") or ())


def _oci(archive: tarfile.TarFile) -> Iterator[Image]:
    for row in _json(archive, "index.json")["manifests"]:
        marks = row.get("annotations") or {}
        name = marks.get("io.containerd.image.name") or marks.get("org.opencontainers.image.ref.name")
        if not name:
            continue
        manifest = _json(archive, f"blobs/sha256/{row['digest'].partition(':')[2]}")
        yield Image(str(name), str(manifest["config"]["digest"]))
