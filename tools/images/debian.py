"""Packages of Debian as trees of files, without installing anything and without being root.

apt's own client fetches and verifies them (signed lists, checksums), with lists and sources of its own, so that the
machine's release does not matter. Maintainer scripts do not run: the few things that they would do are in `recipe`.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import stat
import subprocess
import tarfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tools.images.oci import Entry, Tree

SUITE: Final = "trixie"
KEYRING: Final = "/usr/share/keyrings/debian-archive-keyring.gpg"
MIRROR: Final = "http://deb.debian.org"
FRESH: Final = 24 * 3600.0
"""Seconds for which lists are not asked for again."""
_MERGED: Final = ("bin/", "sbin/", "lib/", "lib64/")
"""Folders that are links into usr."""
_LINE: Final = re.compile(r"^'(?P<url>[^']+)' (?P<file>\S+) (?P<size>\d+) SHA256:(?P<sha256>[0-9a-f]{64})$", re.M)


class FetchError(Exception):
    """What could not be had, and what to do."""


@dataclass(frozen=True, slots=True)
class Package:
    """A file of Debian's archive."""

    name: str
    version: str
    sha256: str
    path: Path


class Apt:
    """apt with a state of its own in a folder.

    `architecture` is Debian's name of it (amd64, arm64).
    """

    def __init__(self, folder: Path, architecture: str) -> None:
        self.folder = folder
        self.architecture = architecture
        for part in ("lists/partial", "archives/partial"):
            (folder / part).mkdir(parents=True, exist_ok=True)
        (folder / "sources.list").write_text(
            f"deb [signed-by={KEYRING}] {MIRROR}/debian {SUITE} main\n"
            f"deb [signed-by={KEYRING}] {MIRROR}/debian-security {SUITE}-security main\n"
        )
        self.options = [
            f"Dir::State::lists={folder}/lists",
            f"Dir::Cache={folder}",
            f"Dir::Etc::sourcelist={folder}/sources.list",
            "Dir::Etc::sourceparts=-",
            "Dir::State::status=/dev/null",
            f"APT::Architecture={architecture}",
            f"APT::Architectures={architecture}",
            "APT::Sandbox::User=root",
            "Acquire::Languages=none",
            "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false",
            "Acquire::ForceHash=SHA256",
        ]

    def fetch(self, names: tuple[str, ...]) -> list[Package]:
        """Files of the newest version of each package, in the order asked for; from the folder where they are there.

        Raises `FetchError` if apt is not here, a name is unknown, or a file cannot be had.
        """
        stamp = self.folder / "updated"
        if not stamp.exists() or time.time() - stamp.stat().st_mtime > FRESH:
            try:
                self._run("update")
                stamp.touch()
            except FetchError:
                if not stamp.exists():
                    raise
                print("images: Debian's lists could not be renewed; those of the last time are used")
        found = self._listed(names)
        if wanted := [one.name for one in found if not _is(one)]:
            self._run("download", *wanted, folder=self.folder / "archives")
        for one in found:
            if not _is(one):
                raise FetchError(f"{one.path} has another checksum than the list says: delete it and try again")
        return found

    def _listed(self, names: tuple[str, ...]) -> list[Package]:
        by_name: dict[str, Package] = {}
        for match in _LINE.finditer(self._run("download", "--print-uris", *names)):
            name, version, _ = match["file"].split("_", 2)
            path = self.folder / "archives" / match["file"]
            by_name[name] = Package(name, version.replace("%3a", ":"), match["sha256"], path)
        if absent := [name for name in names if name not in by_name]:
            raise FetchError(f"{SUITE} has no checksum or no package for {', '.join(absent)}")
        return [by_name[name] for name in names]

    def _run(self, *arguments: str, folder: Path | None = None) -> str:
        options = [part for option in self.options for part in ("-o", option)]
        try:
            done = subprocess.run(
                ["apt-get", "-q", *options, *arguments],
                cwd=folder,
                capture_output=True,
                text=True,
                check=False,
                env=os.environ | {"LC_ALL": "C"},
            )
        except FileNotFoundError:
            raise FetchError(
                "apt-get is not here: build the image with the Dockerfile, or on Debian or Ubuntu"
            ) from None
        if done.returncode:
            raise FetchError(f"apt-get {arguments[0]} failed: {done.stderr.strip()}")
        return done.stdout


def _is(package: Package) -> bool:
    if not package.path.exists():
        return False
    return hashlib.sha256(package.path.read_bytes()).hexdigest() == package.sha256


def read(package: Package) -> Tree:
    """All entries of a package, with merged /usr; hard links become copies."""
    done = subprocess.run(["dpkg-deb", "--fsys-tarfile", str(package.path)], capture_output=True, check=True)
    found: Tree = {}
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        for member in archive:
            path = merged(member.name.removeprefix("./").rstrip("/"))
            if path in ("", ".") or f"{path}/" in _MERGED:
                continue
            if member.isdir():
                found[path] = Entry(stat.S_IFDIR | member.mode)
            elif member.issym():
                found[path] = Entry(stat.S_IFLNK | 0o777, member.linkname.encode())
            elif member.islnk():
                found[path] = found[merged(member.linkname.removeprefix("./"))]
            elif content := archive.extractfile(member):
                # no set-user-ID programs in an image that nobody logs in to
                found[path] = Entry(stat.S_IFREG | member.mode & 0o755, content.read())
    return found


def merged(path: str) -> str:
    """A path with bin, sbin, lib and lib64 below usr."""
    return f"usr/{path}" if path.startswith(_MERGED) else path
