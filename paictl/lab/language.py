"""In which language a student is spoken to.

The first that says something wins: the command line (``--lang``), ``PAICTL_LANG``, what ``lab start --lang`` chose for
this lab, what ``paictl lab language`` chose for all of them, a configuration file, the locale.
"""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path
from typing import Final

from paictl.lab.folders import lab_of_shell
from paictl.lab.messages import LANGUAGES, LabError
from paictl.lab.progress import ProgressFile

VARIABLE: Final = "PAICTL_LANG"


def language_of(root: Path, given: str | None = None, configured: object = None, *, lab: str = "") -> str:
    """The language for a student whose labs are in a folder.

    `given` is what the command line asks for, `configured` what a configuration file says. `lab` is the id of the lab
    that is spoken of; without it, the lab of this shell, or else the one begun last.
    """
    if given is not None:
        return given
    preferred = _supported(os.environ.get(VARIABLE, "")) or _chosen(root, lab or lab_of_shell())
    return preferred or _supported(str(configured or "")) or _supported(_locale()) or "en"


def choose(root: Path, language: str) -> None:
    """Keep a language for all labs from now on; raises `LabError` for one that there is none of."""
    if language not in LANGUAGES:
        raise LabError("no-such-language", language=language, languages=", ".join(LANGUAGES))
    with ProgressFile(root).changing() as progress:
        progress.language = language
        for lab in progress.labs.values():
            lab.language = ""


def choose_for(root: Path, lab: str, language: str) -> None:
    """Keep a language for one lab, independently of other labs."""
    with ProgressFile(root).changing() as progress:
        progress.lab(lab).language = language


def _chosen(root: Path, lab: str | None) -> str:
    try:
        progress = ProgressFile(root).read()
    except LabError:  # the file is damaged, which another command will say
        return ""
    own = progress.labs.get(lab or progress.current)
    return (own.language if own else "") or progress.language


def _supported(name: str) -> str:
    """The language that a name such as ``zh_CN.UTF-8`` means, empty for others."""
    short = name.lower()[:2]
    return short if short in LANGUAGES else ""


def _locale() -> str:
    names = ("LC_ALL", "LC_MESSAGES", "LANG")
    return next((value for name in names if (value := os.environ.get(name))), None) or _mac_locale()


def _mac_locale() -> str:
    """The language of macOS, whose programs start without LANG when no terminal sets it; empty elsewhere."""
    if platform.system() != "Darwin":
        return ""
    command = ["/usr/bin/defaults", "read", "-g", "AppleLocale"]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=5, check=True).stdout  # noqa: S603
    except (subprocess.SubprocessError, OSError):
        return ""
