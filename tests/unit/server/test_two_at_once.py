"""Two at once: what one client does between the check and the write of another."""

from __future__ import annotations

from typing import Any

import pytest

from paictl.operate.users import accounts, passwords
from paictl.operate.users.tokens import TokenKind, caller_within, issue, right_account
from paictl.server import signing
from paictl.server.calls import ApiError, Call
from paictl.server.credentials import csrf_of
from paictl.server.tasks import access
from paictl.server.tasks.access import TaskAddress
from tests.unit.server.conftest import PASSWORD, Server

TAKEN = "taken by a thief"


@pytest.fixture
def reset_meanwhile(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a thief, who knows ann's password, changes it, an administrator gives her another one."""
    hashed = passwords.hashed

    def slow(password: str) -> str:
        if password == TAKEN:
            accounts.set_password(server.cluster.users, "ann", "of the administrator")
        return hashed(password)

    server.token("ann")
    monkeypatch.setattr(passwords, "hashed", slow)


@pytest.mark.usefixtures("reset_meanwhile")
def test_an_administrators_new_password_stays_though_the_old_one_was_right_a_moment_ago(server: Server) -> None:
    data = {"oldPassword": PASSWORD, "newPassword": TAKEN}
    reply = server.send("PUT", "/api/v2/users/me", {"data": data, "patch": True}, "ann")
    assert (reply.status, reply.data["code"]) == (409, "ConflictError")
    assert right_account(server.cluster.users, "ann", "of the administrator")
    assert not right_account(server.cluster.users, "ann", TAKEN)


def test_the_same_on_the_page(server: Server, request: pytest.FixtureRequest) -> None:
    cookie = server.session("ann")
    request.getfixturevalue("reset_meanwhile")
    fields = {"old": PASSWORD, "new": TAKEN, "csrf": csrf_of(cookie.partition("=")[2])}
    reply = server.form("/account/password", fields, cookie=cookie)
    assert (reply.status, reply.cookies) == (400, {})
    assert right_account(server.cluster.users, "ann", "of the administrator")


def test_one_user_who_signs_in_all_the_time_leaves_turns_for_others(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There are eight turns, and a right password may be shown any number of times."""
    sign_ins, call = signing.SignIns(), Call(server.cluster, None, address="203.0.113.7")
    statuses: list[int] = []

    def slow(users: Any, name: str, password: str) -> Any:
        if name == "ann" and len(statuses) < 8:
            statuses.append(200)
            try:  # the next one comes while this one is under way
                sign_ins.account(call, "ann", PASSWORD)
            except ApiError as error:
                statuses.append(error.status)
                assert sign_ins.account(call, "bob", PASSWORD).name == "bob"
        return right_account(users, name, password)

    monkeypatch.setattr(signing, "right_account", slow)
    sign_ins.account(call, "ann", PASSWORD)
    assert statuses == [200, 200, 503]
    sign_ins.account(call, "bob", PASSWORD)
    assert sign_ins._under_way == {}


def test_a_ticket_opens_a_task_for_one_of_two_who_show_it_at_once(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    users = server.cluster.users
    account = users.account("ann")
    assert account is not None
    target = TaskAddress("ann", "one", "worker", 0, 80)
    ticket = issue(users, account, TokenKind.TICKET, scope=target.word)
    looks: list[Any] = []

    def meanwhile(*args: Any) -> Any:
        looks.append(caller_within(*args))
        if len(looks) == 2:  # the other one is let in between the last look and the removal
            access.entered(server.cluster, ticket, target.label)
        return looks[1] if len(looks) > 1 else looks[0]

    monkeypatch.setattr(access, "caller_within", meanwhile)
    with pytest.raises(ApiError) as refused:
        access.entered(server.cluster, ticket, target.label)
    assert refused.value.status == 401
    assert len([token for token in users.tokens("ann") if token.kind == TokenKind.TASK]) == 1
