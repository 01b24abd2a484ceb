"""Allocations written, resumed and taken back on a played API server, killed between any two writes."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paictl.cluster.devices.claims import FINALIZER, ClaimError, read_claim
from paictl.cluster.devices.pod_claims import ClaimOptions, ClaimPendingError, PodClaims
from paictl.cluster.devices.slices import RECORD
from paictl.remote.kube.client import Json
from tests.unit.cluster.devices.played import CLASS, Killed, PlayedServer

NODES = ("w1", "w2")


def pod(name: str, *claims: str) -> Json:
    named = [{"name": f"c{at}", "resourceClaimTemplateName": "t"} for at in range(len(claims))]
    made = [{"name": f"c{at}", "resourceClaimName": claim} for at, claim in enumerate(claims)]
    about = {"namespace": "default", "name": name, "uid": name}
    return {"metadata": about, "spec": {"resourceClaims": named}, "status": {"resourceClaimStatuses": made}}


def begin(server: PlayedServer, *, required: bool = False) -> PodClaims:
    """A new process: everything is listed anew."""
    client: Any = server
    made = PodClaims(client, ClaimOptions((CLASS,), (CLASS,), required), dict.fromkeys(NODES, range(4)), lambda: 1e9)
    for node in NODES:
        devices = [
            {"name": f"gpu-{3 - at}", "attributes": {"pcieBusID": {"string": f"0000:0{at}:00.0"}}} for at in range(4)
        ]
        spec = {"driver": CLASS, "nodeName": node, "pool": {"name": node}, "devices": devices}
        made.directory.slice_changed({"metadata": {"name": node}, "spec": spec})
        made.directory.node_changed(server.nodes.get(node, {"metadata": {"name": node}}))
    for claim in server.claims.values():
        made.ledger.change(read_claim(claim))
    return made


@pytest.fixture
def server() -> PlayedServer:
    return PlayedServer()


def test_devices_go_to_the_requests_in_order(server: PlayedServer) -> None:
    server.add("a", "p", 1, 2)
    server.add("b", "p", 1)
    assert begin(server).write(pod("p", "a", "b"), "w1", (0, 1, 2, 3), 5) == ""
    results = server.claims["default/a"]["status"]["allocation"]["devices"]["results"]
    assert [(one["request"], one["device"]) for one in results] == [("r0", "gpu-3"), ("r1", "gpu-2"), ("r1", "gpu-1")]
    assert server.held()[CLASS, "w1", "gpu-0"] == "default/b"
    assert server.nodes["w1"]["metadata"]["annotations"][RECORD].count("00.0") == 4
    assert server.writes[0] == "metadata w1", "the record is kept before the first device is given away"
    again = len(server.writes)
    assert begin(server).write(pod("p", "a", "b"), "w1", (0, 1, 2, 3), 5) == ""
    assert len(server.writes) == again, "done twice, written once"


@given(st.integers(0, 2**30))
@settings(max_examples=150)
def test_killed_between_any_two_writes_no_device_is_held_twice(seed: int) -> None:
    """Places are decided, written, killed, given up and decided anew; others hold devices as well."""
    dice, server = random.Random(seed), PlayedServer()  # noqa: S311
    for at in range(4):
        server.add(f"c{at}", f"p{at}", dice.randint(1, 2))
    process = begin(server)
    for _ in range(12):
        places: dict[str, tuple[str, list[int]]] = {}
        free = {node: dice.sample(range(4), 4) for node in NODES}
        for at in range(4):
            number, node = server.claims[f"default/c{at}"]["spec"]["devices"]["requests"][0], dice.choice(NODES)
            count = number["exactly"]["count"]
            if len(free[node]) >= count:
                places[f"p{at}"] = node, [free[node].pop() for _ in range(count)]
        server.left = dice.choice([-1, -1, *range(6)])
        try:
            for claim in process.held():
                if claim.owner not in places or not process.fits(claim, *places[claim.owner]):
                    process.writer.take_back(claim, 5)
            for name, (node, indexes) in sorted(places.items()):
                assert process.write(pod(name, f"c{name[1]}"), node, indexes, 5) == ""
                assert process.disagreement(name, node, indexes) == ""
        except Killed:
            server.left = -1
            process = begin(server)
        held = server.held()
        assert not process.ledger.doubled()
        assert set(process.ledger.allocated()) == {read_claim(server.claims[name]) for name in set(held.values())}
    server.left = -1
    for claim in process.held():
        process.writer.take_back(claim, 5)
    for body in server.claims.values():
        if body["status"].get("allocation") is None and body["metadata"].get("finalizers"):
            process.writer.take_back(read_claim(body), 5)
    assert not server.held()
    assert all(FINALIZER not in claim["metadata"].get("finalizers", ()) for claim in server.claims.values())


def test_a_device_that_another_claim_holds_is_never_given_away(server: PlayedServer) -> None:
    server.add("a", "p", 1)
    server.add("b", "q", 1)
    process = begin(server)
    assert process.write(pod("p", "a"), "w1", (2,), 5) == ""
    assert process.write(pod("q", "b"), "w1", (2,), 5) == f"device gpu-1 of w1 ({CLASS}) is held by claim default/a"
    assert len(server.held()) == 1
    process.ledger.remove("default/a")
    assert process.write(pod("q", "b"), "w1", (3,), 5) == ""


def test_a_claim_that_only_watches_devices_holds_none(server: PlayedServer) -> None:
    """A monitor's claim with adminAccess names all devices of a node, and pods have them at the same time."""
    monitor = server.add("monitor", "exporter", 4, adminAccess=True)
    rows = [
        {"request": "r0", "driver": CLASS, "pool": "w1", "device": f"gpu-{at}", "adminAccess": True} for at in range(4)
    ]
    monitor["status"] = {"allocation": {"devices": {"results": rows}}, "reservedFor": [{"uid": "exporter"}]}
    server.add("a", "p", 1)
    process = begin(server)
    assert process.bad_on("w1", lambda uid: uid == "p") == {}
    assert process.write(pod("p", "a"), "w1", (2,), 5) == ""
    assert process.ledger.doubled() == []


def test_a_claim_in_use_is_not_touched(server: PlayedServer) -> None:
    claim = server.add("a", "p", 1)
    process = begin(server)
    process.write(pod("p", "a"), "w1", (0,), 5)
    claim["status"]["reservedFor"] = [{"uid": "p", "name": "p", "resource": "pods"}]
    process = begin(server)
    assert "holds other devices (gpu-3) and is in use" in process.write(pod("p", "a"), "w1", (1,), 5)
    with pytest.raises(ClaimError, match="in use"):
        process.writer.take_back(read_claim(claim), 5)
    assert "annotation names device 1 of node w1, but its claims hold gpu-3" in process.disagreement("p", "w1", (1,))


def test_a_claim_that_changes_meanwhile_is_read_again(server: PlayedServer) -> None:
    claim = server.add("a", "p", 1)
    process = begin(server)
    claim["metadata"]["resourceVersion"] = "900"
    assert process.write(pod("p", "a"), "w2", (1,), 5) == ""
    stale = read_claim(claim)
    claim["metadata"]["resourceVersion"] = "901"
    process.writer.take_back(stale, 5)
    assert server.held(), "what has changed may be needed again"
    del server.claims["default/a"]
    assert process.write(pod("p", "a"), "w2", (0,), 5) == "claim default/a is gone"


@pytest.mark.parametrize(
    ("counts", "exactly", "reason"),
    [
        ((1,), {}, "asks for 2 leaf cells, but its claims for 1 devices"),
        ((2,), {"selectors": [{"cel": {"expression": "true"}}]}, "has selectors, but the scheduler chooses devices"),
        ((2,), {"allocationMode": "All"}, "has allocationMode All"),
        ((2,), {"adminAccess": True}, "has adminAccess"),
        ((20, 20), {}, "asks for more than 32 devices; use several claims"),
    ],
)
def test_claims_that_cannot_be_given_cells_say_why(
    server: PlayedServer, counts: tuple[int, ...], exactly: Json, reason: str
) -> None:
    server.add("a", "p", *counts, **exactly)
    assert reason in begin(server).obstacle(pod("p", "a"), 2)


def test_what_a_pod_waits_for_before_it_has_its_claims(server: PlayedServer) -> None:
    process = begin(server, required=True)
    with pytest.raises(ClaimPendingError, match="waits for kube-controller-manager to create its claim c0"):
        process.obstacle(pod("p", ""), 1)
    assert "has no claim on 1 devices of class gpu.example.com" in process.obstacle(pod("p"), 1)
    assert begin(server).obstacle(pod("p"), 1) == "", "it learns its devices from the environment"
    server.add("a", "other", 1)
    assert "does not belong to the pod alone" in begin(server).obstacle(pod("p", "a"), 1)


def test_a_bad_device_is_not_allocated(server: PlayedServer) -> None:
    server.add("a", "p", 1)
    process = begin(server)
    process.directory.slice_gone("w1")
    assert "device 0 of node w1 cannot be used: no slices of" in process.write(pod("p", "a"), "w1", (0,), 5)
    assert len(process.directory.findings()) == 1
