"""`paictl usage budget` and `usage limits`, and what other commands say about budgets."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.unit.cli.conftest import Paictl
from tests.unit.cli.test_accounting import JOB


@pytest.fixture
def site(mid_month: Path, paictl: Paictl) -> Paictl:
    """A cluster on which a job of two devices of ann has run for half an hour."""
    (mid_month / "train.yaml").write_text(yaml.safe_dump(JOB), encoding="utf-8")
    assert paictl("cluster", "up", "--preset", "three-tenants", "--speed", "0").code == 0
    assert paictl("job", "submit", str(mid_month / "train.yaml"), "--user", "ann").code == 0
    assert paictl("cluster", "tick", "1h").code == 0
    return paictl


def submit(site: Paictl, home: Path, name: str, *words: str) -> str:
    done = site("job", "submit", str(home / "train.yaml"), "--user", "ann", "--name", name, *words)
    return f"{done.code} {done.err}"


def test_a_budget_is_set_shown_obeyed_and_removed(site: Paictl, home: Path) -> None:
    said = site("usage", "budget", "set", "--vc", "tenanta", "--hours", "1", "--yes")
    assert said.code == 0, said.err
    assert "virtual cluster tenanta has used 1.00 of 1 device hours in its budget: no new jobs start" in said.err
    assert "services-configuration.yaml:" in said.err
    assert site("service", "refresh", "-n", "hivedscheduler").code == 0
    (budget,) = site("usage", "budget", "list", "-o", "json").data["budgets"]
    assert (budget["vc"], budget["user"], budget["deviceHours"], budget["level"]) == ("tenanta", "", 1, "spent")
    assert site("usage", "budget", "list").out.splitlines()[1].split() == [
        "tenanta",
        "-",
        "1.00",
        "1.00",
        "100%",
        "spent",
        "wait",
    ]
    assert "jobs wait: the budget of virtual cluster tenanta is used up" in submit(site, home, "second")
    explained = site("job", "explain", "ann~second")
    assert "the budget of virtual cluster tenanta is used up" in explained.out
    assert site("job", "explain", "ann~second", "-o", "json").data["situation"] == "held back"
    assert site("usage", "budget", "set", "--vc", "tenanta", "--over", "refuse", "--yes").code == 0
    assert site("service", "refresh", "-n", "hivedscheduler").code == 0
    assert submit(site, home, "third").startswith("2 error: job ann~third is refused")
    assert site("usage", "budget", "set", "--vc", "tenanta", "--remove", "--yes").code == 0
    assert site("service", "refresh", "-n", "hivedscheduler").code == 0
    assert site("job", "show", "ann~second", "-o", "json").data["state"] == "Running"
    assert site("usage", "budget", "list", "-o", "json").data["budgets"] == []


def test_setting_a_budget_changes_nothing_else_and_keeps_comments(site: Paictl, home: Path) -> None:
    site("config", "pull", "-o", str(home / "before"))
    assert site("usage", "budget", "set", "--user", "ann", "--hours", "12.5", "--warn-at", "90", "--yes").code == 0
    site("config", "pull", "-o", str(home / "after"))
    name = "services-configuration.yaml"
    before, after = ((home / folder / name).read_text(encoding="utf-8") for folder in ("before", "after"))
    assert [line for line in before.splitlines() if line not in after.splitlines()] == []
    assert yaml.safe_load(after)["sharing"] == {"budgets": [{"user": "ann", "device-hours": 12.5, "warn-at": 90}]}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--vc", "tenanta"), "give either values to set or --remove"),
        (("--vc", "tenanta", "--hours", "1", "--remove"), "give either values to set or --remove"),
        (("--vc", "tenanta", "--over", "warn"), "a new budget needs a number of device hours"),
        (("--vc", "tenanta", "--remove"), "no such budget"),
        (("--vc", "tenantz", "--hours", "1"), "no virtual cluster 'tenantz'"),
    ],
)
def test_what_cannot_be_set_is_refused_and_nothing_is_stored(site: Paictl, words: tuple[str, ...], said: str) -> None:
    refused = site("usage", "budget", "set", *words, "--yes")
    assert refused.code in (1, 2)
    assert said in refused.err
    assert len(site("config", "history", "-o", "json").data) == 1


def test_limits_are_shown_with_what_is_held(site: Paictl, home: Path) -> None:
    site("config", "pull", "-o", str(home / "conf"))
    file = home / "conf" / "services-configuration.yaml"
    rows = "[{vc: tenanta, devices: 3}, {vc: tenanta, user: bob, devices: 5}]"
    lent = "borrow-limits: [{vc: tenantb, devices: 7}]"
    file.write_text(f"{file.read_text(encoding='utf-8')}sharing: {{user-limits: {rows}, {lent}}}\n", encoding="utf-8")
    assert site("config", "push", "-p", str(home / "conf"), "--yes").code == 0
    assert site("service", "refresh", "-n", "hivedscheduler").code == 0
    submit(site, home, "one")
    submit(site, home, "two")
    found = site("usage", "limits", "-o", "json").data
    assert [(one["user"], one["class"], one["held"], one["limit"]) for one in found] == [
        ("*", "guaranteed", 0, 3),
        ("ann", "guaranteed", 2, 3),
        ("bob", "guaranteed", 0, 5),
        ("", "opportunistic", 0, 7),
    ]
    lines = site("usage", "limits", "--vc", "tenantb").out.splitlines()
    assert [line.split() for line in lines] == [
        ["VC", "USER", "CLASS", "HELD", "LIMIT"],
        ["tenantb", "-", "opportunistic", "0", "7"],
    ]
    assert "user ann may hold 3 guaranteed devices" in site("job", "explain", "ann~two").out
