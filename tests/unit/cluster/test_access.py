"""Kubeconfigs of people: what is refused, what is made, and that whatever fails leaves nothing behind."""

from __future__ import annotations

import base64
import subprocess
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from paictl.cluster.access import AccessRequest, AccessRole
from paictl.cluster.kubernetes.access import KubernetesAccess
from paictl.cluster.kubernetes.names import RBAC
from paictl.cluster.kubernetes.rights import cluster_roles
from paictl.cluster.values import ClusterError, ConflictError, UnreachableError
from paictl.errors import PaictlError
from paictl.remote.kube.client import Json, KubeError, NoAnswerError
from paictl.remote.openssl import certificate_request
from tests.unit.cluster.fakekube import FakeKube

REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
GUARDED = {"paictl.io/cells": "enabled", "pod-security.kubernetes.io/enforce": "baseline"}
SIGNED: dict[tuple[str, str], str] = {}
"""What was signed before, by request."""
ANN = AccessRequest("ann", AccessRole.TENANT, "vision", ("team",))


class SigningKube(FakeKube):
    """An API server with RBAC and a signer, which signs by an authority of its own or does what `verdict` says."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        self.verdict: Json | None = None
        """The condition that the signer sets instead of signing; empty: it never answers."""
        self.subject = ""
        """What it writes into the certificate instead of what was asked for."""
        self.losing = -1
        """The number of a request that has its effect, although its answer is lost."""
        self.failing: tuple[int, BaseException] | None = None
        """The number of a request, and what it raises instead of having an effect."""
        for name, labels in (("vision", GUARDED), ("open", {}), ("paictl-jobs", GUARDED), ("paictl-system", {})):
            self.objects[f"/api/v1/namespaces/{name}"] = {"metadata": {"name": name, "labels": dict(labels)}}

    def cluster_entry(self) -> Json:
        return {"server": self.server, "certificate-authority-data": "Q0E="}

    def _done(self, method: str, path: str, body: Any, query: dict[str, object]) -> Json:
        if self.failing is not None and len(self.requests) - 1 == self.failing[0]:
            raise self.failing[1]
        if len(self.requests) - 1 == self.losing:
            self.losing = -1
            self._done(method, path, body, query)
            raise NoAnswerError("lost")
        kind = path.rpartition("/")[2]
        if method == "GET" and path in (f"{RBAC}/rolebindings", f"{RBAC}/clusterrolebindings"):
            found = [one for at, one in self.objects.items() if f"/{kind}/" in at and at.startswith(RBAC)]
            selector = str(query.get("labelSelector", ""))
            return {"items": [one for one in found if not selector or one["metadata"].get("labels")]}
        if query.get("dryRun"):
            return {"metadata": {}}
        if method == "PATCH" and path not in self.objects:
            return self._kept(path, body)
        if method == "PUT" and kind == "approval":
            return self._sign(path.removesuffix("/approval"))
        return super()._done(method, path, body, query)

    def _sign(self, path: str) -> Json:
        request = self.objects[path]
        if self.verdict is not None:
            request["status"] = {"conditions": [self.verdict] if self.verdict else []}
            return request
        if (known := SIGNED.get((request["spec"]["request"], self.subject))) is not None:
            request["status"] = {"certificate": known}
            return request
        (self.folder / "csr.pem").write_bytes(base64.b64decode(request["spec"]["request"]))
        if not (self.folder / "ca.key").exists():
            self._openssl("ecparam", "-genkey", "-name", "prime256v1", "-noout", "-out", "ca.key")
            self._openssl("req", "-x509", "-new", "-key", "ca.key", "-subj", "/CN=ca", "-days", "9", "-out", "ca.pem")
        key: tuple[str, ...] = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial")
        if self.subject:  # another subject for the same key
            self._openssl("req", "-in", "csr.pem", "-noout", "-pubkey", "-out", "public.pem")
            key = (*key, "-force_pubkey", "public.pem")
            self._openssl("req", "-new", "-key", "ca.key", "-subj", self.subject, "-out", "csr.pem")
        self._openssl("x509", "-req", "-in", "csr.pem", *key, "-days", "7", "-out", "made.pem")
        made = base64.b64encode((self.folder / "made.pem").read_bytes()).decode()
        SIGNED[request["spec"]["request"], self.subject] = made
        request["status"] = {"certificate": made}
        return request

    def _openssl(self, *words: str) -> None:
        subprocess.run(["openssl", *words], cwd=self.folder, check=True, capture_output=True)

    def left(self) -> list[str]:
        """What there is of requests for certificates, roles and bindings."""
        return sorted(path for path in self.objects if path.startswith((REQUESTS, RBAC)))


@pytest.fixture
def kube(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SigningKube:
    monkeypatch.setattr("paictl.cluster.kubernetes.access._POLL", 0.0)
    return SigningKube(tmp_path)


def give(kube: SigningKube, request: AccessRequest = ANN) -> Json:
    texts: list[str] = []
    KubernetesAccess(kube, "prod").give_access(request, texts.append, timeout=0.0)
    (text,) = texts
    found: Json = yaml.safe_load(text)
    return found


def test_a_person_gets_a_certificate_a_binding_and_a_kubeconfig(kube: SigningKube) -> None:
    found = give(kube)
    (user,), (context,), (cluster,) = found["users"], found["contexts"], found["clusters"]
    assert found["current-context"] == context["name"] == "ann@prod"
    assert context["context"] == {"cluster": "prod", "user": "ann@prod", "namespace": "vision"}
    assert cluster["cluster"] == kube.cluster_entry()
    certificate = base64.b64decode(user["user"]["client-certificate-data"])
    said = subprocess.run(
        ["openssl", "x509", "-noout", "-subject", "-nameopt", "RFC2253"],
        input=certificate,
        capture_output=True,
        check=True,
    ).stdout
    assert said.decode().strip() == "subject=CN=ann,O=team"
    assert b"PRIVATE KEY" in base64.b64decode(user["user"]["client-key-data"])
    binding = f"{RBAC}/namespaces/vision/rolebindings/paictl-access-tenant-ann"
    assert kube.left() == [f"{RBAC}/clusterroles/paictl-access-tenant", binding], "no request for a certificate"
    assert kube.objects[binding]["subjects"][0] == {
        "apiGroup": "rbac.authorization.k8s.io",
        "kind": "User",
        "name": "ann",
    }
    (one,) = KubernetesAccess(kube, "prod").accesses()
    assert (one.user, one.role, one.namespace, one.groups) == ("ann", AccessRole.TENANT, "vision", ("team",))
    assert one.until is not None


@pytest.mark.parametrize("request_", [ANN, AccessRequest("bob", AccessRole.OPERATOR, "vision")])
def test_what_was_given_is_what_is_listed_then(kube: SigningKube, request_: AccessRequest) -> None:
    access = KubernetesAccess(kube, "prod")
    assert access.give_access(request_, lambda _: None, timeout=0.0) in access.accesses()


def test_an_operator_is_listed_once_and_removed_whole(kube: SigningKube) -> None:
    give(kube)
    give(kube, AccessRequest("bob", AccessRole.OPERATOR))
    access = KubernetesAccess(kube, "prod")
    assert [(one.user, one.role.value, one.namespace) for one in access.accesses()] == [
        ("ann", "tenant", "vision"),
        ("bob", "operator", ""),
    ]
    (gone,) = access.remove_access("bob")
    assert gone.role is AccessRole.OPERATOR
    assert [path for path in kube.left() if "binding" in path] == [
        f"{RBAC}/namespaces/vision/rolebindings/paictl-access-tenant-ann"
    ]
    with pytest.raises(ClusterError, match="bob does not have this role here"):
        access.remove_access("bob")
    with pytest.raises(ClusterError, match="ann does not have this role here"):
        access.remove_access("ann", AccessRole.VIEW)
    with pytest.raises(ClusterError, match="ann does not have this role here"):
        access.remove_access("ann", namespace="open")


def test_a_renewal_keeps_the_binding_and_notes_the_new_end(kube: SigningKube) -> None:
    give(kube)
    (before,) = KubernetesAccess(kube, "prod").accesses()
    path = f"{RBAC}/namespaces/vision/rolebindings/paictl-access-tenant-ann"
    kube.objects[path]["metadata"]["annotations"]["paictl.io/access-until"] = "2020-01-01T00:00:00Z"
    give(kube)
    (after,) = KubernetesAccess(kube, "prod").accesses()
    assert after.until is not None
    assert before.until is not None
    assert after.until >= before.until
    assert len([path for path in kube.left() if "binding" in path]) == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"user": "system:node:n1"}, "belong to Kubernetes itself"),
        ({"user": "ann/../eve"}, "not a valid user name"),
        ({"user": "ann\nO = system:masters"}, "not a valid user name"),
        ({"user": "a" * 65}, "not a valid user name"),
        ({"user": ""}, "not a valid user name"),
        ({"groups": ("system:masters",)}, "belongs to Kubernetes itself"),
        ({"groups": ("a", "system:nodes")}, "belongs to Kubernetes itself"),
        ({"groups": ("a,O=system:masters",)}, "not a valid group"),
        ({"valid": timedelta(minutes=9)}, "cannot be valid for 9m"),
        ({"valid": timedelta(days=400)}, "cannot be valid for 400d"),
        ({"namespace": ""}, "is for one namespace"),
        ({"namespace": "Vision"}, "not a valid namespace"),
        ({"namespace": "nowhere"}, "no namespace nowhere"),
        ({"namespace": "open"}, "is not guarded"),
        ({"namespace": "paictl-jobs"}, "not a tenant's namespace"),
        ({"namespace": "paictl-system", "role": AccessRole.VIEW}, "not a tenant's namespace"),
    ],
)
def test_what_no_cluster_should_grant_is_refused_before_anything_is_sent(
    kube: SigningKube, change: dict[str, Any], message: str
) -> None:
    values = {"user": "ann", "role": AccessRole.TENANT, "namespace": "vision", **change}
    with pytest.raises(ClusterError, match=message) as caught:
        give(kube, AccessRequest(**values))
    assert caught.value.hint
    assert kube.left() == []
    assert {method for method, _ in kube.requests} <= {"GET"}


def test_a_name_that_may_do_everything_already_is_not_given_a_small_role(kube: SigningKube) -> None:
    kube.objects[f"{RBAC}/clusterrolebindings/theirs"] = {
        "metadata": {"name": "theirs"},
        "roleRef": {"name": "cluster-admin"},
        "subjects": [{"kind": "Group", "name": "team"}, {"kind": "User", "name": "root"}],
    }
    with pytest.raises(ClusterError, match="team already has cluster-admin through ClusterRoleBinding/theirs"):
        give(kube)
    with pytest.raises(ClusterError, match="root already has cluster-admin"):
        give(kube, AccessRequest("root", AccessRole.VIEW, "open"))
    give(kube, AccessRequest("root", AccessRole.ADMIN))
    (other,) = KubernetesAccess(kube, "prod").other_rights("root")
    assert (other.subject, other.role) == ("root", "cluster-admin")


@pytest.mark.parametrize(
    ("verdict", "message"),
    [
        ({"type": "Failed", "message": "not for people"}, "rejected the request: not for people"),
        ({"type": "Denied", "reason": "Policy"}, "rejected the request: Policy"),
        ({}, "made no certificate within 0 s"),
    ],
)
def test_a_signer_that_refuses_or_never_answers(kube: SigningKube, verdict: Json, message: str) -> None:
    kube.verdict = verdict
    with pytest.raises(ClusterError, match=message) as caught:
        give(kube)
    assert "OpenID Connect" in str(caught.value.hint)
    assert kube.left() == []


def test_a_certificate_for_somebody_else_is_discarded(kube: SigningKube) -> None:
    kube.subject = "/O=system:masters/CN=ann"
    with pytest.raises(ClusterError, match="made a certificate for CN=ann,O=system:masters, not for ann"):
        give(kube)
    assert kube.left() == []


FAILURES: list[tuple[BaseException, type[BaseException]]] = [
    (KubeError("forbidden", status=403), ClusterError),
    (NoAnswerError("gone"), UnreachableError),
    (KeyboardInterrupt(), KeyboardInterrupt),
]


@pytest.mark.parametrize(("error", "raised"), FAILURES)
@pytest.mark.parametrize("role", [AccessRole.TENANT, AccessRole.OPERATOR])
def test_whichever_request_fails_nothing_is_left(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    role: AccessRole,
    error: BaseException,
    raised: type[BaseException],
) -> None:
    """The failing request itself had no effect; those that clean up succeed."""
    monkeypatch.setattr("paictl.cluster.kubernetes.access._POLL", 0.0)
    request = AccessRequest("ann", role, "vision")
    made = certificate_request("ann", ())
    monkeypatch.setattr("paictl.cluster.kubernetes.access.certificate_request", lambda _user, _groups: made)
    whole = SigningKube(tmp_path)
    give(whole, request)
    changing = [number for number, (method, _) in enumerate(whole.requests) if method != "DELETE"]
    assert len(changing) > 8
    for number in changing:
        kube = SigningKube(tmp_path)
        kube.failing = number, error
        with pytest.raises(raised):
            give(kube, request)
        assert kube.left() == [], whole.requests[number]


@pytest.mark.parametrize("role", [AccessRole.TENANT, AccessRole.OPERATOR])
def test_whichever_answer_is_lost_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, role: AccessRole
) -> None:
    """The request took effect: a binding that stayed would give old certificates of that name rights again."""
    monkeypatch.setattr("paictl.cluster.kubernetes.access._POLL", 0.0)
    request = AccessRequest("ann", role, "vision")
    made = certificate_request("ann", ())
    monkeypatch.setattr("paictl.cluster.kubernetes.access.certificate_request", lambda _user, _groups: made)
    whole = SigningKube(tmp_path)
    give(whole, request)
    changing = [number for number, (method, _) in enumerate(whole.requests) if method not in ("GET", "DELETE")]
    assert len(changing) > 4
    for number in changing:
        kube = SigningKube(tmp_path)
        kube.losing = number
        with pytest.raises(UnreachableError):
            give(kube, request)
        assert kube.left() == [], whole.requests[number]


def test_a_renewal_whose_answer_is_lost_keeps_the_end_from_before(kube: SigningKube) -> None:
    give(kube)
    path = f"{RBAC}/namespaces/vision/rolebindings/paictl-access-tenant-ann"
    notes = kube.objects[path]["metadata"]["annotations"]
    notes["paictl.io/access-until"] = "2020-01-01T00:00:00Z"
    before = len(kube.requests)
    give(kube)
    (last,) = [number for number, sent in enumerate(kube.requests[before:]) if sent == ("PATCH", path)]
    kube.objects[path]["metadata"]["annotations"]["paictl.io/access-until"] = "2020-01-01T00:00:00Z"
    kube.losing = len(kube.requests) + last
    with pytest.raises(UnreachableError):
        give(kube)
    assert kube.objects[path]["metadata"]["annotations"]["paictl.io/access-until"] == "2020-01-01T00:00:00Z"


def test_a_binding_that_somebody_else_makes_meanwhile_is_not_deleted(
    kube: SigningKube, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("paictl.cluster.kubernetes.access.create", lambda *_: None)
    path = f"{RBAC}/namespaces/vision/rolebindings/paictl-access-tenant-ann"
    gone: list[str] = []
    monkeypatch.setattr("paictl.cluster.kubernetes.access.delete", lambda _, at: gone.append(at))
    with pytest.raises(ConflictError):
        give(kube)
    assert path not in gone


def test_a_file_that_cannot_be_written_leaves_nothing_on_the_cluster(kube: SigningKube) -> None:
    def deliver(_: str) -> None:
        raise PaictlError("disk full")

    access = KubernetesAccess(kube, "prod")
    with pytest.raises(PaictlError, match="disk full"):
        access.give_access(ANN, deliver)
    assert kube.left() == []
    give(kube)
    before = access.accesses()
    kept = kube.left()
    with pytest.raises(PaictlError, match="disk full"):
        access.give_access(AccessRequest("ann", AccessRole.TENANT, "vision", ("other",)), deliver)
    assert (access.accesses(), kube.left()) == (before, kept), "the access from before is as it was"


def test_a_binding_that_somebody_changed_is_not_trusted(kube: SigningKube) -> None:
    give(kube)
    path = f"{RBAC}/namespaces/vision/rolebindings/paictl-access-tenant-ann"
    kube.objects[path]["subjects"].append({"kind": "User", "name": "eve"})
    with pytest.raises(ConflictError, match="RoleBinding/vision/paictl-access-tenant-ann was modified"):
        give(kube)


OURS = {
    "app.kubernetes.io/name": "access",
    "app.kubernetes.io/part-of": "paictl",
    "app.kubernetes.io/managed-by": "paictl",
    "paictl.io/access-role": "view",
}


def bound(kube: SigningKube, role: str, *subjects: Json, space: str = "", **more: Any) -> str:
    """A binding that somebody else made, as messages name it."""
    kind = "RoleBinding" if space else "ClusterRoleBinding"
    below = f"{RBAC}/namespaces/{space}/rolebindings" if space else f"{RBAC}/clusterrolebindings"
    about = {"name": "theirs", **({"namespace": space} if space else {}), **more}
    kube.objects[f"{below}/theirs"] = {"metadata": about, "roleRef": {"name": role}, "subjects": list(subjects)}
    return f"{kind}/{space}/theirs" if space else f"{kind}/theirs"


def test_labels_do_not_hide_a_binding_that_gives_something_else(kube: SigningKube) -> None:
    people = [{"kind": "User", "name": "ann"}, {"kind": "User", "name": "mallory"}]
    name = bound(kube, "cluster-admin", *people, labels=OURS)
    access = KubernetesAccess(kube, "prod")
    assert access.accesses() == ()
    assert access.modified_bindings() == (name,)
    for user in ("ann", "mallory"):
        (other,) = access.other_rights(user)
        assert (other.role, other.binding) == ("cluster-admin", name)
        with pytest.raises(ClusterError, match=f"{user} already has cluster-admin"):
            give(kube, AccessRequest(user, AccessRole.VIEW, "vision"))


def test_a_modified_binding_is_told_of_and_removed_with_the_role(kube: SigningKube) -> None:
    give(kube)
    give(kube, AccessRequest("bob", AccessRole.OPERATOR))
    access = KubernetesAccess(kube, "prod")
    assert access.modified_bindings() == ()
    path = f"{RBAC}/namespaces/vision/rolebindings/paictl-access-tenant-ann"
    kube.objects[path]["subjects"].append({"kind": "User", "name": "eve"})
    assert [one.user for one in access.accesses()] == ["bob"]
    assert access.modified_bindings() == ("RoleBinding/vision/paictl-access-tenant-ann",)
    assert [one.subject for one in access.other_rights("eve")] == ["eve"]
    access.remove_access("ann")
    assert path not in kube.objects


@pytest.mark.parametrize(
    ("subject", "account"),
    [
        ({"kind": "ServiceAccount", "namespace": "vision", "name": "default"}, "system:serviceaccount:vision:default"),
        ({"kind": "User", "name": "system:serviceaccount:vision:ci"}, "system:serviceaccount:vision:ci"),
        ({"kind": "Group", "name": "system:serviceaccounts:vision"}, "system:serviceaccounts:vision"),
    ],
)
def test_a_tenant_gets_no_rights_of_service_accounts_beyond_the_namespace(
    kube: SigningKube, subject: Json, account: str
) -> None:
    for role, space in (("reader", ""), ("reader", "open"), ("cluster-admin", "vision")):
        before = dict(kube.objects)
        name = bound(kube, role, subject, space=space)
        with pytest.raises(ClusterError, match=f"can use {account}, .* {role} through {name}") as caught:
            give(kube)
        assert caught.value.hint
        assert kube.left() == [path for path in kube.left() if path.endswith("/theirs")]
        give(kube, AccessRequest("eve", AccessRole.VIEW, "vision"))
        kube.objects = before
    name = bound(kube, "reader", subject, space="vision")
    give(kube)
    access = KubernetesAccess(kube, "prod")
    assert [(one.subject, one.binding) for one in access.other_rights("ann", (), "vision")] == [(account, name)]
    assert not access.other_rights("ann")


def test_service_accounts_of_other_namespaces_say_nothing_about_a_tenant(kube: SigningKube) -> None:
    bound(
        kube,
        "cluster-admin",
        {"kind": "ServiceAccount", "namespace": "open", "name": "default"},
        {"kind": "Group", "name": "system:serviceaccounts:visionary"},
        {"kind": "User", "name": "system:serviceaccount:visionary:default"},
        {"kind": "Group", "name": "system:serviceaccounts"},
    )
    give(kube)


NEVER = {
    "pods/binding",
    "pods/status",
    "pods/ephemeralcontainers",
    "bindings",
    "serviceaccounts",
    "serviceaccounts/token",
    "namespaces",
    "nodes",
    "resourceclaims",
    "resourceclaimtemplates",
    "services",
    "roles",
    "rolebindings",
    "*",
    "secrets",
}
CHANGING = {"create", "update", "patch", "delete", "deletecollection", "*", "bind", "escalate", "impersonate"}


@pytest.mark.parametrize("role", [AccessRole.VIEW, AccessRole.TENANT, AccessRole.OPERATOR])
def test_no_role_but_admin_goes_round_admission_policies(role: AccessRole) -> None:
    rights = {
        (resource, verb)
        for one in cluster_roles(role)
        for rule in one["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    changing = {resource for resource, verb in rights if verb in CHANGING}
    assert changing & NEVER == ({"nodes"} if role is AccessRole.OPERATOR else set())
    assert ({"secrets"} & {resource for resource, _ in rights}) == ({"secrets"} if role is AccessRole.TENANT else set())
    if role is AccessRole.VIEW:
        assert changing == set()
    assert "paijobs" not in changing or role is AccessRole.OPERATOR


@given(st.text(max_size=70))
def test_a_name_that_is_taken_needs_no_quotes_anywhere(name: str) -> None:
    """It becomes a line of openssl's settings, part of a subject, the name of an object and of a file."""
    try:
        AccessRequest(name, AccessRole.ADMIN, groups=(name,)).check()
    except ClusterError:
        return
    assert name.isascii()
    assert not set(name) & set("/\\,=+$#\"'<>;%\n\r\t \x00")
    assert not name.startswith((".", "-", "system:"))
