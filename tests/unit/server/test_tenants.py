"""What a user learns of other tenants' jobs: devices and class, never a name, wherever it could be said."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from paictl.cluster.interface import JobState
from paictl.cluster.scheduling import JobExplanation, JobSituation, LatestStart
from paictl.cluster.whywaits import ahead_lines, delaying, start_lines
from paictl.operate.explaining import data, lines, parts
from paictl.scheduler.explain.data import (
    Change,
    ChangeKind,
    Explanation,
    JointMove,
    LostCell,
    PodVerdict,
)
from paictl.scheduler.groups import Hold
from paictl.scheduler.request import PodRequest
from paictl.scheduler.scratch import ChangeOutcome, Holder
from paictl.server.credentials import cookies_of, csrf_of
from paictl.server.tenants import Tenants
from paictl.workload.lentorder import LineAhead
from tests.unit.server.conftest import Reply, Server
from tests.unit.server.test_api import JOB

NAME = "SECRETPROJ"


def job(name: str, vc: str, kind: str, instances: int = 1, *, gang: bool = True) -> bytes:
    text = JOB.format(name=name, vc=vc).replace("instances: 1", f"instances: {instances}")
    extras = f"{{gangAllocation: {str(gang).lower()}, hivedScheduler: {{jobPriorityClass: {kind}}}}}"
    return f"{text}extras: {extras}\n".encode()


def post(server: Server, user: str, body: bytes, path: str = "/api/v2/jobs") -> Reply:
    return server.ask("POST", path, token=server.token(user), body=body, media="text/yaml")


ASKED = (
    "/api/v2/jobs/bob~mine",
    "/api/v2/jobs/bob~mine/explain",
    "/api/v2/jobs/bob~mine/events",
    "/jobs/bob/mine",
    "/jobs/bob/mine/live",
    "/jobs/bob/mine/why",
    "/jobs/bob/mine/why/live",
    "/jobs",
    "/cluster",
    "/api/v2/jobs",
    "/api/v2/virtual-clusters",
    "/",
    "/live",
)


@pytest.mark.parametrize("gang", [True, False], ids=["gang", "single"])
def test_who_waits_or_was_preempted_learns_no_name(server: Server, gang: bool) -> None:
    assert post(server, "bob", job("mine", "default", "oppo", 2)).status == 202
    assert post(server, "ann", job(NAME, "vc1", "prod", gang=gang)).status == 202
    told = {}
    for path in ASKED:
        for user in ("bob", "root"):
            told[user, path] = server.get(path, user, headers={"accept": "application/json"}).text
            if path.startswith(("/jobs", "/cluster")):
                told[user, path] = server.ask("GET", path, cookie=server.session(user)).text
    said = {path: text for (user, path), text in told.items() if user == "bob"}
    assert [path for path, text in said.items() if NAME in text or NAME.lower() in text or "ann~" in text] == []
    assert "another tenant's job" in said["/api/v2/jobs/bob~mine/explain"]
    assert "another tenant's job" in said["/api/v2/jobs/bob~mine/events"]
    assert "another tenant&#39;s job (1 device, class prod)" in said["/jobs/bob/mine/why"]
    assert any(NAME in text or NAME.lower() in text for (user, _), text in told.items() if user == "root")


@pytest.mark.parametrize("gang", [True, False], ids=["gang", "single"])
def test_who_asks_before_submitting_learns_no_name(server: Server, gang: bool) -> None:
    assert post(server, "ann", job(NAME, "vc1", "prod", gang=gang)).status == 202
    asked = job("mine", "default", "oppo", 2)
    found = post(server, "bob", asked, "/api/v2/jobs/check")
    assert found.status == 200
    assert NAME.lower() not in found.text.lower()
    assert "ann~" not in found.text
    (holder,) = found.data["explanation"]["views"][0]["holders"]
    assert (holder["group"], holder["vc"], holder["leaves"]) == ("another tenant's job", "", 1)
    assert NAME.lower() in post(server, "root", asked, "/api/v2/jobs/check").text.lower()
    cookie = server.session("bob")
    page = server.form("/submit/check", {"yaml": asked.decode()}, cookie=cookie, headers={"x-csrf-token": csrf(cookie)})
    assert page.status == 200, page.text
    assert NAME.lower() not in page.text.lower()


def test_ones_own_jobs_keep_their_names(server: Server) -> None:
    for gang in (True, False):
        name = f"own-{gang}".lower()
        assert post(server, "bob", job(name, "default", "prod", gang=gang)).status == 202
        found = post(server, "bob", job("more", "default", "prod"), "/api/v2/jobs/check").text
        assert name in found
        assert "another" not in found
        server.cluster.stop_job(f"bob~{name}")


def csrf(cookie: str) -> str:
    return csrf_of(cookies_of(cookie)["paictl_session"])


@pytest.mark.parametrize(
    ("user", "admin", "shown"), [("bob", False, False), ("ann", False, True), ("root", True, True)]
)
def test_the_latest_start_names_only_ones_own_jobs(user: str, admin: bool, shown: bool) -> None:
    call: Any = SimpleNamespace(me=SimpleNamespace(admin=admin, name=user))
    start = LatestStart("2026-12-01T10:00:00Z", (("ann~train", "2026-12-01T10:00:00Z"),), ("ann~train",))
    reason = delaying("ann~train", "2026-12-01T10:00:00Z")
    known = JobExplanation("bob~mine", JobState.WAITING, JobSituation.BACKFILL, reason=reason, start=start)
    found = Tenants(call).explanation(known)
    said = [str(line) for line in (found.reason, *start_lines(found.start), found.start and found.start.unlimited)]
    assert ["ann~train" in line for line in said] == [shown, False, shown, shown]
    assert shown or all("another tenant's job" in line for line in (said[0], *said[2:]))


@pytest.mark.parametrize("admin", [True, False])
def test_what_lost_tasks_wait_for_together_names_only_ones_own_jobs(admin: bool) -> None:
    call: Any = SimpleNamespace(me=SimpleNamespace(admin=admin, name="bob"))
    request = PodRequest("u", "u", "vc1", 0, 1, "bob~mine/default", ((1, 4),), repair=True)
    other = Holder(f"ann~{NAME}/default", "default", 0, Hold.GUARANTEED, 4, 4)
    ends = Change(ChangeKind.END, ChangeOutcome((("n1", (0,)),), victims=(other,)), groups=(other,))
    waits = Explanation(request, PodVerdict.WAIT, None, changes=(ends,))
    joint = JointMove((LostCell("NODE", ("n0",), ((1, 4),)),), waits)
    known = JobExplanation(
        "bob~mine",
        JobState.WAITING,
        JobSituation.NO_ROOM,
        scheduler=Explanation(request, PodVerdict.WAIT, None, together=joint),
    )
    found = Tenants(call).explanation(known)
    said = "\n".join(map(str, lines(found)))
    assert "together with other lost pods" in said
    assert (NAME in said) is admin
    assert (NAME in str(data(found))) is admin


@pytest.mark.parametrize("admin", [True, False])
def test_a_smaller_job_that_would_preempt_names_only_ones_own_jobs(admin: bool) -> None:
    call: Any = SimpleNamespace(me=SimpleNamespace(admin=admin, name="bob"))
    request = PodRequest("u", "u", "vc1", 0, 1, "bob~mine/default", ((1, 8),))
    other = Holder(f"ann~{NAME}/default", "default", -1, Hold.OPPORTUNISTIC, 4, 4)
    smaller = Change(
        ChangeKind.SIZE, ChangeOutcome((("n1", (0,)),), victims=(other,), lazy=(other,)), members=((1, 4),)
    )
    known = JobExplanation(
        "bob~mine",
        JobState.WAITING,
        JobSituation.NO_ROOM,
        scheduler=Explanation(request, PodVerdict.WAIT, None, smaller=smaller),
    )
    found = Tenants(call).explanation(known)
    assert (NAME in str(data(found))) is admin
    assert (NAME in str(parts(found))) is admin


@pytest.mark.parametrize("allowed", [True, False])
def test_who_goes_first_for_its_department_has_a_name_for_who_may_use_it(allowed: bool) -> None:
    me: Any = SimpleNamespace(admin=False, name="bob", may_submit_to=lambda _: allowed)
    call: Any = SimpleNamespace(me=me)
    ahead = LineAhead(1, NAME, "", 0.0, "vc1", 0.0, department=f"{NAME}-lab", unused=4)
    waits = JobExplanation("bob~mine", JobState.WAITING, JobSituation.NO_ROOM, ahead=ahead)
    (line,) = ahead_lines(Tenants(call).explanation(waits).ahead)
    assert (NAME in line) is allowed
    assert "4 unused devices" in line
