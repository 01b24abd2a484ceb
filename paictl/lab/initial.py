"""With what the cluster of a lab or of a class begins: configuration files, machines and services."""

from __future__ import annotations

from collections.abc import Mapping

from paictl.cluster.interface import MachineSpec
from paictl.cluster.machines import machines_in
from paictl.cluster.presets import DEFAULT, LAYOUT, PUBLIC_SECRET, SERVICES, preset_files
from paictl.config.pushing.push import seal_files
from paictl.config.secrets.sealing import quick_seal
from paictl.frozen import frozen
from paictl.lab.manifest import Lab
from paictl.service.catalogue import load_catalogue


@frozen
class Beginning:
    """A cluster that is about to begin: its files have their secrets sealed, its services stand in start order."""

    files: Mapping[str, str]
    machines: tuple[MachineSpec, ...]
    services: tuple[str, ...]


def initial_files(lab: Lab) -> dict[str, str]:
    """File name → text, secrets in clear; of the default preset for a lab whose cluster the student brings up."""
    if lab.layout is None:
        return preset_files(lab.preset or DEFAULT)
    files = {LAYOUT: (lab.folder / lab.layout).read_text(encoding="utf-8")}
    written = lab.folder / SERVICES
    return files | ({SERVICES: written.read_text(encoding="utf-8")} if written.is_file() else {})


def beginning_of(lab: Lab) -> Beginning:
    """How the cluster of a lab begins.

    The secrets of all presets, which are none, get a seal that is quickly made; it stays, and any other is sealed.
    """
    written = initial_files(lab)
    files = {name: PUBLIC_SECRET.sub(lambda match: f'"{quick_seal(match[0])}"', text) for name, text in written.items()}
    return _beginning(seal_files(files, files))


def beginning_with(files: Mapping[str, str]) -> Beginning:
    """How a cluster with these files begins, which may have secrets in clear."""
    return _beginning(seal_files(files))


def _beginning(sealed: Mapping[str, str]) -> Beginning:
    return Beginning(sealed, tuple(machines_in(sealed)), tuple(load_catalogue().services))
