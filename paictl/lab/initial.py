"""The configuration files with which a lab begins, as they are written: those of its preset, or its own."""

from __future__ import annotations

from paictl.cluster.presets import DEFAULT, LAYOUT, SERVICES, preset_files
from paictl.lab.manifest import Lab


def initial_files(lab: Lab) -> dict[str, str]:
    """File name → text, secrets in clear; of the default preset for a lab whose cluster the student brings up."""
    if lab.layout is None:
        return preset_files(lab.preset or DEFAULT)
    files = {LAYOUT: (lab.folder / lab.layout).read_text(encoding="utf-8")}
    written = lab.folder / SERVICES
    return files | ({SERVICES: written.read_text(encoding="utf-8")} if written.is_file() else {})
