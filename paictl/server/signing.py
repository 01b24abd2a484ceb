"""Signing in: the one place where a password is looked at, behind the limits."""

from __future__ import annotations

from dataclasses import dataclass, field

from paictl.cluster.accounts import Account
from paictl.i18n import text
from paictl.operate.users.passwords import LONGEST
from paictl.operate.users.tokens import right_account
from paictl.server.calls import ApiError, Call
from paictl.server.limits import SignInLimits


@dataclass(slots=True)
class SignIns:
    """Passwords that are tried, from all doors of one server."""

    limits: SignInLimits = field(default_factory=SignInLimits)

    def account(self, call: Call, user: str, password: str) -> Account:
        """The account that a name and a password open. Raises `ApiError`, the same for a wrong name and password."""
        user, password = user.strip()[:64], password[: LONGEST + 1]
        self.limits.begin(user, call.address)
        account = right_account(call.cluster.users, user, password)
        if account is None:
            raise ApiError(400, "IncorrectPasswordError", text("user name or password is wrong"))
        self.limits.succeeded(user, call.address)
        return account
