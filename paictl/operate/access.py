"""Kubeconfigs of people: given, listed, removed, and what an administrator should know before giving one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from paictl.cluster.access import AccessRequest, AccessRole, GivenAccess, OtherRight
from paictl.cluster.capabilities import AccessStore, PersonalAccess
from paictl.cluster.interface import Services, UnsupportedError
from paictl.cluster.kubernetes.names import JOBS_NAMESPACE
from paictl.errors import PaictlError
from paictl.i18n import Text, text

_POLICIES: Final = ("hivedscheduler-devices", "hivedscheduler-annotations", "hivedscheduler-deletions")


def access_of(cluster: object) -> AccessStore:
    """The access of people to a cluster; raises `UnsupportedError` for one without an API server."""
    if not isinstance(cluster, PersonalAccess):
        raise no_api_server()
    return cluster.access


def no_api_server() -> UnsupportedError:
    """What is wrong with a cluster on this machine."""
    return UnsupportedError(
        text("this cluster has no API server: it runs inside paictl, on this machine"),
        hint=text("name a Kubernetes cluster: --cluster NAME; for accounts of the portal: paictl user add"),
    )


def give(
    store: AccessStore, request: AccessRequest, deliver: Callable[[str], object], timeout: float
) -> tuple[GivenAccess, Sequence[OtherRight]]:
    """Give access; with it what the person may do by bindings of others."""
    access = store.give_access(request, deliver, timeout)
    accounts_of = request.namespace if request.role is AccessRole.TENANT else ""  # pods run under any of them
    return access, store.other_rights(request.user, request.groups, accounts_of)


def remarks(cluster: Services, request: AccessRequest) -> Iterator[Text]:
    """What a role discloses or leaves open on this cluster, said before it is given."""
    if request.role is AccessRole.VIEW and request.namespace == JOBS_NAMESPACE:
        yield text("{user} will read the jobs of all tenants, with their commands and logs", user=request.user)
    if request.role is AccessRole.OPERATOR:
        yield text(
            "{user} will read pods and jobs of all tenants, with commands, environment and logs, and can stop jobs",
            user=request.user,
        )
    if request.role is AccessRole.TENANT:
        try:
            lacking = [
                protection
                for protection in cluster.protections()
                if protection.name in _POLICIES and not protection.in_force
            ]
        except PaictlError:
            return
        for protection in lacking:
            yield text(
                "the admission policy {name} is not in force, and tenants are not kept apart: {why}",
                name=protection.name,
                why=protection.message,
            )
