"""`paictl job clone`: printed, submitted again, edited."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
import yaml

from paictl.cli.settings import settings
from tests.unit.cli.conftest import Paictl
from tests.unit.cli.test_job import JOB

SECRET = "secrets: {key: geheim-7}\n"  # noqa: S105 - of nobody


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, paictl: Paictl) -> Path:
    """A cluster, and a job that runs there in another class than its file says."""
    monkeypatch.setenv("PAICTL_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    file = tmp_path / "a.yaml"
    file.write_text(JOB.format(name="a", vc="default"), encoding="utf-8")
    assert paictl("cluster", "up", "--speed", "0").code == 0
    assert paictl("job", "submit", str(file), "--user", "me", "--vc", "vc1", "--priority", "prod").code == 0
    return file


def keys(paictl: Paictl) -> list[tuple[str, str, str]]:
    return [(one["key"], one["vc"], one["priority"]) for one in paictl("job", "list", "-o", "json").data]


def editor(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """$EDITOR, which does to the file what a shell script does."""
    program = folder / "editor"
    program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("EDITOR", str(program))
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setattr(type(settings), "may_ask", True)


def test_characters_that_do_not_show_are_printed_as_they_are_for_a_file(
    paictl: Paictl, job: Path, tmp_path: Path
) -> None:
    """A family of emoji is joined by characters that a terminal does not show; escaped, they would be other words."""
    file = tmp_path / "b.yaml"
    text = job.read_text(encoding="utf-8").replace("name: a\n", "name: b\ndescription: '👩\u200d🚀'\n")
    file.write_text(text, encoding="utf-8")
    assert paictl("job", "submit", str(file), "--user", "me", "--vc", "vc1").code == 0
    assert yaml.safe_load(paictl("job", "clone", "me~b", "--user", "me").out)["description"] == "👩\u200d🚀"


def test_what_is_printed_is_the_job_as_it_was_taken_and_can_be_submitted(paictl: Paictl, job: Path) -> None:
    done = paictl("job", "clone", "me~a", "--user", "me")
    assert done.code == 0
    copy = yaml.safe_load(done.out)
    assert (copy["name"], copy["defaults"]["virtualCluster"]) == ("a-2", "vc1")
    assert copy["extras"]["hivedScheduler"]["jobPriorityClass"] == "prod"
    assert copy["taskRoles"] == yaml.safe_load(job.read_text(encoding="utf-8"))["taskRoles"]
    job.write_text(done.out, encoding="utf-8")
    assert paictl("job", "submit", str(job), "--user", "me").code == 0
    assert keys(paictl)[-1] == ("me~a-2", "vc1", "prod")


def test_it_is_submitted_again_as_it_is_or_with_another_class(paictl: Paictl, job: Path, tmp_path: Path) -> None:
    del job
    assert paictl("job", "clone", "me~a", "--user", "me", "--submit").code == 0
    assert paictl("job", "clone", "me~a-2", "--user", "me", "--submit", "--priority", "oppo").code == 0
    assert keys(paictl)[1:] == [("me~a-2", "vc1", "prod"), ("me~a-3", "vc1", "oppo")]
    assert list((tmp_path / "tmp").iterdir()) == []


def test_stars_are_never_submitted_as_a_secret(
    paictl: Paictl, job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job.write_text(JOB.format(name="s", vc="vc1") + SECRET, encoding="utf-8")
    assert paictl("job", "submit", str(job), "--user", "me").code == 0
    printed = paictl("job", "clone", "me~s")
    assert ("secrets.key" in printed.err, "geheim-7" in printed.out) == (True, False)
    refused = paictl("job", "clone", "me~s", "--submit", "--user", "me")
    assert (refused.code, "does not return the values of secrets.key" in refused.err) == (2, True)
    editor(tmp_path, monkeypatch, "true")
    assert paictl("job", "clone", "me~s", "--edit", "--user", "me").code == 2
    assert [key for key, *_ in keys(paictl)] == ["me~a", "me~s"]


def test_it_is_edited_and_submitted(paictl: Paictl, job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    del job
    editor(tmp_path, monkeypatch, "sed -i 's/gpu: 1/gpu: 0/' \"$1\"")
    assert paictl("job", "clone", "me~a", "--edit", "--user", "me", "--name", "cpu").code == 0
    assert keys(paictl)[-1][0] == "me~cpu"
    asked = yaml.safe_load(paictl("job", "clone", "me~cpu").out)["taskRoles"]["train"]["resourcePerInstance"]
    assert asked["gpu"] == 0
    assert list((tmp_path / "tmp").iterdir()) == []


def test_an_edited_file_that_is_refused_is_kept_for_its_owner(
    paictl: Paictl, job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del job
    editor(tmp_path, monkeypatch, "echo 'nonsense: 1' >>\"$1\"")
    refused = paictl("job", "clone", "me~a", "--edit", "--user", "me")
    (kept,) = (tmp_path / "tmp").iterdir()
    assert refused.code == 2
    assert f"your file is kept: {kept}" in refused.err
    assert "nonsense: 1" in kept.read_text(encoding="utf-8")
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert len(keys(paictl)) == 1


@pytest.mark.parametrize(("script", "said"), [("exit 3", "exit code 3"), (None, "no editor is set")])
def test_without_an_editor_nothing_is_submitted(
    paictl: Paictl, job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str | None, said: str
) -> None:
    del job
    editor(tmp_path, monkeypatch, script or "")
    if script is None:
        monkeypatch.delenv("EDITOR")
    refused = paictl("job", "clone", "me~a", "--edit", "--user", "me")
    assert (refused.code, said in refused.err) == (2, True)
    assert len(keys(paictl)) == 1
    assert not list((tmp_path / "tmp").iterdir())
    assert os.environ["TMPDIR"] == str(tmp_path / "tmp")
