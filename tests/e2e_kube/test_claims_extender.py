"""Claims through the extender: its bind verb allocates, because DynamicResources is disabled in its profile."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from paictl.scheduler.wire import GATE
from tests.e2e_kube.accounts import printed, refused, uninstall
from tests.e2e_kube.controlplane import ControlPlane, answers
from tests.e2e_kube.kubeapi import MARKER, ApiError, Json, KubeApi, devices, hived_pod, until
from tests.e2e_kube.rig import Rig
from tests.e2e_kube.test_claims import API, CLAIMS, DRIVER, WORDS, check_claims, claims, held, publish, template
from tests.e2e_kube.test_placer import CONFIG, NAMES, create


def gang(api: KubeApi, name: str, pods: int, leaves: int, vc: str = "A", priority: int = 0) -> list[Json]:
    """Pods of the extender's scheduler that ask for their devices by claims."""
    members = [{"podNumber": pods, "leafCellNumber": leaves}]
    spec = {
        "virtualCluster": vc,
        "priority": priority,
        "leafCellNumber": leaves,
        "affinityGroup": {"name": f"default/{name}", "members": members},
    }
    made = [hived_pod(f"{name}-{i}", spec) for i in range(pods)]
    for pod in made:
        pod["spec"]["resourceClaims"] = [{"name": "cells", "resourceClaimTemplateName": template(api, leaves)}]
        pod["spec"]["containers"][0]["resources"] = {"limits": {MARKER: 1}, "claims": [{"name": "cells"}]}
    return made


@pytest.fixture(scope="module")
def up(plane: ControlPlane, api: KubeApi, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    made = Rig(plane, api, CONFIG, tmp_path_factory.mktemp("claims-extender"))
    selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    device_class = {
        "metadata": {"name": DRIVER},
        "spec": {"selectors": [selector], "extendedResourceName": "nvidia.com/gpu"},
    }
    try:
        made.install("--no-require-grants", *WORDS)
        since = plane.audit.stat().st_size if plane.audit.exists() else 0
        api.patch("/api/v1/namespaces/default", {"metadata": {"labels": {GATE: "enabled"}}})
        api.call("POST", f"{API}/deviceclasses", device_class)
        api.add_nodes(NAMES)
        for name in NAMES:
            publish(api, name)
        api.await_nodes(len(api.get("/api/v1/nodes")["items"]))
        made.start_extender("--bind-deadline", "5", *WORDS)
        (configuration,) = printed("--scheduler-only", "--no-tls", *WORDS)
        made.start_scheduler(profiles=configuration["profiles"])
        yield made
        assert not refused(plane, made.objects, since), "the manifests lack a right"
    finally:
        made.stop()
        api.patch("/api/v1/namespaces/default", {"metadata": {"labels": {GATE: None}}})
        uninstall(api, made.objects)
        api.delete_all()
        for path in (f"{API}/resourceslices", f"{API}/deviceclasses", "/api/v1/nodes"):
            api.call("DELETE", path)


@pytest.fixture(autouse=True)
def _nothing_left(api: KubeApi) -> Iterator[None]:
    yield
    api.delete_all()
    until(lambda: not claims(api), 30, lambda: f"claims are left over: {claims(api)}")


@pytest.mark.usefixtures("up")
def test_the_bind_verb_allocates_and_preempts(api: KubeApi) -> None:
    lent = create(api, gang(api, "lent", 4, 4, priority=-1))
    api.await_bound(lent)
    check_claims(api)
    api.await_bound(create(api, gang(api, "own", 1, 4, "B", 5)), 60)
    assert all(api.pod(name) is None for name in lent)
    api.await_bound(create(api, gang(api, "eight", 8, 1)), 60)
    check_claims(api)
    assert len(held(api)) == 12


def plain(api: KubeApi, name: str, pods: int, leaves: int, vc: str = "A", priority: int = 0) -> list[Json]:
    """Pods of a gang that only ask for nvidia.com/gpu, as everybody writes them; an init container uses the same."""
    made = gang(api, name, pods, leaves, vc, priority)
    for pod in made:
        del pod["spec"]["resourceClaims"]
        asked = {"limits": {"nvidia.com/gpu": leaves, "cpu": "1"}}
        pod["spec"]["containers"][0]["resources"] = asked
        pod["spec"]["initContainers"] = [{"name": "first", "image": "none", "resources": asked}]
    return made


def check_extended(api: KubeApi, names: list[str], leaves: int) -> None:
    """The kubelet's way from a container to its devices: the pod's status, the claim, its requests."""
    for pod in (api.pod(name) for name in names):
        assert pod is not None
        said = pod["status"]["extendedResourceClaimStatus"]
        claim = api.get(f"{CLAIMS}/{said['resourceClaimName']}")
        assert claim["metadata"]["annotations"]["resource.kubernetes.io/extended-resource-claim"] == "true"
        (request,) = claim["spec"]["devices"]["requests"]
        assert request["exactly"]["count"] == leaves
        assert {(one["containerName"], one["resourceName"], one["requestName"]) for one in said["requestMappings"]} == {
            (name, "nvidia.com/gpu", request["name"]) for name in ("first", pod["spec"]["containers"][0]["name"])
        }
        results = claim["status"]["allocation"]["devices"]["results"]
        assert {one["request"] for one in results} == {request["name"]}


@pytest.mark.usefixtures("up")
def test_pods_that_only_ask_for_the_resource_get_claims_of_their_own(api: KubeApi) -> None:
    lent = create(api, plain(api, "lent", 4, 4, priority=-1))
    api.await_bound(lent)
    check_claims(api)
    check_extended(api, lent, 4)
    own = create(api, plain(api, "own", 1, 4, "B", 5))
    api.await_bound(own, 60)
    assert all(api.pod(name) is None for name in lent)
    mixed = create(api, [*gang(api, "named", 1, 2), *plain(api, "plain", 2, 1)])
    api.await_bound(mixed, 60)
    check_claims(api)
    check_extended(api, own, 4)
    check_extended(api, mixed[1:], 1)
    assert len(held(api)) == 8


def test_a_bad_device_leaves_the_others_in_use(up: Rig, api: KubeApi) -> None:
    (used,) = api.await_bound(create(api, gang(api, "used", 1, 1, "B"))).values()
    node, (bad,) = used["spec"]["nodeName"], devices(used)
    publish(api, node, taints={bad: "NoSchedule"})
    try:
        until(lambda: "paictl_extender_bad_devices 1.0" in up.text("/metrics"), 20, "it is noticed")
        rest = api.await_bound(create(api, gang(api, "rest", 3, 1, "B")))
        assert {(pod["spec"]["nodeName"], *devices(pod)) for pod in rest.values()} == {
            (node, index) for index in range(4) if index != bad
        }
    finally:
        publish(api, node)


@pytest.mark.parametrize("write", [gang, plain])
def test_kills_between_any_two_writes(
    up: Rig, plane: ControlPlane, api: KubeApi, write: Callable[..., list[Json]]
) -> None:
    """Fourteen times: no device twice, claims and annotations agree, no claim left over."""
    dice = random.Random(6)  # noqa: S311
    for number in range(14):
        names = create(api, write(api, f"k{number}", 6, 1))
        time.sleep(dice.random() * 0.6)
        plane.programs["extender"].kill()
        held(api)
        plane.programs["extender"].start()
        if number % 2:
            api.await_bound(names, 60)
            check_claims(api)
            for name in (*names, *(f"k{number - 1}-{i}" for i in range(6))):
                api.delete(name)
    until(lambda: answers(f"{up.url}/readyz"), 60, lambda: plane.programs["extender"].tail())
    until(lambda: _groups(up) is None, 60, "nothing is left over")


def _groups(up: Rig) -> Any:
    return up.get("/v1/inspect/affinitygroups/")["items"]


@pytest.mark.usefixtures("up")
def test_a_pod_with_claims_for_which_the_extender_would_not_be_asked_is_refused(api: KubeApi) -> None:
    """kube-scheduler would bind it, and nobody would have allocated its claims."""
    (pod,) = gang(api, "unasked", 1, 1)
    del pod["spec"]["containers"][0]["resources"]["limits"]
    with pytest.raises(ApiError, match=f"needs the limit {MARKER}: 1"):
        api.create(pod)
