"""The files of a cluster configuration together: which a folder has, and the secrets in them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from paictl import i18n
from paictl.config.pushing.configfile import ConfigFile, Files, of_texts, texts_of
from paictl.config.reading.kinds import FileKind
from paictl.errors import PaictlError

KINDS = frozenset(
    {FileKind.MASTER_CSV, FileKind.WORKER_CSV, FileKind.CONFIG, FileKind.LAYOUT, FileKind.SERVICES, FileKind.HIVED}
)
"""What a cluster keeps of a folder; jobs and descriptions of services are no configuration of it."""


def read_folder(folder: str) -> list[ConfigFile]:
    """The configuration files directly in a folder, by name; raises `PaictlError` if there are none."""
    try:
        paths = sorted(path for path in Path(folder).iterdir() if path.suffix in (".yaml", ".yml", ".csv"))
    except OSError as error:
        reason = error.strerror or str(error)
        raise PaictlError(
            i18n.text("cannot be read: {reason}", reason=reason), where=folder, hint="give a folder of files"
        ) from None
    found = [ConfigFile.read(path) for path in paths if path.is_file()]
    files = [file for file in found if file.kind in KINDS]
    if not files:
        raise PaictlError(
            "holds no configuration file", where=folder, hint="e.g. layout.yaml, services-configuration.yaml"
        )
    return files


def seal_set(files: Files, before: Files) -> dict[str, ConfigFile]:
    """The files with their secrets sealed; `before` are the sealed files that the cluster has.

    Every file passes through here before it reaches a cluster. Raises `SecretError` with the file's name.
    """
    return {name: file.sealed(*filter(None, [before.get(name)])) for name, file in files.items()}


def values_behind(files: Files, sealed: Files) -> dict[str, str]:
    """Seal → value, of the secrets that `files` have in clear; `sealed` are the same files. Others are left out."""
    found: dict[str, str] = {}
    for name in files.keys() & sealed.keys():
        found |= files[name].values_behind(sealed[name])
    return found


# --- of texts, as clusters keep them


def seal_files(texts: Mapping[str, str], before: Mapping[str, str] | None = None) -> dict[str, str]:
    """`seal_set` for texts."""
    return texts_of(seal_set(of_texts(texts), of_texts(before or {})))


def seals_of(texts: Mapping[str, str]) -> set[str]:
    """All seals in some sealed files."""
    return set().union(*(file.seals() for file in of_texts(texts).values()))


def secrets_of(texts: Mapping[str, str], sealed: Mapping[str, str]) -> dict[str, str]:
    """`values_behind` for texts."""
    return values_behind(of_texts(texts), of_texts(sealed))
