"""What moved gangs have cost is kept in the cluster, by the virtual cluster that pays, and told by its scheduler."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paictl.cluster.defrag import GangPods
from paictl.cluster.interface import ConflictError
from paictl.cluster.kubernetes.cluster import KubernetesCluster
from paictl.cluster.maintenance import NAME, UNIX, WindowRequest
from paictl.cluster.movetotals import KEY, MoveTotal, planned_weights, totals_of, totals_text
from paictl.cluster.presets import preset_files
from paictl.remote.kube.client import Json
from paictl.units import Millis, millis_between
from tests.unit.cluster.fakekube import FakeKube

PATH = f"/api/v1/namespaces/paictl-system/configmaps/{NAME}"
HOUR = Millis(3_600_000)


@pytest.fixture
def kube() -> FakeKube:
    found = FakeKube({"/api/v1/nodes/w1": {"metadata": {"name": "w1", "uid": "w1"}, "spec": {}, "status": {}}})
    cluster(found).push(preset_files("lab"), "first")
    return found


def cluster(kube: FakeKube) -> KubernetesCluster:
    return KubernetesCluster(kube, "fake")


def running(kube: FakeKube, name: str, vc: str, *, devices: int, lost: int) -> GangPods:
    """A gang of two pods that are there."""
    pods = [f"{name}-{number}" for number in range(2)]
    for pod in pods:
        about = {"name": pod, "namespace": "default", "uid": pod, "labels": {}}
        kube.objects[f"/api/v1/namespaces/default/pods/{pod}"] = {
            "metadata": about,
            "spec": {"nodeName": "w1"},
            "status": {"phase": "Running"},
        }
    return GangPods(name, "", name, vc, 0, False, devices, Millis(lost), tuple((pod, "w1") for pod in pods), True)


def counted(kube: FakeKube) -> dict[str, MoveTotal]:
    return totals_of(kube.objects.get(PATH))


@pytest.fixture(autouse=True)
def _pods_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """The API server lists the pods of all namespaces under one path."""
    listed = FakeKube._listed

    def every(self: FakeKube, path: str, query: dict[str, object]) -> list[Json]:
        if path != "/api/v1/pods":
            return listed(self, path, query)
        return [one for at, one in self.objects.items() if "/pods/" in at]

    monkeypatch.setattr(FakeKube, "_listed", every)


def test_moves_of_all_clients_add_up_beside_the_windows(kube: FakeKube) -> None:
    cluster(kube).add_window(WindowRequest(("w1",), HOUR, hold=True))
    for name, vc, devices, lost in (("a", "vision", 4, 60_000), ("b", "nlp", 1, 500), ("c", "vision", 2, 30_000)):
        cluster(kube).evict_gang(running(kube, name, vc, devices=devices, lost=lost))
    assert counted(kube) == {"vision": MoveTotal(2, Millis(300_000)), "nlp": MoveTotal(1, Millis(500))}
    (window,) = cluster(kube).windows()
    cluster(kube).remove_window(window.name)
    assert counted(kube)["vision"].gangs == 2, "totals never go back"


def test_a_gang_that_has_gone_is_not_counted(kube: FakeKube) -> None:
    gang = running(kube, "a", "vision", devices=4, lost=60_000)
    cluster(kube).evict_gang(gang)
    with pytest.raises(ConflictError, match="no pod of a is running"):
        cluster(kube).evict_gang(gang)
    assert counted(kube) == {"vision": MoveTotal(1, Millis(240_000))}


def test_a_move_is_made_although_others_write_all_the_time(kube: FakeKube) -> None:
    """Its pods are on their way out by then, and someone has to wait for them."""
    cluster(kube).add_window(WindowRequest(("w1",), HOUR, hold=True))
    gang = running(kube, "a", "vision", devices=4, lost=60_000)
    cluster_ = cluster(kube)

    def rival(number: int) -> None:
        if kube.requests[number][0] == "PUT":
            version = kube.objects[PATH]["metadata"]["resourceVersion"]
            kube.objects[PATH]["metadata"]["resourceVersion"] = str(int(version) + 1)

    kube.before = rival
    cluster_.evict_gang(gang)
    assert not [path for path in kube.objects if "/pods/" in path]
    assert counted(kube) == {}


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "7",
        '{"vision": 3}',
        '{"vision": {"gangs": 1}}',
        '{"vision": {"gangs": {}}}',
        "null",
        '{"vision": {"gangs": 1, "lostDeviceSeconds": 1e999}}',
        '{"\\ud800": {"gangs": 1, "lostDeviceSeconds": 1}}',
        f'{{"vision": {{"gangs": 1{400 * "0"}, "lostDeviceSeconds": 1}}}}',
        f'{{"vision": {{"gangs": 1, "lostDeviceSeconds": 1{400 * "0"}}}}}',
        '{"vision": {"gangs": -1, "lostDeviceSeconds": 1}}',
        '{"vision": {"gangs": 1, "lostDeviceSeconds": 1, "failed": -1}}',
        '{"vision": {"gangs": 1, "lostDeviceSeconds": 1, "plannedWeight": 9, "plannedUntil": "soon"}}',
    ],
)
def test_a_damaged_total_begins_anew(kube: FakeKube, text: str) -> None:
    cluster(kube).add_window(WindowRequest(("w1",), HOUR, hold=True))
    kube.objects[PATH]["data"][KEY] = text
    assert counted(kube) == {}
    cluster(kube).evict_gang(running(kube, "a", "vision", devices=4, lost=60_000))
    assert counted(kube) == {"vision": MoveTotal(1, Millis(240_000))}


COUNTS = st.integers(0, 10**6)
MILLIS = st.integers(0, 10**14).map(Millis)
TOTALS = st.one_of(
    st.builds(MoveTotal, COUNTS, MILLIS, COUNTS),
    st.builds(MoveTotal, COUNTS, MILLIS, COUNTS, COUNTS, MILLIS.filter(bool)),
)


@given(st.dictionaries(st.text(), TOTALS))
def test_what_is_written_is_read(totals: dict[str, MoveTotal]) -> None:
    assert totals_of({"data": {KEY: totals_text(totals)}}) == totals


def test_the_plan_that_is_carried_out_and_gangs_that_failed_are_kept_beside_the_windows(kube: FakeKube) -> None:
    cluster(kube).evict_gang(running(kube, "a", "vision", devices=4, lost=60_000))
    cluster(kube).note_plan({"vision": 1200, "nlp": 300}, HOUR)
    now = millis_between(UNIX, cluster(kube).now)
    assert planned_weights(counted(kube), now) == {"vision": 1200, "nlp": 300}
    assert planned_weights(counted(kube), Millis(now + 2 * HOUR)) == {"vision": 0, "nlp": 0}, "of a killed client"
    cluster(kube).note_failure("nlp")
    cluster(kube).note_plan({"nlp": 7}, HOUR)
    assert planned_weights(counted(kube), now) == {"vision": 0, "nlp": 7}, "there is one plan at a time"
    cluster(kube).note_plan({}, Millis(0))
    assert counted(kube) == {"vision": MoveTotal(1, Millis(240_000)), "nlp": MoveTotal(failed=1)}
