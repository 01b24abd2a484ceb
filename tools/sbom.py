#!/usr/bin/env python3
"""Software bills of materials (CycloneDX 1.6): of the wheel (with all extras) and of the container image.

They are made from the lock files, which name every package with version and hashes, and from nothing else, so that the
same tree gives the same bytes. `sbom.py [FOLDER]` writes ``paictl-VERSION-wheel.cdx.json`` and ``-image.cdx.json``.
Debian's packages of the image are not in a lock file: where `make images` has built it, the list in it is added.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import tarfile
import tomllib
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
Json = dict[str, Any]

_ENTRY: Final = re.compile(r"^([A-Za-z0-9._-]+)==([^\s\\;]+)", re.MULTILINE)
_HASH: Final = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_LEFT_OUT: Final = ("test", "dev")
"""Extras that nobody installs to use paictl."""


@dataclass(frozen=True)
class Locked:
    """A package of a lock file; `via` are the packages that need it, where the file says so."""

    name: str
    version: str
    hashes: tuple[str, ...]
    via: frozenset[str] = field(default_factory=frozenset)

    @property
    def purl(self) -> str:
        """Its name in all bills: a package URL."""
        return f"pkg:pypi/{self.name}@{self.version}"


def normal(name: str) -> str:
    """A name as PyPI compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def locked(text: str) -> dict[str, Locked]:
    """The packages of a lock file by name; a second version of one by name and version."""
    found = {}
    for block in re.split(r"\n(?=[A-Za-z0-9])", text):
        if match := _ENTRY.match(block):
            _, _, comment = block.partition("# via")
            via = {normal(word) for line in comment.splitlines() for word in [line.strip(" #").split(" ")[0]] if word}
            name = normal(match[1])
            key = name if name not in found else f"{name}@{match[2]}"  # another version for another Python
            found[key] = Locked(name, match[2], tuple(_HASH.findall(block)), frozenset(via))
    return found


def reachable(packages: Mapping[str, Locked], roots: Iterator[str]) -> dict[str, Locked]:
    """The packages that some need, directly or through others."""
    needs: dict[str, list[str]] = {}
    for key, one in packages.items():
        for user in one.via:
            needs.setdefault(user, []).append(key)
    found: dict[str, Locked] = {}
    wanted = set(roots)
    waiting = [key for key, one in packages.items() if one.name in wanted]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = packages[name]
            waiting += needs.get(name, [])
    return dict(sorted(found.items()))


def roots_of(project: Mapping[str, Any]) -> Iterator[str]:
    """What paictl itself needs, extras for users included."""
    extras = project["optional-dependencies"]
    for words in (project["dependencies"], *(one for name, one in extras.items() if name not in _LEFT_OUT)):
        for word in words:
            name = normal(re.split(r"[\[<>=!~; ]", word, maxsplit=1)[0])
            if name != "paictl":
                yield name


def component(one: Locked) -> Json:
    """A package as a component; the hashes are those of the files that the lock file accepts."""
    files = [{"alg": "SHA-256", "content": digest} for digest in one.hashes]
    where = {"type": "distribution", "url": f"https://pypi.org/project/{one.name}/{one.version}/", "hashes": files}
    return {
        "type": "library",
        "bom-ref": one.purl,
        "name": one.name,
        "version": one.version,
        "purl": one.purl,
        "externalReferences": [where],
    }


def bill(kind: str, version: str, packages: Mapping[str, Locked], direct: set[str], more: list[Json]) -> Json:
    """A bill of a subject of a kind: ``library`` for the wheel, ``container`` for the image."""
    own = f"pkg:pypi/paictl@{version}" if kind == "library" else f"pkg:oci/paictl@{version}"
    users: dict[str, list[str]] = {own: sorted(one.purl for one in packages.values() if one.name in direct)}
    for one in packages.values():
        users.setdefault(one.purl, [])
        for user in packages.values():
            if user.name in one.via:
                users.setdefault(user.purl, []).append(one.purl)
    for extra in more:
        users[own].append(extra["bom-ref"])
        users[extra["bom-ref"]] = []
    components = [component(one) for one in packages.values()] + more
    seed = hashlib.sha256(json.dumps([own, components], sort_keys=True).encode()).hexdigest()
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, seed)}",
        "version": 1,
        "metadata": {
            "component": {
                "type": kind,
                "bom-ref": own,
                "name": "paictl",
                "version": version,
                "purl": own,
                "licenses": [{"license": {"id": "MIT"}}],
            }
        },
        "components": components,
        "dependencies": [{"ref": ref, "dependsOn": sorted(needed)} for ref, needed in sorted(users.items())],
    }


def debian_packages(archive: Path) -> list[Json]:
    """Debian's packages of an image that was built, as the list in it says; empty where there is none."""
    if not archive.is_file():
        return []
    with tarfile.open(archive) as outer:
        for member in outer:
            layer = outer.extractfile(member) if member.isfile() and member.size > 1 << 20 else None
            if layer is None:
                continue
            with tarfile.open(fileobj=layer) as inner:
                for one in inner:
                    if one.name.lstrip("./") == "usr/share/paictl/debian.json":
                        said = inner.extractfile(one)
                        return _debian(json.load(said)) if said else []
    return []


def _debian(found: Any) -> list[Json]:
    pairs = found.items() if isinstance(found, dict) else ((one["name"], one["version"]) for one in found)
    made = []
    for name, version in sorted(pairs):
        purl = f"pkg:deb/debian/{name}@{version}?distro=debian-13"
        made.append({"type": "library", "bom-ref": purl, "name": name, "version": str(version), "purl": purl})
    return made


def bills(archive: Path | None = None) -> dict[str, Json]:
    """Both bills by the name of their file."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    source = (ROOT / "paictl" / "__init__.py").read_text(encoding="utf-8")
    version = re.search(r'^__version__ = "(.*)"$', source, re.MULTILINE)[1]  # type: ignore[index]
    dev, image = (locked((ROOT / "requirements" / name).read_text("utf-8")) for name in ("dev.lock", "image.lock"))
    edges = {
        name: Locked(name, one.version, one.hashes, dev[name].via if name in dev else frozenset())
        for name, one in image.items()
    }
    direct = set(roots_of(project))
    wheel = reachable(dev, iter(direct))
    debian = debian_packages(archive) if archive is not None else []
    return {
        f"paictl-{version}-wheel.cdx.json": bill("library", version, wheel, direct, []),
        f"paictl-{version}-image.cdx.json": bill("container", version, edges, direct, debian),
    }


def main() -> None:
    """Write the bills."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "dist"
    folder.mkdir(parents=True, exist_ok=True)
    archive = Path.home() / ".cache" / "paictl" / "images" / "current" / "paictl.tar"
    for name, made in bills(archive).items():
        (folder / name).write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
        print(f"{folder / name}: {len(made['components'])} components")
    if not archive.is_file():
        print("without Debian's packages of the image: make images builds it", file=sys.stderr)


if __name__ == "__main__":
    main()
