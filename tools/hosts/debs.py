"""Debian packages unpacked into the cache: programs that this machine need not have installed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tools.hosts.places import hosts, kept, key_of
from tools.hosts.shell import LabError, run

if TYPE_CHECKING:
    pass

TOOLS = ("systemd-container", "libsystemd-shared", "mmdebstrap", "busybox-static")


def codename() -> str:
    """The release of this machine, whose packages its hosts get too.

    Raises:
        LabError: it is no Debian.
    """
    release = Path("/etc/os-release").read_text()
    values = dict(line.split("=", 1) for line in release.splitlines() if "=" in line)
    if values.get("ID", "").strip('"') != "debian" or shutil.which("apt-get") is None:
        raise LabError("test hosts are made of Debian's packages, and this machine is no Debian with apt-get")
    return values["VERSION_CODENAME"].strip('"')


def sources() -> list[str]:
    """The lines of sources.list for where this machine gets Debian's main packages."""
    form = "deb $(REPO_URI) $(CODENAME) $(COMPONENT)"
    targets = ("Created-By: Packages", "Origin: Debian", "Component: main")
    return sorted(set(run(["apt-get", "indextargets", "--format", form, *targets]).stdout.splitlines()))


def unpacked(packages: Sequence[str]) -> Path:
    """A folder with these packages (without what they depend on), fetched and unpacked if it is not there yet.

    Raises:
        LabError: a package cannot be had.
    """
    return kept(hosts() / "debs" / f"{codename()}-{key_of(packages)}", lambda at: _unpack(packages, at))


def _unpack(packages: Sequence[str], at: Path) -> None:
    (at / "archives").mkdir()
    _download(packages, at / "archives")
    for archive in sorted((at / "archives").glob("*.deb")):
        run(["dpkg", "-x", archive, at])
    shutil.rmtree(at / "archives")


def _download(packages: Sequence[str], folder: Path) -> None:
    """Once more with fresh lists where the machine's are old or absent."""
    quiet = ["-q", "-o", "APT::Sandbox::User=root"]
    if run(["apt-get", "download", *quiet, *packages], check=False, folder=folder).returncode:
        run(["apt-get", "update", *quiet])
        run(["apt-get", "download", *quiet, *packages], folder=folder)


def nspawn() -> list[str]:
    """The words that start systemd-nspawn."""
    root = unpacked(TOOLS)
    return ["env", f"LD_LIBRARY_PATH={_libraries(root)}", str(root / "usr/bin/systemd-nspawn")]


def mmdebstrap() -> list[str]:
    """The words that start mmdebstrap, which looks for its own helpers in PATH."""
    programs = unpacked(TOOLS) / "usr/bin"
    return ["env", f"PATH={programs}:{os.environ['PATH']}", "perl", str(programs / "mmdebstrap")]


def busybox() -> Path:
    """A static busybox."""
    return unpacked(TOOLS) / "bin/busybox"


def _libraries(root: Path) -> Path:
    return root / "usr/lib" / f"{os.uname().machine}-linux-gnu" / "systemd"
