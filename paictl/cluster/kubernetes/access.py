"""Access for people: a certificate that the cluster's own signer makes, a role that is bound to it, and a kubeconfig.

The order is so that nothing is left half made: all bindings are tried without effect, then comes the certificate, which
alone gives no right; then the bindings, and the kubeconfig last. Whatever fails, what was made before it goes again.
"""

from __future__ import annotations

import base64
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from datetime import datetime
from typing import Final

import yaml

from paictl.cluster.access import AccessRequest, AccessRole, GivenAccess, OtherRight
from paictl.cluster.doors import GUARDED
from paictl.cluster.kubernetes.connection import cluster_errors
from paictl.cluster.kubernetes.names import JOBS_NAMESPACE, NAMESPACE, RBAC, labels
from paictl.cluster.kubernetes.rights import (
    ENFORCE,
    EVERYTHING,
    SELECTOR,
    accounts_subject,
    bindings,
    cluster_roles,
    collection,
    given,
    is_whole,
    marks,
)
from paictl.cluster.values import ClusterError, ConflictError
from paictl.errors import PaictlError
from paictl.i18n import did_you_mean, text
from paictl.remote.kube.client import MERGE, Json, KubeClient
from paictl.remote.kube.objects import MANAGER, apply, create, delete, find
from paictl.remote.openssl import CertificateRequest, IssuedCertificate, certificate_request, read_certificate

_REQUESTS: Final = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
_SIGNER: Final = "kubernetes.io/kube-apiserver-client"
_NO_SIGNER: Final = "if this cluster does not sign certificates for people, use OpenID Connect (docs/access.md)"
_POLL: Final = 0.2
"""Seconds between two looks at a certificate request."""
_CLOSED: Final = (NAMESPACE, "kube-system", "kube-public", "kube-node-lease")


class KubernetesAccess:
    """The access of people to one cluster; `known_as` is its name in kubeconfigs."""

    def __init__(self, client: KubeClient, known_as: str) -> None:
        self._client = client
        self._known_as = known_as

    def accesses(self) -> Sequence[GivenAccess]:
        """What was given, by user; a role that needs several bindings once."""
        with cluster_errors():
            bodies = [(given(body), is_whole(body)) for body in self._bindings({"labelSelector": SELECTOR})]
        by_key = {
            (access.user, access.role, access.namespace): access
            for access, whole in bodies
            if access is not None and whole
        }
        return tuple(by_key[key] for key in sorted(by_key))

    def modified_bindings(self) -> Sequence[str]:
        """Bindings with our labels that give something else than was given, or to others, as KIND/NAMESPACE/NAME."""
        with cluster_errors():
            return tuple(_named(body) for body in self._bindings({"labelSelector": SELECTOR}) if not is_whole(body))

    def other_rights(self, user: str, groups: Sequence[str] = (), accounts_of: str = "") -> Sequence[OtherRight]:
        """The bindings of others that count for a user, these groups, or the service accounts of a namespace."""
        with cluster_errors():
            return tuple(self._others(user, groups, accounts_of))

    def give_access(
        self, request: AccessRequest, deliver: Callable[[str], object], timeout: float = 30.0
    ) -> GivenAccess:
        """Make a certificate and bind its user; `deliver` gets the kubeconfig when all is done.

        Raises `ClusterError` for what must not be given, cannot be given by this caller, or is not signed within
        `timeout` seconds; then, and if `deliver` fails, nothing is left.
        """
        request.check()
        with cluster_errors():
            server = self._client.cluster_entry()
            self._check_namespace(request)
            self._check_others(request)
            self._try(request)
            made = certificate_request(request.user, request.groups)
            pem = self._signed(made, request, timeout)
            issued = _checked(pem, made, request)
            with ExitStack() as undo:
                for body in cluster_roles(request.role):
                    self._put_role(body, undo)
                for body in bindings(request, issued.end):
                    self._bind(body, marks(issued.end, request), undo)
                deliver(self._kubeconfig(request, server, made.key, pem))
                undo.pop_all()
        space = request.namespace if request.role.is_of_namespace else ""
        return GivenAccess(request.user, request.role, space, request.groups, self._client.date, issued.end)

    def remove_access(self, user: str, role: AccessRole | None = None, namespace: str = "") -> Sequence[GivenAccess]:
        """Remove the bindings of a user, of one role or in one namespace if named; what was removed.

        Raises `ClusterError` if there are none.
        """
        with cluster_errors():
            ours = list(self._ours())
            meant = [
                (path, access)
                for path, access in ours
                if access.user == user and role in (None, access.role) and namespace in ("", access.namespace)
            ]  # also what was modified since: nothing that we gave may stay
            if not meant:
                users = sorted({access.user for _, access in ours})
                raise ClusterError(
                    text("{user} does not have this role here", user=user),
                    hint=did_you_mean(user, [name for name in users if name != user])
                    or text("list what was given: paictl cluster kubeconfig list"),
                )
            for path, _ in meant:
                delete(self._client, path)
        removed = {(access.user, access.role, access.namespace): access for _, access in meant}
        return tuple(removed[key] for key in sorted(removed))

    # --- checks

    def _check_namespace(self, request: AccessRequest) -> None:
        """Raise `ClusterError` for a namespace that is not there, not for tenants, or not guarded."""
        name = request.namespace
        if not name:
            return
        space = find(self._client, f"/api/v1/namespaces/{name}")
        if space is None:
            raise ClusterError(text("no namespace {space}", space=name), hint=text("create it, or check the name"))
        if not request.role.is_of_namespace:
            return
        if name in _CLOSED or (name == JOBS_NAMESPACE and request.role is AccessRole.TENANT):
            raise ClusterError(
                text("{space} is not a tenant's namespace", space=name),
                hint=text("for people who look after the cluster: --role operator"),
            )
        space_labels = space["metadata"].get("labels") or {}
        missing = [f"{key}={value}" for key, value in GUARDED.items() if space_labels.get(key) != value]
        if space_labels.get(ENFORCE) not in ("baseline", "restricted"):
            missing.append(f"{ENFORCE}=baseline")
        if request.role is AccessRole.TENANT and missing:
            raise ClusterError(
                text("namespace {space} is not guarded: its pods could take devices and files of others", space=name),
                hint=text("kubectl label namespace {space} {labels}", space=name, labels=" ".join(missing)),
            )

    def _check_others(self, request: AccessRequest) -> None:
        """Raise `ClusterError` if other bindings would make more of a role than it says."""
        if request.role is AccessRole.ADMIN:
            return
        for right in self._others(request.user, request.groups):
            if right.role == EVERYTHING:
                raise ClusterError(
                    text(
                        "{subject} already has cluster-admin through {binding}",
                        subject=right.subject,
                        binding=right.binding,
                    ),
                    hint=text("choose another name or group, or --role admin"),
                )
        if request.role is not AccessRole.TENANT:
            return
        for right in self._others("", (), request.namespace):  # pods run under any of them
            if right.namespace != request.namespace or right.role == EVERYTHING:
                raise ClusterError(
                    text(
                        "pods of {space} can use {subject}, which has the rights of {role} through {binding}",
                        space=request.namespace,
                        subject=right.subject,
                        role=right.role,
                        binding=right.binding,
                    ),
                    hint=text("remove that binding, or choose another namespace for the tenant"),
                )

    def _try(self, request: AccessRequest) -> None:
        """Have the server check all that will be written, and change nothing."""
        for body in cluster_roles(request.role):
            apply(self._client, f"{collection(body)}/{body['metadata']['name']}", body, dry_run=True, force=True)
        known = all(self._role(role) is not None for role in cluster_roles(request.role))
        for body in bindings(request, datetime.now().astimezone()):
            there = find(self._client, f"{collection(body)}/{body['metadata']['name']}")
            if there is None and known:  # a binding to a role that is not there yet can be refused for that alone
                query = {"dryRun": "All", "fieldManager": MANAGER}
                self._client.request("POST", collection(body), body, query=query)
            elif there and (there.get("roleRef") != body["roleRef"] or there.get("subjects") != body["subjects"]):
                raise ConflictError(
                    text("{object} was modified outside paictl", object=_named(body)),
                    hint=text("inspect and delete it, then run the same command again"),
                )

    def _role(self, body: Json) -> Json | None:
        return find(self._client, f"{collection(body)}/{body['metadata']['name']}")

    # --- the certificate

    def _signed(self, made: CertificateRequest, request: AccessRequest, timeout: float) -> str:
        """The certificate (PEM) that the cluster's signer makes; the request for it is deleted in any case."""
        name = f"paictl-access-{secrets.token_hex(6)}"  # ours, so that it can be deleted if no answer comes
        path = f"{_REQUESTS}/{name}"
        body: Json = {
            "apiVersion": "certificates.k8s.io/v1",
            "kind": "CertificateSigningRequest",
            "metadata": {"name": name, "labels": labels("access")},
            "spec": {
                "request": base64.b64encode(made.request.encode()).decode(),
                "signerName": _SIGNER,
                "usages": ["client auth"],
                "expirationSeconds": int(request.valid.total_seconds()),
            },
        }
        try:
            pending = self._client.request("POST", _REQUESTS, body)
            pending["status"] = {
                "conditions": [
                    {
                        "type": "Approved",
                        "status": "True",
                        "reason": "paictl",
                        "message": f"access of {request.user}, given with paictl cluster kubeconfig add",
                    }
                ]
            }
            self._client.request("PUT", f"{path}/approval", pending)
            return self._awaited(path, timeout)
        finally:
            with suppress(PaictlError):  # Kubernetes deletes it within an hour
                delete(self._client, path)

    def _awaited(self, path: str, timeout: float) -> str:
        end = time.monotonic() + timeout
        while True:
            status = self._client.get(path).get("status") or {}
            if status.get("certificate"):
                return base64.b64decode(status["certificate"]).decode()
            for condition in status.get("conditions") or ():
                if condition.get("type") in ("Denied", "Failed"):
                    why = condition.get("message") or condition.get("reason") or condition["type"]
                    raise ClusterError(
                        text("signer {signer} rejected the request: {why}", signer=_SIGNER, why=why),
                        hint=text(
                            "if this cluster does not sign certificates for people, use OpenID Connect (docs/access.md)"
                        ),
                    )
            if time.monotonic() > end:
                raise ClusterError(
                    text(
                        "the signer {signer} made no certificate within {seconds:g} s", signer=_SIGNER, seconds=timeout
                    ),
                    hint=text(_NO_SIGNER),
                )
            time.sleep(_POLL)

    # --- roles and bindings

    def _put_role(self, body: Json, undo: ExitStack) -> None:
        """Make a role, or bring it up to date; undone if it was not there, even if no answer comes."""
        path = f"{collection(body)}/{body['metadata']['name']}"
        if self._role(body) is None:
            undo.callback(_quietly, lambda: delete(self._client, path))
        apply(self._client, path, body, force=True)

    def _bind(self, body: Json, notes: Mapping[str, str], undo: ExitStack) -> None:
        """Make a binding, or note the new end at the one that is there; undone even if no answer comes."""
        path = f"{collection(body)}/{body['metadata']['name']}"
        there = find(self._client, path)
        if there is None:
            with ExitStack() as own:
                own.callback(_quietly, lambda: delete(self._client, path))
                made = create(self._client, collection(body), body)
                later = own.pop_all()
            if made is None:  # somebody was faster: it is not ours to delete
                raise ConflictError(
                    text("{object} was modified outside paictl", object=_named(body)),
                    hint=text("inspect and delete it, then run the same command again"),
                )
            undo.push(later)
            return
        before = there["metadata"].get("annotations") or {}
        kept = {key: before.get(key) for key in notes}
        undo.callback(
            _quietly, lambda: self._client.request("PATCH", path, {"metadata": {"annotations": kept}}, kind=MERGE)
        )
        self._client.request("PATCH", path, {"metadata": {"annotations": dict(notes)}}, kind=MERGE)

    def _ours(self) -> Iterator[tuple[str, GivenAccess]]:
        for body in self._bindings({"labelSelector": SELECTOR}):
            if (access := given(body)) is not None:
                yield f"{collection(body)}/{body['metadata']['name']}", access

    def _others(self, user: str, groups: Sequence[str], accounts_of: str = "") -> Iterator[OtherRight]:
        meant = {("User", user), *(("Group", group) for group in groups)}
        for body in self._bindings({}):
            if (body["metadata"].get("labels") or {}).get("app.kubernetes.io/name") == "access" and is_whole(body):
                continue
            space = str(body["metadata"].get("namespace", ""))
            for subject in body.get("subjects") or ():
                is_meant = (subject.get("kind"), subject.get("name")) in meant
                name = str(subject["name"]) if is_meant else ""
                name = name or (accounts_subject(subject, space, accounts_of) if accounts_of else "")
                if name:
                    yield OtherRight(name, str(body["roleRef"]["name"]), _named(body), space)

    def _bindings(self, query: Mapping[str, str]) -> Iterator[Json]:
        for kind in ("ClusterRoleBinding", "RoleBinding"):
            for _, page in self._client.list(f"{RBAC}/{kind.lower()}s", query):
                yield from ({**body, "kind": kind} for body in page)

    # --- the kubeconfig

    def _kubeconfig(self, request: AccessRequest, server: Json, key: str, certificate: str) -> str:
        context = f"{request.user}@{self._known_as}"
        inner = {"cluster": self._known_as, "user": context}
        if request.namespace:
            inner["namespace"] = request.namespace
        login = {"client-certificate-data": _base64(certificate), "client-key-data": _base64(key)}
        return yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": context,
                "clusters": [{"name": self._known_as, "cluster": server}],
                "contexts": [{"name": context, "context": inner}],
                "users": [{"name": context, "user": login}],
            },
            sort_keys=False,
        )


def _quietly(step: Callable[[], object]) -> None:
    """Undo something; what fails meanwhile must not hide the error that is the reason for it."""
    with suppress(PaictlError):
        step()


def _checked(pem: str, made: CertificateRequest, request: AccessRequest) -> IssuedCertificate:
    """What a certificate says; raises `ClusterError` if it is not for the key and the subject that were asked for."""
    issued = read_certificate(pem)
    wanted = sorted([f"CN={request.user}", *(f"O={group}" for group in request.groups)])
    if issued.public != made.public or sorted(issued.subject.split(",")) != wanted:
        raise ClusterError(
            text(
                "the signer made a certificate for {subject}, not for {user}", subject=issued.subject, user=request.user
            ),
            hint=text("it was discarded; check what answers for the signer {signer}", signer=_SIGNER),
        )
    return issued


def _base64(pem: str) -> str:
    return base64.b64encode(pem.encode()).decode()


def _named(body: Json) -> str:
    about = body["metadata"]
    return "/".join(filter(None, (body["kind"], about.get("namespace", ""), about["name"])))
