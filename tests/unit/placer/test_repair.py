"""Members of a gang that are lost with their node, and have no room one by one, are pinned together elsewhere."""

from __future__ import annotations

from paictl.cluster.pods.nodes import node_status
from tests.unit.extender.conftest import NODES, spec
from tests.unit.extender.harness import gang
from tests.unit.placer.test_placing import Placer, node


def test_members_of_a_lost_node_move_together_and_a_new_process_knows() -> None:
    """Twelve pods of one device use the whole promise of their virtual cluster."""
    placer = Placer(spec(virtualClusters={"A": {"virtualCells": [{"cellType": "POOL.NODE", "cellNumber": 3}]}}))
    placer.create(gang("g", 12, 1, memberRepairEnable=True))
    placer.round()
    places = {f"g-{number}": placer.node(f"g-{number}") for number in range(12)}
    (free,) = {*NODES} - {*places.values()}
    gone = places["g-0"]
    lost = [name for name, at in places.items() if at == gone]
    assert len(lost) == 4

    away = node(gone)
    away["status"]["conditions"][0]["status"] = "False"
    placer.core.node_changed(node_status(away))
    for name in lost:
        placer.delete(name)
    again = gang("g", 12, 1, memberRepairEnable=True)[:4]
    names = [f"g-{number}" for number in range(20, 24)]
    for pod, name in zip(again, names, strict=True):
        pod["metadata"] |= {"name": name, "uid": f"uid-{name}"}
    placer.create(again)
    placer.round()
    assert {placer.node(name) for name in names} == {free}
    stayed = {name: at for name, at in places.items() if name not in lost}
    assert {name: placer.node(name) for name in stayed} == stayed

    known = {uid: pod.info.devices for uid, pod in placer.core.book.pods.items() if pod.info is not None}
    placer.begin()
    assert {uid: pod.info.devices for uid, pod in placer.core.book.pods.items() if pod.info is not None} == known
    (group,) = placer.core.book.engine.state.groups.by_name.values()
    assert all(uid for row in group.pods for uid in row)


def test_some_come_back_before_others_and_are_counted_once() -> None:
    """Two of three nodes are lost, and there is room for one."""
    placer = Placer(spec(virtualClusters={"A": {"virtualCells": [{"cellType": "POOL.NODE", "cellNumber": 3}]}}))
    placer.create(gang("g", 12, 1, memberRepairEnable=True))
    placer.round()
    places = {f"g-{number}": placer.node(f"g-{number}") for number in range(12)}
    (free,) = {*NODES} - {*places.values()}
    kept = places["g-0"]
    for gone in sorted({*places.values()} - {kept}):
        away = node(gone)
        away["status"]["conditions"][0]["status"] = "False"
        placer.core.node_changed(node_status(away))
    for name in [name for name, at in places.items() if at != kept]:
        placer.delete(name)
    again = gang("g", 12, 1, memberRepairEnable=True)[:8]
    names = [f"g-{number}" for number in range(20, 28)]
    for pod, name in zip(again, names, strict=True):
        pod["metadata"] |= {"name": name, "uid": f"uid-{name}"}
    placer.create(again)
    for _ in range(4):
        placer.now += 5
        placer.round()
    assert sorted(placer.node(name) for name in names) == [""] * 4 + [free] * 4
    assert sum(placer.reasons(name).count("Repaired") for name in names) == 4
    assert placer.core.repairs == 4
