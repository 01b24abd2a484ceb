"""Reservations in Kubernetes: decided by the pods that run, kept beside the maintenance windows."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from paictl.cluster.interface import JobRequest
from paictl.cluster.kubernetes.cluster import KubernetesCluster
from paictl.cluster.maintenance import NAME, WindowRequest
from paictl.cluster.presets import preset_files
from paictl.cluster.reservations import ReservationRequest
from paictl.errors import PaictlError
from paictl.units import Millis
from paictl.workload.reservations import Repeat, ReservationError
from tests.unit.cluster.fakekube import FakeKube

PATH = f"/api/v1/namespaces/paictl-system/configmaps/{NAME}"
HOUR = Millis(3_600_000)


@pytest.fixture
def kube() -> FakeKube:
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    found = FakeKube(
        {
            f"/api/v1/nodes/{name}": {"metadata": {"name": name, "uid": name}, "spec": {}, "status": ready}
            for name in ("worker1", "worker2")
        }
    )
    cluster(found).push(preset_files("lab"), "first")
    return found


def cluster(kube: FakeKube) -> KubernetesCluster:
    return KubernetesCluster(kube, "fake")


def add(kube: FakeKube, after: int = 1, **more: Any) -> None:
    one = cluster(kube)
    shape = {"vc": "vc1", "cells": 1, "cell_type": "GPU-NODE", **more}
    one.add_reservation(ReservationRequest(HOUR, one.now + timedelta(hours=after), **shape))


def test_reservations_stand_beside_windows_and_neither_loses_the_other(kube: FakeKube) -> None:
    assert cluster(kube).reservations() == ()
    add(kube, reason="talk", repeat=Repeat.DAILY)
    one = cluster(kube)
    one.add_window(WindowRequest(("worker2",), HOUR, one.now + timedelta(hours=3)))
    add(kube, after=5, name="later")
    assert set(kube.objects[PATH]["data"]) == {"windows.json", "reservations.json"}
    (first, second) = cluster(kube).reservations()
    assert (first.name, first.size, first.repeat, first.used) == ("reservation-1", "1xGPU-NODE of vc1", "daily", 0)
    assert (second.name, second.repeat, second.active) == ("later", "once", False)
    cluster(kube).remove_reservation("reservation-1")
    assert [known.name for known in cluster(kube).reservations()] == ["later"]
    assert len(cluster(kube).windows()) == 1
    with pytest.raises(PaictlError, match="no reservation"):
        cluster(kube).remove_reservation("reservation-1")


def test_what_cannot_be_kept_is_refused_before_anything_is_written(kube: FakeKube) -> None:
    add(kube)
    before = dict(kube.objects[PATH]["data"])
    for more in ({"after": 1}, {"after": -1}, {"cells": 2}, {"vc": "vc2"}, {"cell_type": "GPU-POOL"}):
        with pytest.raises(ReservationError):
            add(kube, **more)
    assert kube.objects[PATH]["data"] == before


def test_a_dry_run_writes_nothing(kube: FakeKube) -> None:
    one = cluster(kube)
    request = ReservationRequest(HOUR, one.now + timedelta(hours=1), "vc1", 1, "GPU-NODE")
    assert one.add_reservation(request, dry_run=True).name == "reservation-1"
    assert PATH not in kube.objects


def job(**extras: Any) -> JobRequest:
    return JobRequest(
        "ann",
        {
            "protocolVersion": 2,
            "name": "train",
            "type": "job",
            "extras": extras,
            "prerequisites": [{"name": "image", "type": "dockerimage", "uri": "pai/standard"}],
            "taskRoles": {
                "train": {
                    "instances": 1,
                    "dockerImage": "image",
                    "commands": ["true"],
                    "resourcePerInstance": {"gpu": 1, "cpu": 1, "memoryMB": 1024},
                }
            },
            "defaults": {"virtualCluster": "vc1"},
        },
        None,
        "test",
    )


def test_jobs_name_a_reservation_that_there_is(kube: FakeKube) -> None:
    with pytest.raises(ReservationError, match="no reservation 'demo'") as refused:
        cluster(kube)._looker.reservations().refuse([job(reservation="demo")], cluster(kube)._looker._configuration())
    assert refused.value.where == "extras.reservation"
    add(kube, name="demo")
    cluster(kube)._looker.reservations().refuse([job(reservation="demo")], cluster(kube)._looker._configuration())


def meanwhile(kube: FakeKube, act: Any) -> None:
    """Let another administrator act when the object of windows and reservations is about to be written."""

    def before(number: int) -> None:
        if kube.requests[number] in (("PUT", PATH), ("POST", PATH.rpartition("/")[0])):
            kube.before = lambda _: None
            act(kube.again())

    kube.before = before


def test_of_two_who_add_at_once_without_a_name_both_get_one(kube: FakeKube) -> None:
    meanwhile(kube, lambda other: add(other, after=9))
    add(kube)
    assert [known.name for known in cluster(kube).reservations()] == ["reservation-2", "reservation-1"]


def test_who_is_second_is_decided_about_by_what_is_there_now(kube: FakeKube) -> None:
    meanwhile(kube, lambda other: add(other))
    with pytest.raises(ReservationError, match="it overlaps reservation reservation-1"):
        add(kube)


def test_a_window_that_another_adds_meanwhile_counts(kube: FakeKube) -> None:
    def maintain(other: FakeKube) -> None:
        one = cluster(other)
        one.add_window(WindowRequest(("worker1", "worker2"), Millis(10 * HOUR), one.now))

    add(kube, after=30)  # the object is there
    meanwhile(kube, maintain)
    with pytest.raises(ReservationError, match="cells of reservation reservation-2 would be free"):
        add(kube)
    assert [known.name for known in cluster(kube).reservations()] == ["reservation-1"]


def test_a_clock_that_was_an_hour_ahead_loses_no_reservation(kube: FakeKube) -> None:
    add(kube, after=0, name="short")
    now = cluster(kube).now
    kube.date = now + timedelta(hours=2)
    add(kube, after=1, name="other")
    assert [known.name for known in cluster(kube).reservations()] == ["other"]
    kube.date = now
    assert [known.name for known in cluster(kube).reservations()] == ["short", "other"]
    cluster(kube).remove_reservation("short")
    assert [known.name for known in cluster(kube).reservations()] == ["other"]
