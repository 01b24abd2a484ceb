"""What may happen to a lab from outside: a lost cluster, damaged files, a full disk, Ctrl-C."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.cli.conftest import Paictl


def test_a_cluster_that_was_taken_down_leads_to_reset(paictl: Paictl, in_shell: Path) -> None:
    assert "paictl lab reset" in paictl("cluster", "down", "-y").err
    assert "paictl lab reset 02" in paictl("job", "list").err
    assert "paictl lab reset" in paictl("lab", "verify").err
    assert paictl("lab", "reset", "-y").code == paictl("lab", "start").code == 0
    assert (in_shell / "files" / "job-2.yaml").is_file()


@pytest.mark.usefixtures("in_shell")
def test_a_refused_submission_is_remembered_when_others_followed(paictl: Paictl) -> None:
    told = "paictl job submit job-2.yaml --vc nosuch was refused, and what you typed after it ran without that job"
    assert paictl("job", "submit", "job-2.yaml", "--vc", "nosuch").code == 2
    done = paictl("lab", "verify")
    assert told not in done.out + done.err, "it came last, and is quoted as such"
    assert paictl("cluster", "tick", "1m").code == 0
    done = paictl("lab", "verify")
    assert told in done.out + done.err
    assert "paictl lab reset --step 1" in done.out + done.err
    assert paictl("job", "submit", "job-2.yaml").code == 0
    done = paictl("lab", "verify")
    assert told not in done.out + done.err


def test_damaged_files_are_named_and_spoil_no_command(paictl: Paictl, in_shell: Path) -> None:
    progress = in_shell.parent / "progress.json"
    for content, said in (("{", "is damaged"), ('{"version": 7}', "another version of paictl (file version 7)")):
        progress.write_text(content)
        done = paictl("job", "submit", "job-2.yaml", "--name", f"job-{len(content)}")
        assert done.code == 0
        assert said in done.err
        assert said in paictl("lab", "verify").err
    progress.unlink()
    (in_shell / "commands.jsonl").write_bytes(b"\xff\xfe\n")
    assert paictl("lab", "verify").code == 1
    (in_shell / "lab.json").write_text("{")
    assert "paictl lab reset 02" in paictl("lab", "verify").err
    assert paictl("lab", "reset", "2").code == 0


def test_a_full_disk_is_told(paictl: Paictl, in_shell: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import errno
    import os

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    done = paictl("lab", "skip", "--reason", "x")
    assert done.code == 2
    assert "progress.json: cannot be written: No space left" in done.err
    assert "free some space" in done.err
    monkeypatch.undo()
    monkeypatch.setenv("PAICTL_STATE", str(in_shell))
    assert paictl("lab", "skip", "--reason", "x").code == 0


def test_ctrl_c_ends_the_playing_of_a_lab(home: Path, paictl: Paictl, monkeypatch: pytest.MonkeyPatch) -> None:
    import tempfile

    from paictl.cluster.embedded.cluster import EmbeddedCluster

    def pressed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(tempfile, "tempdir", str(home))
    monkeypatch.setattr(EmbeddedCluster, "submit", pressed)
    done = paictl("lab", "run", "2", "--fast")
    assert done.code == 130
    assert "paictl job list" not in done.out.partition("$ paictl job submit")[2].partition("\n\n")[2]
    assert not list(home.glob("paictl-lab-*"))


def test_ctrl_c_ends_watching(in_shell: Path, paictl: Paictl, monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    def pressed(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", pressed)
    done = paictl("lab", "verify", "--watch")
    assert done.code == 130
    assert "✗ first-runs" in done.out
    assert in_shell.is_dir()


def test_commands_outside_a_lab_are_not_noted(home: Path, paictl: Paictl) -> None:
    paictl("lab", "start", "2")
    paictl("cluster", "up", "--speed", "0")
    assert not list(home.rglob("commands.jsonl"))


@pytest.mark.usefixtures("in_shell")
def test_a_folder_that_is_not_there_is_told_in_the_students_language(
    paictl: Paictl, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert paictl("config", "diff", "cluster").err.startswith("error: cluster: no such file or folder")
    monkeypatch.setenv("PAICTL_LANG", "zh")
    assert paictl("config", "diff", "cluster").err.startswith("错误：cluster: 没有这个文件或文件夹")


@pytest.mark.usefixtures("in_shell")
def test_names_that_begin_alike_are_not_taken_for_one_another(paictl: Paictl) -> None:
    assert paictl("job", "submit", "job-2.yaml").code == 0
    assert "paictl job list" in paictl("job", "stop", "job-big").err
    assert "did you mean 'job-2'?" in paictl("job", "stop", "job2").err
