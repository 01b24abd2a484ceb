"""What the books of an embedded cluster have to say, computed from its events and its scheduler alone."""

from __future__ import annotations

from paictl.cluster.embedded import serialization
from paictl.cluster.embedded.cluster import EmbeddedCluster
from paictl.cluster.interface import EventKind
from paictl.units import millis_between
from paictl.workload.usagereport import Dimension, add_up, total

_ENDS = {EventKind.FINISHED, EventKind.PREEMPTED, EventKind.LOST, EventKind.KILLED}


def occupied(cluster: EmbeddedCluster) -> int:
    """The integral of the devices in use until now, in device-milliseconds."""
    running: dict[tuple[object, ...], tuple[int, int]] = {}
    area = 0
    for event in cluster.events():
        at, data = millis_between(cluster.epoch, event.at), event.data
        pod = (event.subject, data.get("role"), data.get("index"), data.get("attempt"))
        if event.kind is EventKind.STARTED and "devices" in data:
            assert pod not in running
            running[pod] = (at, len(data["devices"]))
        elif event.kind in _ENDS and "role" in data:
            start, devices = running.pop(pod)
            area += devices * (at - start)
    now = millis_between(cluster.epoch, cluster.now)
    return area + sum(devices * (now - start) for start, devices in running.values())


def check_books(cluster: EmbeddedCluster) -> None:
    """The books of a cluster add up to its occupancy, by whatever; nobody has more guaranteed than was promised."""
    found = cluster.usage(cluster.epoch, cluster.now)
    area = occupied(cluster)
    for by in ((), (Dimension.VC, Dimension.SKU), tuple(Dimension)):
        rows = add_up(found.amounts, by)
        assert total(rows).used == area, by
    assert all(row.idle >= 0 and row.lost <= row.used for row in add_up(found.amounts, (Dimension.VC,)))
    _check_classes(cluster)


def _check_classes(cluster: EmbeddedCluster) -> None:
    """Pods that hold devices are those that run, each in the class in which the scheduler has it."""
    world = serialization.load(cluster.stored())
    holdings = {row[0]: row for row in world.usage.dump()["holdings"]}
    running = {job.pod(ref).uid: len(run.info.devices) for job in world.jobs.values() for ref, run in job.running()}
    assert {uid: row[5] for uid, row in holdings.items()} == running
    if world.dispatcher.engine is not None:
        for row in holdings.values():
            assert row[6][-1][1] is world.dispatcher.guaranteed(row[1]), row
