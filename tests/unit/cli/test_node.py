"""`paictl node`, on an embedded cluster with the workers worker1 and worker2."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.cli.conftest import Paictl


@pytest.fixture(autouse=True)
def lab(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, paictl: Paictl) -> None:
    monkeypatch.setenv("PAICTL_STATE", str(tmp_path / "state"))
    assert paictl("cluster", "up", "--speed", "0").code == 0


def conditions(paictl: Paictl) -> dict[str, str]:
    return {node["name"]: node["condition"] for node in paictl("node", "list", "-o", "json").data}


def test_a_change_says_what_it_left_as_it_was(paictl: Paictl) -> None:
    said = [
        paictl("node", change, "worker1").err
        for change in ("cordon", "cordon", "fail", "uncordon", "cordon", "heal", "uncordon", "uncordon")
    ]
    assert said == [
        "node worker1 cordoned\n",
        "node worker1 cordoned already\n",
        "node worker1 made to fail\n",
        "node worker1 uncordoned; it is Failed still: paictl node heal worker1\n",
        "node worker1 cordoned\n",
        "node worker1 healed; it is Cordoned still: paictl node uncordon worker1\n",
        "node worker1 uncordoned\n",
        "node worker1 uncordoned already\n",
    ]


def test_nothing_is_changed_where_one_of_the_names_is_wrong(paictl: Paictl) -> None:
    done = paictl("node", "cordon", "worker1", "woker2")
    assert (done.code, "there is no node 'woker2'" in done.err, "worker2" in done.err) == (2, True, True)
    assert set(conditions(paictl).values()) == {"Ready"}


def test_a_node_is_added_like_another_and_removed(paictl: Paictl) -> None:
    assert paictl("node", "add", "worker3", "--address", "10.0.1.3", "--like", "worker1").code == 0
    assert conditions(paictl)["worker3"] == "Ready"
    taken = paictl("node", "add", "worker4", "--address", "10.0.1.3", "--like", "worker1")
    assert (taken.code != 0, "node 'worker3' has the address 10.0.1.3 already" in taken.err) == (True, True)
    assert paictl("node", "remove", "worker3", "-y").code == 0
    assert "worker3" not in conditions(paictl)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("Worker_3", "--address", "10.0.1.3", "--like", "worker1"), "is no host name"),
        (("worker3", "--address", "10.0.1.300", "--like", "worker1"), "is no IP address"),
        (("worker3", "--address", "10.0.1.3"), "say what the machine has"),
        (("worker3", "--address", "10.0.1.3", "--sku", "V100=gpu:many"), "gpu"),
    ],
)
def test_a_machine_that_cannot_be_is_refused(paictl: Paictl, words: tuple[str, ...], says: str) -> None:
    done = paictl("node", "add", *words)
    assert (done.code, says in done.err) == (2, True), done.err
    assert "worker3" not in conditions(paictl)
