"""Who may try passwords, how often, and from where: no guessing at speed, and nobody is locked out by others."""

from __future__ import annotations

import time

import pytest

from paictl.cluster.accounts import Account
from paictl.cluster.interface import Users
from paictl.operate.users.tokens import right_account
from paictl.server.calls import ApiError
from paictl.server.signing import OF_SHARED, PER_ADDRESS, PER_PAIR, PER_SHARED, PER_USER, WINDOW, SignInLimits
from paictl.serving.connections import subscriber
from tests.unit.server.conftest import PASSWORD, Server


def test_a_thousand_sign_ins_are_mostly_not_even_looked_at(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []

    def counting(users: Users, name: str, password: str) -> Account | None:
        looked.append(name)
        return right_account(users, name, password)

    monkeypatch.setattr("paictl.server.signing.right_account", counting)
    spent = time.process_time()
    found = [
        server.form("/api/v2/authn/basic/login", {"username": f"user{n % 100}", "password": f"guess{n}"}).status
        for n in range(1000)
    ]
    assert (found.count(400), found.count(429)) == (PER_ADDRESS, 1000 - PER_ADDRESS)
    assert len(looked) == PER_ADDRESS
    assert time.process_time() - spent < 20
    other = server.form("/api/v2/authn/basic/login", {"username": "ann", "password": PASSWORD})
    assert (other.status, int(other.header("retry-after")) <= WINDOW) == (429, True)
    server.client = "203.0.113.8"
    assert server.form("/api/v2/authn/basic/login", {"username": "ann", "password": PASSWORD}).status == 200


def test_one_user_is_tried_a_few_times_from_one_address_and_others_sign_in_still(server: Server) -> None:
    for _ in range(PER_PAIR):
        assert server.form("/sign-in", {"user": "ann", "password": "no"}).status == 400
    assert server.form("/sign-in", {"user": "ann", "password": PASSWORD}).status == 429
    assert server.form("/api/v2/authn/basic/login", {"username": "ann", "password": PASSWORD}).status == 429
    assert server.form("/sign-in", {"user": "bob", "password": PASSWORD}).status == 303
    server.client = "203.0.113.9"
    assert server.form("/sign-in", {"user": "ann", "password": PASSWORD}).status == 303


def test_wrong_passwords_lock_nobody_out_where_they_have_signed_in_before(server: Server) -> None:
    server.session("ann")
    server.session("bob")
    for number in range(PER_ADDRESS):  # somebody behind the same proxy tries names
        server.form("/sign-in", {"user": f"user{number}", "password": "no"})
    for number in range(PER_USER):  # and somebody with many addresses tries ann's password
        server.client = f"198.51.100.{number}"
        assert server.form("/sign-in", {"user": "ann", "password": "no"}).status == 400
    assert server.form("/sign-in", {"user": "ann", "password": PASSWORD}).status == 429, "from elsewhere she may not"
    server.client = "203.0.113.7"
    server.session("ann")
    for _ in range(PER_PAIR):
        assert server.form("/sign-in", {"user": "bob", "password": "no"}).status == 400
    assert server.form("/sign-in", {"user": "bob", "password": PASSWORD}).status == 429, "his own failures count"


def test_one_password_for_all_users_behind_a_proxy_is_slowed_down() -> None:
    limits = SignInLimits(lambda: 0.0)
    for number in range(PER_SHARED + 1):
        limits.begin(f"user{number}", "10.0.0.1")
        limits.succeeded(f"user{number}", "10.0.0.1")
    for number in range(PER_SHARED):
        limits.begin(f"user{number}", "10.0.0.1")
    with pytest.raises(ApiError):
        limits.begin(f"user{PER_SHARED}", "10.0.0.1")


def test_one_account_cannot_use_up_what_all_users_behind_a_proxy_share() -> None:
    now = [0.0]
    limits = SignInLimits(lambda: now[0])

    def tried(user: str, *, right: bool) -> bool:
        try:
            limits.begin(user, "10.0.0.1")
        except ApiError:
            return False
        if right:
            limits.succeeded(user, "10.0.0.1")
        return True

    assert tried("ann", right=True)
    assert tried("bob", right=True)
    tries = [number % PER_PAIR == PER_PAIR - 1 for number in range(2 * PER_SHARED)]  # a right one forgives those before
    assert sum(tried("bob", right=right) and not right for right in tries) == OF_SHARED
    assert [tried("ann", right=False) for _ in range(PER_PAIR)] == [True] * PER_PAIR
    limits.begin("bob", "10.0.0.2")
    now[0] = WINDOW
    assert tried("bob", right=True)


def test_right_passwords_are_no_failures_however_many() -> None:
    limits = SignInLimits(lambda: 0.0)
    for _ in range(PER_PAIR - 1):
        limits.begin("ann", "10.0.0.1")
    for _ in range(2 * PER_SHARED):
        for user in ("ann", "bob"):
            limits.begin(user, "10.0.0.1")
        for user in ("ann", "bob"):
            limits.succeeded(user, "10.0.0.1")


def test_the_addresses_of_one_machine_count_together() -> None:
    limits = SignInLimits(lambda: 0.0)
    for number in range(PER_ADDRESS):
        limits.begin(f"user{number}", f"2001:db8:0:1::{number:x}")
    with pytest.raises(ApiError):
        limits.begin("ann", "2001:db8:0:1:ffff::1")
    limits.begin("ann", "2001:db8:0:2::1")
    assert [subscriber(address) for address in ("10.0.0.1", "fe80::1%eth0", "", "unknown")] == [
        "10.0.0.1",
        "fe80::/64",
        "",
        "unknown",
    ]


def test_ipv4_behind_a_socket_for_both_protocols_is_told_apart() -> None:
    limits = SignInLimits(lambda: 0.0)
    for number in range(PER_ADDRESS):
        limits.begin(f"user{number}", "::ffff:203.0.113.9")
    limits.begin("ann", "::ffff:198.51.100.7")
    with pytest.raises(ApiError):  # one sender, however its address is written
        limits.begin("ann", "203.0.113.9")
    assert [subscriber(address) for address in ("::ffff:198.51.100.7", "::ffff:c633:6407", "::ffff:1.2.3.4%eth0")] == [
        "198.51.100.7",
        "198.51.100.7",
        "1.2.3.4",
    ]


def test_limits_pass_and_their_memory_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    limits = SignInLimits(lambda: now[0])
    monkeypatch.setattr("paictl.server.signing.REMEMBERED", 50)
    for number in range(PER_PAIR):
        limits.begin("ann", f"10.0.0.{number // PER_PAIR}")
    with pytest.raises(Exception, match="wait 300 s"):
        limits.begin("ann", "10.0.0.0")
    now[0] = WINDOW + 1
    limits.begin("ann", "10.0.0.0")
    limits.succeeded("ann", "10.0.0.0")
    for number in range(500):
        limits.begin(f"user{number}", f"10.0.{number}.1")
        limits.succeeded(f"user{number}", f"10.0.{number}.1")
    assert max(len(limits._failures), len(limits._regulars)) <= 50
