"""Wherever people read devices that are MIG instances, they read what the container gets: ``GPU:instance``."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

import pytest

from paictl.cluster.eventtext import detail
from paictl.cluster.interface import ClusterError, EventKind, NodeChange
from paictl.cluster.kubernetes.paijob.summaries import read_pod
from paictl.cluster.page import page_data
from paictl.cluster.presets import SERVICES as SETTINGS
from paictl.cluster.presets import preset_files
from paictl.cluster.values import shown_devices
from paictl.operate.nodes import change_devices
from paictl.server.api import jobviews
from paictl.server.calls import Call
from paictl.server.portal.cells import drawn
from paictl.server.portal.jobs import chart
from tests.unit.cluster.conftest import MINUTE, Bench, MakeBench


@pytest.fixture
def divided(bench: MakeBench) -> Bench:
    """Two workers, each with two GPUs of three instances."""
    files = preset_files("lab")
    cells = files[SETTINGS].replace("memory: 32768Mi}", "memory: 32768Mi, migInstances: 3}")
    files[SETTINGS] = cells.replace("childCellNumber: 1,", "childCellNumber: 6,")
    files["layout.yaml"] = files["layout.yaml"].replace("count: 1", "count: 2")
    return bench(files=files)


def test_an_embedded_cluster_shows_instances(divided: Bench) -> None:
    first, second = divided.submit("one", gpu=2), divided.submit("two", gpu=3)
    (task,) = divided.cluster.job(second).tasks
    places = {0: "0:0", 1: "0:1", 2: "0:2", 3: "1:0", 4: "1:1", 5: "1:2"}
    assert task.shown_devices == ",".join(places[device] for device in sorted(task.devices))
    assert any(device >= 3 for device in task.devices), "the second GPU tells instances from indices"
    assert divided.again().job(second).tasks == (task,), "another process reads what was written down"

    events = [one for one in divided.cluster.events(subject=f"job/{second}") if one.kind is EventKind.STARTED]
    assert [str(detail(one)) for one in events] == [f"train[0] runs on {task.node}, devices {task.isolation}"]
    assert events[0].message == str(detail(events[0]))

    picture = divided.cluster.picture(history=True)
    assert [chain.instances for chain in picture.chains] == [3]
    data = page_data(picture)
    assert data["chains"][0]["instances"] == 3
    line = next(job for job in data["jobs"] if job[0] == second)
    assert line[12][0][2][0][-1] == task.shown_devices.replace(",", ", ")
    call = cast("Call", SimpleNamespace(me=SimpleNamespace(admin=True, name="root"), language="en"))
    said = [leaf.title.partition(",")[0] for leaf in _leaves(drawn(call, picture.chains)[0].cells)]
    assert said == [*places.values()] * 2
    found = chart(divided.cluster.events(subject=f"job/{second}"), divided.at(0), divided.at(MINUTE))
    assert found is not None
    assert [bar.devices for _, bars in found.rows for bar in bars if bar.kind == "running"] == [task.shown_devices]

    (role,) = jobviews.detail(divided.cluster.job(second))["taskRoles"].values()
    assert role["taskStatuses"][0]["containerGpus"] == task.shown_devices

    divided.pass_time(6 * MINUTE)
    assert divided.cluster.job(second).tasks[0].shown_devices == task.shown_devices
    assert divided.cluster.job(first).tasks[0].isolation


def _leaves(cells: Any) -> list[Any]:
    return [leaf for cell in cells for leaf in (_leaves(cell.parts) if cell.parts else [cell])]


def test_whole_gpus_are_shown_by_their_index(bench: MakeBench) -> None:
    lab = bench("dgx2")
    (task,) = lab.cluster.job(lab.submit("one", gpu=2)).tasks
    assert (task.isolation, task.shown_devices) == ("", ",".join(map(str, sorted(task.devices))))
    event = next(one for one in lab.cluster.events() if one.kind is EventKind.STARTED and "role" in one.data)
    assert "isolation" not in event.data
    assert [chain.instances for chain in lab.cluster.picture().chains] == [0]


def test_a_pod_on_kubernetes_says_which_instances_it_has() -> None:
    noted = {
        "paictl.io/role": "train",
        "batch.kubernetes.io/job-completion-index": "0",
        "hivedscheduler.microsoft.com/pod-leaf-cell-isolation": "1:0,0:3",
        "hivedscheduler.microsoft.com/pod-bind-info": json.dumps({"node": "n", "leafCellIsolation": [7, 3]}),
    }
    about = {"name": "a", "uid": "u", "labels": {"paictl.io/job": "a", "paictl.io/attempt": "0"}, "annotations": noted}
    seen = read_pod({"metadata": about, "spec": {"nodeName": "n"}, "status": {"phase": "Running"}})
    assert seen is not None
    assert (seen.run.devices, seen.run.isolation) == ((7, 3), "1:0,0:3")
    assert shown_devices(seen.run.devices, seen.run.isolation) == "0:3,1:0"


def test_instances_that_do_not_match_the_devices_are_not_guessed() -> None:
    assert shown_devices((4, 2), "0:1") == "2,4"
    assert shown_devices((4, 2)) == "2,4"
    assert shown_devices(()) == ""


def test_a_broken_instance_has_the_same_name(divided: Bench) -> None:
    key = divided.submit("one", gpu=2)
    (task,) = divided.cluster.job(key).tasks
    node = next(one for one in divided.cluster.nodes() if one.machine.name == task.node)
    number = max(task.devices)
    name = task.shown_devices.rpartition(",")[2]
    assert (node.device_name(number), node.device(name), node.device(str(number))) == (name, number, number)
    for word in ("2:0", "0:3", "6", "-1", "", "0:", "٣"):
        with pytest.raises(ClusterError, match="has no device") as refused:
            node.device(word)
        assert refused.value.hint == "its devices are 0:0 to 1:2"
    (changed,) = change_devices(divided.cluster, [task.node], NodeChange.FAIL, [name, str(number)])
    assert (changed.devices, changed.after.bad_devices) == ((number,), (number,))
    seen = next(one for one in divided.again().nodes() if one.machine.name == task.node)
    assert [seen.device_name(device) for device in seen.bad_devices] == [name]
    failed = next(one for one in divided.cluster.events() if one.kind is EventKind.DEVICE_FAILED)
    assert (failed.message, failed.data["devices"]) == (f"device {name}", [number])


def test_nodes_with_whole_gpus_know_no_instances(bench: MakeBench) -> None:
    lab = bench("dgx2")
    node = next(one for one in lab.cluster.nodes() if one.machine.devices == 16)
    assert (node.device_name(3), node.device("3")) == ("3", 3)
    with pytest.raises(ClusterError) as refused:
        change_devices(lab.cluster, [node.machine.name], NodeChange.FAIL, ["0", "0:3"])
    assert (refused.value.message, refused.value.hint) == (
        f"node {node.machine.name} has no device 0:3",
        "its devices are 0 to 15",
    )
    assert all(not one.bad_devices for one in lab.cluster.nodes())
