"""`paictl storage` on a cluster of this machine, and jobs that ask for storages."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Paictl
from tests.unit.cli.test_job import JOB

PLUGIN = """\
extras:
  com.microsoft.pai.runtimeplugin:
  - plugin: teamwise_storage
    parameters:
      storageConfigNames: [NAME]
"""


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, paictl: Paictl) -> Path:
    """A cluster, and a job of vc1 that asks for a storage."""
    monkeypatch.setenv("PAICTL_STATE", str(tmp_path / "state"))
    file = tmp_path / "a.yaml"
    file.write_text(JOB.format(name="a", vc="vc1") + PLUGIN.replace("NAME", "confignfs"), encoding="utf-8")
    assert paictl("cluster", "up", "--speed", "0").code == 0
    return file


def add(paictl: Paictl, name: str = "confignfs", *words: str, vc: str = "vc1") -> None:
    done = paictl("storage", "add", name, "--nfs", "10.0.0.9:/data", "--vc", vc, *words)
    assert done.code == 0, done.err
    assert "nothing is mounted" in done.err


def test_a_job_gets_a_storage_that_its_virtual_cluster_may_use_and_says_what_would_be_mounted(
    paictl: Paictl, job: Path
) -> None:
    add(paictl, "confignfs", "--read-only")
    done = paictl("job", "submit", str(job), "--user", "me")
    assert (done.code, done.out) == (0, "me~a  Running\n")
    assert "simulated: confignfs at /mnt/confignfs (nfs 10.0.0.9:/data, read-only) would be mounted" in done.err
    assert "storage confignfs at /mnt/confignfs (nfs 10.0.0.9:/data, read-only)" in paictl("job", "show", "me~a").out
    assert paictl("storage", "show", "confignfs", "-o", "json").data["jobs"] == ["me~a"]


@pytest.mark.parametrize(
    ("said", "vc", "message", "hint"),
    [
        ("confignfs", "default", "virtual cluster vc1 has no storage 'confignfs'", "paictl storage grant"),
        ("confgnfs", "vc1", "virtual cluster vc1 has no storage 'confgnfs'", "did you mean 'confignfs'?"),
        ("other", "vc1", "virtual cluster vc1 has no storage 'other'", "virtual cluster vc1 may use: confignfs"),
    ],
)
def test_a_storage_that_a_job_cannot_have_is_refused_with_its_line(
    paictl: Paictl, job: Path, said: str, vc: str, message: str, hint: str
) -> None:
    add(paictl, vc=vc)
    job.write_text(job.read_text(encoding="utf-8").replace("confignfs", said), encoding="utf-8")
    refused = paictl("job", "submit", str(job), "--user", "me", "--repeat", "2")
    assert refused.code == 2
    assert (
        f"a.yaml:16:28: extras['com.microsoft.pai.runtimeplugin'][0].parameters.storageConfigNames[0]: {message}"
        in (refused.err)
    )
    assert hint in refused.err
    assert paictl("job", "list", "-o", "json").data == []


def test_of_several_files_the_one_at_fault_is_named(paictl: Paictl, job: Path) -> None:
    add(paictl)
    other = job.with_name("b.yaml")
    other.write_text(JOB.format(name="b", vc="vc1") + "extras: {storages: [{name: nfs9}]}\n", encoding="utf-8")
    refused = paictl("job", "submit", str(job), str(other), "--user", "me")
    assert "b.yaml:12:28: " in refused.err
    assert paictl("job", "list", "-o", "json").data == []


def test_the_default_storages_are_those_of_the_virtual_cluster(paictl: Paictl, job: Path) -> None:
    add(paictl, "mine", "--default", "--path", "/data")
    add(paictl, "theirs", "--default", vc="default")
    add(paictl, "plain")
    job.write_text(JOB.format(name="a", vc="vc1") + "extras: {storages: []}\n", encoding="utf-8")
    done = paictl("job", "submit", str(job), "--user", "me")
    assert [line for line in done.err.splitlines() if "would be" in line] == [
        "simulated: mine at /data (nfs 10.0.0.9:/data) would be mounted"
    ]


def test_two_storages_at_one_path_are_refused(paictl: Paictl, job: Path) -> None:
    add(paictl, "one")
    add(paictl, "two", "--path", "/mnt/one")
    said = "extras:\n  storages:\n  - name: one\n  - name: two\n"
    job.write_text(JOB.format(name="a", vc="vc1") + said, encoding="utf-8")
    refused = paictl("job", "submit", str(job))
    assert (
        "a.yaml:15:11: extras.storages[1].name: storages one and two would both be mounted at /mnt/one" in refused.err
    )


def test_a_storage_that_jobs_use_is_not_removed(paictl: Paictl, job: Path) -> None:
    add(paictl)
    assert paictl("job", "submit", str(job), "--user", "me").code == 0
    refused = paictl("storage", "remove", "confignfs", "--yes")
    assert (refused.code, "use storage 'confignfs': me~a" in refused.err) == (2, True)
    assert paictl("storage", "grant", "confignfs", "--revoke", "vc1").code == 0
    assert paictl("job", "submit", str(job), "--name", "b", "--user", "me").code == 2
    assert paictl("job", "stop", "me~a").code == 0
    assert paictl("storage", "remove", "confignfs", "--yes").code == 0
    assert paictl("storage", "list", "-o", "json").data == []


@pytest.mark.usefixtures("job")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("a", "--nfs", "host"), "'host' is not an address of kind nfs"),
        (("a", "--nfs", "host:/a/../b"), "is not an address"),
        (("A_b", "--nfs", "host:/a"), "is not a valid storage name"),
        (("a", "--nfs", "h:/a", "--smb", "//h/a"), "say where the storage is"),
        (("a", "--nfs", "h:/a", "--vc", "vc9"), "no virtual cluster 'vc9'"),
        (("a", "--nfs", "h:/a", "--path", "/proc/x"), "nothing can be mounted at /proc/x"),
        (("a", "--smb", "//h/a"), "an SMB share needs a username"),
        (("a", "--nfs", "h:/a", "--option", "password=x"), "'password' cannot be a mount option"),
        (("a", "--smb", "//h/a", "--option", "PassWord2=x"), "'PassWord2' cannot be a mount option"),
        (("a", "--pvc", "c", "--option", "ro"), "--option works with --nfs and --smb only"),
    ],
)
def test_what_cannot_be_a_storage_is_refused_and_nothing_added(
    paictl: Paictl, words: tuple[str, ...], message: str
) -> None:
    refused = paictl("storage", "add", *words, *(() if "vc9" in words else ("--vc", "vc1")))
    assert (refused.code, message in refused.err) == (2, True), refused.err
    assert "password=x" not in refused.err
    assert paictl("storage", "list", "-o", "json").data == []


@pytest.mark.usefixtures("job")
@pytest.mark.parametrize(
    ("username", "password", "what"),
    [("pai,uid=0", "geheim-7", "user name"), ("pai", "geheim,7", "password"), ("pai", " geheim-7", "password")],
)
def test_an_account_that_the_driver_of_smb_would_change_is_refused(
    paictl: Paictl, monkeypatch: pytest.MonkeyPatch, username: str, password: str, what: str
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{password}\n"))
    refused = paictl(
        "storage", "add", "home", "--smb", "//files/home", "--username", username, "--password-stdin", "--vc", "*"
    )
    assert (refused.code, f"cannot pass on this {what}" in refused.err) == (2, True), refused.err
    assert "geheim" not in refused.err
    assert paictl("storage", "list", "-o", "json").data == []


def test_the_password_of_smb_is_kept_nowhere_here(
    paictl: Paictl, job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("geheim-7\n"))
    words = ("storage", "add", "home", "--smb", "//files/home", "--username", "pai", "--password-stdin", "--vc", "*")
    assert paictl(*words).code == 0
    assert paictl("storage", "list", "-o", "json").data[0]["vcs"] == ["*"]
    held = [path for path in tmp_path.rglob("*") if path.is_file() and b"geheim-7" in path.read_bytes()]
    assert held == []
    assert paictl("job", "submit", str(job), "--user", "me").code == 2  # confignfs is not there
    assert (tmp_path / "state" / "storages.json").stat().st_mode & 0o777 == 0o600
    assert paictl("cluster", "down", "--yes").code == 0
    assert not (tmp_path / "state" / "storages.json").exists()
