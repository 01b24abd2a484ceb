"""What a push would make of a cluster's configuration: merged, sealed, and compared; nothing is sent here."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field

from paictl import i18n
from paictl.config.pushing.compare import FileDifference, compare_files
from paictl.config.pushing.configfile import ConfigFile, Files
from paictl.config.pushing.fileset import seal_set, values_behind
from paictl.config.pushing.merge import Merged, merge
from paictl.config.reading.keypath import KeyPath, dotted, parse_dotted
from paictl.config.reading.kinds import FileKind
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
        found = [name] if named else [file.name for file in stored.values() if file.node(path) is not None]
        if len(found) != 1:
            many = f"is in {' and '.join(found)}" if found else "is in no file of the cluster"
            raise PaictlError(
                i18n.text("{path} {many}", path=dotted(path), many=many),
                hint="name the file too: --drop FILE:path.to.key",
            )
        if found[0] not in pushed:
            raise PaictlError(
                i18n.text("{path} cannot be dropped", path=dotted(path)), where=found[0], hint="push this file as well"
            )
        drops.setdefault(found[0], []).append(path)
    return drops
