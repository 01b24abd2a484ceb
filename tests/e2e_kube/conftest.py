"""One control plane for all modules of tests; all of it is skipped, saying why, where it cannot run."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e_kube.controlplane import ControlPlane, binaries, control_plane, missing
from tests.e2e_kube.kubeapi import ApiError, KubeApi

WANTED = os.environ.get("PAICTL_E2E") == "1"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """These tests take minutes and need programs that `make kube` builds: only `make e2e` runs them."""
    reason = ""
    if not WANTED:
        reason = "needs a real control plane: make kube, then make e2e"
    elif missing():
        reason = f"{', '.join(missing())} not in {binaries()}: make kube"
    if not reason:
        return
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """etcd, kube-apiserver, kube-controller-manager and kwok; all else is each module's own."""
    with control_plane(tmp_path_factory.mktemp("cp")) as up:
        yield up


@pytest.fixture(scope="session")
def api(plane: ControlPlane) -> KubeApi:
    return KubeApi(plane)


@pytest.fixture(scope="module", autouse=True)
def _nothing_is_configured(api: KubeApi) -> None:
    """No module sees what another one has pushed, nor the ports of its services, nor how strict it made the namespace.

    Deployments and their like go, too: without a kubelet no other template is ever rolled out, and a pod may be
    marked as the leader that another module ran. Accounts and rights may stay.
    """
    space = "/api/v1/namespaces/paictl-system"
    api.delete_workloads("paictl-system")
    with contextlib.suppress(ApiError):  # nobody has made it yet
        api.patch(space, {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": None}}})
    for kind in ("configmaps", "secrets"):
        api.call("DELETE", f"{space}/{kind}?labelSelector=app.kubernetes.io/part-of=paictl")
    api.call("DELETE", f"{space}/services")
