"""`config validate` in repositories that hold more than a cluster's configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.cli.conftest import Paictl

MANIFESTS = "apiVersion: v1\nkind: Service\n---\napiVersion: v1\nkind: Pod\n"
JOB = "protocolVersion: 2\nname: a\n"


def test_four_hundred_foreign_manifests_are_one_line(paictl: Paictl, tmp_path: Path) -> None:
    for number in range(400):
        (tmp_path / f"{number}.yaml").write_text(MANIFESTS, encoding="utf-8")
    done = paictl("config", "validate", str(tmp_path))
    assert (done.code, done.err) == (0, "")
    assert done.out == "400 files are not OpenPAI or HiveD configuration; --strict names them\n"


def test_strict_names_them(paictl: Paictl, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(MANIFESTS, encoding="utf-8")
    done = paictl("config", "validate", str(tmp_path), "--strict")
    assert done.code == 1
    assert "TXT015" in done.out
    assert "a.yaml:1:1" in done.out


def test_a_text_shows_a_rule_a_hundred_times_in_all_files(paictl: Paictl, tmp_path: Path) -> None:
    for number in range(150):
        (tmp_path / f"{number}.yaml").write_text(JOB, encoding="utf-8")
    done = paictl("config", "validate", str(tmp_path), "--select", "SHP103")
    every = paictl("config", "validate", str(tmp_path), "--select", "SHP103", "--all-findings")
    assert done.out.count("error[SHP103") == 100
    assert every.out.count("error[SHP103") > 150
    assert done.out.splitlines()[-1].startswith(every.out.splitlines()[-1])


HIVED = "physicalCluster: {}\n"

OTHER_WORDS = {
    "hivedscheduler": "hived",
    "hivedscheduler.yaml": "hived",
    "services-configuration": "services",
    "services-configuration.yaml": "services",
    "layout.yaml": "layout",
    "config.yaml": "config",
    "master.csv": "master-csv",
    "worker.csv": "worker-csv",
}
"""What else ``--kind`` takes, and what it stands for."""


@pytest.mark.parametrize("word", OTHER_WORDS)
def test_kinds_go_by_the_names_of_their_files_too(word: str, paictl: Paictl, tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text(HIVED, encoding="utf-8")
    other = paictl("config", "validate", str(tmp_path / "x.yaml"), "--kind", word)
    assert other == paictl("config", "validate", str(tmp_path / "x.yaml"), "--kind", OTHER_WORDS[word])
    assert other.code == 1
    assert "hivedscheduler," not in paictl("config", "validate", "--help").out


def test_a_manifest_that_is_given_as_a_job_has_one_finding(paictl: Paictl, tmp_path: Path) -> None:
    file = tmp_path / "k.yaml"
    file.write_text("apiVersion: batch/v1\nkind: Job\nmetadata: {name: train}\n", encoding="utf-8")
    done = paictl("config", "validate", str(file), "--kind", "job", "--format", "concise")
    assert done.code == 1
    (line,) = done.out.splitlines()
    assert "TXT015 error this is an object of Kubernetes, not a job" in line


def test_a_fragment_to_push_is_told_that_it_needs_no_other_sections(paictl: Paictl, tmp_path: Path) -> None:
    path = tmp_path / "services-configuration.yaml"
    path.write_text("cluster:\n  common:\n    cluster-id: lab\n", encoding="utf-8")
    done = paictl("config", "validate", str(path))
    assert "lacks the key 'rest-server'" in done.out
    assert "a push needs only the sections that change, if the cluster has the others" in done.out
    path.write_text("rest-server:\n  default-pai-admin-username: root-of-pai\n", encoding="utf-8")
    done = paictl("config", "validate", str(path))
    assert "lacks the key 'default-pai-admin-password'" in done.out
    assert "a push needs" not in done.out, "a section is pushed whole"
