"""Container images fetched from their registries into archives (OCI's layout), for machines that reach none.

Everything is verified by its digest: the manifest by the one that is asked for or that the registry names, each blob
by the one in the manifest. The same manifest always gives the same archive, byte by byte: a lock can hold its hash.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import http.client
import io
import json
import os
import re
import shutil
import tarfile
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from paictl.errors import ExitCode, PaictlError
from paictl.frozen import frozen
from paictl.i18n import text
from paictl.remote.registry import ImageName, image_name, is_here, token_for

_OCI: Final = "application/vnd.oci.image."
_DOCKER: Final = "application/vnd.docker.distribution.manifest"
INDEXES: Final = (f"{_OCI}index.v1+json", f"{_DOCKER}.list.v2+json")
MANIFESTS: Final = (f"{_OCI}manifest.v1+json", f"{_DOCKER}.v2+json")
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}\Z")
_MOST: Final = 4 << 20
"""Bytes of a manifest; registries take no larger ones."""
_NO_MANIFEST: Final = (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError)
"""What reading a maliciously made manifest may raise."""
_BLOCK: Final = 1 << 20
_TIMEOUT: Final = 30.0
_HUB: Final = ("registry-1.docker.io", "docker.io")
_HUB_LOGIN: Final = "https://index.docker.io/v1/"


class PullError(PaictlError):
    """An image did not come."""

    exit_code = ExitCode.UNREACHABLE


@frozen
class ImageSource:
    """Where an image comes from: its name, the architecture, the registry's address if it is not its own, a digest.

    `mirror` is an address as of `registry_mirrors`; `digest` is that of the manifest of one architecture.
    """

    reference: str
    arch: str
    mirror: str = ""
    digest: str = ""


@frozen
class ImageManifest:
    """The manifest of an image for one architecture: its digest and its bytes."""

    source: ImageSource
    digest: str
    body: bytes
    kind: str

    @property
    def blobs(self) -> list[tuple[str, int]]:
        """(digest, bytes) of configuration and layers, each once."""
        content = json.loads(self.body)
        rows = [content["config"], *content["layers"]]
        return list(dict.fromkeys((_digest_in(row), _size_in(row)) for row in rows))


class ImagePuller:
    """The registry of one image, asked with the login that docker has kept for it."""

    def __init__(self, source: ImageSource) -> None:
        self._source = source
        self._name: ImageName = image_name(source.reference)
        own = f"{'http' if is_here(self._name.host) else 'https'}://{self._name.host}"
        self._base = source.mirror.rstrip("/").removesuffix("/v2") or own
        host = urlsplit(self._base).netloc
        self._plain = not self._base.startswith("https://") and not is_here(host)
        """Everybody on the way can read what is sent: no login goes there."""
        self._login = "" if self._plain else docker_login(host)
        self._token = ""

    def manifest(self) -> ImageManifest:
        """The manifest for the architecture; raises `PullError` if there is none, or it is not what was asked for."""
        reference = self._source.digest or self._name.reference
        kind, digest, body = self._manifest(reference)
        if kind in INDEXES:
            try:
                reference = _of_architecture(json.loads(body), self._source.arch)
            except _NO_MANIFEST:
                raise self._damaged() from None
            if not reference:
                raise PullError(
                    text("{image} is not built for {arch}", image=self._source.reference, arch=self._source.arch),
                    where=self._base,
                )
            kind, digest, body = self._manifest(reference)
        if kind not in MANIFESTS:
            raise PullError(
                text(
                    "{image}: the registry sent {kind}, which is not an image", image=self._source.reference, kind=kind
                ),
                where=self._base,
            )
        manifest = ImageManifest(self._source, digest, body, kind)
        try:
            _ = manifest.blobs
        except _NO_MANIFEST:
            raise self._damaged() from None
        return manifest

    def _damaged(self) -> PullError:
        return PullError(text("{image}: its manifest is damaged", image=self._source.reference), where=self._base)

    def _manifest(self, reference: str) -> tuple[str, str, bytes]:
        """(media type, digest, bytes) of a manifest or an index."""
        with self._opened(f"manifests/{reference}", {"Accept": ", ".join([*INDEXES, *MANIFESTS])}) as reply:
            body = reply.read(_MOST + 1)
            header = str(reply.headers.get("Docker-Content-Digest", ""))
            kind = str(reply.headers.get("Content-Type", "")).partition(";")[0].strip()
        if len(body) > _MOST:
            raise self._damaged()
        digest = f"sha256:{hashlib.sha256(body).hexdigest()}"
        expected = reference if _DIGEST.match(reference) else header or digest
        if digest != expected:
            raise PullError(
                text(
                    "{image}: its manifest has the digest {found}…, not {wanted}…",
                    image=self._source.reference,
                    found=digest[:19],
                    wanted=expected[:19],
                ),
                where=self._base,
            )
        with contextlib.suppress(*_NO_MANIFEST):
            kind = str(json.loads(body).get("mediaType") or kind)
        return kind, digest, body

    def blob(self, digest: str, size: int, target: Path) -> None:
        """Load a blob beside its place, and put it there if it is the right one."""
        part = target.with_name(f".{target.name}.part")
        sum_, remaining = hashlib.sha256(), size
        try:
            with self._opened(f"blobs/{digest}", {}) as reply, part.open("wb") as file:
                while block := reply.read(min(_BLOCK, remaining + 1)):
                    remaining -= len(block)
                    if remaining < 0:
                        break
                    sum_.update(block)
                    file.write(block)
            if remaining or f"sha256:{sum_.hexdigest()}" != digest:
                raise PullError(
                    text(
                        "{image}: blob {digest}… is corrupt or incomplete",
                        image=self._source.reference,
                        digest=digest[:19],
                    ),
                    where=self._base,
                    hint=text("run the same command again to resume"),
                )
            part.replace(target)
        except (OSError, http.client.HTTPException) as error:
            raise self._failed(str(error) or type(error).__name__) from None
        finally:
            part.unlink(missing_ok=True)

    @contextlib.contextmanager
    def _opened(self, path: str, headers: Mapping[str, str]) -> Iterator[Any]:
        """An answer of the registry, asked again with a token if it wants one."""
        space = f"?ns={_known_as(self._name.host)}" if self._source.mirror else ""
        url = f"{self._base}/v2/{self._name.repository}/{path}{space}"
        try:
            try:
                reply = _open(url, headers, self._token)
            except urllib.error.HTTPError as error:
                if not self._signed_in(error):
                    raise
                error.close()
                reply = _open(url, headers, self._token)
        except urllib.error.HTTPError as error:
            error.close()
            raise self._refused(error.code) from None
        except (OSError, ValueError, RecursionError, http.client.HTTPException) as error:
            raise self._failed(str(getattr(error, "reason", "") or error) or type(error).__name__) from None
        with reply:
            yield reply

    def _signed_in(self, error: urllib.error.HTTPError) -> bool:
        """Whether a new token was issued, as tokens expire; the login is sent only to the registry itself."""
        asking, own = urlsplit(error.url), urlsplit(self._base)
        if error.code != 401 or (asking.scheme, asking.netloc) != (own.scheme, own.netloc):
            return False
        before = self._token
        self._token = token_for(error.headers.get("WWW-Authenticate", ""), self._base, self._login, _TIMEOUT)
        return self._token not in ("", before)

    def _refused(self, status: int) -> PullError:
        if status == 404:
            return PullError(text("has no image {image}", image=self._source.reference), where=self._base)
        if status in (401, 403):
            hint = text("sign in where this runs: docker login {host}", host=urlsplit(self._base).netloc)
            if self._plain:
                hint = text("no login is sent over http: give an https:// address")
            message = text("does not let anyone pull {image} without a valid login", image=self._source.reference)
            return PullError(message, where=self._base, hint=hint)
        message = text(
            "{image}: the registry answered with HTTP status {status}", image=self._source.reference, status=status
        )
        return PullError(message, where=self._base)

    def _failed(self, reason: str) -> PullError:
        hint = text("use a mirror: --mirror {host}=https://…", host=_known_as(self._name.host))
        message = text("{image} cannot be pulled: {reason}", image=self._source.reference, reason=reason)
        return PullError(message, where=self._base, hint=hint)


def pull(registry: ImagePuller, manifest: ImageManifest, target: Path) -> None:
    """Write an image as an archive, in one step; blobs that came stay beside it until all have, so pulling resumes."""
    parts = target.with_name(f".{target.name}.blobs")
    parts.mkdir(parents=True, exist_ok=True)
    for digest, size in manifest.blobs:
        blob = parts / digest.partition(":")[2]
        if not (blob.is_file() and blob.stat().st_size == size and f"sha256:{_sha256(blob)}" == digest):
            registry.blob(digest, size, blob)
    part = target.with_name(f".{target.name}.part")
    try:
        _write(manifest, parts, part)
        part.replace(target)
    except OSError as error:
        message = text("cannot be written: {reason}", reason=error.strerror or error)
        raise PaictlError(message, where=str(target)) from None
    finally:
        part.unlink(missing_ok=True)
    shutil.rmtree(parts, ignore_errors=True)


def _write(manifest: ImageManifest, parts: Path, target: Path) -> None:
    """The archive: OCI's layout, without dates and owners, in the order of the manifest."""
    reference = manifest.source.reference
    tag = image_name(reference).reference
    marks = {"io.containerd.image.name": reference, "org.opencontainers.image.ref.name": tag}
    row = {
        "mediaType": manifest.kind,
        "digest": manifest.digest,
        "size": len(manifest.body),
        "annotations": marks,
        "platform": {"os": "linux", "architecture": manifest.source.arch},
    }
    index = {"schemaVersion": 2, "mediaType": INDEXES[0], "manifests": [row]}
    with tarfile.open(target, "w", format=tarfile.PAX_FORMAT) as tar:
        _add(tar, "oci-layout", b'{"imageLayoutVersion": "1.0.0"}')
        _add(tar, "index.json", json.dumps(index, sort_keys=True).encode())
        _add(tar, f"blobs/sha256/{manifest.digest.partition(':')[2]}", manifest.body)
        for digest, size in manifest.blobs:
            name = digest.partition(":")[2]
            with (parts / name).open("rb") as file:
                _add(tar, f"blobs/sha256/{name}", file, size)


def _add(tar: tarfile.TarFile, name: str, content: Any, size: int | None = None) -> None:
    about = tarfile.TarInfo(name)
    about.mode, about.size = 0o644, len(content) if size is None else size
    tar.addfile(about, content if size is not None else io.BytesIO(content))


def docker_login(host: str) -> str:
    """The header by which docker signs in to a registry (``~/.docker/config.json``); empty without a login there.

    Raises `PaictlError` for a file that cannot be read. Credential helpers are not asked.
    """
    folder = os.environ.get("DOCKER_CONFIG") or str(Path.home() / ".docker")
    path = Path(folder) / "config.json"
    try:
        config: Any = json.loads(path.read_text(encoding="utf-8"))
        accounts = config.get("auths") or {}
        names = [host, f"https://{host}", f"https://{host}/", f"https://{host}/v1/", f"https://{host}/v2/"]
        names += [*_HUB, _HUB_LOGIN] if host in _HUB else []
        coded = next((str(accounts[name]["auth"]) for name in names if (accounts.get(name) or {}).get("auth")), "")
        base64.b64decode(coded, validate=True)
    except FileNotFoundError:
        return ""
    except (OSError, ValueError, AttributeError, TypeError) as error:
        message = text("cannot be read: {reason}", reason=getattr(error, "strerror", "") or type(error).__name__)
        raise PaictlError(message, where=str(path)) from None
    return f"Basic {coded}" if coded else ""


def _of_architecture(index: Any, arch: str) -> str:
    """The digest of the manifest for an architecture; empty if there is none."""
    for row in index.get("manifests") or ():
        platform = row.get("platform") or {}
        if (platform.get("os"), platform.get("architecture")) == ("linux", arch):
            return _digest_in(row)
    return ""


def _digest_in(row: Mapping[str, Any]) -> str:
    digest = row["digest"]
    if not _DIGEST.match(digest):
        raise ValueError(digest)
    return str(digest)


def _size_in(row: Mapping[str, Any]) -> int:
    size = row["size"]
    if type(size) is not int or size < 0:
        raise ValueError(size)
    return size


def _known_as(host: str) -> str:
    """A registry as images name it."""
    return "docker.io" if host in _HUB else host


class _Redirect(urllib.request.HTTPRedirectHandler):
    """Blobs are often elsewhere: the token stays here, and what was encrypted stays so."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        if urlsplit(req.full_url).scheme == "https" != urlsplit(newurl).scheme:
            return None
        request = super().redirect_request(req, fp, code, msg, headers, newurl)
        if request is not None and urlsplit(newurl).netloc != urlsplit(req.full_url).netloc:
            request.remove_header("Authorization")
        return request


def _open(url: str, headers: Mapping[str, str], token: str) -> Any:
    marks = {**headers, "User-Agent": "paictl", **({"Authorization": token} if token else {})}
    request = urllib.request.Request(url, headers=marks)  # noqa: S310 - the caller chose http or https
    return urllib.request.build_opener(_Redirect).open(request, timeout=_TIMEOUT)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
