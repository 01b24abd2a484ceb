"""Accounts: made, changed, granted virtual clusters, removed; the first administrator; and their SSH keys.

Tasks of a user's jobs with the plugin `ssh` let in who holds one of the keys.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import field, replace
from datetime import UTC, datetime
from typing import Final, Protocol

from paictl.cluster.accounts import Account
from paictl.cluster.conflicts import account_changed
from paictl.cluster.interface import (
    ClusterError,
    Configuration,
    ConflictError,
    Jobs,
    Scheduling,
    UnsupportedError,
    Users,
)
from paictl.cluster.jobpages import JobQuery, page_of
from paictl.config.models.services import STANDARD_NAME
from paictl.config.reading.kinds import FileKind
from paictl.config.reading.load import load_memory
from paictl.config.secrets.sealing import is_seal
from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.i18n import Text, counted, did_you_mean, listed, text
from paictl.operate.users import passwords
from paictl.workload.ssh import PublicKey, public_key

NAME: Final = re.compile(r"(?!\.{1,2}\Z)[A-Za-z0-9_.-]{1,64}")
"""What a user can be called, as in OpenPAI; never what a path would mean otherwise."""
RESERVED: Final = frozenset({"me"})
"""What addresses of the API mean otherwise."""
_EMAIL: Final = re.compile(r"[^\s@<>\"']{1,64}@[^\s@<>\"']{1,190}")
_TRIES: Final = 5
"""How many times a change is tried, if another client changes the account meanwhile."""


@frozen
class NewUser:
    """What an account begins with."""

    name: str
    password: str = field(repr=False)
    admin: bool = False
    vcs: Sequence[str] = ()
    email: str = ""


def add(users: Users, new: NewUser) -> Account:
    """Make an account.

    Raises `ConflictError` if there is one of that name or nearly so (`check_unlike`), `PaictlError` for what none has.
    """
    if not NAME.fullmatch(new.name) or new.name in RESERVED:
        raise PaictlError(
            text("{name!r} is not a valid user name", name=new.name[:80]),
            hint="use letters, digits, underscore, dot and hyphen, at most 64",
        )
    passwords.check(new.password)
    check_email(new.email)
    return put_new(
        users,
        Account(
            new.name,
            new.admin,
            tuple(sorted(set(new.vcs))),
            new.email,
            passwords.hashed(new.password),
            new_stamp(),
            datetime.now(UTC),
        ),
    )


def put_new(users: Users, account: Account) -> Account:
    """Store a new account, unless another one has nearly its name. Raises `ConflictError` as `add` does.

    The store compares whole names only, so two such accounts may be made at once. Whichever is written last is followed
    by a look that sees both; each that sees the other is removed, at worst both.
    """
    check_unlike(users, account)
    stored = users.put_account(account)
    try:
        check_unlike(users, account)
    except ConflictError:
        users.remove_account(stored.name, stored.version)
        raise
    return stored


@frozen
class AccountChange:
    """What an account shall have from now on; None leaves a field as it is."""

    vcs: Sequence[str] | None = None
    email: str | None = None
    admin: bool | None = None
    password: str | None = field(default=None, repr=False)


def check_free(jobs: Jobs, name: str) -> None:
    """Raise `ConflictError` if there are jobs of that name: who is given it could see and stop them."""
    try:
        count = page_of(jobs, JobQuery(users=frozenset({name}), limit=1)).total if NAME.fullmatch(name) else 0
    except UnsupportedError:
        return
    if count:
        raise ConflictError(
            counted(
                "an earlier user {name!r} left {count} job",
                "an earlier user {name!r} left {count} jobs",
                count,
                name=name,
            ),
            hint=text(
                "choose another name; to hand these jobs to the new user: paictl user add {name} --with-jobs", name=name
            ),
        )


def check_unlike(users: Users, new: Account) -> None:
    """Raise `ConflictError` if another person's account has the same name but for case or dots at its end.

    File servers that know no difference would give both users the same folder (`--own-folders`).
    """
    for account in users.accounts():
        if new.subject and account.subject == new.subject:
            continue
        if account.name != new.name and _folder(account.name) == _folder(new.name):
            raise ConflictError(
                text("the name {name!r} is too similar to that of user {other!r}", name=new.name, other=account.name),
                hint="some file servers would give both the same folder: choose another name",
            )


def _folder(name: str) -> str:
    """A name as a file server of Windows reads it."""
    return name.lower().rstrip(".")


def check_email(email: str) -> None:
    """Raise `PaictlError` for what is neither empty nor an address."""
    if email and not _EMAIL.fullmatch(email):
        raise PaictlError(
            text("{email!r} is not a valid email address", email=email[:80]), hint="correct it, or leave it out"
        )


def find(users: Users, name: str) -> Account:
    """An account; raises `ClusterError` with the nearest names if there is none."""
    account = users.account(name) if NAME.fullmatch(name) else None
    if account is None:
        hint = did_you_mean(name, [account.name for account in users.accounts()]) or "list them with: paictl user list"
        raise ClusterError(text("no user {name!r}", name=name[:80]), hint=hint)
    return account


def change(users: Users, name: str, made: Callable[[Account], Account]) -> Account:
    """Change an account as it is in that very instant; what others change at the same time is kept.

    Raises `ClusterError` if there is none, `ConflictError` if others are faster again and again.
    """
    for attempt in range(_TRIES):
        before = find(users, name)
        after = made(before)
        if after == before:
            return before
        try:
            return users.put_account(after)
        except ConflictError:
            if attempt == _TRIES - 1:
                raise
    raise AssertionError("unreachable")


def update(users: Users, name: str, account_change: AccountChange, proven: Account | None = None) -> Account:
    """Change an account in one write, or not at all; with another password all its tokens end.

    `proven` is the account as it was when its user proved the old password: an administrator may have set another one
    since, against just this person. Raises `PaictlError` for what no account can have, `LastAdministratorError`,
    `ConflictError` if the old password is not the account's any more, and what `change` raises.
    """
    check_email(account_change.email or "")
    secret = ""
    if account_change.password is not None:
        passwords.check(account_change.password)
        secret = passwords.hashed(account_change.password)
    stamp = new_stamp()

    def changed(account: Account) -> Account:
        if proven is not None and account.stamp != proven.stamp:
            raise account_changed(name)
        return replace(
            account,
            vcs=account.vcs if account_change.vcs is None else tuple(sorted(set(account_change.vcs))),
            email=account.email if account_change.email is None else account_change.email,
            admin=account.admin if account_change.admin is None else account_change.admin,
            password=secret or account.password,
            stamp=stamp if secret else account.stamp,
        )

    after = change(users, name, changed)
    if secret:
        users.remove_tokens([token.digest for token in users.tokens(name) if token.stamp != after.stamp])
    return after


def set_password(users: Users, name: str, password: str, proven: Account | None = None) -> Account:
    """Change a user's password; the user has to sign in again everywhere. `proven` as in `update`."""
    return update(users, name, AccountChange(password=password), proven)


def grant(
    users: Users, name: str, vcs: Iterable[str] = (), revoked: Iterable[str] = (), *, admin: bool | None = None
) -> Account:
    """Grant virtual clusters to a user and revoke others; `admin` makes an administrator, or one no longer.

    Raises `LastAdministratorError` for the last administrator.
    """
    more, less = set(vcs), set(revoked)

    def changed(account: Account) -> Account:
        vcs = tuple(sorted({*account.vcs, *more} - less))
        return replace(account, vcs=vcs, admin=account.admin if admin is None else admin)

    return change(users, name, changed)


def remove(users: Users, name: str) -> Account:
    """Remove an account with its tokens; its jobs stay. Raises `LastAdministratorError` for the last administrator."""
    account = find(users, name)
    users.remove_account(name)
    return account


def check_vcs(cluster: Scheduling, names: Iterable[str]) -> None:
    """Raise `ClusterError` for a virtual cluster that the scheduler does not have; silent where that is unknown."""
    try:
        known = {vc.name for vc in cluster.picture().vcs}
    except UnsupportedError:
        return
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known) or text("one of: {known}", known=", ".join(sorted(known)))
            raise ClusterError(text("no virtual cluster {vc!r}", vc=name[:80]), hint=hint)


def granted_before(users: Users, vcs: Collection[str]) -> tuple[Text, ...]:
    """What to say of virtual clusters that are new, and were granted when others had their names.

    Not of users of an OpenID provider: to them the configuration grants virtual clusters, even those of the future, and
    again at each sign-in.
    """
    try:
        accounts = users.accounts() if vcs else ()
    except ClusterError:
        return ()
    own = [account for account in accounts if not account.subject]
    owners = {vc: [account.name for account in own if vc in account.vcs] for vc in sorted(vcs)}
    return tuple(
        text(
            "virtual cluster {vc} is new, and an earlier one of this name was granted to {users}; to take that back: "
            "paictl user grant NAME --revoke {vc}",
            vc=vc,
            users=listed(names),
        )
        for vc, names in owners.items()
        if names
    )


def new_stamp() -> str:
    """A word that tokens of an account have to share with it."""
    return secrets.token_hex(16)


def first_administrator(users: Users, name: str, password: str) -> Account | None:
    """Make the administrator that the configuration names, if there is no administrator yet; None if there is.

    `password` may be a seal: it opens with the password behind it, and is replaced by a hash when that is shown.
    Raises `PaictlError` for a name that no user can have.
    """
    if any(account.admin for account in users.accounts()):
        return None
    if not NAME.fullmatch(name):
        raise PaictlError(text("{name!r} is not a valid user name", name=name[:80]), where="rest-server")
    stored = password if is_seal(password) else passwords.hashed(password)
    old = users.account(name)
    version = old.version if old else ""
    fresh = Account(name, True, (), "", stored, new_stamp(), datetime.now(UTC), version=version)
    try:
        return users.put_account(fresh)
    except ConflictError:  # another server of the same cluster was faster
        return None


SECTION = "rest-server"
ADMIN_NAME, ADMIN_PASSWORD = "default-pai-admin-username", "default-pai-admin-password"


class BootstrapPorts(Configuration, Protocol):
    """What is needed of a cluster."""

    @property
    def users(self) -> Users:
        """Accounts."""


def bootstrap(cluster: BootstrapPorts) -> Account | None:
    """Make the administrator of the newest configuration, unless there is an administrator or nothing was pushed yet.

    The cluster has the password as a seal only, which is enough to tell whether one that is shown is right.
    """
    section = _pushed(cluster)
    name, password = section.get(ADMIN_NAME), section.get(ADMIN_PASSWORD)
    if not isinstance(name, str) or not isinstance(password, str) or not password:
        return None
    return first_administrator(cluster.users, name, password)


def named_administrator(cluster: Configuration) -> str:
    """The name that the newest configuration gives the first administrator; empty where it names none."""
    name = _pushed(cluster).get(ADMIN_NAME)
    return name if isinstance(name, str) else ""


def _pushed(cluster: Configuration) -> Mapping[str, object]:
    """The section of the REST server in the newest configuration; empty where nothing was pushed yet."""
    try:
        files = cluster.configuration().files
    except ClusterError:
        return {}
    return _section(files.get(STANDARD_NAME, ""))


def _section(text: str) -> Mapping[str, object]:
    """The section of the REST server; empty where there is none, or the file cannot be read."""
    for document in load_memory({STANDARD_NAME: text}, FileKind.SERVICES).documents:
        if document.kind is FileKind.SERVICES and isinstance(document.data, dict):
            section = document.data.get(SECTION)
            return section if isinstance(section, dict) else {}
    return {}


# --- SSH keys

MOST_KEYS: Final = 20
"""Keys of an account."""


def keys_of(users: Users, name: str) -> tuple[PublicKey, ...]:
    """The keys of an account; raises `ClusterError` if there is none of that name."""
    return tuple(map(public_key, find(users, name).ssh_keys))


def add_key(users: Users, name: str, line: str, title: str = "") -> PublicKey:
    """Add a key; `title` instead of the one in the line. Raises `PaictlError` for what is not a public key."""
    key = public_key(line)
    key = replace(key, title=public_key(f"{key.kind} {key.data} {title}").title) if title else key

    def added(account: Account) -> Account:
        known = tuple(map(public_key, account.ssh_keys))
        if any((other.kind, other.data) == (key.kind, key.data) for other in known):
            raise ConflictError(text("user {name} has this key already", name=name))
        if key.title and any(other.title == key.title for other in known):
            raise ConflictError(
                text("user {name} has another key called {title!r}", name=name, title=key.title),
                hint=text("give another title: --title TITLE"),
            )
        if len(known) >= MOST_KEYS:
            raise PaictlError(text("user {name} has {count} keys, which is the limit", name=name, count=len(known)))
        return replace(account, ssh_keys=(*account.ssh_keys, key.line))

    change(users, name, added)
    return key


def remove_key(users: Users, name: str, word: str) -> PublicKey:
    """Remove a key by its title or fingerprint; raises `PaictlError` if none or several are meant."""
    keys = keys_of(users, name)
    meant = [key for key in keys if word in (key.title, key.fingerprint, key.fingerprint.removeprefix("SHA256:"))]
    if len(meant) != 1:
        there = listed([key.title or key.fingerprint for key in keys]) or text("none")
        raise PaictlError(
            text("user {name} has no key {word!r}", name=name, word=word), hint=text("keys: {keys}", keys=there)
        )
    (removed,) = meant
    change(
        users,
        name,
        lambda account: replace(
            account, ssh_keys=tuple(key for key in account.ssh_keys if public_key(key).data != removed.data)
        ),
    )
    return removed
