"""What a removed virtual cluster was granted is not inherited by a new one of its name, on every kind of cluster."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from paictl.cluster.interface import Cluster, ClusterError, ConflictError
from paictl.cluster.kubernetes.cluster import KubernetesCluster
from paictl.cluster.presets import preset_files
from paictl.cluster.reservations import ReservationRequest
from paictl.cluster.storages import Storage
from paictl.cluster.templates import JobTemplate, TemplateLibrary
from paictl.operate.pushing.plan import PushPlan, newest, plan_of, plan_rollback, send
from paictl.scheduler.wire import GRANTED
from paictl.units import Millis
from tests.contract.conftest import embedded
from tests.unit.cluster.fakekube import FakeKube

FILE = "services-configuration.yaml"
VC1 = "      vc1:\n        virtualCells:\n        - {cellType: GPU-POOL.GPU-NODE, cellNumber: 1}\n"


def on_kubernetes(_: Path) -> Cluster:
    kube = FakeKube()
    for name in ("paictl-system", "paictl-jobs"):
        kube.objects[f"/api/v1/namespaces/{name}"] = {"metadata": {"name": name}}
    cluster = KubernetesCluster(kube, "fake")
    cluster.push(preset_files("lab"), "first")
    return cluster


def on_this_machine(folder: Path) -> Cluster:
    return embedded(folder).cluster


@pytest.fixture(params=[on_kubernetes, on_this_machine])
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Cluster:
    """A cluster with grants to `vc1`, to `default` and to all."""
    make: Callable[[Path], Cluster] = request.param
    found = make(tmp_path)
    grant(found)
    return found


def grant(cluster: Cluster) -> None:
    cluster.add_storage(Storage("data", "nfs", "10.0.0.9:/data", ("vc1", "default")))
    cluster.add_storage(Storage("all", "nfs", "10.0.0.9:/all", ("*",)))
    for name, vcs in {"own": ("vc1",), "both": ("default", "vc1"), "common": ("*",)}.items():
        cluster.put_template_library(TemplateLibrary(name, vcs, (JobTemplate("a.yaml", "x"),)), new=True)


def planned(cluster: Cluster, old: str, new: str) -> PushPlan:
    base = newest(cluster)
    assert base is not None
    assert old in base.files[FILE]
    return plan_of(cluster, base, {**base.files, FILE: base.files[FILE].replace(old, new)})


def without_vc1(cluster: Cluster) -> PushPlan:
    return planned(cluster, VC1, "")


def with_vc1(cluster: Cluster) -> PushPlan:
    return planned(cluster, "    virtualClusters:\n", f"    virtualClusters:\n{VC1}")


def grants(cluster: Cluster) -> dict[str, tuple[str, ...]]:
    storages = {storage.name: storage.vcs for storage in cluster.storages()}
    return {**storages, **{library.name: library.vcs for library in cluster.template_libraries()}}


ALL = {"data": ("vc1", "default"), "all": ("*",), "own": ("vc1",), "both": ("default", "vc1"), "common": ("*",)}
REST = {"data": ("default",), "all": ("*",), "own": (), "both": ("default",), "common": ("*",)}


def test_grants_end_with_their_virtual_cluster_and_the_push_says_so(cluster: Cluster) -> None:
    made = without_vc1(cluster)
    assert grants(cluster) == ALL, "a plan changes nothing"
    assert [note for note in made.notes if "removed" in note] == [
        "storage data is no longer granted to vc1, which is removed; if it is added again: "
        "paictl storage grant data --vc vc1",
        *(
            f"template library {name} is no longer granted to vc1, which is removed; if it is added again: "
            f"paictl template sync {name} FOLDER --vc vc1"
            for name in ("both", "own")
        ),
    ]
    send(cluster, made, "without")
    assert grants(cluster) == REST
    send(cluster, with_vc1(cluster), "again")
    assert grants(cluster) == REST
    libraries = {library.name: library for library in cluster.template_libraries()}
    assert [template.path for template in libraries["own"].templates] == ["a.yaml"]


def test_what_is_left_of_an_earlier_virtual_cluster_ends_before_its_name_is_given_again(cluster: Cluster) -> None:
    removed = without_vc1(cluster)
    cluster.push(removed.files, "as an earlier version pushed")
    assert grants(cluster) == ALL
    made = with_vc1(cluster)
    assert [note.partition(",")[0] for note in made.notes if "earlier" in note] == [
        f"{what} was granted to an earlier virtual cluster vc1"
        for what in ("storage data", "template library both", "template library own")
    ]
    send(cluster, made, "again")
    assert grants(cluster) == REST


def test_a_push_that_fails_or_changes_no_virtual_cluster_takes_no_grant(cluster: Cluster) -> None:
    removed = without_vc1(cluster)
    changed = planned(cluster, "cellNumber: 1", "cellNumber: 0")
    assert changed.notes == ()
    send(cluster, changed, "another quota")
    with pytest.raises(ConflictError):
        send(cluster, removed, "too late")
    assert grants(cluster) == ALL


def test_a_configuration_without_cells_removes_nobody(cluster: Cluster) -> None:
    base = newest(cluster)
    assert base is not None
    send(cluster, plan_of(cluster, base, {**base.files, FILE: "rest-server: {}\n"}), "none")
    send(cluster, plan_rollback(cluster, base.number), "back")
    assert grants(cluster) == ALL


def test_what_is_there_for_a_time_only_keeps_grants(cluster: Cluster) -> None:
    base = newest(cluster)
    assert base is not None
    send(cluster, without_vc1(cluster), "lab", keep_grants=True)
    send(cluster, plan_rollback(cluster, base.number), "as before", keep_grants=True)
    assert grants(cluster) == ALL


def test_a_grant_that_cannot_be_taken_is_said_with_what_was_stored(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = without_vc1(cluster)

    def broken(*_: object, **__: object) -> None:
        raise ConflictError("others keep changing the storages")

    monkeypatch.setattr(type(cluster), "grant_storage", broken)
    with pytest.raises(ConflictError) as refused:
        send(cluster, made, "without")
    assert "version 2 is stored" in str(refused.value.hint)
    version = newest(cluster)
    assert version is not None
    assert version.number == 2
    assert grants(cluster) == {**REST, "data": ALL["data"]}, "the others have ended"


def test_jobs_reservations_and_namespaces_of_an_earlier_virtual_cluster_are_named(tmp_path: Path) -> None:
    contract = embedded(tmp_path)
    for number in range(3):
        contract.submit(f"old{number}", vc="vc1")
    contract.cluster.stop_job("ann~old0")
    contract.submit("other")
    start = contract.cluster.now + timedelta(days=2)
    request = ReservationRequest(Millis(3_600_000), start, "vc1", 1, "GPU-NODE", name="nightly")
    for number in (1, 2):
        contract.cluster.stop_job(f"ann~old{number}")
    contract.cluster.add_reservation(request)
    for number in (3, 4):
        contract.submit(f"old{number}", vc="vc1", max_run_time="1h")
    send(contract.cluster, without_vc1(contract.cluster), "without")
    (note,) = [note for note in with_vc1(contract.cluster).notes if "jobs" in note]
    assert note.startswith("2 jobs of an earlier virtual cluster vc1 have not ended and will use the new one: ")
    assert "ann~old3, ann~old4; to stop one: paictl job stop USER~NAME" in note
    (note,) = [note for note in with_vc1(contract.cluster).notes if "reservation" in note]
    assert note.startswith("reservation nightly of an earlier virtual cluster vc1 will keep cells of the new one")

    cluster = on_kubernetes(tmp_path)
    assert isinstance(cluster, KubernetesCluster)
    for name, vcs in {"team": "vc1", "both": "default, vc1", "all": "*", "else": "default,vc10"}.items():
        metadata = {"name": name, "annotations": {GRANTED: vcs}}
        cluster._client.request("POST", "/api/v1/namespaces", {"metadata": metadata})
    send(cluster, without_vc1(cluster), "without")
    (note,) = [note for note in with_vc1(cluster).notes if "namespaces" in note]
    assert ": both, team; to take that back: kubectl annotate namespace NAME" in note


def test_what_cannot_be_read_keeps_no_push_from_its_plan(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ClusterError("the list is corrupt")

    monkeypatch.setattr(type(cluster), "storages", broken)
    assert {note.partition(" is no longer")[0] for note in without_vc1(cluster).notes} == {
        "template library both",
        "template library own",
    }
