"""Claims on the real control plane: kwok nodes, and ResourceSlices that the test publishes as a driver would."""

from __future__ import annotations

import contextlib
import json
import random
import time
from collections.abc import Iterator

import pytest

from tests.e2e_kube.controlplane import ControlPlane, answers
from tests.e2e_kube.gates import Placer, gates
from tests.e2e_kube.kubeapi import ApiError, Json, KubeApi, devices, until
from tests.e2e_kube.test_placer import CONFIG, NAMES, create, gang

DRIVER = "gpu.example.com"
API = "/apis/resource.k8s.io/v1"
CLAIMS = f"{API}/namespaces/default/resourceclaims"
WORDS = ("--devices", "claims", "--device-class", DRIVER, "--device-driver", DRIVER)


def publish(api: KubeApi, node: str, *, taints: dict[int, str] | None = None, without: tuple[int, ...] = ()) -> None:
    """Publish the four devices of a node in PCI order that is not the order of their names."""
    listed: list[Json] = []
    for index in range(4):
        if index in without:
            continue
        bus = {"pcieBusID": {"string": f"0000:{index + 1:02x}:00.0"}, "uuid": {"string": f"GPU-{node}-{index}"}}
        device: Json = {"name": name_of(index), "attributes": bus}
        if taints and index in taints:
            device["taints"] = [{"key": "test/fault", "value": "xid", "effect": taints[index]}]
        listed.append(device)
    path, name = f"{API}/resourceslices", f"slice-{node}"
    generation = 1
    with contextlib.suppress(ApiError):
        generation = api.get(f"{path}/{name}")["spec"]["pool"]["generation"] + 1
        api.call("DELETE", f"{path}/{name}")
    pool = {"name": node, "generation": generation, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": listed}
    api.call("POST", path, {"metadata": {"name": name}, "spec": spec})


def name_of(index: int) -> str:
    """Names in the reverse order of the bus addresses."""
    return f"gpu-{3 - index}"


def template(api: KubeApi, count: int, namespace: str = "default") -> str:
    made = f"gpus-{count}"
    request = {"name": "gpus", "exactly": {"deviceClassName": DRIVER, "count": count}}
    body = {"metadata": {"name": made}, "spec": {"spec": {"devices": {"requests": [request]}}}}
    with contextlib.suppress(ApiError):  # it already exists
        api.call("POST", f"{API}/namespaces/{namespace}/resourceclaimtemplates", body)
    return made


def with_claims(api: KubeApi, pods: list[Json], count: int) -> list[Json]:
    """Pods that ask for their devices by a claim of a template."""
    for pod in pods:
        pod["spec"]["resourceClaims"] = [{"name": "cells", "resourceClaimTemplateName": template(api, count)}]
        pod["spec"]["containers"][0]["resources"] = {"claims": [{"name": "cells"}]}
    return pods


def claims(api: KubeApi) -> list[Json]:
    found: list[Json] = api.get(CLAIMS)["items"]
    return found


def held(api: KubeApi) -> dict[tuple[str, str], str]:
    """Who holds each device by the claims; no device twice."""
    found: dict[tuple[str, str], str] = {}
    for claim in claims(api):
        allocation = (claim.get("status") or {}).get("allocation") or {}
        for one in (allocation.get("devices") or {}).get("results") or ():
            device = one["pool"], one["device"]
            assert device not in found, f"{device} is held by {found[device]} and {claim['metadata']['name']}"
            found[device] = claim["metadata"]["name"]
    return found


def check_claims(api: KubeApi) -> None:
    """Every bound pod's claims hold just the devices that its annotation names, and are reserved for it."""
    bound = [pod for pod in api.pods() if pod["spec"].get("nodeName")]  # before the claims: more may be bound by now
    by_owner: dict[str, list[Json]] = {}
    for claim in claims(api):
        for owner in claim["metadata"].get("ownerReferences", []):
            by_owner.setdefault(owner["uid"], []).append(claim)
    held(api)
    for pod in bound:
        mine = by_owner[pod["metadata"]["uid"]]
        results = [one for claim in mine for one in claim["status"]["allocation"]["devices"]["results"]]
        node = pod["spec"]["nodeName"]
        assert {(one["pool"], one["device"]) for one in results} == {(node, name_of(i)) for i in devices(pod)}
        for claim in mine:
            assert [one["uid"] for one in claim["status"]["reservedFor"]] == [pod["metadata"]["uid"]]


@pytest.fixture(scope="module")
def up(plane: ControlPlane, api: KubeApi, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Placer]:
    selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    try:
        api.call("POST", f"{API}/deviceclasses", {"metadata": {"name": DRIVER}, "spec": {"selectors": [selector]}})
        for name in NAMES:
            publish(api, name)
        folder = tmp_path_factory.mktemp("claims")
        with gates(plane, api, CONFIG, folder, "--pin-deadline", "5", *WORDS, setup=WORDS) as made:
            yield made
    finally:
        for path in (f"{API}/resourceslices", f"{API}/deviceclasses"):
            api.call("DELETE", path)


@pytest.fixture(autouse=True)
def _nothing_left(api: KubeApi) -> Iterator[None]:
    yield
    api.delete_all()
    until(lambda: not claims(api), 30, lambda: f"claims are left over: {json.dumps(claims(api))}")


@pytest.mark.usefixtures("up")
def test_pods_and_gangs_get_the_devices_of_their_cells(api: KubeApi) -> None:
    single = create(api, with_claims(api, gang("single", 1, 4, "B"), 4))
    eight = create(api, with_claims(api, gang("eight", 8, 1), 1))
    api.await_bound(single + eight)
    check_claims(api)
    assert len(held(api)) == 12
    waits = create(api, with_claims(api, gang("waits", 3, 4), 4))
    until(lambda: any(e["reason"] == "Waiting" for e in api.events("waits-0")), 20, lambda: api.plight(waits))
    assert len(held(api)) == 12, "a pod that waits holds nothing"
    for name in eight:
        api.delete(name)
    api.await_bound(waits)
    check_claims(api)


@pytest.mark.usefixtures("up")
def test_opportunistic_gangs_give_their_devices_back(api: KubeApi) -> None:
    lent = create(api, with_claims(api, gang("lent", 4, 4, priority=-1), 4))
    api.await_bound(lent)
    api.await_bound(create(api, with_claims(api, gang("own", 1, 4, "B", 5), 4)))
    assert all(api.pod(name) is None for name in lent)
    check_claims(api)


def test_kills_between_any_two_writes(up: Placer, plane: ControlPlane, api: KubeApi) -> None:
    """Twenty times: no device twice, claims and annotations agree, gangs whole, no claim left over."""
    dice = random.Random(5)  # noqa: S311
    for number in range(20):
        names = create(api, with_claims(api, gang(f"k{number}", 6, 1), 1))
        time.sleep(dice.random() * 0.5)
        plane.programs["placer"].kill()
        held(api)
        plane.programs["placer"].start()
        if number % 2:
            api.await_bound(names, 60)
            check_claims(api)
            for name in (*names, *(f"k{number - 1}-{i}" for i in range(6))):
                api.delete(name)
    until(lambda: answers(f"{up.url}/readyz"), 60, lambda: plane.programs["placer"].tail())
    until(lambda: up.get("/v1/inspect/affinitygroups/")["items"] is None, 60, "nothing is left over")


def taint(api: KubeApi, by: str, node: str, device: int | None) -> None:
    """Have a device tainted by its driver's slice or by an administrator's rule; None: no more."""
    if by == "slice":
        publish(api, node, taints={} if device is None else {device: "NoSchedule"})
        return
    rules = f"{API}/devicetaintrules"
    if device is None:
        api.call("DELETE", f"{rules}/fault")
        return
    selector = {"driver": DRIVER, "pool": node, "device": name_of(device)}
    said = {"key": "test/fault", "value": "xid", "effect": "NoSchedule"}
    api.call("POST", rules, {"metadata": {"name": "fault"}, "spec": {"deviceSelector": selector, "taint": said}})


@pytest.mark.parametrize("by", ["slice", "rule"])
def test_a_bad_device_leaves_the_others_in_use_and_heals(up: Placer, api: KubeApi, by: str) -> None:
    """A device that is tainted while it is used: its pod runs on, the other three are used, nobody gets it after it."""
    (used,) = api.await_bound(create(api, with_claims(api, gang("used", 1, 1, "B"), 1))).values()
    node, (bad,) = used["spec"]["nodeName"], devices(used)
    taint(api, by, node, bad)
    try:
        until(lambda: any(e["reason"] == "DeviceBad" for e in api.events("used-0")), 20, lambda: api.plight(["used-0"]))
        rest = api.await_bound(create(api, with_claims(api, gang("rest", 3, 1, "B"), 1)))
        assert {(pod["spec"]["nodeName"], *devices(pod)) for pod in rest.values()} == {
            (node, index) for index in range(4) if index != bad
        }
        assert "paictl_placer_bad_devices 1.0" in up.text("/metrics")
        api.delete("used-0")
        create(api, with_claims(api, gang("next", 1, 1, "B"), 1))
        _await_reason(api, "next-0", "needs a bad node")
        assert "is tainted test/fault=xid:NoSchedule" in up.text("/readyz?verbose")
    finally:
        taint(api, by, node, None)
    assert devices(api.await_bound(["next-0"])["next-0"]) == [bad]
    check_claims(api)


def test_a_gang_leaves_a_device_that_stays_bad(up: Placer, api: KubeApi) -> None:
    """Both of its pods, although only one has the device; who comes next gets others."""
    up.plane.programs["placer"].stop()
    up.start(*WORDS, "--bad-device-deadline", "3")
    pair = api.await_bound(create(api, with_claims(api, gang("pair", 2, 2, "A"), 2)))
    node, bad = pair["pair-0"]["spec"]["nodeName"], devices(pair["pair-0"])[0]
    taint(api, "slice", node, bad)
    try:
        until(lambda: not any(map(api.pod, pair)), 30, lambda: api.plight(list(pair)))
        assert all("DeviceEvicted" in {event["reason"] for event in api.events(name)} for name in pair)
        again = api.await_bound(create(api, with_claims(api, gang("again", 2, 2, "A"), 2)))
        assert (node, bad) not in {(pod["spec"]["nodeName"], index) for pod in again.values() for index in devices(pod)}
        check_claims(api)
    finally:
        taint(api, "slice", node, None)
        up.plane.programs["placer"].stop()
        up.start(*WORDS)


def test_a_device_that_is_missing_moves_no_other(up: Placer, api: KubeApi) -> None:
    (first,) = api.await_bound(create(api, with_claims(api, gang("first", 1, 1, "B"), 1))).values()
    node = first["spec"]["nodeName"]
    publish(api, node, without=(1,))
    try:
        until(lambda: "paictl_placer_bad_devices 1.0" in up.text("/metrics"), 20, "it is noticed")
        rest = api.await_bound(create(api, with_claims(api, gang("rest", 2, 1, "B"), 1)))
        assert {index for pod in (first, *rest.values()) for index in devices(pod)} == {0, 2, 3}
        check_claims(api)
        said = up.text("/readyz?verbose")
        assert f"node {node}, driver {DRIVER}: 3 devices, but the cells promise 4: no device for 1" in said
    finally:
        publish(api, node)


def test_a_device_that_another_namespace_took_is_bad_until_it_is_free(up: Placer, api: KubeApi) -> None:
    """Where no policy guards, kube-scheduler allocates by itself: nobody is promised that device meanwhile."""
    with contextlib.suppress(ApiError):
        api.call("POST", "/api/v1/namespaces", {"metadata": {"name": "unguarded"}})
    template(api, 1, namespace="unguarded")
    container = {"name": "c", "image": "none", "resources": {"claims": [{"name": "cells"}]}}
    spec = {
        "containers": [container],
        "terminationGracePeriodSeconds": 1,
        "resourceClaims": [{"name": "cells", "resourceClaimTemplateName": "gpus-1"}],
    }
    path = "/api/v1/namespaces/unguarded/pods"
    api.call("POST", path, {"metadata": {"name": "thief"}, "spec": spec})
    try:
        until(lambda: "paictl_placer_bad_devices 1.0" in up.text("/metrics"), 20, "it is noticed")
        node = api.get(f"{path}/thief")["spec"]["nodeName"]
        create(api, with_claims(api, gang("most", 15, 1, priority=-1), 1))
        bound = api.await_bound([f"most-{i}" for i in range(15)])
        assert sum(pod["spec"]["nodeName"] == node for pod in bound.values()) == 3
        check_claims(api)
    finally:
        api.call("DELETE", f"{path}/thief?gracePeriodSeconds=0")
    until(lambda: "paictl_placer_bad_devices 0.0" in up.text("/metrics"), 20, "it is free")


@pytest.mark.usefixtures("up")
def test_claims_that_do_not_fit_the_request_wait_with_the_reason(api: KubeApi) -> None:
    (few,) = with_claims(api, gang("few", 1, 2), 1)
    (none,) = gang("none", 1, 1)
    create(api, [few, none])
    _await_reason(api, "few-0", "asks for 2 leaf cells, but its claims for 1 devices")
    _await_reason(api, "none-0", "has no claim")
    assert not held(api)


def _refused(api: KubeApi, path: str, body: Json) -> str:
    """Why the API server refuses an object; a policy takes a moment to be in force."""
    said = ""

    def refused() -> bool:
        nonlocal said
        try:
            api.call("POST", f"{path}?dryRun=All", body)
        except ApiError as error:
            said = str(error)
        return bool(said)

    until(refused, 30, f"{body['metadata']['name']} is refused")
    return said


@pytest.mark.usefixtures("up")
def test_no_way_around_the_cells(api: KubeApi) -> None:
    """Claims that choose devices by themselves, and pods that would have kube-scheduler choose."""
    wanted = {"cel": {"expression": 'device.attributes["x"].uuid == "GPU-1"'}}
    for part, exactly in (("selectors", {"selectors": [wanted]}), ("allocationMode", {"allocationMode": "All"})):
        request = {"name": "gpus", "exactly": {"deviceClassName": DRIVER, **exactly}}
        body = {"metadata": {"name": "own"}, "spec": {"spec": {"devices": {"requests": [request]}}}}
        assert f"names devices by {part}" in _refused(api, f"{API}/namespaces/default/resourceclaimtemplates", body)
    request = {"name": "gpus", "exactly": {"deviceClassName": DRIVER, "count": 1}}
    claim = {"metadata": {"name": "own"}, "spec": {"devices": {"requests": [request]}}}
    assert "use a ResourceClaimTemplate" in _refused(api, CLAIMS, claim)
    (pod,) = with_claims(api, gang("around", 1, 1), 1)
    del pod["spec"]["schedulingGates"]
    pod["metadata"]["annotations"] = {}
    assert "a pod with resourceClaims needs the label" in _refused(api, "/api/v1/namespaces/default/pods", pod)
    nic = {"metadata": {"name": "nic"}, "spec": {"devices": {"requests": [_nic()]}}}
    api.call("POST", f"{CLAIMS}?dryRun=All", nic)


def _nic() -> Json:
    return {"name": "nic", "exactly": {"deviceClassName": "nic.example.com", "selectors": []}}


def _await_reason(api: KubeApi, name: str, words: str) -> None:
    until(lambda: any(words in event["message"] for event in api.events(name)), 20, lambda: api.plight([name]))
