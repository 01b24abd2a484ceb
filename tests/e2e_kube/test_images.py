"""Our images, unpacked and run as a container runtime runs them: as a user, on a read-only root file system."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from paictl import __version__
from tests.conftest import ROOT
from tools.images import oci
from tools.images.build import Built, build

ISOLATED = """
set -e
root=$1; shift
mount --bind "$root" "$root"
mount -t tmpfs tmpfs "$root/tmp"
mount -o remount,ro,bind "$root"
exec /usr/bin/env -i PATH=/usr/local/bin:/usr/bin HOME=/tmp LANG=C.UTF-8 \
  "$(command -v chroot)" --userspec=65532:65532 "$root" "$@"
"""

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def built() -> dict[str, Built]:
    if shutil.which("apt-get") is None:
        pytest.skip("no apt-get: the image is built with the Dockerfile here")
    return {one.image: one for one in build(print)}


@pytest.fixture(scope="module")
def runs(
    built: dict[str, Built], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, tuple[oci.Json, Run]]]:
    """The settings of each image, and what runs a command in it."""
    if os.geteuid() != 0:
        pytest.skip("only root may chroot")
    found = {}
    for name, one in built.items():
        root = tmp_path_factory.mktemp(name)
        root.chmod(0o755)
        settings = oci.unpack(one.path, root)["config"]

        def run(*command: str, root: Path = root) -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                ["unshare", "--mount", "bash", "-c", ISOLATED, "bash", str(root), *command],
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )

        found[name] = (settings, run)
    yield found
    for name in found:
        shutil.rmtree(tmp_path_factory.getbasetemp() / f"{name}0", ignore_errors=True)


def test_built_again_they_have_the_same_digests(built: dict[str, Built]) -> None:
    assert {one.image: one.digest for one in build(print)} == {name: one.digest for name, one in built.items()}


def test_paictl_runs_and_says_its_version(runs: dict[str, tuple[oci.Json, Run]]) -> None:
    settings, run = runs["paictl"]
    done = run(*settings["Entrypoint"], "version")
    assert done.stdout.startswith(f"paictl {__version__} "), done.stderr
    assert done.stderr == ""


@pytest.mark.parametrize("command", [["extender", "serve"], ["serve"], ["service", "list"]])
def test_the_commands_of_the_cluster_are_there(runs: dict[str, tuple[oci.Json, Run]], command: list[str]) -> None:
    settings, run = runs["paictl"]
    done = run(*settings["Entrypoint"], *command, "--help")
    assert done.returncode == 0, done.stderr


def test_python_has_its_libraries_certificates_and_byte_code_and_can_write_nowhere_but_in_tmp(
    runs: dict[str, tuple[oci.Json, Run]],
) -> None:
    _, run = runs["paictl"]
    done = run(
        "python3",
        "-sPc",
        """
import bz2, ctypes, decimal, hashlib, lzma, socket, sqlite3, ssl, uuid, zlib, zoneinfo
import kubernetes.client, orjson, starlette, uvicorn, yaml, prometheus_client, jinja2, httptools, uvloop
import os, sys
assert os.getuid() == 65532, os.getuid()
assert ssl.create_default_context().cert_store_stats()["x509_ca"] > 100
assert socket.getservbyname("https") == 443
assert yaml.CSafeLoader
for module in (kubernetes.client, ssl, yaml):
    assert os.path.exists(module.__cached__), module
open("/tmp/x", "w")
for place in ("/x", "/usr/lib/x", "/etc/passwd", "/var/tmp/x"):
    try:
        open(place, "a")
    except OSError:
        continue
    sys.exit(f"{place} can be written to")
""",
    )
    assert done.returncode == 0, done.stderr


def test_a_certificate_can_be_made(runs: dict[str, tuple[oci.Json, Run]]) -> None:
    """With the very command of the REST server's template."""
    template = (ROOT / "templates" / "rest-server" / "manifests.yaml.j2").read_text(encoding="utf-8")
    (line,) = [one for one in template.splitlines() if "command: [openssl," in one]
    names = "'subjectAltName=DNS:a.example,IP:10.0.0.1'"
    command = yaml.safe_load(re.sub(r"\{\{.*?\}\}", names, line.strip()))["command"]
    _, run = runs["paictl"]
    done = run(*[one.replace("/tls/", "/tmp/") for one in command])  # noqa: S108 - the image's own
    assert done.returncode == 0, done.stderr


def test_there_is_no_shell(runs: dict[str, tuple[oci.Json, Run]]) -> None:
    for _, run in runs.values():
        assert run("sh", "-c", "true").returncode == 127


def test_kube_scheduler_says_its_version(runs: dict[str, tuple[oci.Json, Run]], built: dict[str, Built]) -> None:
    settings, run = runs["kube-scheduler"]
    done = run(*settings["Entrypoint"], "--version")
    assert done.stdout.split() == ["Kubernetes", built["kube-scheduler"].name.rpartition(":")[2]], done.stderr
