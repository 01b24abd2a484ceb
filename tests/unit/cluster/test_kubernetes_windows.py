"""Maintenance windows in Kubernetes: one ConfigMap, and nobody's change is lost."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from paictl.cluster.interface import ClusterError, ConflictError
from paictl.cluster.kubernetes.cluster import KubernetesCluster
from paictl.cluster.maintenance import NAME, WindowRequest
from paictl.cluster.presets import preset_files
from paictl.errors import PaictlError
from paictl.units import Millis
from paictl.workload.windows import WindowError, Windows
from tests.unit.cluster.fakekube import FakeKube

PATH = f"/api/v1/namespaces/paictl-system/configmaps/{NAME}"
HOUR = Millis(3_600_000)


@pytest.fixture
def kube() -> FakeKube:
    found = FakeKube(
        {
            f"/api/v1/nodes/{name}": {"metadata": {"name": name, "uid": name}, "spec": {}, "status": {}}
            for name in ("w1", "w2")
        }
    )
    cluster(found).push(preset_files("lab"), "first")
    return found


def cluster(kube: FakeKube) -> KubernetesCluster:
    return KubernetesCluster(kube, "fake")


def add(kube: FakeKube, *nodes: str, after: int = 1, **more: Any) -> None:
    one = cluster(kube)
    one.add_window(WindowRequest(nodes, HOUR, one.now + timedelta(hours=after), **more))


def test_windows_are_kept_in_one_object_and_read_back_by_others(kube: FakeKube) -> None:
    assert cluster(kube).windows() == ()
    add(kube, "w1", reason="disks")
    add(kube, "w2", name="later", after=3)
    found = cluster(kube).windows()
    assert [(one.name, one.nodes, one.reason, one.active) for one in found] == [
        ("maintenance-1", ("w1",), "disks", False),
        ("later", ("w2",), "", False),
    ]
    assert kube.objects[PATH]["metadata"]["labels"]["app.kubernetes.io/part-of"] == "paictl"
    cluster(kube).remove_window("maintenance-1")
    assert [one.name for one in cluster(kube).windows()] == ["later"]
    with pytest.raises(PaictlError, match="no window"):
        cluster(kube).remove_window("maintenance-1")


def test_what_cannot_be_is_refused_before_anything_is_written(kube: FakeKube) -> None:
    add(kube, "w1")
    before = dict(kube.objects[PATH]["data"])
    for nodes, after in ((("w1",), 1), (("w3",), 5), (("w2",), -1)):
        with pytest.raises(WindowError):
            add(kube, *nodes, after=after)
    assert kube.objects[PATH]["data"] == before


def test_a_damaged_object_is_named(kube: FakeKube) -> None:
    add(kube, "w1")
    kube.objects[PATH]["data"] = {"windows.json": '[{"name": "x"}]'}
    with pytest.raises(ClusterError, match="corrupt") as refused:
        cluster(kube).windows()
    assert refused.value.where == f"configmap paictl-system/{NAME}"


@pytest.mark.parametrize(
    ("start", "end"),
    [("2026-12-01T00:00:00Z", "9999-12-31T23:59:59-08:00"), ("0001-01-01T00:00:00+08:00", "9999-12-31T23:59:59Z")],
)
def test_dates_beyond_the_calendar_of_utc_are_moved_into_it(kube: FakeKube, start: str, end: str) -> None:
    row = {"nodes": ["w1"], "start": start, "end": end}
    add(kube, "w2")
    kube.objects[PATH]["data"] = {
        "windows.json": json.dumps([{**row, "name": "ever"}]),
        "reservations.json": json.dumps([{**row, "name": "r", "vc": "", "cells": 0, "cell_type": ""}]),
    }
    (window,) = cluster(kube).windows()
    (reservation,) = cluster(kube).reservations()
    assert window.start.year == reservation.start.year == int(start[:4])
    assert window.end.year == reservation.end.year == 9999
    add(kube, "w2", name="another")
    assert {one.name: one.end for one in cluster(kube).windows()}["ever"] == window.end


def test_of_two_who_add_at_once_neither_is_lost(kube: FakeKube) -> None:
    add(kube, "w1")
    store = cluster(kube)
    first = store._windows._write

    def slow(windows: Windows, known: dict[str, Any] | None) -> bool:
        store._windows._write = first  # type: ignore[method-assign]
        add(kube, "w2", name="other")
        return first(windows, known)

    store._windows._write = slow  # type: ignore[method-assign]
    store.add_window(WindowRequest(("w1",), HOUR, store.now + timedelta(hours=9), "mine"))
    assert {one.name for one in cluster(kube).windows()} == {"maintenance-1", "other", "mine"}


def test_of_two_who_keep_nodes_free_at_once_one_is_refused(kube: FakeKube) -> None:
    """Two applies of defragmentation would move gangs into each other's way."""
    mine, other = cluster(kube), cluster(kube.again())

    def before(number: int) -> None:
        if kube.requests[number] in (("PUT", PATH), ("POST", PATH.rpartition("/")[0])):
            kube.before = lambda _: None
            other.add_window(WindowRequest(("w2",), HOUR, hold=True))

    kube.before = before
    with pytest.raises(ConflictError, match="already kept free by defrag-1"):
        mine.add_window(WindowRequest(("w1",), HOUR, hold=True))
    other.add_window(WindowRequest(("w1",), HOUR, hold=True, beside=tuple(other.windows())))
    assert [(one.name, one.hold) for one in cluster(kube).windows()] == [("defrag-1", True), ("defrag-2", True)]


def test_a_clock_that_was_an_hour_ahead_loses_no_window(kube: FakeKube) -> None:
    """Who adds another while the clock is wrong writes the object anew."""
    add(kube, "w1", after=0, name="short")
    store = cluster(kube)
    ahead = store.now + timedelta(hours=2)
    store._windows.add(WindowRequest(("w2",), HOUR, name="other"), ahead, ["w1", "w2"])
    assert [one.name for one in store._windows.shown(ahead)] == ["other"]
    assert [one.name for one in store.windows()] == ["short", "other"]
    store.remove_window("other")
    assert [one.name for one in store.windows()] == ["short"]
    tomorrow = store.now + timedelta(hours=26)
    store._windows.add(WindowRequest(("w2",), HOUR, name="other"), tomorrow, ["w1", "w2"])
    assert [one.name for one in store.windows()] == ["other"], "a day after its end it is forgotten"


def test_the_name_of_a_window_that_is_over_is_free(kube: FakeKube) -> None:
    add(kube, "w1", after=0, name="disks")
    store, later = cluster(kube), cluster(kube).now + timedelta(hours=2)
    store._windows.add(WindowRequest(("w2",), HOUR, name="disks"), later, ["w1", "w2"])
    assert [one.nodes for one in store._windows.shown(later)] == [("w2",)]
    assert [one.nodes for one in store.windows()] == [("w2",)]
