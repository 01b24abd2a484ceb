"""Members of a gang that are lost with their node, and have no room one by one, are pinned together elsewhere."""

from __future__ import annotations

from paictl.cluster.pods.nodes import node_status
from tests.unit.extender.conftest import NODES, spec
from tests.unit.extender.harness import gang
from tests.unit.placer.test_placing import Placer, node


def full_gang() -> tuple[Placer, dict[str, str], str]:
    """Twelve pods of one device on the whole promise of their virtual cluster, the node of each, and the free node."""
    placer = Placer(spec(virtualClusters={"A": {"virtualCells": [{"cellType": "POOL.NODE", "cellNumber": 3}]}}))
    placer.create(gang("g", 12, 1, memberRepairEnable=True))
    placer.round()
    places = {f"g-{number}": placer.node(f"g-{number}") for number in range(12)}
    (free,) = {*NODES} - {*places.values()}
    return placer, places, free


def lose(placer: Placer, places: dict[str, str], nodes: set[str]) -> list[str]:
    """Nodes fail with their pods; the names of the pods that their owner makes instead."""
    for name in sorted(nodes):
        away = node(name)
        away["status"]["conditions"][0]["status"] = "False"
        placer.core.node_changed(node_status(away))
    lost = [name for name, at in places.items() if at in nodes]
    for name in lost:
        placer.delete(name)
    again = gang("g", 12, 1, memberRepairEnable=True)[: len(lost)]
    for number, pod in enumerate(again, 20):
        pod["metadata"] |= {"name": f"g-{number}", "uid": f"uid-g-{number}"}
    placer.create(again)
    return [pod["metadata"]["name"] for pod in again]


def test_members_of_a_lost_node_move_together_and_a_new_process_knows() -> None:
    placer, places, free = full_gang()
    names = lose(placer, places, {places["g-0"]})
    placer.round()
    assert {placer.node(name) for name in names} == {free}
    stayed = {name: at for name, at in places.items() if at != places["g-0"]}
    assert {name: placer.node(name) for name in stayed} == stayed

    known = {uid: pod.info.devices for uid, pod in placer.core.book.pods.items() if pod.info is not None}
    placer.begin()
    assert {uid: pod.info.devices for uid, pod in placer.core.book.pods.items() if pod.info is not None} == known
    (group,) = placer.core.book.engine.state.groups.by_name.values()
    assert all(uid for row in group.pods for uid in row)


def test_some_come_back_before_others_and_are_counted_once() -> None:
    """Two of three nodes are lost, and there is room for one."""
    placer, places, free = full_gang()
    names = lose(placer, places, {*places.values()} - {places["g-0"]})
    for _ in range(4):
        placer.now += 5
        placer.round()
    assert sorted(placer.node(name) for name in names) == [""] * 4 + [free] * 4
    assert sum(placer.reasons(name).count("Repaired") for name in names) == 4
    assert placer.core.members["repaired"] == 4
    for name in names:
        if not placer.node(name):
            assert "waits" in [event.message for event in placer.recorded if event.pod.name == name][-1]
