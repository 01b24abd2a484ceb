"""ansible-core in a virtual environment of its own, so that any Python of paictl works and nothing of it is ours.

It is made once, from pinned versions with their hashes, in the folder of caches, and used by all later runs. A marker
is written last: an environment that a kill left half made is made anew.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from paictl.errors import PaictlError
from paictl.files import lock
from paictl.i18n import text
from paictl.places import cache_folder

_REQUIREMENTS: Final = Path(__file__).with_name("requirements")
_DONE: Final = ".complete"
WHEELS: Final = "PAICTL_WHEELS"
"""Environment variable: a folder with the wheels, for sites without a package registry."""


def requirements_file(version: tuple[int, int] = sys.version_info[:2]) -> Path:
    """The pinned packages for a Python: 3.11 has an older ansible-core than 3.12 and later."""
    return _REQUIREMENTS / ("py311.txt" if version < (3, 12) else "py312.txt")


def ansible_environment(wheels: Path | None = None, say: Callable[[str], object] = lambda _: None) -> Path:
    """The environment's folder of programs, made if it is not there (some ten seconds); `wheels` works without network.

    Raises `PaictlError` with the last lines of pip if it cannot be made.
    """
    pinned = requirements_file()
    folder = cache_folder() / "ansible" / _key(pinned)
    if not (folder / _DONE).is_file():
        with _locked(folder.with_suffix(".lock")):
            if not (folder / _DONE).is_file():
                say(text("setting up Ansible in {folder}, once", folder=folder))
                _make(folder, pinned, wheels or _wheels_of_site())
    return folder / "bin"


def _key(pinned: Path) -> str:
    """The same for the same packages under the same Python."""
    parts = (pinned.read_text(encoding="utf-8"), sys.version, sys.base_prefix)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _wheels_of_site() -> Path | None:
    folder = os.environ.get(WHEELS)
    return Path(folder) if folder else None


def _make(folder: Path, pinned: Path, wheels: Path | None) -> None:
    if wheels is not None and not wheels.is_dir():
        raise PaictlError(text("the folder of wheels does not exist"), where=str(wheels))
    shutil.rmtree(folder, ignore_errors=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-input"]
    source = ["--no-index", "--find-links", str(wheels)] if wheels else []
    try:
        _run([sys.executable, "-m", "venv", str(folder)], "on Debian and Ubuntu: apt install python3-venv")
        _run(
            [*pip, *source, "--require-hashes", "--only-binary", ":all:", "-r", str(pinned)],
            f"it is installed once, from the package registry: make sure that this machine reaches it, or set "
            f"{WHEELS} to a "
            f"folder with the wheels (pip download --only-binary :all: -d DIR -r {pinned})",
        )
        (folder / _DONE).touch()
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _run(command: list[str], hint: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)  # noqa: S603 - ours
    if done.returncode:
        lines = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()]
        reason = next((line for line in lines if line.startswith("ERROR")), lines[-1] if lines else "no reason given")
        raise PaictlError(text("Ansible cannot be set up: {reason}", reason=reason), hint=hint)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise PaictlError(text("cannot be created: {strerror}", strerror=error.strerror), where=str(path)) from None
    try:
        lock(handle)
        yield
    finally:
        os.close(handle)
