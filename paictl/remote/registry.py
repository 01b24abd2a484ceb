"""Asking a container registry whether it has an image (the registry's API v2, as docker and containerd speak it)."""

from __future__ import annotations

import http.client
import json
import re
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Mapping
from enum import Enum
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from paictl.frozen import frozen

_DOCKER_HUB: Final = "registry-1.docker.io"
_HUB_NAMES: Final = ("docker.io", "index.docker.io", "registry.hub.docker.com", _DOCKER_HUB)
_MANIFESTS: Final = ", ".join(
    (
        "application/vnd.oci.image.index.v1+json",
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.docker.distribution.manifest.list.v2+json",
        "application/vnd.docker.distribution.manifest.v2+json",
        "*/*;q=0.1",
    )
)
_PART: Final = re.compile(r'(\w+)="([^"]*)"')
_MOST: Final = 1 << 20
"""Bytes of an answer that are read."""
_HERE: Final = ("localhost", "127.0.0.1", "::1")


class ImageState(Enum):
    """What a registry says of an image."""

    THERE = "there"
    MISSING = "missing"
    DENIED = "denied"
    """The registry refuses the caller; some registries also answer this for images that do not exist."""
    UNKNOWN = "unknown"
    """It did not answer in time, or nothing that means anything."""


@frozen
class ImageName:
    """An image as docker reads it: the registry's host, the repository, and a tag or digest."""

    host: str
    repository: str
    reference: str


def image_name(word: str) -> ImageName:
    """The parts of ``[HOST/]NAME[:TAG][@DIGEST]``; without a host Docker Hub's, without a tag ``latest``."""
    name, at, digest = word.partition("@")
    first, slash, rest = name.partition("/")
    host, path = (first, rest) if slash and (set(".:") & set(first) or first == "localhost") else (_DOCKER_HUB, name)
    repository, colon, tag = path.rpartition(":")
    repository, tag = (repository, tag) if colon and "/" not in tag else (path, "latest")
    host = registry_host(host)
    if host == _DOCKER_HUB and "/" not in repository:
        repository = f"library/{repository}"
    return ImageName(host, repository, digest if at else tag)


def registry_host(name: str) -> str:
    """The host of a registry, by any name that it goes by: Docker Hub has several."""
    return _DOCKER_HUB if name in _HUB_NAMES else name


def image_state(
    word: str, *, service: str = "", user: str = "", password: str = "", timeout: float = 5.0
) -> tuple[ImageState, str]:
    """What the registry says of an image, and the reason for people where that is not that it is there.

    At most three requests of `timeout` seconds each. The login is sent to the registry, and to the server that it names
    for tokens, over HTTPS only, unless the registry is on this machine or `service` begins with ``http://``.
    """
    name = image_name(word)
    base = service.rstrip("/") or f"{'http' if is_here(name.host) else 'https'}://{name.host}"
    if urlsplit(base).hostname in _HUB_NAMES:
        base = f"https://{_DOCKER_HUB}"
    base = base.removesuffix("/v2").removesuffix("/v1")
    login = f"Basic {b64encode(f'{user}:{password}'.encode()).decode()}" if user else ""
    try:
        return _state_of(base, name, login, timeout)
    except (OSError, ValueError, RecursionError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        return ImageState.UNKNOWN, f"{urlsplit(base).netloc}: {' '.join(str(reason).split())[:200]}"


def _state_of(base: str, name: ImageName, login: str, timeout: float) -> tuple[ImageState, str]:
    url, accept = f"{base}/v2/{name.repository}/manifests/{name.reference}", {"Accept": _MANIFESTS}
    status, headers, _ = _answer("HEAD", url, accept, timeout)
    if status == 401:
        token = token_for(headers.get("www-authenticate", ""), base, login, timeout)
        if not token:
            return ImageState.DENIED, f"HTTP status {status}"
        status, headers, _ = _answer("HEAD", url, {**accept, "Authorization": token}, timeout)
    if 200 <= status < 300:
        return ImageState.THERE, ""
    state = {404: ImageState.MISSING, 401: ImageState.DENIED, 403: ImageState.DENIED}.get(status, ImageState.UNKNOWN)
    return state, f"{urlsplit(base).netloc}: HTTP status {status}"


def token_for(challenge: str, base: str, login: str, timeout: float) -> str:
    """The Authorization header for a challenge; empty if no token is issued, or if the login must not be sent there."""
    scheme, _, rest = challenge.partition(" ")
    if scheme.lower() == "basic":
        return login
    parts = dict(_PART.findall(rest))
    realm = parts.pop("realm", "")
    if scheme.lower() != "bearer" or not _may_ask(realm, base):
        return ""
    query = urlencode({key: parts[key] for key in ("service", "scope") if key in parts})
    status, _, body = _answer("GET", f"{realm}?{query}", {"Authorization": login} if login else {}, timeout)
    if status != 200:
        return ""
    answer = json.loads(body)
    token = answer.get("token") or answer.get("access_token") if isinstance(answer, dict) else None
    return f"Bearer {token}" if isinstance(token, str) else ""


def _may_ask(realm: str, base: str) -> bool:
    """Whether a server of tokens may be told a login: over HTTPS, or it is where an unencrypted registry is."""
    if realm.startswith("https://"):
        return True
    realm_url = urlsplit(realm)
    same = realm_url.hostname == urlsplit(base).hostname or is_here(realm_url.netloc)
    return same and realm.startswith("http://") and base.startswith("http://")


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirection is an answer: the library would send the login along to any host."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _answer(method: str, url: str, headers: Mapping[str, str], timeout: float) -> tuple[int, Mapping[str, str], bytes]:
    request = urllib.request.Request(url, method=method, headers={**headers, "User-Agent": "paictl"})  # noqa: S310
    try:
        with urllib.request.build_opener(_NoRedirect).open(request, timeout=timeout) as reply:
            return reply.status, _lower(reply.headers), reply.read(_MOST)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, _lower(error.headers), b""


def _lower(headers: Any) -> dict[str, str]:
    return {str(key).lower(): str(value) for key, value in headers.items()}


def is_here(host: str) -> bool:
    """Whether a registry is on this machine, which needs no encryption."""
    return urlsplit(f"//{host}").hostname in _HERE
