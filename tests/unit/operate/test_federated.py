"""One account for each person of an OpenID provider, whatever names they sign in with at the same time."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from paictl.cluster.accounts import Account
from paictl.cluster.embedded.sidefiles import EmbeddedUsers
from paictl.cluster.interface import ConflictError, Users
from paictl.cluster.kubernetes.users import KubernetesUsers
from paictl.operate.users import accounts, federated
from paictl.operate.users.federated import OidcSettings, account_for
from tests.unit.cluster.fakekube import FakeKube

SETTINGS = OidcSettings("https://sso.example", "paictl", groups={"vision": ["vc1"]}, admin_groups=("admins",))
PERSON = "https://sso.example#id-eve"
Kind = type[EmbeddedUsers] | type[KubernetesUsers]
KINDS: Sequence[Kind] = (EmbeddedUsers, KubernetesUsers)


@pytest.fixture(params=KINDS)
def users(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Users:
    monkeypatch.setattr(federated, "check_free", lambda *_: None)
    return EmbeddedUsers(tmp_path) if request.param is EmbeddedUsers else KubernetesUsers(FakeKube())


class Between:
    """The store, and what others do before a sign-in writes (``write``) and after it has looked (``look``)."""

    def __init__(self, users: Users, **others: Callable[[], object]) -> None:
        self.users, self.others, self.wrote = users, others, False

    def put_account(self, account: Account) -> Account:
        if not self.wrote:
            self.others.pop("write", lambda: None)()
        self.wrote = True
        return self.users.put_account(account)

    def accounts(self) -> Sequence[Account]:
        found = self.users.accounts()
        if self.wrote:
            self.others.pop("look", lambda: None)()
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self.users, name)


def sign_in(users: Users, name: str, *groups: str, sub: str = "id-eve", **others: Callable[[], object]) -> Account:
    """Sign in by a name, while others do something at two moments."""
    claims = {"sub": sub, "preferred_username": name, "groups": groups}
    return account_for(Between(users, **others), None, SETTINGS, claims)  # type: ignore[arg-type]


def at(moment: str, act: Callable[[], object]) -> dict[str, Any]:
    return {moment: act}


def names(users: Users) -> list[str]:
    return [account.name for account in users.accounts() if account.subject == PERSON]


@pytest.mark.parametrize("order", list(itertools.permutations(["a", "b", "c"])))
@pytest.mark.parametrize("moments", list(itertools.product(["write", "look"], repeat=2)))
def test_a_person_who_signs_in_by_three_names_at_once_has_the_account_that_was_begun_first(
    users: Users, order: Sequence[str], moments: Sequence[str]
) -> None:
    first, second, third = order

    def last() -> None:
        sign_in(users, third)

    def middle() -> None:
        sign_in(users, second, **at(moments[1], last))

    assert sign_in(users, first, **at(moments[0], middle)).name == first
    assert names(users) == [first]
    assert sign_in(users, third).name == first


def test_rights_are_those_of_the_token_that_was_shown(users: Users) -> None:
    sign_in(users, "eve", "vision", write=lambda: sign_in(users, "adam", "admins"))
    (account,) = users.accounts()
    assert (account.name, account.vcs, account.admin) == ("eve", ("vc1",), True), "nobody else would be administrator"
    users.put_account(Account("root", admin=True))
    assert not sign_in(users, "adam", "vision").admin
    assert names(users) == ["eve"]


def test_an_account_that_an_administrator_changes_meanwhile_goes_all_the_same(users: Users) -> None:
    def edited() -> None:
        adam = users.account("adam")
        assert adam is not None
        users.put_account(replace(adam, email="adam@lab.example"))

    sign_in(users, "eve", write=lambda: sign_in(users, "adam"), look=edited)
    assert names(users) == ["eve"]


def test_an_account_that_was_given_to_somebody_else_meanwhile_stays(users: Users) -> None:
    other = Account("adam", vcs=("vc2",), email="adam@lab.example")

    def given() -> None:
        users.remove_account("adam")
        users.put_account(other)

    assert sign_in(users, "eve", write=lambda: sign_in(users, "adam"), look=given).name == "eve"
    found = users.account("adam")
    assert found is not None
    assert replace(found, version="") == other


def test_an_account_that_is_changed_while_it_is_removed_is_not_mistaken(
    users: Users, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look at whose it is and the removal it is given to somebody else."""
    remove = type(users).remove_account
    other = Account("adam", email="adam@lab.example")
    begun = iter([True])

    def late(store: Any, name: str, version: str = "") -> None:
        if next(begun, False):
            remove(store, name)
            store.put_account(other)
        remove(store, name, version)

    monkeypatch.setattr(type(users), "remove_account", late)
    sign_in(users, "eve", write=lambda: sign_in(users, "adam"))
    found = users.account("adam")
    assert found is not None
    assert replace(found, version="") == other


@pytest.mark.parametrize("name", ["ANN", "Ann", "ann.", "aNN.."])
def test_nobody_gets_a_name_that_file_servers_take_for_anothers(users: Users, name: str) -> None:
    ann = sign_in(users, "ann", "vision", sub="id-ann")
    with pytest.raises(ConflictError, match="is too similar to that of user 'ann'"):
        sign_in(users, name, "vision")
    with pytest.raises(ConflictError, match="is too similar to that of user 'ann'"):
        accounts.add(users, accounts.NewUser(name, "long enough"))
    assert users.accounts() == [ann]
    assert sign_in(users, name, "vision", sub="id-ann") == ann, "who is called so now keeps the account"
    assert sign_in(users, "anna").name == "anna"


def test_two_people_whose_names_differ_by_case_cannot_both_sign_in_for_the_first_time_at_once(users: Users) -> None:
    """Whichever of the two writes last sees both accounts."""
    with pytest.raises(ConflictError, match="is too similar to that of user"):
        sign_in(users, "Ann", sub="id-Ann", write=lambda: users.put_account(Account("ann", subject="other")))
    assert [account.name for account in users.accounts()] == ["ann"]
    assert sign_in(users, "ann.b", sub="id-Ann").name == "ann.b"


def test_one_person_may_sign_in_by_two_spellings_at_once(users: Users) -> None:
    ann = sign_in(users, "Ann", write=lambda: sign_in(users, "ann"))
    assert users.accounts() == [ann]
