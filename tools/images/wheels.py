"""Python packages as trees of files: wheels from the lock file, and paictl's own.

Wheels are unpacked by us: an installer writes its own name, programs with the path of *its* interpreter and byte code
with dates, none of which an image should have.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Final

from tools.images.debian import FetchError
from tools.images.oci import Entry, Tree, file

SITE: Final = "usr/lib/python3/dist-packages"
"""Where Debian's python3 looks for packages."""
PLATFORMS: Final = {
    "amd64": ("manylinux_2_28_x86_64", "manylinux2014_x86_64", "manylinux1_x86_64"),
    "arm64": ("manylinux_2_28_aarch64", "manylinux2014_aarch64"),
}


def download(lock: Path, into: Path, python: str, architecture: str) -> list[Path]:
    """Wheels of all that a lock file names, checked against its hashes; those that are there already are kept.

    Nothing is built. Raises `FetchError` with what pip says.
    """
    into.mkdir(parents=True, exist_ok=True)
    wanted = len(locked(lock))
    if len(found := _of(lock, into)) == wanted:
        return found
    platforms = [f"--platform={name}" for name in PLATFORMS[architecture]]
    _pip(
        "download",
        "--require-hashes",
        "--no-deps",
        "--only-binary=:all:",
        "--implementation=cp",
        f"--python-version={python}",
        *platforms,
        f"--dest={into}",
        f"--requirement={lock}",
    )
    if len(found := _of(lock, into)) != wanted:
        raise FetchError(f"{into} has {len(found)} of the {wanted} wheels of {lock.name}: delete it, try again")
    return found


def _of(lock: Path, folder: Path) -> list[Path]:
    """The wheels in a folder that a lock file names, by its hashes."""
    sums = set(re.findall(r"--hash=sha256:([0-9a-f]{64})", lock.read_text(encoding="utf-8")))
    return sorted(one for one in folder.glob("*.whl") if hashlib.sha256(one.read_bytes()).hexdigest() in sums)


def build(project: Path, into: Path) -> Path:
    """paictl's own wheel, from the source tree; the same tree gives the same bytes. Raises `FetchError`."""
    _pip(
        "wheel",
        "--no-deps",
        "--no-build-isolation",
        f"--wheel-dir={into}",
        str(project),
        environment={"SOURCE_DATE_EPOCH": "315532800"},
    )
    (wheel,) = into.glob("paictl-*.whl")
    return wheel


def locked(lock: Path) -> dict[str, str]:
    """Versions by name."""
    return dict(re.findall(r"^([A-Za-z0-9._-]+)==(\S+)", lock.read_text(encoding="utf-8"), re.M))


def normal(name: str) -> str:
    """A project's name as the packaging standards compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def read(wheel: Path) -> Tree:
    """All files of a wheel below `SITE`. Raises `ValueError` for a wheel that wants files elsewhere."""
    found: Tree = {}
    with zipfile.ZipFile(wheel) as archive:
        for info in archive.infolist():
            if info.is_dir():
                continue
            path = info.filename
            head, _, rest = path.partition("/")
            if head.endswith(".data"):
                kind, _, rest = rest.partition("/")
                if kind == "scripts":
                    continue  # programs of libraries; ours is written by the recipe
                if kind not in ("purelib", "platlib"):
                    raise ValueError(f"{wheel.name}: {path} belongs outside of Python's folder")
                path = rest
            executable = 0o111 & info.external_attr >> 16
            found[f"{SITE}/{path}"] = Entry(stat.S_IFREG | 0o644 | executable, archive.read(info))
    return found


def _pip(*arguments: str, environment: dict[str, str] | None = None) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pip", *arguments, "--quiet", "--disable-pip-version-check"],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | (environment or {}),
    )
    if done.returncode:
        raise FetchError(f"pip {arguments[0]} failed: {done.stderr.strip()}")


def program(name: str, module: str, function: str) -> Tree:
    """The program NAME that calls a function; neither user's packages nor the working folder are looked into."""
    text = f"#!/usr/bin/python3 -sP\nimport sys\n\nfrom {module} import {function}\n\nsys.exit({function}())\n"
    return {f"usr/bin/{name}": file(text, 0o755)}
