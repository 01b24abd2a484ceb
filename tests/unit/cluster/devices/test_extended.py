"""Pods that only say nvidia.com/gpu: which requests their claim has, and that it is made once, whatever is killed."""

from __future__ import annotations

from typing import Any

import pytest

from paictl.cluster.devices.claims import FINALIZER
from paictl.cluster.devices.extended import MARK, claim_name, extended_claim
from paictl.cluster.devices.pod_claims import ClaimOptions, PodClaims
from paictl.cluster.pods.feasibility import node_facts
from paictl.cluster.pods.labels import pod_limit
from paictl.remote.kube.client import Json
from tests.unit.cluster.devices.played import CLASS, Killed, PlayedServer
from tests.unit.cluster.devices.test_claims import NODES, begin

GPU = "nvidia.com/gpu"
RESOURCES = {GPU: CLASS}


def container(name: str, count: int = 0, **more: Any) -> Json:
    limits = {"cpu": "1", **({GPU: str(count)} if count else {})}
    return {"name": name, "resources": {"limits": limits, "requests": limits}, **more}


def pod(*containers: Json, init: tuple[Json, ...] = ()) -> Json:
    about = {"namespace": "default", "name": "p", "uid": "p-uid-1234"}
    return {"metadata": about, "spec": {"initContainers": list(init), "containers": list(containers)}, "status": {}}


def asked(*containers: Json, init: tuple[Json, ...] = ()) -> tuple[list[tuple[str, int]], list[tuple[str, str]]]:
    found = extended_claim(pod(*containers, init=init), RESOURCES)
    assert found is not None
    return [(one.name, one.count) for one in found.requests], [(one.container, one.request) for one in found.uses]


def test_each_container_has_a_request_named_as_kube_scheduler_names_it() -> None:
    requests, uses = asked(container("a", 2), container("none"), container("b", 1))
    assert requests == [("container-0-request-1", 2), ("container-2-request-1", 1)]
    assert uses == [("a", "container-0-request-1"), ("b", "container-2-request-1")]
    assert extended_claim(pod(container("none")), RESOURCES) is None
    assert extended_claim(pod(container("a", 2)), {}) is None


def test_init_containers_use_what_later_ones_have_but_nothing_of_a_sidecar_beside_them() -> None:
    sidecar = container("side", 1, restartPolicy="Always")
    made = pod(container("main", 2), init=(sidecar, container("small", 1), container("large", 4)))
    claim = extended_claim(made, RESOURCES)
    assert claim is not None
    side, main, more = "container-0-request-1", "container-3-request-1", "container-2-request-1"
    assert [(request.name, request.count) for request in claim.requests] == [(side, 1), (main, 2), (more, 2)]
    assert [use.request for use in claim.uses if use.container == "small"] == [main]
    assert [use.request for use in claim.uses if use.container == "large"] == [main, more]
    assert claim.devices == pod_limit(made, GPU), "the pod gets as many leaf cells"


def test_an_init_container_uses_what_a_sidecar_after_it_has() -> None:
    sidecar = container("side", 1, restartPolicy="Always")
    requests, uses = asked(container("main", 2), init=(container("first", 3), sidecar))
    assert requests == [("container-1-request-1", 1), ("container-2-request-1", 2)]
    assert [request for name, request in uses if name == "first"] == [name for name, _ in requests]


def test_names_stay_within_what_the_api_allows() -> None:
    long = {"metadata": {"name": "n" * 253, "uid": "0123456789"}}
    assert len(claim_name(long)) == 253
    assert claim_name(long).endswith("-extended-resources-01234567")


def door(server: PlayedServer, *, required: bool = True, reserves: bool = True) -> PodClaims:
    """A door that has just started, which lists everything anew."""
    listed, client = begin(server), server
    options = ClaimOptions((CLASS,), (CLASS,), required, resources=RESOURCES)
    made = PodClaims(client, options, dict.fromkeys(NODES, range(4)), lambda: 1e9, reserves=reserves)  # type: ignore[arg-type]
    made.directory, made.ledger, made.writer.ledger = listed.directory, listed.ledger, listed.ledger
    return made


@pytest.fixture
def server() -> PlayedServer:
    return PlayedServer()


def test_killed_after_any_write_the_next_process_ends_what_was_begun(server: PlayedServer) -> None:
    wanted = pod(container("main", 2))
    for _ in range(6):
        server.left = 1
        try:
            assert door(server).write(wanted, "w1", (1, 3), 5) == ""
            break
        except Killed:
            continue
    else:
        pytest.fail("it never comes to its end")
    server.left = -1
    (claim,) = server.claims.values()
    assert claim["metadata"]["annotations"] == {MARK: "true"}
    assert claim["metadata"]["finalizers"] == [FINALIZER]
    (owner,) = claim["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("Pod", "p-uid-1234", True)
    assert server.held() == {(CLASS, "w1", name): f"default/{claim_name(wanted)}" for name in ("gpu-2", "gpu-0")}
    status = server.pods["p-uid-1234"]["extendedResourceClaimStatus"]
    assert status["resourceClaimName"] == claim_name(wanted)
    assert status["requestMappings"] == [
        {"containerName": "main", "resourceName": GPU, "requestName": "container-0-request-1"}
    ]


def test_where_a_device_plugin_counts_no_claim_is_made(server: PlayedServer) -> None:
    made = door(server, required=False)
    plugged = {"metadata": {"name": "w1"}, "status": {"allocatable": {GPU: "4", "cpu": "8"}}}
    made.directory.node_changed(plugged)
    assert made.write(pod(container("main", 2)), "w1", (0, 1), 5) == ""
    assert server.claims == {}
    assert made.offering("w1", node_facts(plugged)).allocatable[GPU] == 4000
    bare = {"metadata": {"name": "w2"}, "status": {"allocatable": {"cpu": "8"}}}
    made.directory.node_changed(bare)
    assert made.offering("w2", node_facts(bare)).allocatable[GPU] == 4000, "its slices offer four"
    assert door(server, reserves=False).offering("w2", node_facts(bare)) == node_facts(bare)


@pytest.mark.parametrize("required", [True, False])
def test_no_pod_is_bound_without_devices_while_a_kubelet_starts(server: PlayedServer, *, required: bool) -> None:
    """It deletes the slices of its node; the driver publishes them again."""
    made = door(server, required=required)
    assert made.write(pod(container("main", 2)), "w1", (0, 1), 5) == ""
    made.directory.slice_gone("w1")
    assert "node w1 publishes no devices now" in made.write(pod(container("main", 1)), "w1", (2,), 5)
    assert sorted(made.bad_on("w1", lambda _: True)) == [0, 1, 2, 3]
    made.directory.slice_gone("w2")
    assert made.write(pod(container("main", 1)), "w2", (2,), 5) == (
        "node w2 publishes no devices now: its kubelet or its driver is starting" if required else ""
    )
    assert len(server.claims) == 1


def test_what_cannot_be_is_said_before_anything_is_made(server: PlayedServer) -> None:
    made = door(server)
    wanted = pod(container("main", 2))
    assert made.obstacle(wanted, 2) == ""
    assert made.obstacle(wanted, 4) == "the pod asks for 4 leaf cells, but for 2 devices; make them equal"
    assert made.write(wanted, "w1", (0, 1, 2, 3), 5).startswith("the pod asks for 4 leaf cells")
    assert "for nvidia.com/gpu alone kube-scheduler would choose devices outside its cells" in door(
        server, reserves=False
    ).obstacle(wanted, 2)
    assert made.obstacle(pod(container("main", 33)), 33).startswith("a pod without claims of its own can have 32")
    assert server.claims == {}
