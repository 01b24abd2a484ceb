"""The files of a cluster configuration as name → text: which there are, sealed, and shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

from paictl import i18n
from paictl.config.reading.kinds import FileKind, recognise
from paictl.config.reading.load import load_file
from paictl.config.reading.source import Source
from paictl.config.reading.yamltree import parse_yaml
from paictl.config.secrets.sealing import mask, seal, seals_in, values_behind
from paictl.config.secrets.walk import SecretError
from paictl.errors import PaictlError

Files: TypeAlias = "Mapping[str, str]"

KINDS = frozenset(
    {FileKind.MASTER_CSV, FileKind.WORKER_CSV, FileKind.CONFIG, FileKind.LAYOUT, FileKind.SERVICES, FileKind.HIVED}
)
"""What a cluster keeps of a folder; jobs and descriptions of services are no configuration of it."""


def kind_of(name: str, text: str) -> FileKind:
    """The kind of a file, told as `config validate` tells it."""
    root = None if name.endswith(".csv") else parse_yaml(Source(name, text)).root
    return recognise(name, root) or FileKind.UNKNOWN


def read_folder(folder: str) -> dict[str, str]:
    """The configuration files that stand in a folder itself, by name; raises `PaictlError` if there are none."""
    try:
        paths = sorted(path for path in Path(folder).iterdir() if path.suffix in (".yaml", ".yml", ".csv"))
    except OSError as error:
        reason = error.strerror or str(error)
        raise PaictlError(
            i18n.text("cannot be read: {reason}", reason=reason), where=folder, hint="name a folder of files"
        ) from None
    found = [load_file(str(path))[0] for path in paths if path.is_file()]
    files = {Path(document.path).name: document.source.text for document in found if document.kind in KINDS}
    if not files:
        raise PaictlError(
            "holds no configuration file", where=folder, hint="e.g. layout.yaml, services-configuration.yaml"
        )
    return files


def seal_files(files: Files, before: Files | None = None) -> dict[str, str]:
    """The files with their secrets sealed; `before` are the sealed files that the cluster has.

    Every file passes through here before it reaches a cluster. Raises `SecretError` with the file's name.
    """
    known = before or {}
    return {name: sealed(name, text, *filter(None, [known.get(name)])) for name, text in files.items()}


def sealed(name: str, text: str, *known_texts: str) -> str:
    """`seal` for a file with a name."""
    with _naming(name):
        return seal(text, kind_of(name, text), *known_texts)


def seals_of(files: Files) -> set[str]:
    """All seals in some sealed files."""
    found: set[str] = set()
    for name, text in files.items():
        with _naming(name):
            found |= seals_in(text, kind_of(name, text))
    return found


def secrets_of(files: Files, sealed_files: Files) -> dict[str, str]:
    """The values behind the seals of files, as `values_behind` gives them; `files` are the same with secrets in clear.

    Only what stands in both is compared.
    """
    found: dict[str, str] = {}
    for name in files.keys() & sealed_files.keys():
        with _naming(name):
            found |= values_behind(files[name], sealed_files[name], kind_of(name, files[name]))
    return found


def masked(name: str, text: str) -> str:
    """`mask` for a file with a name."""
    with _naming(name):
        return mask(text, kind_of(name, text))


@contextmanager
def _naming(name: str) -> Iterator[None]:
    """Errors about secrets say in which file."""
    try:
        yield
    except SecretError as error:
        raise SecretError(error.message, hint=error.hint, where=name) from None
