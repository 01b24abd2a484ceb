"""Builds the images that are ours into a cache outside the tree: once for the same inputs."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tools.images import debian, oci, recipe, wheels
from tools.images.debian import FetchError

ROOT: Final = Path(__file__).resolve().parents[2]
LOCK: Final = ROOT / "requirements" / "image.lock"
MACHINES: Final = {"x86_64": "amd64", "aarch64": "arm64"}
KUBE_VERSION: Final = "v1.37.1"
KEPT: Final = 3
"""Sets of archives in the cache; older ones go."""


@dataclass(frozen=True, slots=True)
class Built:
    """An archive that is there."""

    image: str
    name: str
    """Reference in the archive."""
    path: Path
    digest: str


def cache() -> Path:
    """``$XDG_CACHE_HOME/paictl/images``."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "paictl" / "images"


def scheduler_binary() -> Path:
    """kube-scheduler as ``make kube`` leaves it."""
    version = os.environ.get("KUBE_VERSION", KUBE_VERSION)
    at = os.environ.get("PAICTL_KUBE")
    return (Path(at) if at else cache().parent / "kube" / version) / "kube-scheduler"


@dataclass(frozen=True, slots=True)
class Inputs:
    """All that decides what is in the archives."""

    architecture: str
    packages: tuple[debian.Package, ...]
    locked: tuple[Path, ...]
    wheel: Path
    version: str
    """paictl's."""
    scheduler: Path | None

    @property
    def base_key(self) -> str:
        """Of the base layer."""
        return _key(*(one.sha256 for one in self.packages), _recipe())

    @property
    def python_key(self) -> str:
        """Of the layer with the locked packages."""
        return _key(self.base_key, *(one.name for one in self.locked), LOCK.read_text(encoding="utf-8"))

    @property
    def key(self) -> str:
        """Of the whole."""
        return _key(self.python_key, *(_sum(one) for one in (self.wheel, self.scheduler) if one))


def _key(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _sum(path: Path) -> str:
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _recipe() -> str:
    return _key(*(_sum(one) for one in sorted(Path(__file__).parent.glob("*.py"))))


@contextmanager
def inputs(folder: Path, scheduler: Path | None) -> Iterator[Inputs]:
    """Fetch what is not in the cache yet, and build paictl's wheel. Raises `FetchError`."""
    architecture = MACHINES.get(platform.machine())
    if architecture is None:
        raise FetchError(f"no image for {platform.machine()}: build it with the Dockerfile")
    packages = debian.Apt(folder / "apt", architecture).fetch(recipe.PACKAGES)
    locked = wheels.download(LOCK, folder / "wheels", recipe.PYTHON, architecture)
    with tempfile.TemporaryDirectory(prefix="paictl-wheel-") as name:
        wheel = wheels.build(ROOT, Path(name))
        version = wheel.name.split("-")[1]
        yield Inputs(architecture, tuple(packages), tuple(locked), wheel, version, scheduler)


class Builder:
    """Makes archives from inputs; layers that did not change come from the cache."""

    def __init__(self, given: Inputs, folder: Path) -> None:
        self.given = given
        self.folder = folder
        self._root: oci.Tree | None = None

    def root(self) -> oci.Tree:
        """Debian's part as it comes: enough to run Python."""
        if self._root is None:
            self._root = recipe.base((one, debian.read(one)) for one in self.given.packages)
        return self._root

    def base(self) -> oci.Tree:
        """Debian's part, with byte code."""
        return self.root() | recipe.byte_code(self.root(), self.root())

    def locked(self) -> oci.Tree:
        """The locked Python packages, with byte code."""
        found: oci.Tree = {}
        for wheel in self.given.locked:
            found |= recipe.kept(wheels.read(wheel))
        return found | recipe.byte_code(self.root() | found, found)

    def own(self) -> oci.Tree:
        """paictl, with byte code."""
        found = wheels.read(self.given.wheel)
        return (
            found | recipe.byte_code(self.root() | found, found) | wheels.program("paictl", "paictl.cli.main", "main")
        )

    def paictl(self) -> oci.Image:
        """The image of everything in the cluster that is ours."""
        version = self.given.version
        layers = (
            (f"Debian {debian.SUITE}: Python {recipe.PYTHON}", self._kept(self.given.base_key, self.base)),
            ("requirements/image.lock", self._kept(self.given.python_key, self.locked)),
            (f"paictl {version}", oci.pack(self.own())),
        )
        settings = recipe.settings("paictl", "paictl", version, "MIT")
        return oci.Image(f"localhost/paictl:{version}", self.given.architecture, settings, layers)

    def scheduler(self, program: Path) -> oci.Image:
        """kube-scheduler, a static program, under its own name."""
        version = os.environ.get("KUBE_VERSION", KUBE_VERSION)
        tree = recipe.accounts() | {"usr/local/bin/kube-scheduler": oci.file(program.read_bytes(), 0o755)}
        # as root, as upstream's: kubeadm's scheduler reads a file of root's; our Deployment names another user
        settings = {**recipe.settings("kube-scheduler", "kube-scheduler", version, "Apache-2.0"), "User": ""}
        layers = ((f"kube-scheduler {version}", oci.pack(tree)),)
        name = f"registry.k8s.io/kube-scheduler:{version}"
        return oci.Image(name, self.given.architecture, settings, layers)

    def _kept(self, key: str, make: Callable[[], oci.Tree]) -> oci.Layer:
        """A layer from the cache, or made and put there."""
        blob, about = self.folder / "layers" / f"{key}.tar.gz", self.folder / "layers" / f"{key}.json"
        if about.exists():
            return oci.Layer(blob.read_bytes(), json.loads(about.read_text())["diff_id"])
        layer = oci.pack(make())
        blob.parent.mkdir(exist_ok=True)
        _write(blob, layer.blob)
        _write(about, json.dumps({"diff_id": layer.diff_id}).encode())
        return layer


def _write(path: Path, data: bytes) -> None:
    beside = path.with_name(f".{path.name}.new")
    beside.write_bytes(data)
    beside.replace(path)


def build(say: Callable[[str], None], folder: Path | None = None) -> list[Built]:
    """All archives, in a folder named by their inputs to which the link ``current`` leads.

    Where kube-scheduler has not been built only paictl's is made. Raises `FetchError` with what to do.
    """
    folder = folder or cache()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        program = scheduler_binary()
        if not program.exists():
            say(f"no image of kube-scheduler: {program} is not there (make kube)")
        with inputs(folder, program if program.exists() else None) as given:
            at = folder / given.key
            if not (at / "images.json").exists():
                _build(given, at, say)
        current = folder / ".current.new"
        current.unlink(missing_ok=True)
        current.symlink_to(at.name)
        current.replace(folder / "current")
        os.utime(at)
        _forget(folder, at)
    return listed(at)


def _build(given: Inputs, at: Path, say: Callable[[str], None]) -> None:
    builder = Builder(given, at.parent)
    at.mkdir(exist_ok=True)
    images = {"paictl": builder.paictl()}
    if given.scheduler:
        images["kube-scheduler"] = builder.scheduler(given.scheduler)
    about = {}
    for name, image in images.items():
        packed = oci.archive(image)
        _write(at / f"{name}.tar", packed)
        about[name] = {"name": image.name, "digest": oci.digest(image)}
        plain = sum(len(layer.blob) for _, layer in image.layers)
        say(f"{image.name}: {plain / 1e6:.1f} MB in {len(image.layers)} layers")
    _write(at / "images.json", (json.dumps(about, indent=1) + "\n").encode())


def listed(at: Path) -> list[Built]:
    """The archives of one set."""
    about = json.loads((at / "images.json").read_text())
    return [Built(name, one["name"], at / f"{name}.tar", one["digest"]) for name, one in sorted(about.items())]


def _forget(folder: Path, keep: Path) -> None:
    """Remove sets that were not asked for lately; layers go with the last set that could use them."""
    whole = (one.parent for one in folder.glob("*/images.json") if not one.parent.is_symlink())
    sets = sorted(whole, key=lambda one: one.stat().st_mtime)
    for old in [one for one in sets if one != keep][: -KEPT + 1 or None]:
        shutil.rmtree(old)
    oldest = min(one.stat().st_mtime for one in sets if one.exists())
    for layer in (folder / "layers").glob("*.*"):
        if layer.stat().st_mtime < oldest - 30 * 24 * 3600:
            layer.unlink()
