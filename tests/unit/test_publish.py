"""A signed wheel is uploaded to an index of packages, and found there by those who install it; anything else is not.

The index is pypiserver, and uv uploads and installs: what `make .venv-publish/.installed` brings.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.e2e_kube.controlplane import free_ports
from tools import dist
from tools.dist import DistError

TOOLS = ROOT / ".venv-publish" / "bin"
pytestmark = [
    pytest.mark.skipif(not (TOOLS / "uv").exists(), reason="uploads a wheel: make .venv-publish/.installed"),
    pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="signs with OpenSSH"),
]


@pytest.fixture
def signers(tmp_path: Path) -> Path:
    key = tmp_path / "release"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", key], check=True)
    file = tmp_path / "allowed_signers"
    file.write_text(f'paictl-release namespaces="paictl" {key.with_suffix(".pub").read_text()}')
    return file


@pytest.fixture
def release(tmp_path: Path, signers: Path, wheel: Path) -> Path:
    folder = tmp_path / "dist"
    folder.mkdir()
    shutil.copy(wheel, folder)
    dist.write_sums(folder)
    dist.sign(folder, signers.with_name("release"))
    return folder


@pytest.fixture
def index(tmp_path: Path) -> Iterator[str]:
    """The address of an empty index."""
    (tmp_path / "packages").mkdir()
    (port,) = free_ports(1)
    options = ["-i", "127.0.0.1", "-p", str(port), "-P", ".", "-a", ".", "--disable-fallback"]
    server = subprocess.Popen(
        [TOOLS / "pypi-server", "run", *options, tmp_path / "packages"], stderr=subprocess.DEVNULL
    )
    try:
        for _ in range(600):
            with socket.socket() as trial:
                if not trial.connect_ex(("127.0.0.1", port)):
                    break
            assert server.poll() is None
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}/"
    finally:
        server.terminate()
        server.wait()


@pytest.fixture(autouse=True)
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("UV_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("UV_PUBLISH_TOKEN", "pypi-of-a-test")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))


def publish(release: Path, signers: Path, index: str) -> None:
    dist.main(["--folder", str(release), "publish", str(signers), "--index", f"{index}simple/", "--upload", index])


def test_a_signed_wheel_is_found_by_those_who_install_it(release: Path, signers: Path, index: str) -> None:
    (wheel,) = release.glob("*.whl")
    publish(release, signers, index)
    (uploaded,) = (signers.parent / "packages").iterdir()
    assert (uploaded.name, uploaded.read_bytes()) == (wheel.name, wheel.read_bytes())
    publish(release, signers, index)  # it is there already
    target = signers.parent / "installed"
    options = ["-q", "--no-config", "--no-deps", "--index-url", f"{index}simple/", "--target", str(target)]
    subprocess.run([TOOLS / "uv", "pip", "install", "--python", sys.executable, *options, "paictl"], check=True)
    assert (target / "paictl" / "__init__.py").read_bytes() == (ROOT / "paictl" / "__init__.py").read_bytes()


def test_another_file_of_a_version_is_refused(release: Path, signers: Path, index: str) -> None:
    publish(release, signers, index)
    (wheel,) = release.glob("*.whl")
    before = wheel.read_bytes()
    subprocess.run([sys.executable, "-m", "zipfile", "-c", wheel, ROOT / "LICENSE"], check=True)
    dist.write_sums(release)
    dist.sign(release, signers.with_name("release"))
    with pytest.raises(SystemExit, match="was not uploaded"):
        publish(release, signers, index)
    (uploaded,) = (signers.parent / "packages").iterdir()
    assert uploaded.read_bytes() == before


def test_what_is_not_as_it_was_signed_stays_here(release: Path, signers: Path, index: str) -> None:
    (wheel,) = release.glob("*.whl")
    wheel.write_bytes(wheel.read_bytes() + b" ")
    with pytest.raises(SystemExit, match="its checksum differs"):
        publish(release, signers, index)
    assert not list((signers.parent / "packages").iterdir())


def test_a_development_version_does_not_go_to_pypi(tmp_path: Path, signers: Path) -> None:
    folder = tmp_path / "dist"
    folder.mkdir()
    (folder / "paictl-1.0.dev0-py3-none-any.whl").touch()
    dist.write_sums(folder)
    dist.sign(folder, signers.with_name("release"))
    with pytest.raises(DistError, match=r"1\.0\.dev0 is no release"):
        dist.publish(folder, signers, *dist.PYPI)
