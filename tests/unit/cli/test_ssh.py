"""`paictl user key` and `paictl job ssh`."""

from __future__ import annotations

import base64
import io
import stat
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paictl.cluster.embedded.cluster import EmbeddedCluster
from paictl.cluster.interface import SshAddress
from paictl.errors import PaictlError
from paictl.remote.openssl import key_pair
from paictl.workload.ssh import KEY_TYPES, public_key
from tests.unit.cli.conftest import Paictl
from tests.unit.cli.test_job import JOB

KEY = "ssh-ed25519 " + base64.b64encode(b"\0\0\0\x0bssh-ed25519\0\0\0\x20" + b"k" * 32).decode()
PLUGIN = """\
extras:
  com.microsoft.pai.runtimeplugin:
  - plugin: ssh
    parameters:
      userssh: {type: custom}
"""


@given(st.sampled_from(KEY_TYPES), st.binary(min_size=32, max_size=400), st.text(max_size=40))
def test_a_key_comes_back_as_it_was_and_on_one_line(kind: str, raw: bytes, title: str) -> None:
    data = base64.b64encode(len(kind).to_bytes(4, "big") + kind.encode() + raw).decode()
    try:
        key = public_key(f"{kind} {data} {title}")
    except PaictlError:
        assert len(title.splitlines()) > 1
        return
    assert (key.kind, key.data) == (kind, data)
    assert "\n" not in key.line
    assert public_key(key.line) == key


def test_a_pair_is_what_openssh_takes(tmp_path: Path) -> None:
    pair = key_pair()
    file = tmp_path / "key"
    file.touch(0o600)
    file.write_text(pair.private)
    made = subprocess.run(["ssh-keygen", "-y", "-f", str(file)], capture_output=True, text=True, check=True).stdout
    assert made.split()[:2] == pair.public.split()
    said = subprocess.run(["ssh-keygen", "-l", "-f", str(file)], capture_output=True, text=True, check=True).stdout
    assert public_key(pair.public).fingerprint in said
    assert "PRIVATE" not in repr(pair)


@pytest.fixture
def ann(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, paictl: Paictl) -> Path:
    """A cluster with a user, and a folder with a public key."""
    monkeypatch.setenv("PAICTL_STATE", str(tmp_path / "state"))
    monkeypatch.setattr("sys.stdin", io.StringIO("geheim-7\n"))
    (tmp_path / "id.pub").write_text(f"{KEY} ann@laptop\n", encoding="utf-8")
    (tmp_path / "id").write_text("-----BEGIN OPENSSH PRIVATE KEY-----\ngeheim\n", encoding="utf-8")
    (tmp_path / "a.yaml").write_text(JOB.format(name="a", vc="vc1") + PLUGIN, encoding="utf-8")
    assert paictl("cluster", "up", "--speed", "0").code == 0
    assert paictl("user", "add", "ann", "--vc", "vc1", "--password-stdin").code == 0
    return tmp_path


def test_keys_are_added_listed_and_removed(paictl: Paictl, ann: Path) -> None:
    assert paictl("user", "key", "add", "ann", str(ann / "id.pub")).code == 0
    (row,) = paictl("user", "key", "list", "ann", "-o", "json").data
    assert row == {"title": "ann@laptop", "type": "ssh-ed25519", "fingerprint": public_key(KEY).fingerprint}
    again = paictl("user", "key", "add", "ann", str(ann / "id.pub"), "--title", "other")
    assert (again.code, "has this key already" in again.err) == (2, True)
    wrong = paictl("user", "key", "remove", "ann", "laptop")
    assert (wrong.code, "keys: ann@laptop" in wrong.err) == (2, True)
    assert paictl("user", "key", "remove", "ann", "ann@laptop").code == 0
    assert paictl("user", "key", "list", "ann", "-o", "json").data == []


def test_a_private_key_is_refused_and_not_repeated(paictl: Paictl, ann: Path) -> None:
    refused = paictl("user", "key", "add", "ann", str(ann / "id"))
    assert (refused.code, "this is a private key" in refused.err, "geheim" in refused.err) == (2, True, False)
    assert stat.S_IMODE((ann / "state" / "users.db").stat().st_mode) == 0o600


def test_a_job_that_lets_people_in_needs_a_key(paictl: Paictl, ann: Path) -> None:
    refused = paictl("job", "submit", str(ann / "a.yaml"), "--user", "ann")
    assert refused.code == 2
    assert "a.yaml:16:7: " in refused.err or "a.yaml:16:" in refused.err
    assert "user ann has no SSH key" in refused.err
    assert "paictl user key add ann" in refused.err
    assert paictl("user", "key", "add", "ann", str(ann / "id.pub")).code == 0
    assert paictl("job", "submit", str(ann / "a.yaml"), "--user", "ann").code == 0


def test_where_jobs_are_simulated_nobody_signs_in(paictl: Paictl, ann: Path) -> None:
    assert paictl("user", "key", "add", "ann", str(ann / "id.pub")).code == 0
    assert paictl("job", "submit", str(ann / "a.yaml"), "--user", "ann").code == 0
    refused = paictl("job", "ssh", "ann~a", "--", "true")
    assert refused.code == 2
    assert "simulated" in refused.err or "imagined" in refused.err
    printed = paictl("job", "ssh", "ann~a", "--print")
    assert (printed.code, "job ann~a has no port for SSH" in printed.err) == (2, True)


class Known:
    """What was in the file of known hosts while ssh ran."""

    words: Sequence[str] = ()
    hosts = ""


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch, paictl: Paictl, ann: Path) -> Iterator[Known]:
    """An ssh that only notes how it was called, and a job whose task has a port."""
    found = Known()

    def run(words: Sequence[str], **_: Any) -> subprocess.CompletedProcess[bytes]:
        found.words = words
        (option,) = [word for word in words if word.startswith("UserKnownHostsFile=")]
        found.hosts = Path(option.partition("=")[2]).read_text(encoding="utf-8")
        return subprocess.CompletedProcess(list(words), 7)

    assert paictl("user", "key", "add", "ann", str(ann / "id.pub")).code == 0
    assert paictl("job", "submit", str(ann / "a.yaml"), "--user", "ann").code == 0
    address = SshAddress("10.0.0.5", 31234, "ssh-rsa AAAA")
    monkeypatch.setattr(EmbeddedCluster, "ssh_address", lambda *_: address)
    with _patched(monkeypatch, run):
        yield found


@contextmanager
def _patched(monkeypatch: pytest.MonkeyPatch, run: Any) -> Iterator[None]:
    monkeypatch.setattr("paictl.cli.job.streams.subprocess.run", run)
    yield


def test_the_server_is_known_by_its_key_and_the_exit_code_is_the_command_s(paictl: Paictl, client: Known) -> None:
    done = paictl("job", "ssh", "ann~a", "--task", "train:0", "-i", "/k", "--", "nvidia-smi", "-L")
    assert done.code == 7
    assert client.words[-3:] == ["root@10.0.0.5", "nvidia-smi", "-L"]
    assert "StrictHostKeyChecking=yes" in client.words
    assert client.hosts == "[10.0.0.5]:31234 ssh-rsa AAAA\n"
    printed = paictl("job", "ssh", "ann~a", "--print")
    assert printed.out == "ssh -p 31234 root@10.0.0.5\n"
