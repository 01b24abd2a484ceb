"""Device hours by the API and the page: everybody's for administrators, one's own for everybody else."""

from __future__ import annotations

from paictl.units import Millis
from tests.unit.server.conftest import Server
from tests.unit.server.test_tenants import job, post

HOUR = 3_600_000


def used(server: Server) -> None:
    """An hour of a job of each of two users."""
    for user, vc in (("ann", "vc1"), ("bob", "default")):
        assert post(server, user, job(f"{user}-train", vc, "test")).status == 202
    server.cluster.tick(Millis(HOUR))


def test_a_user_sees_own_hours_only(server: Server) -> None:
    used(server)
    mine = server.get("/api/v2/usage?by=vc,user,job", "ann").data
    assert [(row["vc"], row["user"], row["job"]) for row in mine["rows"]] == [("vc1", "ann", "ann~ann-train")]
    assert mine["total"]["guaranteedDeviceMs"] == HOUR
    assert mine["total"]["idleDeviceMs"] == 0, "what was promised is nobody's own"
    everybody = server.get("/api/v2/usage?by=user", "root").data
    assert {row["user"]: row["guaranteedDeviceMs"] for row in everybody["rows"]} == {"ann": HOUR, "bob": HOUR}
    page = server.ask("GET", "/usage", cookie=server.session("ann")).text
    assert "ann~ann-train" in page
    assert "bob" not in page


def test_the_page_adds_up_as_it_is_asked_to(server: Server) -> None:
    used(server)
    cookie = server.session("root")
    page = server.ask("GET", "/usage?by=vc", cookie=cookie).text
    assert '<th scope="col">Virtual cluster</th>' in page
    assert "vc1" in page
    assert "ann" not in page.partition("<tbody>")[2].partition("</tbody>")[0]
    assert "/usage?month=" in page
    assert "Nothing was used" in server.ask("GET", "/usage?month=2001-01", cookie=cookie).text


def test_what_cannot_be_asked_is_said(server: Server) -> None:
    for query, word in (("by=colour", "colour"), ("month=13", "13"), ("vc=nowhere", "nowhere")):
        refused = server.get(f"/api/v2/usage?{query}", "root")
        assert refused.status == 400
        assert word in refused.data["message"]


def share(server: Server, section: str) -> None:
    """The scheduler starts with this section `sharing`."""
    name = "services-configuration.yaml"
    files = dict(server.cluster.configuration().files)
    server.cluster.push({**files, name: f"{files[name].rstrip()}\n{section}\n"}, "sharing")
    server.cluster.restart_services(["hivedscheduler"])


def test_users_see_their_budgets_and_limits_and_those_of_their_tenants(server: Server) -> None:
    used(server)
    share(
        server,
        "sharing: {budgets: [{vc: vc1, device-hours: 1, over: refuse}, {vc: default, device-hours: 4}, "
        "{user: '*', device-hours: 2}, {device-hours: 9}], user-limits: [{vc: vc1, devices: 2}], "
        "borrow-limits: [{vc: vc1, devices: 3}], lend-limits: [{vc: vc1, devices: 0}], "
        "departments: [{name: research, vcs: [vc1]}]}",
    )
    everything = server.get("/api/v2/usage/budgets", "root").data["budgets"]
    assert [(one["vc"], one["user"], one["level"]) for one in everything] == [
        ("vc1", "", "spent"),
        ("default", "", "ok"),
        ("", "ann", "ok"),
        ("", "bob", "ok"),
        ("", "", "ok"),
    ]
    bobs = server.get("/api/v2/usage/budgets", "bob").data["budgets"]
    assert [(one["vc"], one["user"]) for one in bobs] == [("default", ""), ("", "bob")]
    assert [one["user"] for one in server.get("/api/v2/usage/limits", "ann").data] in ([], ["ann"])
    (lent,) = (one for one in server.get("/api/v2/usage/limits", "root").data if one["class"] == "opportunistic")
    assert lent == {"vc": "vc1", "user": "", "class": "opportunistic", "held": 0, "limit": 3}
    refused = post(server, "ann", job("more", "vc1", "test"))
    assert refused.status == 400
    assert "the budget of virtual cluster vc1 is used up" in refused.data["message"]
    page = server.ask("GET", "/usage", cookie=server.session("root")).text
    assert "Budgets of this month" in page
    assert "Limits of devices" in page
    assert "Lendable" in page
    assert "research" in page
    assert "<td" in page.partition("Budgets of this month")[2]
    mine = server.ask("GET", "/usage", cookie=server.session("bob")).text
    assert "vc1" not in mine.partition("Budgets of this month")[2]


def test_the_page_says_nothing_of_budgets_where_there_are_none(server: Server) -> None:
    used(server)
    page = server.ask("GET", "/usage", cookie=server.session("root")).text
    assert "Budget" not in page
    assert "Limits" not in page
