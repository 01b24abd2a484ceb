"""The files of a configuration, and what a push would make of them: merged, sealed, compared; nothing is sent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from pathlib import Path

from paictl import i18n
from paictl.config.pushing.compare import FileDifference, compare_files
from paictl.config.pushing.configfile import ConfigFile, Files, of_texts, texts_of
from paictl.config.pushing.merge import Merged, merge
from paictl.config.reading.kinds import FileKind
from paictl.config.reading.nodes import KeyPath, dotted, parse_dotted
from paictl.errors import PaictlError
from paictl.frozen import frozen

SERVICE_KINDS = frozenset({FileKind.LAYOUT, FileKind.SERVICES, FileKind.HIVED})
"""What ``-m service`` pushes, as in OpenPAI: the layout and the settings of the services."""


@frozen
class PushResult:
    """The outcome: `files` are those of the new version with secrets sealed, `merged` says by file what was kept."""

    files: dict[str, ConfigFile]
    merged: dict[str, Merged]
    differences: tuple[FileDifference, ...]
    secrets: dict[str, str] = field(default_factory=dict, repr=False)
    """Seal → value, of the secrets that the pushed files have in clear (`fileset.values_behind`)."""

    @property
    def changes(self) -> bool:
        """Whether the cluster's configuration would be another one."""
        return any(difference.what is not None for difference in self.differences)


def of_services(files: Files) -> dict[str, ConfigFile]:
    """The files that ``-m service`` pushes."""
    return {name: file for name, file in files.items() if file.kind in SERVICE_KINDS}


def prepare_push(pushed: Files, stored: Files, drop: Iterable[str] = ()) -> PushResult:
    """Merge files into those that a cluster has.

    Files that are not pushed stay; a host list is replaced as a whole. `drop` names keys as ``path.to.key``,
    ``FILE:path.to.key`` where several files have the key, or a whole file of the cluster as ``FILE``. Raises
    `PaictlError` for a key that cannot be dropped, a secret that cannot be sealed or a file that cannot be merged.
    """
    stored = seal_set(stored, stored)  # what is kept must not stay in clear, should it ever have been stored so
    words = list(drop)
    whole = {word for word in words if word in stored}
    drops = _drops([word for word in words if word not in whole], pushed, stored)
    merged: dict[str, Merged] = {}
    for name, file in pushed.items():
        has = stored.get(name)
        if has is None:
            # A file that was renamed brings seals which the cluster knows from under the old name.
            merged[name] = Merged(file.sealed(*(other for other in stored.values() if other.kind is file.kind)))
        elif file.kind.is_csv:
            merged[name] = Merged(file)
        else:
            merged[name] = merge(has, file.sealed(has), drops.get(name, ()))
    files = {**stored, **{name: outcome.file for name, outcome in merged.items()}}
    files = {name: file for name, file in files.items() if name not in whole or name in merged}
    return PushResult(files, merged, compare_files(stored, files), values_behind(pushed, files))


def _drops(words: Iterable[str], pushed: Files, stored: Files) -> dict[str, list[KeyPath]]:
    """Paths to drop by file."""
    drops: dict[str, list[KeyPath]] = {}
    for word in words:
        name, colon, rest = word.partition(":")
        named = bool(colon) and name in stored
        path = parse_dotted(rest if named else word)
        names = [name] if named else [file.name for file in stored.values() if file.node(path) is not None]
        if len(names) != 1:
            where = i18n.joined(" and ", names)
            many = "{path} is in {files}" if names else "{path} is in no file of the cluster"
            raise PaictlError(
                i18n.text(many, path=dotted(path), files=where),
                hint="name the file too: --drop FILE:path.to.key",
            )
        if names[0] not in pushed:
            raise PaictlError(
                i18n.text("{path} cannot be dropped", path=dotted(path)), where=names[0], hint="push this file as well"
            )
        drops.setdefault(names[0], []).append(path)
    return drops


KINDS = frozenset(
    {FileKind.MASTER_CSV, FileKind.WORKER_CSV, FileKind.CONFIG, FileKind.LAYOUT, FileKind.SERVICES, FileKind.HIVED}
)
"""What a cluster keeps of a folder; jobs and descriptions of services are no configuration of it."""


def read_folder(folder: str) -> list[ConfigFile]:
    """The configuration files directly in a folder, by name; raises `PaictlError` if there are none."""
    try:
        paths = sorted(path for path in Path(folder).iterdir() if path.suffix in (".yaml", ".yml", ".csv"))
    except FileNotFoundError:
        raise PaictlError("no such file or folder", where=folder, hint="give a folder of files") from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise PaictlError(
            i18n.text("cannot be read: {reason}", reason=reason), where=folder, hint="give a folder of files"
        ) from None
    candidates = [ConfigFile.read(path) for path in paths if path.is_file()]
    files = [file for file in candidates if file.kind in KINDS]
    if not files:
        raise PaictlError(
            "contains no configuration file", where=folder, hint="e.g. layout.yaml, services-configuration.yaml"
        )
    return files


def seal_set(files: Files, before: Files) -> dict[str, ConfigFile]:
    """The files with their secrets sealed; `before` are the sealed files that the cluster has.

    Every file passes through here before it reaches a cluster. Raises `SecretError` with the file's name.
    """
    return {name: file.sealed(*filter(None, [before.get(name)])) for name, file in files.items()}


def values_behind(files: Files, sealed: Files) -> dict[str, str]:
    """Seal → value, of the secrets that `files` have in clear; `sealed` are the same files. Others are left out."""
    values: dict[str, str] = {}
    for name in files.keys() & sealed.keys():
        values |= files[name].values_behind(sealed[name])
    return values


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
