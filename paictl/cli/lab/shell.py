"""The shell of a lab: `paictl` must be found there, however this one was called."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path

from paictl.lab.errors import writing
from paictl.lab.ground import present_lab
from paictl.lab.session import Session

SHELL_MARK = "PAICTL_LAB_SHELL"
"""Environment variable of the shells that `lab shell` opens."""


def path_with_paictl(labs: Path) -> str | None:
    """PATH with a folder in front where `paictl` is this paictl; None if PATH has one already.

    The folder stands beside the labs and holds nothing else, so that no other program of a virtual environment gets in
    front of the student's.
    """
    if shutil.which("paictl") is not None:
        return None
    folder = labs.resolve() / "bin"
    script = folder / "paictl"
    source = shlex.quote(str(Path(__file__).resolve().parents[3]))
    with writing(script):
        folder.mkdir(exist_ok=True)
        draft = script.with_name(f"paictl.{os.getpid()}")
        draft.write_text(
            f"#!/bin/sh\nPYTHONPATH={source}${{PYTHONPATH:+:$PYTHONPATH}} "
            f'exec {shlex.quote(sys.executable)} -P -m paictl "$@"\n',
            encoding="utf-8",
        )
        draft.chmod(0o755)
        draft.replace(script)
    return os.pathsep.join([str(folder), os.environ.get("PATH", os.defpath)])


def in_lab_shell() -> bool:
    """Whether this shell was opened for a lab, so that exit leads back; one that took `lab env` was not."""
    return SHELL_MARK in os.environ


def in_lab(session: Session) -> bool:
    """Whether what is typed in this shell reaches this lab already, also after `lab env`."""
    present = present_lab()
    return present is not None and present.folder.resolve() == session.ground.folder.resolve()


def in_other_lab(session: Session) -> bool:
    """Whether this shell was opened for another lab."""
    return in_lab_shell() and present_lab() is not None and not in_lab(session)
