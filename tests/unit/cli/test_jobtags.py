"""Tags of jobs at the command line: at submit, changed later, filtered by, kept by clones."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from paictl.cluster.embedded.cluster import EmbeddedCluster
from tests.unit.cli.conftest import Paictl
from tests.unit.cli.test_job import JOB


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, paictl: Paictl) -> Path:
    """A cluster, and the file of a job with a tag."""
    monkeypatch.setenv("PAICTL_STATE", str(tmp_path / "state"))
    file = tmp_path / "a.yaml"
    file.write_text(JOB.format(name="a", vc="default") + "extras: {tags: [paper]}\n", encoding="utf-8")
    assert paictl("cluster", "up", "--speed", "0").code == 0
    return file


def tags(paictl: Paictl, *words: str) -> dict[str, list[str]]:
    return {one["key"]: one["tags"] for one in paictl("job", "list", "-o", "json", *words).data}


def test_tags_come_with_the_file_and_the_command_and_are_changed_later(
    paictl: Paictl, job: Path, tmp_path: Path
) -> None:
    assert paictl("job", "submit", str(job), "--user", "me", "--tag", "sweep", "--tag", "paper").code == 0
    assert paictl("job", "submit", str(job), "--user", "me", "--name", "b").code == 0
    assert tags(paictl) == {"me~a": ["paper", "sweep"], "me~b": ["paper"]}
    done = paictl("job", "tag", "me~a", "best", "--remove", "paper")
    assert (done.code, "job me~a: sweep, best" in done.err) == (0, True)
    assert paictl("job", "tag", "me~b", "best", "--remove", "best").code == 0
    assert paictl("cluster", "tick", "1h").code == 0
    assert paictl("job", "tag", "me~a", "done").code == 0  # it has ended
    assert tags(paictl) == {"me~a": ["sweep", "best", "done"], "me~b": ["paper"]}
    assert "tags: sweep, best, done" in paictl("job", "show", "me~a").out
    assert "TAGS" in paictl("job", "list").out
    assert tags(paictl, "--tag", "done") == tags(paictl, "--tag", "done", "--tag", "nosuch")
    assert list(tags(paictl, "--tag", "done")) == ["me~a"]
    assert tags(paictl, "--tag", "nosuch") == {}
    cluster = EmbeddedCluster.at(tmp_path / "state")
    assert cluster.replayed() == cluster.stored()
    copy = yaml.safe_load(paictl("job", "clone", "me~a", "--user", "me").out)
    assert copy["extras"]["tags"] == ["sweep", "best", "done"]
    assert paictl("job", "tag", "me~b", "--remove", "paper").code == 0
    assert "tags" not in yaml.safe_load(paictl("job", "clone", "me~b").out)["extras"]


def test_what_cannot_be_a_tag_is_refused_and_nothing_is_changed(paictl: Paictl, job: Path) -> None:
    assert paictl("job", "submit", str(job), "--user", "me").code == 0
    for words in (["a b"], ["ok", "a,b"], ["x" * 65], [f"t{n}" for n in range(21)], ["--remove", "a b"]):
        refused = paictl("job", "tag", "me~a", *words)
        assert (refused.code, "tag" in refused.err) == (2, True), refused.err
    assert paictl("job", "tag", "me~a").code == 2
    assert paictl("job", "tag", "me~nosuch", "x").code == 2
    assert paictl("job", "submit", str(job), "--name", "c", "--tag", "a b").code == 2
    job.write_text(job.read_text(encoding="utf-8").replace("[paper]", "[a b]"), encoding="utf-8")
    refused = paictl("job", "submit", str(job), "--name", "c")
    assert (refused.code, "JOB636" in refused.err) == (2, True)
    assert tags(paictl) == {"me~a": ["paper"]}


def test_stars_in_an_edited_clone_are_refused_with_their_line(paictl: Paictl, job: Path) -> None:
    with job.open("a", encoding="utf-8") as file:
        file.write("secrets: {key: '******'}\n")
    refused = paictl("job", "submit", str(job))
    assert (refused.code, "a.yaml:13:16" in refused.err, "JOB637" in refused.err) == (2, True, True), refused.err


def test_a_job_that_is_too_large_by_its_memory_is_told_so(paictl: Paictl, job: Path) -> None:
    written = job.read_text(encoding="utf-8")
    job.write_text(written.replace("memoryMB: 4096", "memoryMB: 900000"), encoding="utf-8")
    refused = paictl("job", "submit", str(job), "--name", "big")
    assert refused.code == 2
    assert "a task of train asks for 900000 memoryMB, and a leaf cell has" in refused.err
    job.write_text(written.replace("gpu: 1", "gpu: 9"), encoding="utf-8")
    assert "leaf cell has" not in paictl("job", "submit", str(job), "--name", "big").err
