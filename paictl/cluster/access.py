"""Access of people to an API server, each with an own kubeconfig: roles, what may be asked for, what was given.

A certificate says who somebody is, and cannot be revoked; what the person may do are bindings, which can be removed.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from paictl.cluster.values import ClusterError
from paictl.frozen import frozen
from paictl.i18n import text
from paictl.units import span_text

SHORTEST: Final = timedelta(minutes=10)
"""Kubernetes signs nothing for a shorter time."""
LONGEST: Final = timedelta(days=366)

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
_GROUP: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@-]{0,63}")
_NAMESPACE: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_RESERVED: Final = "system:"


class AccessRole(StrEnum):
    """What a person may do; `cluster.kubernetes.access` has the rules of each."""

    VIEW = "view"
    """Read what is in one namespace, Secrets excepted."""
    TENANT = "tenant"
    """Work in the namespace of a tenant."""
    OPERATOR = "operator"
    """See all that paictl shows, stop jobs and cordon nodes."""
    ADMIN = "admin"
    """Everything."""

    @property
    def is_of_namespace(self) -> bool:
        """Whether it is given for one namespace, not for the cluster."""
        return self in (AccessRole.VIEW, AccessRole.TENANT)


@frozen
class AccessRequest:
    """Access for a person: `namespace` is where a role of a namespace counts, and the default of the kubeconfig."""

    user: str
    role: AccessRole
    namespace: str = ""
    groups: tuple[str, ...] = ()
    valid: timedelta = timedelta(days=30)

    def check(self) -> None:
        """Raise `ClusterError` for what no cluster should grant."""
        _check_name(self.user)
        for group in self.groups:
            _check_group(group)
        if not SHORTEST <= self.valid <= LONGEST:
            raise ClusterError(
                text("a certificate cannot be valid for {span}", span=span_text(self.valid)),
                hint=text("choose from {least} to {most}", least=span_text(SHORTEST), most=span_text(LONGEST)),
            )
        if self.role.is_of_namespace and not self.namespace:
            raise ClusterError(
                text("the role {role} is for one namespace", role=self.role.value),
                hint=text("name it: --namespace NAMESPACE"),
            )
        if self.namespace and not _NAMESPACE.fullmatch(self.namespace):
            raise ClusterError(
                text("{name!r} is not a valid namespace", name=self.namespace),
                hint=text("use lower-case letters, digits and '-', at most 63"),
            )


@frozen
class GivenAccess:
    """A role that a person has; `until` is the end of the newest certificate that was made for it."""

    user: str
    role: AccessRole
    namespace: str = ""
    """Empty: the whole cluster."""
    groups: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None


@frozen
class OtherRight:
    """A binding that somebody else made, and that counts for a person, too."""

    subject: str
    """The user, or a group of it."""
    role: str
    binding: str
    namespace: str = ""


def _check_name(user: str) -> None:
    if user.startswith(_RESERVED):
        raise ClusterError(
            text("{name!r}: names that begin with {prefix} belong to Kubernetes itself", name=user, prefix=_RESERVED),
            hint=text("choose a name without {prefix}", prefix=_RESERVED),
        )
    if not _NAME.fullmatch(user):
        raise ClusterError(
            text("{name!r} is not a valid user name", name=user),
            hint=text("use letters, digits and . _ @ -, at most 64; the first is a letter or digit"),
        )


def _check_group(group: str) -> None:
    if group.startswith(_RESERVED):
        raise ClusterError(
            text("group {name!r} belongs to Kubernetes itself", name=group),
            hint=text(
                "members of system:masters bypass all rights and cannot be locked out before their certificate ends; "
                "for an administrator: --role admin"
            ),
        )
    if not _GROUP.fullmatch(group):
        raise ClusterError(
            text("{name!r} is not a valid group", name=group),
            hint=text("use letters, digits and . _ : @ -, at most 64; the first is a letter or digit"),
        )
