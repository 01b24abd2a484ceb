"""Departments on a cluster on this machine: who borrows first, who gives way, and what is said of it."""

from __future__ import annotations

import pytest
import yaml

from paictl.cluster.interface import FOREVER, JobRequest
from paictl.operate.explaining import data, lines
from paictl.operate.limits import as_data, limits
from paictl.units import Millis
from paictl.workload.sharing import read_sharing
from tests.conftest import ROOT
from tests.unit.cluster.conftest import MINUTE, Bench, MakeBench
from tests.unit.cluster.test_sharing import load, said

HOUR = 60 * MINUTE
TEAM = "sharing: {departments: [{name: research, vcs: [tenanta, tenantc]}]}\n"


@pytest.fixture
def lab(bench: MakeBench) -> Bench:
    return bench("three-tenants")


def start(lab: Bench, name: str, vc: str, priority: str = "oppo", hours: float | None = None) -> str:
    """A job on a whole node."""
    duration = FOREVER if hours is None else Millis(round(hours * HOUR))
    return lab.cluster.submit([JobRequest("ann", lab.job(name, vc, gpu=8), None, priority, duration)])[0].key


def crowd(lab: Bench) -> tuple[str, str]:
    """B uses what it is promised, and the other nodes without a guarantee; then jobs wait of B and of C.

    C alone is promised six devices, its department 18.
    """
    start(lab, "own", "tenantb", "test")
    for number in range(3):
        start(lab, f"lent{number}", "tenantb", hours=1 + 4 * number)
    lab.pass_time(MINUTE)
    return start(lab, "stranger", "tenantb"), start(lab, "sister", "tenantc")


def running(lab: Bench, *keys: str) -> list[bool]:
    return [lab.state(key) == "Running" for key in keys]


def test_without_departments_the_first_job_starts_first(lab: Bench) -> None:
    keys = crowd(lab)
    lab.pass_time(HOUR)
    assert running(lab, *keys) == [True, False]


def test_the_sister_of_the_lender_starts_first(lab: Bench) -> None:
    load(lab, TEAM)
    keys = crowd(lab)
    assert "1 opportunistic gang is tried before it: " in said(lab, keys[0])
    assert "virtual cluster tenantc goes first: department research has 18 unused devices" in said(lab, keys[0])
    assert "is tried before it" not in said(lab, keys[1])
    found = data(lab.cluster.explain(keys[0]))["ahead"]
    assert (found["vc"], found["department"], found["unused"], found["user"]) == ("tenantc", "research", 18, "")
    lab.cluster.restart_services(["hivedscheduler"])
    lab.pass_time(HOUR)
    assert running(lab, *keys) == [False, True]


def test_the_page_shows_what_is_said(lab: Bench) -> None:
    page = (ROOT / "docs" / "departments.md").read_text(encoding="utf-8")
    example = page.partition("```yaml\n")[2].partition("```")[0]
    rules = read_sharing(yaml.safe_load(example)["sharing"])
    near = [rules.departments.closeness("vision", vc) for vc in ("speech", "robots", "ads")]
    assert near == [2, 1, 0], "teams, teams of one department, strangers"
    assert TEAM.partition("[")[2].rpartition("]")[0] in page
    load(lab, TEAM)
    key, _ = crowd(lab)
    shown = page.partition("```console\n")[2].partition("```")[0].splitlines()[1:]
    found = [str(line) for line in lines(lab.cluster.explain(key))]
    assert len(shown) == 3
    assert [line for line in shown if line not in found] == ["…"]


def test_a_department_that_uses_its_promise_goes_first_no_more(lab: Bench) -> None:
    load(lab, "sharing: {departments: [{name: research, vcs: [tenanta, tenantc], devices: 18}]}\n")
    start(lab, "own", "tenantb", "test")
    start(lab, "a", "tenanta", "test")
    start(lab, "c", "tenantc")
    start(lab, "lent", "tenantb", hours=1)
    lab.pass_time(MINUTE)
    keys = start(lab, "stranger", "tenantb"), start(lab, "sister", "tenantc")
    lab.pass_time(HOUR)
    assert running(lab, *keys) == [True, False], "research uses 16 of 18 devices"


@pytest.mark.parametrize(("section", "gone"), [("sharing: {}\n", "sister"), (TEAM, "b0")])
def test_the_owner_takes_back_from_strangers_before_sisters(lab: Bench, section: str, gone: str) -> None:
    load(lab, section)
    vcs = {"sister": "tenantc", "b0": "tenantb", "b1": "tenantb", "b2": "tenantb"}
    keys = {name: start(lab, name, vc) for name, vc in vcs.items()}
    own = start(lab, "own", "tenanta", "test")
    lab.pass_time(MINUTE)
    assert lab.state(own) == "Running"
    assert [name for name, key in keys.items() if lab.state(key) != "Running"] == [gone]


def test_limits_list_what_departments_use_of_their_promise(lab: Bench) -> None:
    rows = "{name: all, devices: 32}, {name: research, parent: all, vcs: [tenanta, tenantc]}"
    load(lab, f"sharing: {{departments: [{rows}]}}\n")
    start(lab, "a", "tenanta", "test")
    start(lab, "c", "tenantc")
    start(lab, "b", "tenantb")
    found = {row["vc"]: (row["class"], row["held"], row["limit"]) for row in as_data(limits(lab.cluster))}
    assert found == {"all": ("department", 16, 32), "research": ("department", 16, 18)}
    assert limits(lab.cluster, user="ann") == [], "users see limits of their own"
