"""Tokens: made at sign-in, worth what their account may, until they expire, are revoked, or the password changes."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Iterable
from dataclasses import field, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final

from paictl.cluster.accounts import Account, Token
from paictl.cluster.interface import ClusterError, ConflictError, Users
from paictl.frozen import frozen
from paictl.i18n import text
from paictl.operate.users import passwords
from paictl.operate.users.accounts import NAME

_SHAPE: Final = re.compile(r"pai-[\w-]{43}", re.ASCII)
"""Random 256 bits; the beginning lets scanners of repositories recognise one."""
MOST: Final = 100
"""Tokens of applications that a user may have at once, as many sessions, and as many for tasks; the oldest session, or
token for a task, makes room.

The three are counted apart: tokens of applications neither end sessions nor keep their user from signing in, and the
page of a task, which can make its viewer's browser ask for any number of tickets, signs nobody out.
"""


class TokenKind(StrEnum):
    """What a token was made for, and for how long it is valid by default."""

    SESSION = "session"
    """A browser's."""
    LOGIN = "login"
    """A program's that signed in."""
    APPLICATION = "application"
    """Valid until it is revoked, and for jobs only."""
    TICKET = "ticket"
    """Leads a browser once from the portal to what a task serves."""
    TASK = "task"
    """A browser's at what one task serves, and nowhere else."""


SPANS: Final = {
    TokenKind.SESSION: timedelta(hours=12),
    TokenKind.LOGIN: timedelta(days=7),
    TokenKind.APPLICATION: None,
    TokenKind.TICKET: timedelta(minutes=1),
    TokenKind.TASK: timedelta(hours=12),
}
_COUNTED: Final = (
    frozenset({TokenKind.SESSION, TokenKind.LOGIN}),
    frozenset({TokenKind.TICKET, TokenKind.TASK}),
    frozenset({TokenKind.APPLICATION}),
)
"""Kinds that are counted together."""
LONGEST: Final = timedelta(days=30)


@frozen
class Caller:
    """Who asks: an account as it was when the request came, and the token that was shown."""

    account: Account
    token: Token = field(repr=False)

    @property
    def name(self) -> str:
        """The user's."""
        return self.account.name

    @property
    def admin(self) -> bool:
        """Whether everything is allowed; an application's token never is an administrator's."""
        return self.account.admin and self.token.kind != TokenKind.APPLICATION

    def may_submit_to(self, vc: str) -> bool:
        """Whether a virtual cluster was granted."""
        return self.account.admin or vc in self.account.vcs


def digest_of(token: str) -> str:
    """What is stored of a token."""
    return hashlib.sha256(token.encode("utf-8", errors="surrogatepass")).hexdigest()


def right_account(users: Users, name: str, password: str) -> Account | None:
    """The account that a name and a password open; None without a word about which of the two is wrong.

    A hash of old cost is replaced by one of today's.
    """
    account = users.account(name) if NAME.fullmatch(name) else None
    if not passwords.is_right(password, account.password if account else "") or account is None:
        return None
    if passwords.is_stale(account.password):
        try:
            return users.put_account(replace(account, password=passwords.hashed(password)))
        except ConflictError:  # somebody changes the account now: next time
            return account
    return account


def issue(users: Users, account: Account, kind: TokenKind, span: timedelta | None = None, *, scope: str = "") -> str:
    """Make a token, which cannot be read again; raises `ClusterError` for more than a user may have.

    With a `scope` (of letters, digits, ``-`` and ``_``), which it then carries, it is valid for `caller_within` only.
    """
    now = datetime.now(UTC)
    _make_room(users, account.name, kind, now)
    span = SPANS[kind] if span is None else min(max(span, timedelta(seconds=1)), LONGEST)
    token = f"pai-{secrets.token_urlsafe(32)}{f'.{scope}' if scope else ''}"
    expires = None if span is None else now + span
    users.add_token(Token(digest_of(token), account.name, account.stamp, kind.value, now, expires))
    if kind is TokenKind.APPLICATION and len(_rivals(users.tokens(account.name), kind, now)) > MOST:
        # counted with the new one in place: of two that come at once at least one sees the other
        users.remove_tokens([digest_of(token)])
        raise ClusterError(
            text("user {name} has {most} tokens of applications", name=account.name, most=MOST),
            hint=text("revoke one: on the page Account, or DELETE /api/v2/tokens/ID"),
        )
    return token


def _make_room(users: Users, name: str, kind: TokenKind, now: datetime) -> None:
    """Remove tokens that have expired, and the oldest session where there are as many as may be."""
    tokens = users.tokens(name)
    expired = [token for token in tokens if _is_over(token, now)]
    if kind is not TokenKind.APPLICATION:
        rivals = _rivals(tokens, kind, now)
        expired += rivals[: max(0, len(rivals) - MOST + 1)]
    if expired:
        users.remove_tokens([token.digest for token in expired])


def _rivals(tokens: Iterable[Token], kind: TokenKind, now: datetime) -> list[Token]:
    """The valid tokens that are counted together with one of a kind, the oldest first."""
    counted = next(kinds for kinds in _COUNTED if kind in kinds)
    return [token for token in tokens if not _is_over(token, now) and token.kind in counted]


def _is_over(token: Token, now: datetime) -> bool:
    return token.expires is not None and token.expires <= now


def caller_of(users: Users, token: str, now: datetime | None = None) -> Caller | None:
    """Who shows a token; None for one that is not valid (any more)."""
    return _caller_of(users, token, now) if _SHAPE.fullmatch(token) else None


def caller_within(users: Users, token: str, kind: TokenKind) -> tuple[Caller, str] | None:
    """Who shows a token of a kind that has a scope, and the scope; None for one that is not valid (any more)."""
    shape, _, scope = token.partition(".")
    if not scope or not _SHAPE.fullmatch(shape):
        return None
    caller = _caller_of(users, token, None)
    return (caller, scope) if caller is not None and caller.token.kind == kind else None


def _caller_of(users: Users, token: str, now: datetime | None) -> Caller | None:
    record = users.token(digest_of(token))
    if record is None or (record.expires is not None and record.expires <= (now or datetime.now(UTC))):
        return None
    account = users.account(record.user)
    if account is None or account.stamp != record.stamp:
        return None
    return Caller(account, record)


def id_of(token: Token) -> str:
    """What a token is called in lists: enough of its hash to tell it from the user's others."""
    return token.digest[:16]


def revoke(users: Users, user: str, word: str) -> bool:
    """Revoke a token of a user by itself or by its id; False if there is none."""
    digest = digest_of(word)
    revoked = [token.digest for token in users.tokens(user) if word == id_of(token) or token.digest == digest]
    users.remove_tokens(revoked)
    return bool(revoked)


def leave_tasks(users: Users, user: str) -> None:
    """Revoke what a user's browsers hold for tasks: signing out of the portal ends these sessions, too."""
    users.remove_tokens(
        [token.digest for token in users.tokens(user) if token.kind in (TokenKind.TASK, TokenKind.TICKET)]
    )
