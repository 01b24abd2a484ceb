"""Signing in: the only place where a password is checked, and how often a user may try."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from paictl.cluster.accounts import Account
from paictl.i18n import text
from paictl.operate.users.passwords import LONGEST
from paictl.operate.users.tokens import right_account
from paictl.server.calls import ApiError, Call
from paictl.server.workers import busy
from paictl.serving.connections import subscriber

WINDOW: Final = 300.0
"""Seconds in which failures count."""
PER_PAIR: Final = 5
"""Failures of one user from one address: a user who forgot the password waits, and locks out no other user."""
PER_ADDRESS: Final = 20
PER_SHARED: Final = 100
"""The same of an address, for users who have signed in from there before: whoever tries one password for all users
behind a proxy is slowed down, and cannot lock them out by trying other names."""
OF_SHARED: Final = 20
"""The most that one user has of these, also between right passwords: otherwise anybody with an account could use them
up, a few wrong ones at a time, and lock out all others there."""
PER_USER: Final = 50
"""From all addresses together."""
AT_ONCE: Final = 2
"""Sign-ins of one user that are under way: each takes one of few turns, and a right password may be shown any number
of times."""
REMEMBERED: Final = 20_000
"""Names and addresses that are remembered at most; the longest untouched are forgotten first."""


@dataclass(slots=True)
class SignInLimits:
    """Failed sign-ins of the last minutes; `clock` gives seconds."""

    clock: Callable[[], float] = time.monotonic
    _failures: OrderedDict[tuple[str, ...], deque[tuple[float, str]]] = field(default_factory=OrderedDict)
    """When somebody failed, and which user that was, by what it counts against."""
    _regulars: OrderedDict[tuple[str, str], None] = field(default_factory=OrderedDict)
    """Users, and from where they have signed in before."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, user: str, address: str) -> None:
        """Count an attempt as failed before checking it, so that parallel attempts gain nothing. Raises `ApiError`.

        What others have tried locks out nobody where they have signed in before: there the failures of this user from
        this address count, and `PER_SHARED` of all users, of which one user has `OF_SHARED` at most.
        """
        address = subscriber(address)
        with self._lock:
            now = self.clock()
            wait = max(self._wait(key, most, now) for key, most in self._limits(user, address))
            wait = max(wait, self._wait(("address", address), OF_SHARED, now, user))
            if wait > 0:
                seconds = math.ceil(wait)
                message = text("too many failed attempts: wait {seconds} s", seconds=seconds)
                error = ApiError(429, "TooManyRequestsError", message)
                error.headers["Retry-After"] = str(seconds)
                raise error
            for key, _ in _keys(user, address):
                self._failures[key] = tries = self._recent(key, now)
                tries.append((now, user))
                self._failures.move_to_end(key)
            while len(self._failures) > REMEMBERED:
                self._failures.popitem(last=False)

    def succeeded(self, user: str, address: str) -> None:
        """Take back what `begin` counted; what failed from here before is forgiven for this user only."""
        address = subscriber(address)
        with self._lock:
            self._regulars[user, address] = None
            self._regulars.move_to_end((user, address))
            if len(self._regulars) > REMEMBERED:
                self._regulars.popitem(last=False)
            self._failures.pop(("pair", user, address), None)
            for key in (("address", address), ("user", user)):
                tries = self._failures.get(key, deque())
                if own := [failure for failure in tries if failure[1] == user]:
                    tries.remove(own[-1])

    def _limits(self, user: str, address: str) -> tuple[tuple[tuple[str, ...], int], ...]:
        if (user, address) not in self._regulars:
            return _keys(user, address)
        return (("pair", user, address), PER_PAIR), (("address", address), PER_SHARED)

    def _wait(self, key: tuple[str, ...], most: int, now: float, user: str | None = None) -> float:
        """Seconds until another try is allowed, 0 for now; with a user only that one's count."""
        counted = [when for when, who in self._recent(key, now) if user is None or who == user]
        return counted[0] + WINDOW - now if len(counted) >= most else 0.0

    def _recent(self, key: tuple[str, ...], now: float) -> deque[tuple[float, str]]:
        """The failures that count still; the others are forgotten."""
        tries = self._failures.get(key, deque())
        while tries and tries[0][0] <= now - WINDOW:
            tries.popleft()
        return tries


def _keys(user: str, address: str) -> tuple[tuple[tuple[str, ...], int], ...]:
    return (
        (("pair", user, address), PER_PAIR),
        (("address", address), PER_ADDRESS),
        (("user", user), PER_USER),
    )


@dataclass(slots=True)
class SignIns:
    """Passwords that are tried, from all doors of one server."""

    limits: SignInLimits = field(default_factory=SignInLimits)
    _under_way: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def account(self, call: Call, user: str, password: str) -> Account:
        """The account that a name and a password open. Raises `ApiError`, the same for a wrong name and password."""
        user, password = user.strip()[:64], password[: LONGEST + 1]
        with self._one_of_few(user):
            self.limits.begin(user, call.address)
            account = right_account(call.cluster.users, user, password)
        if account is None:
            raise ApiError(400, "IncorrectPasswordError", text("user name or password is wrong"))
        self.limits.succeeded(user, call.address)
        return account

    @contextmanager
    def _one_of_few(self, user: str) -> Iterator[None]:
        with self._lock:
            if self._under_way[user] >= AT_ONCE:
                raise busy()
            self._under_way[user] += 1
        try:
            yield
        finally:
            with self._lock:
                self._under_way[user] -= 1
                if not self._under_way[user]:
                    del self._under_way[user]
