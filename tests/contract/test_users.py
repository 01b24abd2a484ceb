"""The contract of the port of users."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from paictl.cluster.accounts import Account, Token
from paictl.cluster.interface import ConflictError
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
    users.remove_tokens(["0" * 64])


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


def test_tokens_are_found_by_hash_and_by_user_and_go_with_the_account(contract: Contract) -> None:
    users = contract.cluster.users
    users.put_account(Account("ann"))
    mine, yours = [token(2), token(3, expires=None, kind="application")], token(4, "bob")
    for one in (*reversed(mine), yours):
        users.add_token(one)
    assert sorted(users.tokens("ann"), key=lambda one: one.digest) == mine
    assert contract.again().users.token(mine[1].digest) == mine[1]
    users.remove_tokens([mine[0].digest, "f" * 64])
    assert list(users.tokens("ann")) == [mine[1]]
    users.remove_account("ann")
    assert (users.tokens("ann"), users.token(mine[1].digest)) == ([], None)
    assert list(users.tokens("bob")) == [yours]


def test_no_other_port_shows_what_is_kept_of_users(contract: Contract) -> None:
    contract.cluster.users.put_account(Account("ann", password="hash-of-ann", stamp="stamp-of-ann"))  # noqa: S106
    assert "hash-of-ann" not in repr(contract.cluster.users.account("ann"))
    shown = [*contract.cluster.configurations(), *contract.cluster.nodes()]
    assert not [one for one in shown if "of-ann" in repr(one)]
