"""Making an artifact folder: files from their makers, a mirror, or another folder, each with a known SHA-256.

A hash comes, the strongest first, from a lock file that is given, from the lock of the folder that is copied, or from
the sums that the maker publishes beside the file. What none of them names is taken as it comes over https and noted.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any, Final
from urllib.parse import urlsplit

import yaml

from paictl.deploy.artifacts import (
    LOCK,
    Artifact,
    ArtifactKind,
    Artifacts,
    images_in,
    local_folder,
    read_lock,
    sha256_of,
    verify,
    write_lock,
)
from paictl.errors import ExitCode, PaictlError
from paictl.frozen import frozen
from paictl.i18n import did_you_mean, text
from paictl.places import cache_folder
from paictl.remote.imagepull import ImagePuller, ImageSource, pull
from paictl.remote.registry import image_name, is_here
from paictl.resources import resource_folder

_BLOCK: Final = 1 << 20
_TIMEOUT: Final = 30.0
_SUM = re.compile(r"\b([0-9a-f]{64})\b(?:\s+\*?(\S+))?")

Tell = Callable[[str], object]


class DownloadError(PaictlError):
    """A file did not come."""

    exit_code = ExitCode.UNREACHABLE


@frozen
class Download:
    """A file to gather: where its makers publish it, and the sums of it (empty where they publish none)."""

    artifact: Artifact
    sums: str

    @property
    def file(self) -> str:
        """The name of the file."""
        return PurePosixPath(self.artifact.url).name


@frozen
class WantedImage:
    """An image to gather, for one architecture; `mirror` is a registry's address to ask instead of its own."""

    name: str
    reference: str
    arch: str
    mirror: str = ""

    @property
    def path(self) -> str:
        """Its archive in the folder."""
        return f"images/{self.arch}/{self.name}.tar"

    @property
    def version(self) -> str:
        """Its tag."""
        return image_name(self.reference).reference


_ARCHES: Final = {"x86_64": "amd64", "aarch64": "arm64"}
EXTRAS: Final = ("flannel", "calico", "gpu")


def catalogue(
    kubernetes: str = "", arches: Sequence[str] = ("amd64",), extras: Iterable[str] = ()
) -> tuple[Download, ...]:
    """What a cluster takes, for some architectures; `extras` are of `EXTRAS`, others are refused."""
    path = resource_folder("playbooks") / "upstream.yaml"
    upstream: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
    pinned = dict(upstream["versions"])
    if kubernetes:
        pinned["kubernetes"] = kubernetes.removeprefix("v")
    chosen = set(extras)
    if unknown := sorted(chosen - set(EXTRAS)):
        hint = did_you_mean(unknown[0], EXTRAS) or text("images of services: --services NAME")
        raise PaictlError(text("--with {word}: unknown", word=unknown[0]), hint=hint)
    rows = [row for row in upstream["artifacts"] if "only" not in row or row["only"] in chosen]
    return tuple(_download(row, str(pinned[row.get("of", row["name"])]), arch) for row in rows for arch in arches)


def _download(row: Mapping[str, str], version: str, arch: str) -> Download:
    words = {"version": version, "tag": f"v{version}", "arch": arch}
    url = row["url"].format(**words)
    sums = row.get("sums", "").format(**words, url=url)
    kind = ArtifactKind(row["kind"])
    name = PurePosixPath(url).name
    path = f"{arch}/{name}" if kind is not ArtifactKind.MANIFEST else name
    return Download(Artifact(row["name"], kind, f"v{version}", arch, url, "", path), sums)


def gather(
    wanted: Sequence[Download],
    source: str,
    into: Path,
    lock: Path | None,
    tell: Tell,
    images: Sequence[WantedImage] = (),
) -> Artifacts:
    """Fill a folder and write its lock; files that are there and right are kept.

    `source` is empty for the projects' download sites, a template of a mirror with {name}, {version}, {arch} and
    {file}, or a folder, which must have the `images`. Raises `PaictlError` naming the file or image that did not come
    or differs; gathering again resumes.
    """
    folder = local_folder(source) if source else None
    if folder is not None:
        _need_in(folder, images)
    elif images:
        _need_local(images)
    if folder is not None and (folder / LOCK).is_file():
        return _copy_folder(read_lock(folder), into, tell)
    hashes = _hashes(lock) if lock else {}
    rows: list[Artifact] = []
    for download in wanted:
        expected = hashes.get((download.artifact.name, download.artifact.arch, download.artifact.version), "")
        if lock and not expected:
            raise PaictlError(
                text(
                    "{name} {version} is not in the lock",
                    name=download.artifact.name,
                    version=download.artifact.version,
                ),
                where=str(lock),
            )
        url = _url(download, source, folder)
        rows.append(replace(download.artifact, url=url, sha256=_get_file(download, url, into, expected, tell)))
    rows += _loose_images(folder, into, tell) if folder else _pulled(images, into, lock, tell)
    write_lock(into, rows)
    return Artifacts(into, tuple(rows))


def _hashes(lock: Path) -> dict[tuple[str, str, str], str]:
    artifacts = read_lock(lock.parent if lock.name == LOCK else lock)
    return {(artifact.name, artifact.arch, artifact.version): artifact.sha256 for artifact in artifacts.all}


def _url(download: Download, source: str, folder: Path | None) -> str:
    artifact = download.artifact
    if folder is not None:
        return (folder / download.file).resolve().as_uri()
    if not source:
        return artifact.url
    words = {"name": artifact.name, "version": artifact.version, "arch": artifact.arch, "file": download.file}
    try:
        return source.format(**words) if "{" in source else f"{source.rstrip('/')}/{download.file}"
    except (KeyError, IndexError, ValueError):
        hint = "it may contain {name}, {version}, {arch} and {file}"
        raise PaictlError("is not a mirror template", where=source, hint=hint) from None


def _get_file(download: Download, url: str, into: Path, expected: str, tell: Tell) -> str:
    """Get one file; its SHA-256."""
    target = into / download.artifact.path
    sums = (
        f"{url}{download.sums.removeprefix(download.artifact.url)}"
        if download.sums.startswith(download.artifact.url)
        else download.sums
    )
    if not expected and sums and url.startswith(("https:", "file:")):
        expected = _published(sums, download.file, required=url.startswith("https:"))
    if not expected and url.startswith("http:"):
        hint = "use https://, or give a lock file with --lock"
        raise PaictlError("cannot be verified over http", where=url, hint=hint)
    if expected and target.is_file() and sha256_of(target) == expected:
        tell(
            text("{name} {version} already downloaded", name=download.artifact.name, version=download.artifact.version)
        )
        return expected
    digest = _fetch(url, target, expected)
    key = "{name} {version} from {source}" if expected else "{name} {version} from {source} (no published checksum)"
    tell(text(key, name=download.artifact.name, version=download.artifact.version, source=url))
    return digest


def _published(url: str, file: str, *, required: bool) -> str:
    """The sum beside a file, in a line of its own or in a list; empty where there is none and none is due."""
    try:
        with _open(url) as answer:
            text = answer.read(_BLOCK).decode(errors="replace")
    except DownloadError:
        if required:
            raise
        return ""
    rows = [(match[1], match[2] or "") for match in map(_SUM.search, text.splitlines()) if match]
    match = [sum_ for sum_, name in rows if PurePosixPath(name).name == file] or [
        sum_ for sum_, name in rows if not name
    ]
    if not match:
        raise PaictlError(text("has no SHA-256 for {file}", file=file), where=url)
    return match[0]


def _open(url: str) -> Any:
    try:
        return urllib.request.urlopen(url, timeout=_TIMEOUT)  # noqa: S310 - the scheme was looked at
    except urllib.error.HTTPError as error:
        with error:
            raise DownloadError(
                text("the server answered {code} {reason}", code=error.code, reason=error.reason), where=url
            ) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise DownloadError(
            text("cannot be downloaded: {reason}", reason=reason),
            where=url,
            hint="check the connection, or download from a mirror or folder: --source",
        ) from None


def _fetch(url: str, target: Path, expected: str) -> str:
    """Load a file beside its place, compare, and put it there in one step; its SHA-256."""
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.name}.part")
    sum_ = hashlib.sha256()
    try:
        with _open(url) as answer, part.open("wb") as file:
            while block := answer.read(_BLOCK):
                sum_.update(block)
                file.write(block)
        digest = sum_.hexdigest()
        if expected and digest != expected:
            message = text(
                "is another file: SHA-256 {found}…, expected {wanted}…", found=digest[:12], wanted=expected[:12]
            )
            raise PaictlError(message, where=url, hint="the mirror has the wrong file, or the lock is out of date")
        part.replace(target)
    except OSError as error:
        raise DownloadError(text("cannot be loaded: {error}", error=error), where=url) from None
    finally:
        part.unlink(missing_ok=True)
    return digest


def _need_in(folder: Path, images: Sequence[WantedImage]) -> None:
    """Raise `PaictlError` if a folder has not the images that are wanted: no registry is asked beside it."""
    if not images:
        return
    files = [(path, "") for path in (folder / "images").glob("*.tar")]
    if (folder / LOCK).is_file():
        artifacts = read_lock(folder)
        files = [
            (artifacts.file(artifact), artifact.arch)
            for artifact in artifacts.all
            if artifact.kind is ArtifactKind.IMAGE
        ]
    present = {(image.reference, arch) for path, arch in files if path.is_file() for image in images_in(path)}
    lacking = [image for image in images if not {(image.reference, image.arch), (image.reference, "")} & present]
    if lacking:
        message = text(
            "has no archive of {images}", images=", ".join(f"{image.reference} ({image.arch})" for image in lacking)
        )
        raise PaictlError(message, where=str(folder), hint=text("create that folder with the same --services"))


def _local(image: WantedImage) -> Path | None:
    """The archive of an image that is in no registry, because `make images` builds it; None for others."""
    if not is_here(image_name(image.reference).host) or image.mirror:
        return None
    return cache_folder() / "images" / "current" / f"{image.name}.tar"


def _need_local(images: Sequence[WantedImage]) -> None:
    """Raise `PaictlError` before anything is downloaded if an image that is in no registry was not built."""
    for image in images:
        path = _local(image)
        if path is None:
            continue
        if image.arch != _ARCHES.get(platform.machine(), ""):
            message = text(
                "{image} is in no registry, and was not built for {arch}", image=image.reference, arch=image.arch
            )
            raise PaictlError(message, hint=text("build it on such a machine, and put the archive into images/"))
        built = {archived.reference for archived in images_in(path)} if path.is_file() else set()
        if image.reference not in built:
            message = text("{image} is in no registry, and was not built on this machine", image=image.reference)
            hint = text("build it: make images; or name your own registry in cluster.docker-registry, and pass -p DIR")
            raise PaictlError(message, where=str(path), hint=hint)


def _pulled(images: Sequence[WantedImage], into: Path, lock: Path | None, tell: Tell) -> Iterator[Artifact]:
    """Archives of images, each with the digest of its manifest in its address."""
    locked = _image_rows(lock.parent if lock.name == LOCK else lock) if lock else {}
    before = _image_rows(into) if (into / LOCK).is_file() else {}
    for image in images:
        row = locked.get((image.name, image.arch, image.version))
        if lock and row is None:
            raise PaictlError(
                text("{name} {version} is not in the lock", name=image.name, version=image.version), where=str(lock)
            )
        local = _local(image)
        artifact = _copied(image, local, into) if local else _pull(image, row, before, into, tell)
        if row is not None and artifact.sha256 != row.sha256:
            message = text(
                "is another file: SHA-256 {found}…, expected {wanted}…",
                found=artifact.sha256[:12],
                wanted=row.sha256[:12],
            )
            raise PaictlError(message, where=str(into / image.path), hint="the lock is out of date")
        if local:
            tell(text("image {name} from {source}", name=image.reference, source=local))
        yield artifact


def _copied(image: WantedImage, source: Path, into: Path) -> Artifact:
    target = into / image.path
    target.parent.mkdir(parents=True, exist_ok=True)
    _copy(source, target)
    url = source.resolve().as_uri()
    return Artifact(image.name, ArtifactKind.IMAGE, image.version, image.arch, url, sha256_of(target), image.path)


def _image_rows(folder: Path) -> dict[tuple[str, str, str], Artifact]:
    rows = read_lock(folder).all
    return {(row.name, row.arch, row.version): row for row in rows if row.kind is ArtifactKind.IMAGE}


def _pull(
    image: WantedImage, row: Artifact | None, before: Mapping[tuple[str, str, str], Artifact], into: Path, tell: Tell
) -> Artifact:
    """An image from its registry, unless it is there and right; by the digest of the lock's `row`, if there is one."""
    target = into / image.path
    digest = row.url.rpartition("@")[2] if row is not None else ""
    if not digest and image.mirror.startswith("http:") and not is_here(urlsplit(image.mirror).netloc):
        hint = "use https://, or give a lock file with --lock"
        raise PaictlError("cannot be verified over http", where=image.mirror, hint=hint)
    earlier = row or before.get((image.name, image.arch, image.version))
    registry = ImagePuller(ImageSource(image.reference, image.arch, image.mirror, digest))
    manifest = None if row is not None else registry.manifest()
    url = row.url if row is not None else f"docker://{image.reference}@{manifest.digest if manifest else ''}"
    if earlier is not None and earlier.url == url and target.is_file() and sha256_of(target) == earlier.sha256:
        tell(text("{name} {version} already downloaded", name=image.name, version=image.version))
        return replace(earlier, path=image.path)
    target.parent.mkdir(parents=True, exist_ok=True)
    pull(registry, manifest or registry.manifest(), target)
    tell(text("image {name} from {source}", name=image.reference, source=image.mirror or url))
    return Artifact(image.name, ArtifactKind.IMAGE, image.version, image.arch, url, sha256_of(target), image.path)


def _copy_folder(source: Artifacts, into: Path, tell: Tell) -> Artifacts:
    """A folder with a lock, copied (by hard links where that works), and verified on both ends."""
    verify(source)
    for artifact in source.all:
        target = into / artifact.path
        target.parent.mkdir(parents=True, exist_ok=True)
        if not (target.is_file() and sha256_of(target) == artifact.sha256):
            _copy(source.file(artifact), target)
        tell(
            text(
                "{name} {version} from {source}",
                name=artifact.name,
                version=artifact.version,
                source=source.file(artifact),
            )
        )
    write_lock(into, source.all)
    copy = Artifacts(into, source.all)
    verify(copy)
    return copy


def _copy(source: Path, target: Path) -> None:
    try:
        target.unlink(missing_ok=True)
        try:
            os.link(source, target)
        except OSError:
            shutil.copy2(source, target)
    except OSError as error:
        raise PaictlError(text("cannot be copied: {strerror}", strerror=error.strerror), where=str(source)) from None


def _loose_images(folder: Path, into: Path, tell: Tell) -> Iterator[Artifact]:
    """Archives of images in a folder without a lock: all in ``images/``."""
    for path in sorted((folder / "images").glob("*.tar")):
        target = into / "images" / path.name
        target.parent.mkdir(parents=True, exist_ok=True)
        _copy(path, target)
        tell(text("image {name} from {source}", name=path.name, source=path))
        yield Artifact(
            path.stem,
            ArtifactKind.IMAGE,
            "",
            "amd64",
            path.resolve().as_uri(),
            sha256_of(target),
            f"images/{path.name}",
        )
