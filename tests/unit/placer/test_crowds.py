"""However many gangs of one virtual cluster wait, and whatever their priority, the placer gives others their turn."""

from __future__ import annotations

import pytest

from paictl.cluster.pods.nodes import node_status
from paictl.doors import deciding, reclaim
from paictl.doors.core import DoorCore
from paictl.doors.table import CachedDecision, PodEntry
from paictl.remote.kube.client import Json
from paictl.scheduler.request import PodRequest
from tests.unit.extender.conftest import NODES
from tests.unit.placer.test_placing import node
from tests.unit.placer.test_tenants import Tenants, member

CROWD = 40


class Crowded(Tenants):
    """A's promise is used up, and a crowd of its gangs waits; who is decided about is written down."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self.tried: list[str] = []
        self.news_at: dict[int, str] = {}
        """Names of pods of B that come when so many gangs were tried."""
        self.seconds = 0.0
        """How long a decision takes."""
        for number in range(3):
            self.add(urgent(f"busy{number}", "A"))
        self.round()
        decide = deciding.decide

        def noted(core: DoorCore, entry: PodEntry, request: PodRequest, names: list[str]) -> CachedDecision:
            if (late := self.news_at.pop(len(self.tried), None)) is not None:
                self.add(urgent(late, "B", priority=0))
            self.tried.append(entry.ref.name)
            self.now += self.seconds
            return decide(core, entry, request, names)

        monkeypatch.setattr(deciding, "decide", noted)
        for number in range(CROWD):
            self.add(urgent(f"crowd{number:02}", "A"))


def urgent(name: str, vc: str, priority: int = 1000) -> Json:
    """A pod of four devices."""
    made = member(f"team-{vc.lower()}", name, vc, f"team-{vc.lower()}/{name}", 1)
    noted = made["metadata"]["annotations"]
    for key, text in noted.items():
        noted[key] = text.replace('"priority": 0', f'"priority": {priority}').replace(
            '"leafCellNumber": 1', '"leafCellNumber": 4'
        )
    return made


def test_a_gang_has_its_turn_before_a_crowd_of_another_virtual_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    placer = Crowded(monkeypatch)
    placer.add(urgent("mine", "B", priority=0))
    placer.round()
    assert placer.tried.index("mine") <= 1
    assert len(placer.tried) == CROWD + 1, "and all others have theirs"
    crowd = [name for name in placer.tried if name != "mine"]
    assert crowd == sorted(crowd), "a virtual cluster keeps its own order"


def test_a_gang_that_comes_while_a_crowd_is_tried_has_its_turn_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    placer = Crowded(monkeypatch)
    placer.seconds = 0.3
    placer.news_at = {5: "late"}
    placer.round()
    assert placer.tried.index("late") <= 5 + 6
    assert sorted(placer.tried) == sorted([*(f"crowd{number:02}" for number in range(CROWD)), "late"]), "each once"


def test_pods_of_one_template_look_at_a_node_once_until_something_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    placer, looks = Crowded(monkeypatch), list[str]()
    look = reclaim.obstacle_on

    def noted(core: DoorCore, entry: PodEntry, name: str) -> str:
        looks.append(name)
        return look(core, entry, name)

    monkeypatch.setattr(reclaim, "obstacle_on", noted)
    placer.round()
    placer.round()
    assert sorted(looks) == NODES
    placer.core.node_changed(node_status(node("n3", unschedulable=True)))
    placer.round()
    assert sorted(looks) == sorted(2 * NODES)


def test_a_round_ends_although_gangs_come_all_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that were tried before are tried again in the next one only."""
    placer = Crowded(monkeypatch)
    placer.seconds = 2.0
    placer.news_at = {number: f"late{number:03}" for number in range(10 * CROWD)}
    placer.round()
    tried = [name for name in placer.tried if name.startswith("crowd")]
    assert len(placer.tried) <= 2 * CROWD + 2
    assert sorted(tried) == [f"crowd{number:02}" for number in range(CROWD)], "and all that were there are tried"
