"""Kubeconfigs of people on a real API server and its signer: what each role may do, and what after it was taken."""

from __future__ import annotations

import contextlib
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from paictl.remote.kube.client import KubeClient, KubeError, connect
from tests.e2e_kube.accounts import token
from tests.e2e_kube.controlplane import ControlPlane, kubeconfig
from tests.e2e_kube.kubeapi import ApiError, KubeApi, until
from tests.unit.cli.conftest import Paictl
from tests.unit.cli.conftest import paictl as paictl

SPACES = {
    "team-vision": {"paictl.io/cells": "enabled", "pod-security.kubernetes.io/enforce": "baseline"},
    "team-speech": {"paictl.io/cells": "enabled", "pod-security.kubernetes.io/enforce": "baseline"},
    "paictl-jobs": {},
    "paictl-system": {},
}
REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
POD = {"metadata": {"generateName": "p-"}, "spec": {"containers": [{"name": "c", "image": "none"}]}}


class Desk:
    """The command line of an administrator, in a folder of its own."""

    def __init__(self, paictl: Paictl, folder: Path) -> None:
        self.paictl = paictl
        self.folder = folder

    def __call__(self, *words: str, code: int = 0, cluster: str = "prod") -> str:
        done = self.paictl(*words, *(("--cluster", cluster) if words[:2] != ("cluster", "add") else ()))
        assert done.code == code, done.err
        return done.out if code == 0 else done.err

    def give(self, user: str, *words: str) -> KubeClient:
        """What a person reaches with the kubeconfig that was made."""
        self("cluster", "kubeconfig", "add", user, *words)
        path = self.folder / f"{user}.kubeconfig"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        return connect(path, f"{user}@prod")


@pytest.fixture(scope="module", autouse=True)
def spaces(api: KubeApi) -> Iterator[None]:
    for name, labels in SPACES.items():
        with contextlib.suppress(ApiError):  # another module has made it
            api.call("POST", "/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
    yield
    for name in ("team-vision", "team-speech"):
        api.delete_all(name)
    for kind in ("clusterrolebindings", "rolebindings", "clusterroles"):
        for one in api.get(f"{RBAC}/{kind}?labelSelector=app.kubernetes.io/name=access")["items"]:
            about = one["metadata"]
            space = f"/namespaces/{about['namespace']}" if "namespace" in about else ""
            api.call("DELETE", f"{RBAC}{space}/{kind}/{about['name']}")


@pytest.fixture
def desk(plane: ControlPlane, paictl: Paictl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    found = Desk(paictl, tmp_path)
    found("cluster", "add", "prod", "--kubeconfig", str(plane.kubeconfig), "--context", "x")
    return found


def status(client: KubeClient, method: str, path: str, body: object = None) -> int:
    """The HTTP status of an answer."""
    try:
        client.request(method, path, body)
    except KubeError as error:
        return error.status
    return 200


def test_a_tenant_works_in_one_namespace_until_the_role_is_taken(desk: Desk, api: KubeApi) -> None:
    secret = {"metadata": {"name": "token"}, "stringData": {"a": "b"}}
    for space in ("team-vision", "team-speech"):
        api.call("POST", f"/api/v1/namespaces/{space}/secrets", secret)
    ann = desk.give("ann", "--role", "tenant", "--namespace", "team-vision", "--valid", "1h", "--group", "team")
    until(lambda: status(ann, "GET", "/api/v1/namespaces/team-vision/pods") == 200, 20, "the role counts")
    who = ann.request("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {})["status"]["userInfo"]
    assert (who["username"], who["groups"]) == ("ann", ["team", "system:authenticated"])
    assert status(ann, "POST", "/api/v1/namespaces/team-vision/pods", POD) == 200
    for space in ("team-speech", "paictl-jobs", "paictl-system", "default"):
        assert status(ann, "GET", f"/api/v1/namespaces/{space}/pods") == 403
        assert status(ann, "POST", f"/api/v1/namespaces/{space}/pods", POD) == 403
        assert status(ann, "GET", f"/api/v1/namespaces/{space}/secrets") == 403
    assert status(ann, "GET", "/api/v1/namespaces/team-vision/secrets") == 200
    # what would go round the admission policies, or give more rights
    for method, path, body in (
        ("PATCH", "/api/v1/namespaces/team-vision", {"metadata": {"labels": {"paictl.io/cells": None}}}),
        ("POST", "/api/v1/namespaces/team-vision/bindings", {"metadata": {"name": "p"}, "target": {"name": "n"}}),
        ("POST", "/api/v1/namespaces/team-vision/services", {"metadata": {"name": "s"}, "spec": {}}),
        (
            "POST",
            "/api/v1/namespaces/team-vision/secrets",
            {
                "metadata": {"name": "for-ever", "annotations": {"kubernetes.io/service-account.name": "default"}},
                "type": "kubernetes.io/service-account-token",
            },
        ),
        (
            "POST",
            f"{RBAC}/namespaces/team-vision/rolebindings",
            {
                "metadata": {"name": "mine"},
                "roleRef": {"kind": "ClusterRole", "name": "admin"},
            },
        ),
        (
            "POST",
            "/apis/resource.k8s.io/v1/namespaces/team-vision/resourceclaims",
            {
                "metadata": {"name": "c"},
                "spec": {"devices": {}},
            },
        ),
        ("POST", "/api/v1/namespaces/team-vision/serviceaccounts/default/token", {"spec": {}}),
        ("GET", "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies", None),
        ("GET", REQUESTS, None),
        ("GET", "/api/v1/nodes", None),
    ):
        assert status(ann, method, path, body) == 403, path

    assert "ann" in desk("cluster", "kubeconfig", "list")
    desk("cluster", "kubeconfig", "remove", "ann", "--yes")
    until(lambda: status(ann, "GET", "/api/v1/namespaces/team-vision/pods") == 403, 20, "the role is taken")
    assert status(ann, "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {}) == 200, "not revoked"
    assert "ann" not in desk("cluster", "kubeconfig", "list")
    assert not api.get(f"{REQUESTS}?labelSelector=app.kubernetes.io/name=access")["items"]


def test_a_tenant_gets_no_namespace_whose_service_accounts_reach_further(desk: Desk, api: KubeApi) -> None:
    api.call(
        "POST",
        f"{RBAC}/clusterrolebindings",
        {
            "metadata": {"name": "robots"},
            "roleRef": {"kind": "ClusterRole", "name": "view"},
            "subjects": [{"kind": "ServiceAccount", "namespace": "team-speech", "name": "default"}],
        },
    )
    try:
        said = desk("cluster", "kubeconfig", "add", "ida", "--role", "tenant", "--namespace", "team-speech", code=2)
        assert "system:serviceaccount:team-speech:default" in said
        assert "ClusterRoleBinding/robots" in said
        assert not (desk.folder / "ida.kubeconfig").exists()
    finally:
        api.call("DELETE", f"{RBAC}/clusterrolebindings/robots")
    desk("cluster", "kubeconfig", "add", "ida", "--role", "tenant", "--namespace", "team-speech")
    assert "outside paictl" not in desk("cluster", "kubeconfig", "list")


def test_who_views_a_namespace_reads_no_secret_and_changes_nothing(desk: Desk) -> None:
    bob = desk.give("bob", "--namespace", "team-vision")
    until(lambda: status(bob, "GET", "/api/v1/namespaces/team-vision/pods") == 200, 20, "the role counts")
    assert status(bob, "GET", "/api/v1/namespaces/team-vision/secrets") == 403
    assert status(bob, "POST", "/api/v1/namespaces/team-vision/pods", POD) == 403
    assert status(bob, "GET", "/api/v1/namespaces/team-speech/pods") == 403


def test_an_operator_uses_paictl_with_it(desk: Desk, api: KubeApi) -> None:
    eve = desk.give("eve", "--role", "operator")
    until(lambda: status(eve, "GET", "/api/v1/namespaces/paictl-system/configmaps") == 200, 20, "the role counts")
    until(lambda: status(eve, "GET", "/api/v1/nodes") == 200, 20, "the role of the cluster counts, too")
    file = desk.folder / "eve.kubeconfig"
    desk("cluster", "add", "mine", "--kubeconfig", str(file), "--context", "eve@prod")
    desk("node", "list", cluster="mine")
    assert status(eve, "GET", "/api/v1/namespaces/paictl-system/secrets") == 403
    assert status(eve, "POST", "/api/v1/namespaces/paictl-jobs/pods", POD) == 403
    said = desk("cluster", "kubeconfig", "add", "fay", "--role", "admin", cluster="mine", code=2)
    assert "forbidden" in said
    assert not (desk.folder / "fay.kubeconfig").exists()
    assert not api.get(f"{REQUESTS}?labelSelector=app.kubernetes.io/name=access")["items"]
    assert "fay" not in desk("cluster", "kubeconfig", "list")


def test_who_may_bind_but_not_approve_leaves_nothing(desk: Desk, plane: ControlPlane, api: KubeApi) -> None:
    """The server refuses in the middle: after the request for the certificate was made."""
    with contextlib.suppress(ApiError):
        api.call("POST", "/api/v1/namespaces/paictl-system/serviceaccounts", {"metadata": {"name": "half"}})
    rules = [
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["*"], "verbs": ["*"]},
        {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"]},
        {
            "apiGroups": ["certificates.k8s.io"],
            "resources": ["certificatesigningrequests"],
            "verbs": ["create", "get", "delete"],
        },
    ]
    api.call("POST", f"{RBAC}/clusterroles", {"metadata": {"name": "half"}, "rules": rules})
    api.call(
        "POST",
        f"{RBAC}/clusterrolebindings",
        {
            "metadata": {"name": "half"},
            "roleRef": {"kind": "ClusterRole", "name": "half"},
            "subjects": [{"kind": "ServiceAccount", "name": "half", "namespace": "paictl-system"}],
        },
    )
    try:
        kubeconfig(desk.folder / "half.conf", plane.server, plane.folder / "ca.crt", token(api, "half"))
        desk("cluster", "add", "half", "--kubeconfig", "half.conf", "--context", "x")
        half = connect(desk.folder / "half.conf", "x")
        until(lambda: status(half, "GET", f"{RBAC}/clusterrolebindings") == 200, 20, "the rights count")
        said = desk("cluster", "kubeconfig", "add", "gil", "--namespace", "team-speech", cluster="half", code=2)
        assert "certificatesigningrequests" in said
        assert "docs/clusters.md" in said
        assert not api.get(f"{REQUESTS}?labelSelector=app.kubernetes.io/name=access")["items"]
        assert "gil" not in desk("cluster", "kubeconfig", "list")
    finally:
        for kind in ("clusterrolebindings", "clusterroles"):
            api.call("DELETE", f"{RBAC}/{kind}/half")


def test_a_file_that_is_there_is_kept(desk: Desk) -> None:
    path = desk.folder / "hal.kubeconfig"
    path.write_text("mine\n")
    said = desk("cluster", "kubeconfig", "add", "hal", "--namespace", "team-vision", code=2)
    assert "already exists" in said
    assert path.read_text() == "mine\n"
    text = desk("cluster", "kubeconfig", "add", "hal", "--namespace", "team-vision", "--file", "-")
    assert yaml.safe_load(text)["current-context"] == "hal@prod", "nothing else is on stdout"
