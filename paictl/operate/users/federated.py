"""Users of an OpenID provider: the section authentication.oidc, and accounts from what a token says.

An account belongs to whoever the provider named at its first sign-in (issuer and subject). A name alone opens nothing:
neither an account with a password of its own nor that of another person at the provider. Who changes the name at the
provider keeps the account: with another one for each name, limits and budgets of a user would count for nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from datetime import UTC, datetime
from typing import Any, Final

from paictl.cluster.accounts import Account, LastAdministratorError
from paictl.cluster.conflicts import account_changed
from paictl.cluster.interface import ClusterError, Configuration, ConflictError, Jobs, Users
from paictl.config.models.services import STANDARD_NAME
from paictl.config.reading.kinds import FileKind
from paictl.config.reading.load import load_memory
from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.i18n import text
from paictl.operate.users.accounts import NAME, RESERVED, change, check_free, new_stamp, put_new

SECTION: Final = "authentication"
KEY: Final = "oidc"
_NEVER: Final = datetime.max.replace(tzinfo=UTC)
_TRIES: Final = 5
_SCOPES: Final = ("openid", "profile", "email", "groups")


@frozen
class OidcSettings:
    """What the configuration says about the provider; `groups` maps a group to the virtual clusters that it grants."""

    issuer: str
    client: str
    name: str = ""
    username_claim: str = "preferred_username"
    groups_claim: str = "groups"
    scopes: tuple[str, ...] = _SCOPES
    groups: Mapping[str, Sequence[str]] = field(default_factory=dict)
    admin_groups: tuple[str, ...] = ()
    audiences: tuple[str, ...] = ()


class StrangerError(PaictlError):
    """The provider knows them, and no account here can be theirs."""


def oidc_settings(cluster: Configuration) -> OidcSettings | None:
    """The section authentication.oidc of the newest configuration; None without one."""
    try:
        files = cluster.configuration().files
    except ClusterError:  # nothing was pushed yet
        return None
    for document in load_memory({STANDARD_NAME: files.get(STANDARD_NAME, "").encode()}, FileKind.SERVICES).documents:
        if document.kind is FileKind.SERVICES and isinstance(document.data, dict):
            section = document.data.get(SECTION)
            oidc = section.get(KEY) if isinstance(section, dict) else None
            return settings_from(oidc) if isinstance(oidc, dict) else None
    return None


def settings_from(section: Mapping[str, Any]) -> OidcSettings | None:
    """The settings that a section says; None without issuer and client, which the validator reports."""
    issuer, client = section.get("issuer"), section.get("client-id")
    if not isinstance(issuer, str) or not isinstance(client, str):
        return None
    groups = section.get("groups") or {}
    return OidcSettings(
        issuer,
        client,
        str(section.get("name") or ""),
        str(section.get("username-claim") or "preferred_username"),
        str(section.get("groups-claim") or "groups"),
        _words(section.get("scopes")) or _SCOPES,
        {str(name): _words(vcs) for name, vcs in groups.items()} if isinstance(groups, dict) else {},
        _words(section.get("admin-groups")),
        _words(section.get("audiences")),
    )


def account_for(users: Users, jobs: Jobs, settings: OidcSettings, claims: Mapping[str, Any]) -> Account:
    """The account of the user of a token: made at the first sign-in, and with the rights of the groups of today.

    Raises `StrangerError` for a name that cannot be one or belongs to somebody else, `ConflictError` for a name that
    an earlier user has left jobs under or that is another's but for case, and for an account that others change again
    and again.
    """
    name, subject = _name_of(settings, claims), f"{settings.issuer}#{claims['sub']}"
    groups = _words(claims.get(settings.groups_claim))
    vcs = tuple(sorted({vc for group in groups for vc in settings.groups.get(group, ())}))
    admin = not set(groups).isdisjoint(settings.admin_groups)
    known = users.account(name)
    if known is None or known.subject != subject:
        known = next(iter(_accounts_of(users, subject)), known)
    if known is None:
        check_free(jobs, name)
        email = str(claims.get("email") or "")
        try:
            known = _alone(
                users,
                put_new(users, Account(name, admin, vcs, email[:254], "", new_stamp(), datetime.now(UTC), subject)),
            )
        except ConflictError:  # the same person signs in twice at once, unless the name is nearly another's
            known = users.account(name)
            if known is None:
                raise
    if known.subject != subject:
        raise StrangerError(
            text("user {name} exists here but does not belong to {issuer}", name=name, issuer=settings.issuer),
            hint=text("an administrator can remove that account: paictl user remove {name}", name=name),
        )
    if (known.vcs, known.admin) == (vcs, admin):
        return known

    try:  # whoever changes the account all the time does not keep the rights of yesterday by that
        return _with_rights(users, known, vcs=vcs, admin=admin)
    except LastAdministratorError:
        return _with_rights(users, known, vcs=vcs, admin=True)


def _with_rights(users: Users, theirs: Account, *, vcs: Sequence[str], admin: bool) -> Account:
    """An account with other rights, in whatever state it is by now."""

    def changed(account: Account) -> Account:
        if account.subject != theirs.subject:  # removed, and given to somebody else
            raise account_changed(account.name)
        return replace(account, vcs=tuple(vcs), admin=admin)

    return change(users, theirs.name, changed)


def _accounts_of(users: Users, subject: str) -> list[Account]:
    """The accounts of a person, under whatever name, oldest first; of one instant, the first by name."""
    theirs = [account for account in users.accounts() if account.subject == subject]
    return sorted(theirs, key=lambda account: (account.created or _NEVER, account.name))


def _alone(users: Users, made: Account) -> Account:
    """The only account of the person for whom one was just made: the oldest, the others are removed.

    The store knows accounts by name only, so a person with several names may sign in with each at once. Of two accounts
    whichever is written last is followed by this, which sees both; it may be the older one, which began first.
    """
    first, *others = _accounts_of(users, made.subject) or [made]
    for other in others:
        if other.admin and not first.admin:  # the last administrator cannot be removed
            first = _with_rights(users, first, vcs=first.vcs, admin=True)
        _remove(users, other)
    return first


def _remove(users: Users, theirs: Account) -> None:
    """Remove an account in whatever state it is by now, but not one that somebody else has been given since."""
    for attempt in range(_TRIES):
        known = users.account(theirs.name)
        if known is None or known.subject != theirs.subject:
            return
        try:
            users.remove_account(known.name, known.version)
        except ConflictError:
            if attempt == _TRIES - 1:
                raise
        else:
            return


def _name_of(settings: OidcSettings, claims: Mapping[str, Any]) -> str:
    """What the account is called; of an address the part before the @."""
    given = claims.get(settings.username_claim)
    name = given.partition("@")[0] if isinstance(given, str) else ""
    if not NAME.fullmatch(name) or name in RESERVED:
        raise StrangerError(
            text(
                "the token's claim {claim}, {value!r}, cannot be a user name",
                claim=settings.username_claim,
                value=str(given)[:80],
            ),
            hint="choose another claim: authentication.oidc.username-claim",
        )
    return name


def _words(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    return tuple(word for word in value if isinstance(word, str)) if isinstance(value, list | tuple) else ()
