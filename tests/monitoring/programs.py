"""Prometheus, Alertmanager and node-exporter, as `tools/kube/build.sh monitoring` builds them."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

from tests.conftest import ROOT

OF = {
    "prometheus": "prometheus",
    "promtool": "prometheus",
    "alertmanager": "alertmanager",
    "amtool": "alertmanager",
    "node-exporter": "node-exporter",
}
"""Programs, and the component that each belongs to."""


@cache
def folder(component: str) -> Path:
    """Where the programs of a component are, of the version that `templates/images.yaml` names."""
    said = subprocess.run(
        [ROOT / "tools" / "kube" / "build.sh", "--where", component], check=True, capture_output=True, text=True
    )
    return Path(said.stdout.strip())


def program(name: str) -> Path:
    """A program, whether it is there or not."""
    return folder(OF[name]) / name


def missing() -> list[str]:
    """Programs that are not there."""
    return [str(program(name)) for name in OF if not program(name).is_file()]


def said(name: str, *words: str | Path) -> tuple[int, str]:
    """Exit code and all output of a program that looks at files and ends."""
    done = subprocess.run([program(name), *words], capture_output=True, text=True, check=False, timeout=60)
    return done.returncode, done.stdout + done.stderr
