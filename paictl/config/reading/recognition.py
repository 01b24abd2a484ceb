"""Which files of somebody's repository are ours: decided before anything in them is judged.

A repository holds charts, manifests, compose files and workflows beside the folder of a cluster. Whatever is wrong with
those is no business of ours, be it their syntax; but a file of ours must not slip away because of a mistake in it. So
the decision reads words at the beginning of lines, not YAML.
"""

from __future__ import annotations

import os
import re
from pathlib import Path, PurePath

from paictl.config.reading.kinds import FileKind, kind_by_name, own_keys
from paictl.config.reading.source import read_bytes
from paictl.errors import PaictlError

_KEY = re.compile(r"""^["']?([A-Za-z_][\w.-]*)["']?[ \t]*(?::(?=\s|$)|\r?$)""", re.MULTILINE)
_FLOW_KEY = re.compile(r"""["']?([A-Za-z_][\w-]*)["']?[ \t]*:""")
_ADDRESS = re.compile(r"\b\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}\b")

_FLOW = re.compile(r"\A(?:\s|#[^\n]*\n|---)*\{")

_CERTAIN_NAMES = re.compile(r"services?-configuration.*\.ya?ml|hived-?scheduler\.ya?ml", re.IGNORECASE)
"""Names that nobody else gives to a file."""

_CLUSTER = frozenset(
    (FileKind.MASTER_CSV, FileKind.WORKER_CSV, FileKind.CONFIG, FileKind.LAYOUT, FileKind.SERVICES, FileKind.HIVED)
)
"""Kinds whose files stand together in the folder of a cluster; there a name alone is enough."""

_HOST_LIST_LINES = 50
"""Lines of a host list among which an address is looked for."""

_MOST_FIELDS = 4
"""A table with more columns than this is no host list, whatever addresses it holds."""


class Neighbourhood:
    """Says which files are ours, by their keys, or by their name beside others that are; each folder is read once."""

    def __init__(self) -> None:
        self._certain: dict[str, frozenset[str]] = {}

    def is_ours(self, path: str, text: str | None) -> bool:
        """Whether a file is meant for us; `text` is None where it cannot be read."""
        if text is not None and is_manifest(text):
            return False
        return _is_certain(path, text) or self._at_home(path)

    def _at_home(self, path: str) -> bool:
        """Whether a file has the name of a cluster's file and stands beside one that is certainly such a file."""
        if Path(path).parent.name == "config" and (Path(path).parent.parent / "deploy" / "service.yaml").is_file():
            return True  # OpenPAI keeps the default section of a service beside its description
        if kind_by_name(path) not in _CLUSTER:
            return False
        folder, name = os.path.split(path)
        if folder not in self._certain:
            self._certain[folder] = _certain_files(folder or ".")
        return bool(self._certain[folder] - {name})


def is_candidate(path: str) -> bool:
    """Whether a file has to be read at all to know that it is none of ours."""
    return not path.lower().endswith(".csv") or kind_by_name(path) is not None


def is_manifest(text: str) -> bool:
    """Whether a text is an object of Kubernetes, or a template of such objects."""
    words = _KEY.findall(text)
    return "apiVersion" in words and "kind" in words


def _is_certain(path: str, text: str | None) -> bool:
    """Whether a file is ours wherever it stands."""
    if _CERTAIN_NAMES.fullmatch(PurePath(path).name):
        return True
    if text is None:
        return False
    kind = kind_by_name(path)
    if kind is not None and kind.is_csv:
        return any(
            _ADDRESS.search(line) and line.count(",") < _MOST_FIELDS for line in text.splitlines()[:_HOST_LIST_LINES]
        )
    pattern = _FLOW_KEY if _FLOW.match(text) else _KEY
    return not own_keys().isdisjoint(pattern.findall(text))


def _certain_files(folder: str) -> frozenset[str]:
    """Names of a cluster's files in a folder that are ours without a doubt."""
    try:
        files = [path for path in Path(folder).iterdir() if kind_by_name(path.name) in _CLUSTER]
    except OSError:
        return frozenset()
    return frozenset(path.name for path in files if _holds_ours(path))


def _holds_ours(path: Path) -> bool:
    try:
        text = read_bytes(str(path)).decode("utf-8", errors="replace") if path.is_file() else ""
    except (OSError, PaictlError):
        return False
    return not is_manifest(text) and _is_certain(str(path), text)
