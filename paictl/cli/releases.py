"""Whether a newer paictl was released: asks the package index from which pip and uv install (PEP 503, 691, 700)."""

from __future__ import annotations

import base64
import json
import os
import re
import urllib.error
import urllib.request
from collections.abc import Iterable
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

from paictl.errors import ExitCode, PaictlError
from paictl.i18n import text

INDEX: Final = "https://pypi.org/simple"
VARIABLES: Final = ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL")
"""Where a site says which index it uses, the first of them that is set."""
MOST: Final = 16 << 20
"""Bytes of an answer that are read."""
_TYPE: Final = "application/vnd.pypi.simple.v1+json"
_FINAL: Final = re.compile(r"\d+(?:\.\d+)*")
_OWN: Final = re.compile(r"(\d+(?:\.\d+)*)(.*)")


class IndexUnreachableError(PaictlError):
    """The package index does not answer, or not as one."""

    exit_code = ExitCode.UNREACHABLE


def index_address() -> str:
    """The package index of this machine."""
    return next((address for name in VARIABLES if (address := os.environ.get(name))), INDEX)


def newest_release(index: str, seconds: float) -> str | None:
    """The newest release of paictl on an index; None without a release. Raises `IndexUnreachableError`.

    Versions that are not final, and those of which every file was withdrawn, do not count.
    """
    data = _asked(index, seconds)
    if data is None:
        return None
    files = data.get("files")
    if not isinstance(files, list):
        raise IndexUnreachableError(text("does not answer like a package index"), where=_shown(index))
    given = data.get("versions")  # since version 1.1 of the interface; before it only the names of files say so
    named = given if isinstance(given, list) else [_version_of(str(file.get("filename", ""))) for file in files]
    withdrawn = {_version_of(str(file.get("filename", ""))) for file in files if file.get("yanked")}
    alive = {_version_of(str(file.get("filename", ""))) for file in files if not file.get("yanked")}
    return _newest(str(version) for version in named if version not in withdrawn - alive)


def is_newer(release: str, own: str) -> bool:
    """Whether a final release is newer than a version, which may be a development version on the way to it."""
    match = _OWN.match(own)
    if match is None:
        return True
    mine = _numbers(match[1])
    return _numbers(release) > mine or (_numbers(release) == mine and match[2].startswith((".dev", "a", "b", "rc")))


def _newest(versions: Iterable[str]) -> str | None:
    return max((version for version in versions if _FINAL.fullmatch(version)), key=_numbers, default=None)


def _numbers(version: str) -> tuple[int, ...]:
    """The parts of a final version; zeros at the end do not count."""
    parts = [int(part) for part in version.split(".")]
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return tuple(parts)


def _version_of(filename: str) -> str:
    """The version in the name of a wheel or a source archive."""
    return filename.removesuffix(".tar.gz").partition("-")[2].partition("-")[0]


def _asked(index: str, seconds: float) -> dict[str, Any] | None:
    """What an index says of paictl, None if it knows no such package."""
    parts = urlsplit(index.rstrip("/") + "/paictl/")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise PaictlError(
            text("{index} is not the address of a package index", index=_shown(index)),
            hint=text("for example --index {index}", index=INDEX),
        )
    user, _, host = parts.netloc.rpartition("@")
    request = urllib.request.Request(urlunsplit(parts._replace(netloc=host)), headers={"Accept": _TYPE})  # noqa: S310
    if user:
        request.add_header("Authorization", f"Basic {base64.b64encode(user.encode()).decode()}")
    try:
        with urllib.request.urlopen(request, timeout=seconds) as answer:  # noqa: S310 - the scheme was looked at
            data = json.loads(answer.read(MOST))
    except urllib.error.HTTPError as error:
        with error:
            if error.code == 404:
                return None
            message = text("the package index answered {code} {reason}", code=error.code, reason=error.reason)
            raise IndexUnreachableError(message, where=_shown(index)) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise IndexUnreachableError(
            text("the package index cannot be reached: {reason}", reason=reason),
            where=_shown(index),
            hint=text("give a mirror that this machine can reach: --index URL, or PIP_INDEX_URL"),
        ) from None
    return data if isinstance(data, dict) else {}


def _shown(index: str) -> str:
    """An address without the password that may be in it."""
    parts = urlsplit(index)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
