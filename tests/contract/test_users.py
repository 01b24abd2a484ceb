"""The contract of the port of users."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from paictl.cluster.accounts import Account, LastAdministratorError, Token
from paictl.cluster.interface import ClusterError, ConflictError, Users
from paictl.operate.users import accounts
from paictl.operate.users.tokens import TokenKind, issue
from tests.contract.conftest import Contract

NOW = datetime(2026, 11, 22, 8, 0, 0, 250_000, tzinfo=UTC)


def token(number: int, user: str = "ann", **options: object) -> Token:
    fields = {"expires": NOW + timedelta(hours=1), "stamp": "s", "kind": "session", **options}
    return Token(f"{number:064x}", user, created=NOW + timedelta(seconds=number), **fields)  # type: ignore[arg-type]


def test_nobody_is_there_at_first_and_asking_makes_nothing(contract: Contract) -> None:
    users = contract.cluster.users
    assert (users.accounts(), users.account("ann"), users.tokens("ann")) == ([], None, [])
    assert users.token("0" * 64) is None
    users.remove_account("ann")
    assert users.remove_tokens(["0" * 64]) == 0


def test_an_account_comes_back_whole_and_another_process_sees_it(contract: Contract) -> None:
    ann = Account("ann", True, ("default", "vc1"), "ann@example.org", "hash", "stamp", NOW)
    stored = contract.cluster.users.put_account(ann)
    assert stored.version
    assert replace(stored, version="") == ann
    other = contract.cluster.users.put_account(Account("Bob.x_y-z"))
    for reader in (contract.cluster, contract.again()):
        assert list(reader.users.accounts()) == [other, stored]
        assert reader.users.account("ann") == stored


def test_of_two_who_change_an_account_one_gets_a_conflict(contract: Contract) -> None:
    mine, yours = contract.cluster.users, contract.again().users
    with pytest.raises(ConflictError):
        mine.put_account(Account("ann", version="1"))  # it is not there
    read = mine.put_account(Account("ann"))
    with pytest.raises(ConflictError):
        yours.put_account(Account("ann", admin=True))
    changed = yours.put_account(replace(read, vcs=("vc1",)))
    assert changed.version != read.version
    with pytest.raises(ConflictError):
        mine.put_account(replace(read, vcs=("default",)))
    assert mine.account("ann") == changed
    mine.remove_account("ann")
    again = mine.put_account(Account("ann"))
    with pytest.raises(ConflictError):  # the same name is not the same account
        yours.put_account(replace(changed, admin=True))
    assert mine.account("ann") == again


def test_only_the_version_that_was_read_is_removed(contract: Contract) -> None:
    mine, yours = contract.cluster.users, contract.again().users
    read = mine.put_account(Account("ann"))
    mine.add_token(token(1))
    changed = yours.put_account(replace(read, vcs=("vc1",)))
    with pytest.raises(ConflictError):
        mine.remove_account("ann", read.version)
    assert (mine.account("ann"), list(mine.tokens("ann"))) == (changed, [token(1)])
    mine.remove_account("ann", changed.version)
    assert (mine.account("ann"), mine.tokens("ann")) == (None, [])
    mine.remove_account("ann", changed.version)


def test_tokens_are_found_by_hash_and_by_user_and_go_with_the_account(contract: Contract) -> None:
    users = contract.cluster.users
    users.put_account(Account("ann"))
    mine, yours = [token(2), token(3, expires=None, kind="application")], token(4, "bob")
    for one in (*reversed(mine), yours):
        users.add_token(one)
    assert sorted(users.tokens("ann"), key=lambda one: one.digest) == mine
    assert contract.again().users.token(mine[1].digest) == mine[1]
    assert users.remove_tokens([mine[0].digest, "f" * 64]) == 1
    assert list(users.tokens("ann")) == [mine[1]]
    users.remove_account("ann")
    assert (users.tokens("ann"), users.token(mine[1].digest)) == ([], None)
    assert list(users.tokens("bob")) == [yours]


def test_no_other_port_shows_what_is_kept_of_users(contract: Contract) -> None:
    contract.cluster.users.put_account(Account("ann", password="hash-of-ann", stamp="stamp-of-ann"))  # noqa: S106
    assert "hash-of-ann" not in repr(contract.cluster.users.account("ann"))
    shown = [*contract.cluster.configurations(), *contract.cluster.nodes()]
    assert not [one for one in shown if "of-ann" in repr(one)]


def at_once(*acts: Callable[[], object]) -> list[BaseException | None]:
    """What each act raised, all begun together."""
    barrier = threading.Barrier(len(acts))

    def act(number: int) -> BaseException | None:
        barrier.wait()
        try:
            acts[number]()
        except ClusterError as error:
            return error
        return None

    with ThreadPoolExecutor(len(acts)) as pool:
        return list(pool.map(act, range(len(acts))))


def test_two_who_take_each_other_out_of_office_leave_an_administrator(contract: Contract) -> None:
    mine, yours = contract.cluster.users, contract.again().users

    def leave(users: Users, name: str, how: int) -> None:
        if how:
            accounts.remove(users, name)
        else:
            accounts.grant(users, name, admin=False)

    for number in range(60 if contract.imagined else 24):
        for name in ("root", "adm2"):
            old = mine.account(name)
            mine.put_account(Account(name, True, version=old.version if old else ""))
        first, second = divmod(number % 4, 2)
        raised = at_once(lambda a=first: leave(mine, "adm2", a), lambda b=second: leave(yours, "root", b))  # type: ignore[misc]
        left = [one.name for one in mine.accounts() if one.admin]
        assert len(left) == 1, (number, raised)
        assert sum(error is not None for error in raised) == 1
        with pytest.raises(LastAdministratorError):
            accounts.remove(mine, left[0])


def test_the_last_administrator_stays_whoever_asks_the_store(contract: Contract) -> None:
    users = contract.cluster.users
    root = users.put_account(Account("root", True))
    for _ in range(2):
        with pytest.raises(LastAdministratorError, match="root is the only administrator"):
            users.put_account(replace(root, admin=False))
        with pytest.raises(LastAdministratorError):
            users.remove_account("root")
    root = users.put_account(replace(root, email="root@example.org"))
    users.put_account(Account("adm2", True))
    users.put_account(replace(root, admin=False))
    assert [one.name for one in users.accounts() if one.admin] == ["adm2"]


def test_tokens_that_come_at_once_are_no_more_than_a_user_may_have(
    contract: Contract, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("paictl.operate.users.tokens.MOST", 3)
    users = contract.cluster.users
    account = users.put_account(Account("ann"))
    clusters = [contract.again() for _ in range(8)]
    refused = at_once(*(lambda one=one: issue(one.users, account, TokenKind.APPLICATION) for one in clusters))
    left = users.tokens("ann")
    assert len(left) == refused.count(None) <= 3
    assert all("has 3 tokens of applications" in str(error) for error in refused if error is not None)
