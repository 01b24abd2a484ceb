"""Claims through the gates: allocated before the pin, taken back, allocated again, and devices that turn bad."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from paictl.cluster.devices.claims import FINALIZER, read_claim
from paictl.cluster.devices.pod_claims import ClaimOptions, PodClaims
from paictl.doors import claims as door
from paictl.remote.kube.client import Json, KubeError
from paictl.scheduler.wire import GATE
from tests.unit.cluster.devices.played import CLASS, PlayedServer
from tests.unit.extender.conftest import NODES
from tests.unit.extender.harness import gang
from tests.unit.placer.test_placing import PatchingServer, Placer


class ClaimingServer(PatchingServer):
    """Pods as before; claims and nodes on a server of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.played = PlayedServer()

    def request(self, method: str, path: str, body: Any = None, **named: object) -> Json:
        if not path.startswith(("/apis/resource.k8s.io", "/api/v1/nodes")):
            return super().request(method, path, body, **named)
        assert not self.locked(), "nobody waits for the network in the lock"
        return self.played.get(path) if method == "GET" else self.played.request(method, path, body)


class ClaimingPlacer(Placer):
    """A placer that allocates claims."""

    server_type = ClaimingServer
    server: ClaimingServer

    def prepare(self) -> None:
        client: Any = self.server
        promised = door.promised_indexes(self.core.book.engine.state)
        self.core.claims = PodClaims(client, ClaimOptions((CLASS,), (CLASS,)), promised, lambda: self.now)
        self.core.claims.directory.changed = self.core.devices_changed
        for name in NODES:
            self.publish(name)

    def publish(self, node: str, *tainted: int) -> None:
        taint = [{"key": "fault", "effect": "NoSchedule"}]
        devices = [{"name": f"gpu-{at}", "taints": taint if at in tainted else []} for at in range(4)]
        spec = {"driver": CLASS, "nodeName": node, "pool": {"name": node}, "devices": devices}
        assert self.core.claims is not None
        self.core.claims.directory.slice_changed({"metadata": {"name": node}, "spec": spec})

    def tell(self) -> None:
        if self.core.claims is not None:
            for claim in self.server.played.claims.values():
                self.core.claims.ledger.change(read_claim(claim))
        super().tell()

    def create_claiming(self, pods: Sequence[Json], devices: int) -> None:
        """Pods and, as kube-controller-manager makes them, their claims."""
        for pod in pods:
            about = pod["metadata"]
            self.server.played.add(about["name"], about["uid"], devices)
            pod["spec"]["resourceClaims"] = [{"name": "c", "resourceClaimTemplateName": "t"}]
            made = [{"name": "c", "resourceClaimName": about["name"]}]
            pod["status"] = {**pod.get("status", {}), "resourceClaimStatuses": made}
        self.tell()
        self.create(pods)

    def free(self, name: str) -> None:
        """kube-controller-manager deletes the claim of a pod that is gone."""
        assert self.core.claims is not None
        self.core.claims.ledger.remove(
            f"default/{name}", self.server.played.claims.pop(f"default/{name}")["metadata"]["uid"]
        )
        self.core.claims_changed()

    def held(self) -> set[tuple[str, str]]:
        return {(node, device) for _, node, device in self.server.played.held()}

    def reconcile(self) -> None:
        self.now += 1
        self.reconciler.reconcile()
        self.tell()


@pytest.fixture
def placer() -> ClaimingPlacer:
    return ClaimingPlacer()


def test_devices_are_allocated_before_the_gate_goes(placer: ClaimingPlacer) -> None:
    placer.create_claiming(gang("a", 1, 2), 2)
    placer.server.refuse["pin a-0"] = KubeError("no", status=500)
    placer.round()
    assert len(placer.held()) == 2
    assert placer.node("a-0") == "", "it is not pinned yet"
    del placer.server.refuse["pin a-0"]
    placer.now += 60
    placer.round()
    assert {node for node, _ in placer.held()} == {placer.node("a-0")}


def test_what_was_allocated_before_a_kill_is_taken_back_or_used(placer: ClaimingPlacer) -> None:
    placer.create_claiming(gang("a", 2, 2), 2)
    placer.server.refuse |= {f"pin a-{at}": KubeError("no", status=500) for at in range(2)}
    placer.round()
    assert len(placer.held()) == 4
    placer.begin()
    placer.delete("a-1")  # the gang is not whole any more: nobody may keep devices for it
    del placer.server.played.claims["default/a-1"]
    placer.core.claims_changed()
    placer.reconcile()
    assert not placer.held()
    assert FINALIZER not in placer.server.played.claims["default/a-0"]["metadata"]["finalizers"]


def test_a_pinned_pod_that_loses_its_devices_gets_the_same_again(placer: ClaimingPlacer) -> None:
    """kube-scheduler frees the claims of a pod that it cannot schedule."""
    placer.create_claiming(gang("a", 1, 3), 3)
    placer.round()
    before = placer.held()
    claim = placer.server.played.claims["default/a-0"]
    del claim["status"]["allocation"]
    claim["metadata"]["resourceVersion"] = "500"
    placer.tell()
    placer.reconcile()
    assert placer.held() == before


def test_a_gang_waits_for_the_claims_of_pods_that_are_gone(placer: ClaimingPlacer) -> None:
    """Half of its place is free, the other half still allocated: it would run in part."""
    placer.create_claiming([*gang("a", 2, 4), *gang("c", 1, 4)], 4)
    placer.round()
    placer.create_claiming(gang("b", 2, 4), 4)
    placer.delete("a-0")
    placer.delete("a-1")
    placer.free("a-1")
    placer.round()
    assert [placer.node(f"b-{at}") for at in range(2)] == ["", ""]
    assert placer.recorded == []
    placer.now += 10  # kube-controller-manager is down
    placer.round()
    assert "to free device 0 of node n0, whose pod is gone" in placer.recorded[-1].message
    placer.free("a-0")
    placer.round()
    assert {node for node, _ in placer.held()} == {*map(placer.node, ("c-0", "b-0", "b-1"))}
    assert placer.core.claims is not None
    assert placer.core.claims.ledger.leaving_since is None


def test_a_pod_that_needs_no_device_of_a_claim_that_leaves_does_not_wait_for_it(placer: ClaimingPlacer) -> None:
    placer.create_claiming([*gang("a", 1, 1), *gang("c", 1, 1)], 1)
    placer.round()
    placer.delete("a-0")
    placer.create_claiming(gang("b", 1, 4), 4)
    placer.round()
    assert placer.node("b-0") not in ("", placer.node("c-0"))


def test_a_place_whose_device_turns_bad_before_the_pin_is_given_up(placer: ClaimingPlacer) -> None:
    placer.create_claiming(gang("a", 1, 4), 4)
    ((pin,),) = placer.place()
    placer.publish(pin.node, 3)
    assert "cannot be used: device gpu-3 is tainted fault:NoSchedule" in placer.pinner.send(pin)
    placer.now += 60
    placer.tell()
    placer.round()
    assert placer.node("a-0") not in ("", pin.node)
    assert {node for node, _ in placer.held()} == {placer.node("a-0")}


def test_a_pod_keeps_a_device_that_turns_bad_and_is_told(placer: ClaimingPlacer) -> None:
    placer.create_claiming(gang("a", 1, 1), 1)
    placer.round()
    node = placer.node("a-0")
    (device,) = (int(name[-1]) for _, name in placer.held())
    placer.publish(node, device)
    assert "DeviceBad" in placer.reasons("a-0")
    assert placer.core.health.bad_devices == {node: {device: f"device gpu-{device} is tainted fault:NoSchedule"}}
    placer.create_claiming(gang("b", 1, 3), 3)
    placer.round()
    assert placer.node("b-0"), "the other three are used"
    placer.publish(node)
    assert not placer.core.health.bad_devices


@pytest.mark.parametrize("restart", [False, True])
def test_claims_that_disagree_with_the_annotation_are_told_once_bound(placer: ClaimingPlacer, restart: bool) -> None:
    placer.create_claiming(gang("a", 1, 1), 1)
    placer.round()
    (held,) = placer.server.played.claims["default/a-0"]["status"]["allocation"]["devices"]["results"]
    held["device"] = f"gpu-{(int(held['device'][-1]) + 1) % 4}"
    placer.server.pods["default/a-0"]["spec"]["nodeName"] = placer.node("a-0")
    if restart:
        placer.begin()
    placer.tell()
    assert placer.reasons("a-0").count("DevicesDisagree") == 1


def test_where_claims_cannot_be_had_a_pod_with_claims_waits(placer: ClaimingPlacer) -> None:
    placer.core.claims = None
    placer.core.options = replace(placer.core.options, no_claims="devices: environment, because there is no driver")
    placer.create_claiming(gang("a", 1, 1), 1)
    placer.now += 10
    placer.round()
    assert placer.server.pods["default/a-0"]["spec"]["schedulingGates"] == [{"name": GATE}]
    assert any("there is no driver" in event.message for event in placer.recorded)


def _on_bad_device(placer: ClaimingPlacer) -> str:
    """A gang of two runs, and a device of the first turns bad; its node."""
    placer.core.options = replace(placer.core.options, bad_device_deadline=60)
    placer.create_claiming(gang("a", 2, 4), 4)
    placer.round()
    for name in ("a-0", "a-1"):
        placer.server.pods[f"default/{name}"]["spec"]["nodeName"] = placer.node(name)
    placer.tell()
    placer.publish(placer.node("a-0"), 2)
    return placer.node("a-0")


def _evicted(placer: ClaimingPlacer) -> list[str]:
    return [call for call in placer.server.calls if call.startswith("POST eviction")]


def test_a_gang_leaves_a_device_that_stays_bad_and_not_one_that_recovers(placer: ClaimingPlacer) -> None:
    node = _on_bad_device(placer)
    for _ in range(50):
        placer.reconcile()
    placer.publish(node)
    for _ in range(50):
        placer.reconcile()
    assert not _evicted(placer), "it recovered"
    placer.publish(node, 2)
    for _ in range(59):
        placer.reconcile()
    assert not _evicted(placer), "its deadline began anew"
    placer.reconcile()
    assert _evicted(placer) == ["POST eviction a-0", "POST eviction a-1"]
    assert "DeviceEvicted" in placer.reasons("a-0")
    assert "DeviceEvicted" in placer.reasons("a-1")
    for _ in range(3):
        placer.reconcile()
    assert len(_evicted(placer)) < 8, "asked ever less often"
    for name in ("a-0", "a-1"):
        placer.server.pods[f"default/{name}"]["metadata"]["deletionTimestamp"] = "1970-01-01T00:00:30Z"
    placer.tell()
    asked = len(_evicted(placer))
    for _ in range(60):
        placer.reconcile()
    assert len(_evicted(placer)) == asked, "they are on their way out"


def test_a_budget_keeps_a_gang_whole_on_its_bad_device(placer: ClaimingPlacer) -> None:
    _on_bad_device(placer)
    placer.server.refuse["eviction a-1"] = KubeError("the budget", status=429, reason="TooManyRequests")
    for _ in range(100):
        placer.reconcile()
    assert not _evicted(placer)
    assert "PreemptionHindered" in placer.reasons("a-1")
    placer.server.refuse.clear()
    for _ in range(40):
        placer.reconcile()
    assert _evicted(placer)[:2] == ["POST eviction a-0", "POST eviction a-1"]


def test_without_a_deadline_pods_are_only_told(placer: ClaimingPlacer) -> None:
    _on_bad_device(placer)
    placer.core.options = replace(placer.core.options, bad_device_deadline=None)
    for _ in range(200):
        placer.reconcile()
    assert not _evicted(placer)
