"""`paictl user`: accounts by command line, passwords never in argv, and what is refused."""

from __future__ import annotations

import io
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from paictl.cluster.embedded.cluster import EmbeddedCluster
from paictl.operate.users import passwords
from tests.conftest import ROOT
from tests.unit.cli.conftest import Done, Paictl

Typed = Callable[..., Done]
WORD = "long-enough-4-ann"


@pytest.fixture
def typed(home: Path, paictl: Paictl, monkeypatch: pytest.MonkeyPatch) -> Typed:  # noqa: ARG001
    """Run a command on a fresh cluster whose standard input is a text."""
    monkeypatch.setattr("paictl.config.secrets.sealing.COST", (4, 1, 1))
    assert paictl("cluster", "up", "--preset", "three-tenants").code == 0

    def call(*words: str, said: str = "") -> Done:
        monkeypatch.setattr(sys, "stdin", io.StringIO(said))
        return paictl(*words)

    return call


def named(done: Done) -> dict[str, tuple[bool, list[str]]]:
    return {one["name"]: (one["admin"], one["vcs"]) for one in done.data}


def test_from_the_first_account_to_the_last(typed: Typed, home: Path) -> None:
    done = typed("user", "add", "ann", "--vc", "tenanta", "--email", "ann@x.org", "--password-stdin", said=f"{WORD}\n")
    assert (done.code, done.err) == (0, "user ann added\n")
    assert typed("user", "add", "bo", "--admin", "--password-stdin", said=f"{WORD}-bo\n").code == 0
    assert named(typed("user", "list", "-o", "json")) == {"ann": (False, ["tenanta"]), "bo": (True, [])}
    table = typed("user", "list").out
    assert "ann@x.org" in table
    assert "all" in next(line for line in table.splitlines() if line.startswith("bo"))
    done = typed("user", "grant", "ann", "--vc", "tenantb", "--revoke", "tenanta")
    assert (done.code, done.err) == (0, "user ann: tenantb\n")
    assert typed("user", "passwd", "ann", "--password-stdin", said="another-1-for-ann\n").code == 0
    kept = {one.name: one for one in EmbeddedCluster.at(home / "state").users.accounts()}
    assert passwords.is_right("another-1-for-ann", kept["ann"].password)
    assert not passwords.is_right(WORD, kept["ann"].password)
    assert typed("user", "remove", "ann", "-y").err == "user ann removed\n"
    assert named(typed("user", "list", "-o", "json")) == {"bo": (True, [])}


@pytest.mark.parametrize(
    ("words", "said", "message"),
    [
        (["add", "ann", "--vc", "vc9", "--password-stdin"], WORD, "vc9"),
        (["add", "ann", "--password-stdin"], "short", "password"),
        (["add", "ann", "--password-stdin"], "", "password"),
        (["add", "a/b", "--password-stdin"], WORD, "is not a valid user name"),
        (["add", "ann"], "", "give --password-stdin"),
        (["add", "root", "--password-stdin"], WORD, "root"),
        (["passwd", "nobody", "--password-stdin"], WORD, "nobody"),
        (["grant", "root"], "", "there is nothing to change"),
        (["grant", "root", "--no-admin"], "", "administrator"),
        (["grant", "root", "--vc", "vc9"], "", "vc9"),
        (["remove", "nobody", "-y"], "", "nobody"),
        (["remove", "root", "-y"], "", "administrator"),
        (["remove", "root"], "", "-y"),
    ],
)
def test_what_is_refused_changes_nothing(typed: Typed, words: list[str], said: str, message: str) -> None:
    assert typed("user", "add", "root", "--admin", "--password-stdin", said=WORD).code == 0
    done = typed("user", *words, said=said)
    assert message in done.err
    assert (done.code, done.out) == (2, "")
    assert named(typed("user", "list", "-o", "json")) == {"root": (True, [])}


def test_a_password_that_is_made_up_is_in_a_file_of_its_own(typed: Typed, home: Path) -> None:
    file = home / "ann.password"
    done = typed("user", "add", "ann", "--vc", "tenanta", "--generate-password", str(file))
    assert (done.code, done.err) == (0, f"the password of user ann is in {file}\nuser ann added\n")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    kept = {one.name: one for one in EmbeddedCluster.at(home / "state").users.accounts()}
    assert passwords.is_right(file.read_text(encoding="utf-8").rstrip("\n"), kept["ann"].password)


def test_where_a_password_cannot_be_kept_no_account_is_made_and_the_other_way_round(typed: Typed, home: Path) -> None:
    file = home / "ann.password"
    file.write_text("mine")
    refused = typed("user", "add", "ann", "--generate-password", str(file))
    assert (refused.code, refused.err) == (2, f"error: {file}: already exists\nhint: name another file\n")
    assert named(typed("user", "list", "-o", "json")) == {}
    assert file.read_text() == "mine"
    other = home / "other.password"
    assert typed("user", "add", "a/b", "--generate-password", str(other)).code == 2
    assert not other.exists()
    both = typed("user", "add", "ann", "--generate-password", str(other), "--password-stdin", said=WORD)
    assert (both.code, other.exists()) == (2, False)


def test_the_jobs_of_an_earlier_user_are_handed_over_on_purpose_only(typed: Typed, paictl: Paictl) -> None:
    assert paictl("job", "submit", str(ROOT / "examples" / "jobs" / "train.yaml"), "--user", "ann").code == 0
    refused = typed("user", "add", "ann", "--password-stdin", said=f"{WORD}\n")
    assert refused.code == 2
    assert "an earlier user 'ann' left 1 job" in refused.err
    assert typed("user", "add", "ann", "--with-jobs", "--password-stdin", said=f"{WORD}\n").code == 0
