"""A folder of configuration files, and the version of a cluster's configuration that they were made from.

`config pull` and `config push` note the version beside the files. A later push from the folder knows by it what others
have changed meanwhile, whoever runs it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from paictl import i18n
from paictl.cluster.interface import ConfigVersion
from paictl.config.making.generate import SERVICES_FILE
from paictl.config.pushing.configfile import ConfigFile
from paictl.config.pushing.push import read_folder
from paictl.errors import PaictlError
from paictl.files import write_together
from paictl.frozen import frozen
from paictl.units import rfc3339

MARK: Final = ".paictl-base.json"

OTHER_NAMES: Final = {"service-configuration.yaml": SERVICES_FILE, "service-configuration.yml": SERVICES_FILE}
"""How the textbook calls a file of OpenPAI."""


@frozen
class Base:
    """A version of a cluster's configuration; `at` tells it from one of another cluster that had the same name."""

    cluster: str
    version: int
    at: str


@frozen
class Folder:
    """The files in a folder by their names in a cluster, and what there is to say about these names."""

    files: Mapping[str, ConfigFile]
    notes: tuple[str, ...] = ()

    @property
    def places(self) -> dict[str, str]:
        """Where each file was read, by name."""
        return {name: file.place for name, file in self.files.items()}


def read(path: str) -> Folder:
    """The configuration files in a folder; raises `PaictlError` if there are none, or two that mean the same one."""
    files: dict[str, ConfigFile] = {}
    notes: list[str] = []
    for file in read_folder(path):
        openpai_name = OTHER_NAMES.get(file.name, file.name)
        if openpai_name in files:
            raise PaictlError(
                i18n.text(
                    "{value} and {name} are the same file to OpenPAI", value=files[openpai_name].place, name=file.name
                ),
                where=path,
                hint="keep one",
            )
        if openpai_name != file.name:
            notes.append(
                i18n.text("{name} is read as {known}, its name in OpenPAI", name=file.name, known=openpai_name)
            )
        files[openpai_name] = file.renamed(openpai_name)
    return Folder(files, tuple(notes))


def base_of(path: str, cluster: str) -> Base | None:
    """The version that the files in a folder were made from, if it is known and one of this cluster."""
    try:
        mark: Any = json.loads(Path(path, MARK).read_text(encoding="utf-8"))
        base = Base(str(mark["cluster"]), int(mark["version"]), str(mark["at"]))
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return base if base.cluster == cluster else None


def note_base(path: str, cluster: str, version: ConfigVersion) -> None:
    """Note in a folder that it is as new as a version; a folder that cannot be written stays without the note."""
    text = json.dumps(asdict(Base(cluster, version.number, rfc3339(version.at)))) + "\n"
    try:
        write_together(Path(path), {MARK: text}, force=True)
    except PaictlError:
        return
