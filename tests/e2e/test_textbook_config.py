"""Lab 01 takes the textbook's configuration, and every one that says the same in other words.

The textbook's jobs are read from the corpus beside the project, where it is there; nothing of it is copied.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.unit.cli.conftest import Paictl, home, paictl

__all__ = ["home", "paictl"]

LAB6 = ROOT.parent / "shared" / "corpus" / "lab6"

HOSTS = {
    "master.csv": "master1,10.0.0.1\n",
    "worker.csv": "worker1,10.0.1.1\nworker2,10.0.1.2\n",
    "config.yaml": "user: student\npassword: four-words-9-Cells\nbranch_name: v1.2.0\ndocker_image_tag: v1.2.0\n",
}
SECTION = """\
hivedscheduler:
  config: |
    physicalCluster:
      skuTypes:
        GPU-C: {gpu: 1, cpu: 7, memory: 32440Mi}
        GPU-D: {gpu: 1, cpu: 7, memory: 32440Mi}
      cellTypes:
        GPU-C-NODE: {childCellType: GPU-C, childCellNumber: 1, isNodeLevel: true}
        GPU-C-NODE-POOL: {childCellType: GPU-C-NODE, childCellNumber: 1}
        GPU-D-NODE: {childCellType: GPU-D, childCellNumber: 1, isNodeLevel: true}
        GPU-D-NODE-POOL: {childCellType: GPU-D-NODE, childCellNumber: 1}
      physicalCells:
      - cellType: GPU-C-NODE-POOL
        cellChildren:
        - cellAddress: worker1
      - cellType: GPU-D-NODE-POOL
        cellChildren:
        - cellAddress: worker2
    virtualClusters:
      default:
        virtualCells:
        - cellType: GPU-C-NODE-POOL.GPU-C-NODE
          cellNumber: 1
      vc1:
        virtualCells:
        - cellType: GPU-D-NODE-POOL.GPU-D-NODE
          cellNumber: 1
"""


def exchanged(text: str, one: str, other: str) -> str:
    return re.sub(rf"{one}|{other}", lambda match: other if match[0] == one else one, text)


def at_node_level(text: str) -> str:
    """Chains whose top is the node itself."""
    text = re.sub(r" +GPU-.-NODE-POOL: .*\n", "", text)
    text = re.sub(r"cellType: GPU-(.)-NODE-POOL\n +cellChildren:\n +- ", r"cellType: GPU-\1-NODE\n        ", text)
    return text.replace("-NODE-POOL.GPU-C-NODE", "-NODE").replace("-NODE-POOL.GPU-D-NODE", "-NODE")


def vc1_first(text: str) -> str:
    head, _, rest = text.partition("      default:\n")
    default, _, vc1 = rest.partition("      vc1:\n")
    return f"{head}      vc1:\n{vc1}      default:\n{default}"


SKU = "--sku GPU=gpu:1,cpu:8,memory:32Gi"

VARIANTS: Mapping[str, Callable[[str], str]] = {
    "as-the-book": lambda text: text,
    "the-other-way-round": lambda text: exchanged(text, "default", "vc1"),
    "workers-exchanged": lambda text: exchanged(text, "worker1", "worker2"),
    "both-exchanged": lambda text: exchanged(exchanged(text, "default", "vc1"), "worker1", "worker2"),
    "names-of-its-own": lambda text: text.replace("GPU-C", "K80").replace("GPU-D", "V100"),
    "lower-case": lambda text: text.replace("GPU-C", "gpu-c").replace("GPU-D", "gpu-d"),
    "chains-exchanged": lambda text: exchanged(text, "GPU-C", "GPU-D"),
    "nodes-are-tops": at_node_level,
    "vc1-first": vc1_first,
    "vc1-first-and-exchanged": lambda text: exchanged(vc1_first(text), "GPU-C", "GPU-D"),
    "with-comments": lambda text: "# ours\n" + text.replace("cellNumber: 1", "cellNumber: 1  # one GPU"),
}


@pytest.fixture
def divide(home: Path, paictl: Paictl, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Do lab 01 up to the step before its jobs share the cluster; the section is the student's own."""

    def act(section: str, lang: str) -> None:
        assert paictl("lab", "start", "1", "--lang", lang).code == 0
        ground = home / "state" / "labs" / "01_deploy"
        monkeypatch.setenv("PAICTL_STATE", str(ground))
        monkeypatch.chdir(ground / "files")
        for name, text in HOSTS.items():
            Path(name).write_text(text, encoding="utf-8")
        # CFG309 is not right about v1.2.0, which reads branch_name
        types(paictl, "config validate . --ignore CFG309")
        types(paictl, f"config generate -m master.csv -w worker.csv -c config.yaml -o cluster {SKU}")
        types(paictl, "cluster up cluster --name lab01")
        types(paictl, "config get-id")
        types(paictl, f"job submit {book_job(0)} --vc default")
        types(paictl, "cluster tick 10m")
        Path("two-vcs").mkdir()
        Path("two-vcs/service-configuration.yaml").write_text(section, encoding="utf-8")  # so the textbook calls it
        types(paictl, "service stop -n rest-server hivedscheduler")
        types(paictl, "config push -p two-vcs -m service -y")
        types(paictl, "service start -n rest-server hivedscheduler")

    return act


def types(paictl: Paictl, line: str) -> str:
    done = paictl(*line.split())
    assert done.code == 0, f"paictl {line}\n{done.out}{done.err}"
    return done.err


def book_job(number: int) -> Path:
    """The textbook's file, or the lab's where the corpus is not there."""
    book = LAB6 / f"job-config-{number}.yaml"
    return book if book.exists() else Path(f"job-{number}.yaml")


def finish(paictl: Paictl) -> None:
    types(paictl, f"job submit {book_job(2)} --vc default")
    types(paictl, f"job submit {book_job(1)}")
    done = paictl("lab", "verify")
    assert done.code == 0, done.out
    assert "✗" not in done.out


@pytest.mark.slow
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_textbook_goes_through_lab_01_to_the_end(
    divide: Callable[[str, str], None], paictl: Paictl, lang: str
) -> None:
    if not LAB6.exists():
        pytest.skip("the corpus is not beside the project")
    divide(SECTION, lang)
    finish(paictl)
    jobs = {
        job["key"]: paictl("job", "show", job["key"], "-o", "json").data
        for job in paictl("job", "list", "-o", "json").data
    }
    assert jobs["ann~job-config-1"]["tasks"][0]["node"] == "worker2"
    assert jobs["ann~job-config-2"]["tasks"][0]["node"] == "worker1"


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in VARIANTS if name != "as-the-book"])
def test_an_equivalent_configuration_is_as_good(divide: Callable[[str, str], None], paictl: Paictl, name: str) -> None:
    section = VARIANTS[name](SECTION)
    assert section != SECTION
    divide(section, "en")
    finish(paictl)


@pytest.mark.slow
def test_one_chain_for_both_is_not_taken_for_two(divide: Callable[[str, str], None], paictl: Paictl) -> None:
    one_chain = (ROOT / "labs/01_deploy/solution/one-chain.txt").read_text(encoding="utf-8")
    divide(one_chain, "en")
    done = paictl("lab", "verify", "-o", "json").data
    assert [row["check"] for row in done if row["standing"] == "passed"][-1] == "ended"
