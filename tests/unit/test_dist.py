"""Releases: what was signed is accepted, and nothing else, by our check and by the commands that users are given."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tools import dist
from tools.dist import SIGNATURE, SUMS, DistError

pytestmark = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="signs with OpenSSH")
FILES = ("paictl-1-py3-none-any.whl", "paictl-1-image.oci.tar", "paictl-1-wheel.cdx.json")


def new_key(path: Path) -> Path:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", path], check=True)
    return path


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The key of the release, another one, and the file that says which counts."""
    folder = tmp_path_factory.mktemp("keys")
    new_key(folder / "other")
    public = new_key(folder / "release").with_suffix(".pub").read_text()
    (folder / "allowed_signers").write_text(f'paictl-release namespaces="paictl" {public}')
    return folder


@pytest.fixture
def release(tmp_path: Path, keys: Path) -> Path:
    folder = tmp_path / "dist"
    folder.mkdir()
    for name in FILES:
        (folder / name).write_text(f"the content of {name}\n")
    dist.write_sums(folder)
    dist.sign(folder, keys / "release")
    return folder


def test_what_was_signed_is_accepted(release: Path, keys: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dist.main(["--folder", str(release), "verify", str(keys / "allowed_signers")])
    assert "3 files, as paictl-release signed them" in capsys.readouterr().out


def test_a_folder_with_other_files_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    archive, thesis = tmp_path / ".cache/paictl/images/current/paictl.tar", tmp_path / "papers/thesis.tex"
    for file in (archive, thesis):
        file.parent.mkdir(parents=True)
        file.touch()
    with pytest.raises(DistError, match=r"thesis\.tex is not part of a release"):
        dist.build(thesis.parent)
    assert thesis.exists()


@pytest.mark.parametrize("name", [*FILES, SUMS, SIGNATURE])
def test_one_changed_byte_is_refused(name: str, release: Path, keys: Path) -> None:
    content = bytearray((release / name).read_bytes())
    content[len(content) // 2] ^= 1
    (release / name).write_bytes(content)
    with pytest.raises(DistError, match=re.escape(SUMS if name == SIGNATURE else name)):
        dist.verify(release, keys / "allowed_signers", partial=True)


def test_other_keys_purposes_and_files_are_refused(release: Path, keys: Path) -> None:
    signers = keys / "allowed_signers"
    (release / "more.whl").write_text("x")
    with pytest.raises(DistError, match="it has no checksum"):
        dist.verify(release, signers)
    (release / "more.whl").unlink()
    (release / FILES[0]).unlink()
    with pytest.raises(DistError, match=re.escape(f"{FILES[0]}: not found")):
        dist.verify(release, signers)
    assert dist.verify(release, signers, partial=True) == 2
    dist.write_sums(release)
    with pytest.raises(DistError, match=re.escape(f"{SIGNATURE}: not found")):
        dist.verify(release, signers)
    dist.sign(release, keys / "other")
    with pytest.raises(DistError, match="not signed by paictl-release"):
        dist.verify(release, signers)
    (release / SIGNATURE).unlink()
    command = ["ssh-keygen", "-q", "-Y", "sign", "-f", str(keys / "release"), "-n", "git", str(release / SUMS)]
    subprocess.run(command, check=True, capture_output=True)
    with pytest.raises(DistError, match="not signed by paictl-release"):
        dist.verify(release, signers)


def test_a_name_that_leaves_the_folder_is_no_name(release: Path, keys: Path) -> None:
    (release / SUMS).write_text(f"{'0' * 64}  ../{FILES[0]}\n")
    with pytest.raises(DistError, match=re.escape(f"{SUMS}:1: not a checksum")):
        dist.sign(release, keys / "release")


def test_a_key_that_others_can_read_or_in_the_tree_does_not_sign(
    release: Path, keys: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loose = tmp_path / "loose"
    shutil.copyfile(keys / "release", loose)
    loose.chmod(0o640)
    with pytest.raises(DistError, match="chmod 600"):
        dist.sign(release, loose)
    loose.chmod(0o600)
    monkeypatch.setattr(dist, "ROOT", tmp_path)
    with pytest.raises(DistError, match="source tree"):
        dist.sign(release, loose)
    with pytest.raises(SystemExit, match="there is no such key"):
        dist.main(["--folder", str(release), "sign", str(tmp_path / "none")])


def test_the_commands_that_users_are_given(release: Path, keys: Path) -> None:
    """Those of docs/security.md, in a folder with the signers' file and only some of the files."""
    text = (ROOT / "docs" / "security.md").read_text(encoding="utf-8").split("\n## Verify a download\n", 1)[1]
    block = re.search(r"```console\n(.*?)```", text, re.DOTALL)
    assert block is not None
    commands = [line.removeprefix("$ ") for line in block[1].splitlines() if line.startswith("$ ")]
    assert len(commands) == 2
    shutil.copyfile(keys / "allowed_signers", release / "allowed_signers")
    (release / FILES[1]).unlink()
    script = " && ".join(commands)
    environment = {**os.environ, "LC_ALL": "C"}
    done = subprocess.run(["sh", "-c", script], cwd=release, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert 'Good "paictl" signature for paictl-release' in done.stdout
    assert f"{FILES[0]}: OK" in done.stdout
    (release / FILES[0]).write_text("another wheel")
    done = subprocess.run(["sh", "-c", script], cwd=release, capture_output=True, text=True, env=environment)
    assert done.returncode != 0
    assert f"{FILES[0]}: FAILED" in done.stdout
