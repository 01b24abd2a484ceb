"""An image to work in, for tests of what jobs can do: Debian with bash, sshd and Python, JupyterLab, TensorBoard.

All of it is what people use: Debian's part is that of the hosts, the rest comes from PyPI by requirements/desk.lock.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tools.hosts.base import base
from tools.hosts.places import hosts, kept, key_of
from tools.hosts.shell import LabError
from tools.images import oci, wheels

DESK: Final = "localhost/desk:1"
"""Name and tag of the image."""

_LOCK: Final = Path(__file__).parents[2] / "requirements" / "desk.lock"
_PACKAGES: Final = "opt/desk"
"""Where the Python packages are in the image."""
_FROM_BASE: Final = ("bin", "sbin", "lib", "lib64", "etc", "usr/bin", "usr/sbin", "usr/lib", "usr/lib64")
_LEFT_OUT: Final = ("etc/resolv.conf", "etc/hostname", "etc/hosts", "usr/lib/systemd", "usr/lib/modules")
_PROGRAMS: Final = {
    "jupyter": ("jupyter_core.command", "main"),
    "jupyter-lab": ("jupyterlab.labapp", "main"),
    "tensorboard": ("tensorboard.main", "run_main"),
}
"""With the path of the image's Python; an installer writes its own."""
_SETTINGS: Final[oci.Json] = {
    "Env": [
        f"PATH=/{_PACKAGES}/programs:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        f"PYTHONPATH=/{_PACKAGES}",
        f"JUPYTER_PATH=/{_PACKAGES}/share/jupyter",
        f"JUPYTER_CONFIG_PATH=/{_PACKAGES}/etc/jupyter",
        f"JUPYTERLAB_DIR=/{_PACKAGES}/share/jupyter/lab",
    ],
    "Cmd": ["/bin/bash"],
}


def desk() -> Path:
    """The archive of the image, made if it is not in the cache.

    Raises:
        LabError: a package cannot be had from PyPI.
    """
    own = [Path(file).read_bytes() for file in (__file__, oci.__file__)]
    return kept(hosts() / "desk" / key_of([base().name, _LOCK.read_bytes(), *own]), _fill) / "desk.tar"


def _fill(at: Path) -> None:
    packages = at / "packages"
    _install(packages, _python(base()))
    tree = dict(_entries(packages, _PACKAGES))
    for name, (module, function) in _PROGRAMS.items():
        program = f"#!/usr/bin/python3\nimport sys\n\nfrom {module} import {function}\n\nsys.exit({function}())\n"
        tree[f"{_PACKAGES}/programs/{name}"] = oci.file(program, 0o755)
    system: oci.Tree = {name: oci.folder() for name in ("dev", "proc", "root", "run", "sys", "var/tmp")}
    system["tmp"] = oci.folder(0o1777)
    for part in _FROM_BASE:
        system.update(_entries(base() / part, part))
    layers = [(what, oci.pack(found, compressed=False)) for what, found in (("Debian", system), ("PyPI", tree))]
    (at / "desk.tar").write_bytes(oci.archive(oci.Image(DESK, "amd64", _SETTINGS, tuple(layers))))
    subprocess.run(["rm", "-r", str(packages)], check=True)


def _python(root: Path) -> str:
    """The version of Debian's Python: 3.11."""
    return (root / "usr/bin/python3").readlink().name.removeprefix("python")


def _install(into: Path, version: str) -> None:
    """The packages of the lock file for a Python that is not the one of this process."""
    platforms = [f"--platform={name}" for name in wheels.PLATFORMS["amd64"]]
    words = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "-q",
        "--disable-pip-version-check",
        "--root-user-action=ignore",
        "--no-compile",
        "--no-deps",
        "--require-hashes",
        "--only-binary=:all:",
        "--implementation=cp",
        f"--python-version={version}",
        *platforms,
        "--target",
        str(into),
        "-r",
        str(_LOCK),
    ]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise LabError(f"pip cannot install {_LOCK.name}: {done.stderr.strip()}")


def _entries(source: Path, name: str) -> Iterator[tuple[str, oci.Entry]]:
    """A file, link or folder with all that is in it, under the name that it has in the image."""
    if name in _LEFT_OUT:
        return
    if source.is_symlink():
        yield name, oci.link(str(source.readlink()))
    elif source.is_dir():
        for child in sorted(os.scandir(source), key=lambda one: one.name):
            yield from _entries(Path(child.path), f"{name}/{child.name}")
    elif source.is_file():
        yield name, oci.file(source.read_bytes(), source.stat().st_mode & 0o755)
