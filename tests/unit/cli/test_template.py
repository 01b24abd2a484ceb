"""`paictl template`, and jobs from templates: what is read of a folder, what is not, and who may use it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from paictl.cluster.embedded.cluster import EmbeddedCluster
from paictl.operate import templates as operate
from tests.unit.cli.conftest import Paictl
from tests.unit.cli.test_job import JOB

COMMIT = "0123456789abcdef0123456789abcdef01234567"
TRAIN = (
    JOB.format(name="train", vc="vc1")
    .replace("defaults: {virtualCluster: vc1}\n", "")
    .replace("sleep 5m", "sleep <% $parameters.minutes %>m")
    + "description: a small one\nparameters: {minutes: 3, quick: true, data: mnist}\n"
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, paictl: Paictl) -> Path:
    """A cluster, and a checkout with a template, one with a mistake, and all that is none."""
    monkeypatch.setenv("PAICTL_STATE", str(tmp_path / "state"))
    found = tmp_path / "checkout"
    for name, content in {
        "cv/train.yaml": TRAIN,
        "wrong.yml": "protocolVersion: 2\nname: x\ntype: jub\n",
        "compose.yaml": "services: {}\n",
        ".github/hidden.yaml": TRAIN,
        "README.md": "protocolVersion: 2\n",
        ".git/HEAD": "ref: refs/heads/main\n",
        ".git/packed-refs": f"# pack-refs\n{COMMIT} refs/heads/main\n",
    }.items():
        (found / name).parent.mkdir(parents=True, exist_ok=True)
        (found / name).write_text(content, encoding="utf-8")
    (tmp_path / "secret.yaml").write_text(TRAIN.replace("train", "secret"), encoding="utf-8")
    (found / "link.yaml").symlink_to(tmp_path / "secret.yaml")
    (found / "linked").symlink_to(tmp_path, target_is_directory=True)
    os.mkfifo(found / "pipe.yaml")
    assert paictl("cluster", "up", "--speed", "0").code == 0
    return found


def test_a_folder_becomes_a_library_without_what_is_not_a_job_file(paictl: Paictl, folder: Path) -> None:
    done = paictl("template", "add", "vision", str(folder), "--vc", "vc1")
    assert (done.code, "vision: 2 templates for vc1" in done.err) == (0, True), done.err
    assert "link.yaml is left out: it is a link" in done.err
    assert "pipe.yaml is left out: it is not a regular file" in done.err
    assert "wrong.yml:3:7: type is 'jub'" in done.err
    (library,) = paictl("template", "list", "-o", "json").data
    assert (library["vcs"], library["revision"]) == (["vc1"], COMMIT)
    shown = [(one["path"], one["name"], one["description"], one["errors"] > 0) for one in library["templates"]]
    assert shown == [("cv/train.yaml", "train", "a small one", False), ("wrong.yml", "x", "", True)]
    assert paictl("template", "show", "vision/cv/train").out == TRAIN
    assert COMMIT in paictl("template", "show", "vision").out
    assert "secret" not in paictl("template", "list").out


def test_a_file_is_printed_as_it_is_except_on_a_terminal(
    paictl: Paictl, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "wrong.yml").write_text("protocolVersion: 2\nname: x # \x1b]0;title\a\n", encoding="utf-8")
    assert paictl("template", "add", "vision", str(folder), "--vc", "vc1").code == 0
    assert "# \x1b]0;title\a" in paictl("template", "show", "vision/wrong.yml").out
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    shown = paictl("template", "show", "vision/wrong.yml").out
    assert "\\x1b]0;title\\x07" in shown
    assert "\x1b" not in shown


def test_it_is_read_again_given_to_others_and_removed(paictl: Paictl, folder: Path) -> None:
    assert paictl("template", "sync", "vision", str(folder)).code == 2
    assert paictl("template", "add", "vision", str(folder), "--vc", "vc1").code == 0
    again = paictl("template", "add", "vision", str(folder), "--vc", "vc1")
    assert (again.code, "paictl template sync vision FOLDER" in again.err) == (2, True)
    (folder / "wrong.yml").unlink()
    (folder / "more.yaml").write_text(TRAIN, encoding="utf-8")
    assert paictl("template", "sync", "vision", str(folder)).code == 0
    (library,) = paictl("template", "list", "--vc", "vc1", "-o", "json").data
    assert [one["path"] for one in library["templates"]] == ["cv/train.yaml", "more.yaml"]
    assert paictl("template", "sync", "vision", str(folder), "--vc", "default").code == 0
    assert paictl("template", "list", "--vc", "vc1", "-o", "json").data == []
    assert paictl("template", "remove", "vision", "--yes").code == 0
    assert paictl("template", "list", "-o", "json").data == []


def test_a_template_becomes_a_job_with_parameters_in_the_cluster_of_its_library(
    paictl: Paictl, folder: Path, tmp_path: Path
) -> None:
    assert paictl("template", "add", "vision", str(folder), "--vc", "vc1").code == 0
    words = ("job", "submit", "--user", "me", "--template", "vision/cv/train")
    done = paictl(*words, "--set", "minutes=7", "--set", "quick=false", "--set", "data=a=b", "--tag", "t")
    assert (done.code, done.out) == (0, "me~train  Running\n"), done.err
    cluster = EmbeddedCluster.at(tmp_path / "state")
    job = cluster.job_data("me~train")
    assert job["parameters"] == {"minutes": 7, "quick": False, "data": "a=b"}
    assert (cluster.job("me~train").vc, cluster.job("me~train").tags) == ("vc1", ("t",))
    assert paictl(*words, "--name", "other", "--vc", "default").code == 0
    assert cluster.job("me~other").vc == "default"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--template", "visoin/cv/train"], "did you mean 'vision'?"),
        (["--template", "vision/cv/trian"], "did you mean 'cv/train.yaml'?"),
        (["--template", "vision/wrong"], "cannot be submitted"),
        (["--template", "vision/cv/train", "--set", "minuets=3"], "did you mean 'minutes'?"),
        (["--template", "vision/cv/train", "--set", "minutes=many"], "minutes must be a number, not 'many'"),
        (["--template", "vision/cv/train", "--set", "quick=1"], "quick must be true or false"),
        (["--template", "vision/cv/train", "--set", "minutes"], "PARAMETER=VALUE"),
        (["--template", "vision/cv/train", "x.yaml"], "works without job files"),
        (["x.yaml", "--set", "minutes=3"], "--set works only with --template"),
        (["--template", "vision/cv/train", "--set", f"data={'x' * 4097}"], "more than 4,096 characters"),
    ],
)
def test_what_is_wrong_about_a_template_is_said_and_nothing_submitted(
    paictl: Paictl, folder: Path, words: list[str], said: str
) -> None:
    assert paictl("template", "add", "vision", str(folder), "--vc", "vc1").code == 0
    refused = paictl("job", "submit", *words)
    assert (refused.code, said in refused.err) == (2, True), refused.err
    assert paictl("job", "list", "-o", "json").data == []


def test_libraries_are_bounded_and_a_refused_one_changes_nothing(
    paictl: Paictl, folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refused(*words: str) -> str:
        done = paictl("template", "add", *words)
        assert done.code == 2
        assert paictl("template", "list", "-o", "json").data == []
        return done.err

    (tmp_path / "empty").mkdir()
    assert "no job file found" in refused("vision", str(tmp_path / "empty"), "--vc", "vc1")
    assert "not a folder" in refused("vision", str(tmp_path / "nosuch"), "--vc", "vc1")
    assert "no virtual cluster 'vc9'" in refused("vision", str(folder), "--vc", "vc9")
    assert "say who may use it" in refused("vision", str(folder))
    assert "cannot be the name" in refused("Vision!", str(folder), "--vc", "vc1")
    monkeypatch.setattr(operate, "MOST_TEMPLATES", 1)
    assert "more than 1 job files" in refused("vision", str(folder), "--vc", "vc1")
    monkeypatch.undo()
    monkeypatch.setenv("PAICTL_STATE", str(tmp_path / "state"))
    monkeypatch.setattr("paictl.cluster.templates.MOST_BYTES", 500)
    assert "a library can have 500" in refused("vision", str(folder), "--vc", "vc1")
    monkeypatch.setattr(operate, "MOST_ENTRIES", 3)
    assert "more than 3 files" in refused("vision", str(folder), "--vc", "vc1")


def test_a_large_file_and_a_file_with_an_odd_name_are_left_out(paictl: Paictl, folder: Path) -> None:
    (folder / "large.yaml").write_text(TRAIN + "#" * operate.MOST_FILE, encoding="utf-8")
    (folder / "a b.yaml").write_text(TRAIN, encoding="utf-8")
    done = paictl("template", "add", "vision", str(folder), "--vc", "*")
    assert "large.yaml is left out: it has more than 131,072 bytes" in done.err
    assert "a b.yaml is left out" in done.err
    (library,) = paictl("template", "list", "-o", "json").data
    assert [one["path"] for one in library["templates"]] == ["cv/train.yaml", "wrong.yml"]
