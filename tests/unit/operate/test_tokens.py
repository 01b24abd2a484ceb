"""How many tokens a user may have, and which make room for others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from paictl.cluster.accounts import Account, Token
from paictl.operate.users.tokens import TokenKind, issue


class Store:
    """Tokens of one user."""

    def __init__(self) -> None:
        self.kept: list[Token] = []

    def tokens(self, user: str) -> list[Token]:
        return [one for one in self.kept if one.user == user]

    def add_token(self, token: Token) -> None:
        self.kept.append(token)

    def remove_tokens(self, digests: Iterable[str]) -> int:
        gone, before = set(digests), len(self.kept)
        self.kept = [one for one in self.kept if one.digest not in gone]
        return before - len(self.kept)

    def kinds(self) -> list[str]:
        return [one.kind for one in self.kept]


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr("paictl.operate.users.tokens.MOST", 3)
    return Store()


@pytest.mark.parametrize("kind", [TokenKind.TICKET, TokenKind.TASK])
def test_what_a_task_makes_its_viewer_s_browser_ask_for_ends_no_session(store: Any, kind: TokenKind) -> None:
    ann = Account("ann")
    for one in (TokenKind.SESSION, TokenKind.LOGIN, TokenKind.APPLICATION):
        issue(store, ann, one)
    for _ in range(10):
        issue(store, ann, kind, scope="task")
    assert store.kinds() == ["session", "login", "application", *[kind.value] * 3]


def test_tickets_and_what_they_become_are_counted_together_and_so_are_sessions_and_logins(store: Any) -> None:
    ann = Account("ann")
    for kind in (TokenKind.TASK, TokenKind.SESSION, TokenKind.TICKET, TokenKind.LOGIN):
        issue(store, ann, kind)
    for kind in (TokenKind.TICKET, TokenKind.LOGIN):
        issue(store, ann, kind)
        issue(store, ann, kind)
    assert store.kinds() == ["ticket", "login", "ticket", "ticket", "login", "login"]
