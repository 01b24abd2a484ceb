"""The pages, as a browser without scripts would use them."""

from __future__ import annotations

import html
import itertools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from paictl.cluster.embedded.cluster import EmbeddedCluster
from paictl.cluster.interface import JobRequest, JobState, NodeChange
from paictl.cluster.maintenance import WindowRequest
from paictl.cluster.templates import JobTemplate, TemplateLibrary
from paictl.operate import explaining
from paictl.server.portal.submit import SubmitForm
from paictl.server.routing import Router
from paictl.server.serving import routes
from paictl.units import Millis
from tests.unit.server.conftest import PASSWORD, Reply, Server

JOB = {
    "name": "one",
    "vc": "vc1",
    "priority": "test",
    "image": "pai/standard",
    "command": "sleep 1h",
    "instances": "1",
    "gpu": "1",
    "cpu": "1",
    "memory": "512",
    "retries": "0",
    "gang": "on",
}


@dataclass
class Browser:
    """A session: it sends forms as pages hold them, and goes where it is sent."""

    server: Server
    cookie: str

    def get(self, path: str, status: int = 200, language: str = "en") -> str:
        reply = self.server.ask(
            "GET", path, cookie=f"{self.cookie}; paictl_language={language}", headers={"accept": "text/html"}
        )
        assert reply.status == status, (path, reply.status, reply.text)
        return reply.text

    def post(self, page: str, path: str, fields: Mapping[str, str]) -> Reply:
        token = re.search(r'name="csrf" content="(\w+)"', self.get(page))
        assert token is not None
        return self.server.form(path, {**fields, "csrf": token[1]}, cookie=self.cookie, headers={"accept": "text/html"})


@pytest.fixture
def ann(server: Server) -> Browser:
    return Browser(server, server.session("ann"))


@pytest.fixture
def root(server: Server) -> Browser:
    return Browser(server, server.session("root"))


def text_of(page: str) -> str:
    """What a reader sees, in one line."""
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]*>", " ", page)))


def submit(browser: Browser, **fields: str) -> Reply:
    return browser.post("/submit", "/submit", {**JOB, **fields, "wish": "submit"})


def test_a_page_holds_no_more_than_the_end_of_a_log(ann: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task may write lines without end, and its page be asked for again and again."""
    submit(ann)
    pieces = (b"first" if number == 0 else b"<" * (1 << 16) for number in range(200))
    monkeypatch.setattr(EmbeddedCluster, "output", lambda *_, **__: itertools.chain(pieces, [b"last"]))
    shown = html.unescape(ann.get("/jobs/ann/one/log/worker/0"))
    assert "last</pre>" in shown
    assert "first" not in shown
    assert len(shown) < (1 << 20) + 20_000
    route, _ = Router(routes()).find("GET", b"/jobs/ann/one/log/worker/0")
    assert route.slow, "the node of the task may be dead: nobody takes all threads by that"


def test_a_job_is_written_checked_submitted_watched_and_stopped(server: Server, ann: Browser) -> None:
    draft = ann.post("/submit", "/submit", {**JOB, "wish": "draft"}).text
    assert "can run now" in text_of(draft)
    assert "virtualCluster: vc1" in html.unescape(draft)
    assert server.cluster.jobs() == []
    sent = submit(ann)
    assert (sent.status, sent.header("location")) == (303, "/jobs/ann/one")
    submit(ann, name="two")
    assert [job.state for job in server.cluster.jobs()] == [JobState.RUNNING, JobState.WAITING]
    waits = text_of(ann.get("/jobs/ann/two/why"))
    assert "In the way: ann~one (1 device, VC vc1, priority 10)" in waits
    assert "Why it waits" not in text_of(ann.get("/jobs/ann/one"))
    assert 'class="bar running"' in ann.get("/jobs/ann/one/live")
    written = ann.get("/jobs/ann/one/log/worker/0")
    assert "simulated" in text_of(written)
    assert 'role="alert"' not in written
    assert 'role="alert"' in ann.get("/jobs/ann/two/log/worker/9")
    assert "Not allowed" in text_of(ann.get("/jobs/bob/one/log/worker/0", 403))
    assert ann.post("/jobs/ann/one", "/jobs/ann/one/stop", {}).status == 303
    listed = text_of(ann.get("/jobs"))
    assert "ann~one" in listed
    assert "1 to 2 of 2" in listed
    assert server.cluster.job("ann~one").state is JobState.STOPPED
    assert "ann~one" not in ann.get("/jobs?state=Running")
    assert "ann~two" in ann.get("/jobs/table?keyword=two&vc=vc1")


def test_yaml_is_what_counts_once_there_is_some_and_its_findings_have_places(server: Server, ann: Browser) -> None:
    written = "protocolVersion: 2\nname: x\ntype: jub\n"
    reply = ann.post("/submit", "/submit", {**JOB, "yaml": written, "wish": "submit"})
    assert reply.status == 400
    assert "3:7 type is 'jub'" in text_of(reply.text)
    assert written in html.unescape(reply.text)
    refused = submit(ann, vc="default")
    assert "user ann may not submit to virtual cluster default, only to: vc1" in text_of(refused.text)
    assert "instances" in text_of(submit(ann, instances="many").text)
    assert server.cluster.jobs() == []


def test_one_sees_the_own_jobs_only_and_of_the_cluster_what_is_in_use(
    server: Server, ann: Browser, root: Browser
) -> None:
    bob = Browser(server, server.session("bob"))
    submit(bob, name="secret-plan", vc="default")
    submit(ann)
    assert "secret-plan" not in ann.get("/jobs")
    ann.get("/jobs/bob/secret-plan", 403)
    assert ann.post("/jobs", "/jobs/bob/secret-plan/stop", {}).status == 403
    seen = ann.get("/cluster")
    assert "secret-plan" not in seen
    assert "another tenant&#39;s job" in seen
    assert len(re.findall(r'class="leaf held mine"', seen)) == 1
    assert "2 of 2 devices in use" in text_of(seen)
    assert "bob~secret-plan" in root.get("/cluster")
    assert "bob~secret-plan" in root.get("/jobs")
    assert "bob~secret-plan" not in root.get("/jobs?mine=1")


def test_a_window_and_the_run_time_of_a_job_are_shown(server: Server, ann: Browser, root: Browser) -> None:
    assert 'id="maintenance"' not in ann.get("/cluster")
    evil = "<b>disks</b>"
    server.cluster.add_window(WindowRequest(("worker1", "worker2"), Millis(3_600_000), reason=evil))
    seen = ann.get("/cluster")
    assert evil not in seen
    assert "Maintenance Window Nodes From To Reason maintenance-1 worker1, worker2" in text_of(seen)
    assert "维护" in ann.get("/cluster", language="zh")
    submit(ann)
    page = text_of(ann.get("/jobs/ann/one"))
    assert "job ann~one waits for maintenance" in page
    assert "window maintenance-1 closes worker1, worker2 from" in page
    assert 'id="max-run-time"' not in ann.get("/jobs/ann/one")
    server.cluster.remove_window("maintenance-1")
    data = {**server.cluster.job_data("ann~one"), "name": "two", "defaults": {"virtualCluster": "default"}}
    data["extras"] = {"maxRunTime": "2h"}
    server.cluster.submit([JobRequest("root", data)])
    assert "Runs at most 2h (until" in text_of(root.get("/jobs/root/two"))


def test_names_never_become_markup(root: Browser) -> None:
    evil = "<img src=x onerror=alert(1)>"
    for page in ("/jobs?keyword=%3Cimg+src%3Dx%3E", "/jobs?vc=%3Cscript%3E"):
        assert "<img src=x" not in root.get(page)
        assert "<script>" not in root.get(page)
    reply = root.post("/submit", "/submit", {**JOB, "name": evil, "command": evil, "wish": "draft"})
    assert "<img" not in reply.text
    assert html.escape(evil, quote=False) in reply.text.replace("&#34;", '"')
    added = root.post("/admin/users", "/admin/users", {"name": evil, "password": PASSWORD, "email": evil})
    assert added.status == 400
    assert "<img" not in added.text


def test_an_administrator_adds_grants_and_takes_away(server: Server, root: Browser) -> None:
    reply = root.post("/admin/users", "/admin/users", {"name": "eve", "password": PASSWORD, "vc.vc1": "on"})
    assert reply.header("location") == "/admin/users/eve"
    eve = Browser(server, server.session("eve"))
    assert submit(eve).status == 303
    root.post("/admin/users/eve", "/admin/users/eve", {"vc.default": "on", "email": "eve@pai.example"})
    account = server.cluster.users.account("eve")
    assert account is not None
    assert (account.vcs, account.email, account.admin) == (("default",), "eve@pai.example", False)
    root.post("/admin/users/eve", "/admin/users/eve/password", {"password": "another horse"})
    eve.get("/jobs", 303)
    root.post("/admin/users/eve", "/admin/users/eve/remove", {})
    assert server.cluster.users.account("eve") is None
    assert "no user &#39;eve&#39;" in root.get("/admin/users/eve", 404)
    assert "eve~one" in root.get("/jobs")
    alone = root.post("/admin/users/root", "/admin/users/root/remove", {})
    assert "root is the only administrator" in text_of(alone.text)


def test_an_administrator_cordons_nodes_restarts_services_and_reads_versions(server: Server, root: Browser) -> None:
    root.post("/admin/nodes", "/admin/nodes/worker1", {"change": "cordon"})
    assert [node.condition.value for node in server.cluster.nodes()].count("Cordoned") == 1
    assert root.post("/admin/nodes", "/admin/nodes/worker1", {"change": "fail"}).status == 400
    assert "broken" not in root.get("/admin/nodes")
    server.cluster.set_devices("worker1", NodeChange.FAIL, [0])
    assert "broken: 0" in text_of(root.get("/admin/nodes"))
    server.cluster.set_devices("worker1", NodeChange.HEAL, [0])
    root.post("/admin/services", "/admin/services/hivedscheduler", {"action": "stop"})
    assert {one.name: one.running for one in server.cluster.services()}["hivedscheduler"] is False
    assert submit(root, vc="default").status == 303
    assert "waits because hivedscheduler is stopped" in text_of(root.get("/jobs/root/one"))
    root.post("/admin/services", "/admin/services/hivedscheduler", {"action": "start"})
    assert {one.name: one.running for one in server.cluster.services()}["hivedscheduler"] is True
    version = root.get("/admin/configuration/1")
    assert "services-configuration.yaml" in version
    assert "virtualClusters" in version
    root.get("/admin/configuration/99", 404)


def test_ones_own_password_and_tokens(server: Server, ann: Browser) -> None:
    wrong = ann.post("/account", "/account/password", {"old": "nonsense", "new": "a new horse"})
    assert "user name or password is wrong" in text_of(wrong.text)
    made = ann.post("/account", "/account/tokens", {})
    shown = re.search(r'<pre id="fresh">(pai-[\w-]{43})</pre>', made.text)
    assert shown is not None
    assert shown[1] not in ann.get("/account")
    assert server.ask("GET", "/api/v2/jobs", token=shown[1]).status == 200
    (name,) = re.findall(r'name="token" value="(\w+)"', ann.get("/account"))
    ann.post("/account", "/account/tokens/revoke", {"token": name})
    assert server.ask("GET", "/api/v2/jobs", token=shown[1]).status == 401
    changed = ann.post("/account", "/account/password", {"old": PASSWORD, "new": "a new horse"})
    assert changed.status == 303
    ann.get("/jobs", 303)
    fresh = "; ".join(f"{name}={value}" for name, value in changed.cookies.items())
    assert "ann" in Browser(server, fresh).get("/account")


PAGES = (
    "/",
    "/jobs",
    "/jobs/root/one",
    "/jobs/root/one/why",
    "/jobs/root/one/log/worker/0",
    "/submit",
    "/templates",
    "/cluster",
    "/cluster/defragmentation",
    "/usage",
    "/account",
    "/admin/users",
    "/admin/users/ann",
    "/admin/nodes",
    "/admin/services",
    "/admin/configuration",
    "/admin/configuration/1",
)


def test_every_page_speaks_chinese(root: Browser) -> None:
    submit(root, vc="default")
    for path in PAGES:
        page = root.get(path, language="zh")
        assert '<html lang="zh">' in page
        headings = re.findall(r"<(?:h1|h2|th|dt|button|label)[^>]*>([^<]*)<", page)
        english = [one.strip() for one in headings if re.search(r"[A-Za-z]{4}", one) and not re.search("[一-鿿]", one)]
        names = {"English", "root", "one", "worker1", "hivedscheduler", "GPU-POOL", "layout.yaml", "YAML"}
        left = [one for one in english if not any(name in one for name in names) and not one.endswith(".yaml")]
        assert not left, (path, left)


def test_services_say_in_chinese_what_they_do_and_why_they_should_be_refreshed(server: Server, root: Browser) -> None:
    files = dict(server.cluster.configuration().files)
    name = "services-configuration.yaml"
    server.cluster.push({**files, name: files[name] + "# again\n"}, "again")
    shown = root.get("/admin/services", language="zh")
    assert "把所有虚拟集群的 pod 调度到物理集群的单元上。" in shown
    assert "按配置 1 运行，最新的是 2" in shown


def test_a_first_visit_says_what_to_do_and_filters_say_that_nothing_matches(server: Server) -> None:
    cookie = server.session("ann")
    assert "Submit your first job" in server.ask("GET", "/jobs", cookie=cookie).text
    filtered = server.ask("GET", "/jobs?keyword=nothing", cookie=cookie).text
    assert "No job matches these filters." in filtered
    assert "Show all jobs" in filtered


def test_a_page_that_is_not_there_has_the_navigation_and_the_style(server: Server) -> None:
    cookie, html = server.session("ann"), {"accept": "text/html"}
    for path in ("/nowhere", "/jobs/ann/nothing"):
        found = server.ask("GET", path, cookie=cookie, headers=html)
        assert found.status == 404
        assert 'href="/submit"' in found.text
        assert "portal.css" in found.text
        assert "Sign out" in found.text
    stranger = server.ask("GET", "/nowhere", headers=html)
    assert stranger.status == 404
    assert 'href="/submit"' not in stranger.text


def test_a_job_is_found_by_the_name_that_is_shown(server: Server) -> None:
    found = server.ask("GET", "/jobs/ann~train", cookie=server.session("ann"))
    assert (found.status, found.header("location")) == (303, "/jobs/ann/train")
    assert server.ask("GET", "/jobs/ann~train", cookie=server.session("bob")).status == 403


def test_a_name_that_is_taken_keeps_the_form_and_says_so_in_the_words_of_the_page(ann: Browser) -> None:
    assert submit(ann, name="one").status == 303
    again = submit(ann, name="one", command="sleep 2h")
    assert again.status == 409
    assert "you already have a job of this name: choose another name" in again.text
    assert "sleep 2h" in again.text
    for word in ("--name", "paictl job", "affinityGroup"):
        assert word not in again.text, "it once said where the job would run that is there already"
    fields = {"yaml": SubmitForm(name="one", vc="vc1", image="x", command="sleep 1").yaml()}
    checked = json.loads(ann.post("/submit", "/submit/check", fields).text)
    assert (checked["sound"], checked["forecast"]) == (False, []), "as one types, too"
    fields = {"yaml": SubmitForm(name="on", vc="vc1", image="x", command="sleep 1").yaml()}
    assert json.loads(ann.post("/submit", "/submit/check", fields).text)["sound"], "part of a name is not the name"


def test_the_home_says_how_the_cluster_and_ones_own_jobs_are(server: Server, ann: Browser) -> None:
    assert "Submit your first job" in ann.get("/")
    for name in ("one", "two"):
        assert submit(ann, name=name).status == 303
    seen = text_of(ann.get("/"))
    for tile in ("Devices 2", "Promised 2", "In use 1", "Lent 0", "Bad 0", "Running jobs 1", "Waiting jobs 1"):
        assert tile in seen
    assert "Longest waiting: ann~two" in seen
    assert seen.count("Tried chain GPU-POOL of VC vc1: there is not enough room.") == 2, (
        "there and among the recent ones"
    )
    assert "1. Tried" not in seen
    assert "尝试了 VC vc1 的单元链 GPU-POOL：空间不足。" in ann.get("/", language="zh")
    assert "waits: group ann~two" in seen
    server.cluster.tick(Millis(3_600_000))
    seen = ann.get("/")
    assert 'class="band b0"' in seen
    assert "vc1: 1.0 devices on average" in text_of(seen)
    bob = Browser(server, server.session("bob")).get("/")
    assert "ann~" not in bob
    assert "首页" in ann.get("/", language="zh")
    assert "用法" not in ann.get("/", language="zh"), "that is a manual's, not what was used"


def test_a_job_that_waits_has_its_ways_out_as_buttons_and_a_clone_has_a_free_name(server: Server, ann: Browser) -> None:
    for name in ("one", "two"):
        assert submit(ann, name=name).status == 303
    waiting = ann.get("/jobs/ann/two")
    assert "Stop ann~one" in waiting
    offered = html.unescape(re.findall(r'id="way-\d+" href="([^"]+)"', waiting)[0])
    assert offered == "/submit?clone=ann~two&priority=oppo&replace=yes"
    typed = yaml_in(ann.get(offered))
    assert "name: two-2" in typed
    assert "jobPriorityClass: oppo" in typed
    again = ann.post("/submit", "/submit", {"yaml": typed, "wish": "submit"})
    assert (again.status, again.header("location")) == (303, "/jobs/ann/two-2")
    assert "name: two-3" in ann.get("/submit?clone=ann~two-2")
    assert server.ask("GET", "/submit?clone=ann~two", cookie=server.session("bob")).status == 403
    ann.post("/jobs/ann/two", "/jobs/ann/one/stop", {})
    assert server.cluster.job("ann~two").state is JobState.RUNNING


def yaml_in(page: str) -> str:
    """What stands in the field for the YAML."""
    (typed,) = re.findall(r"<textarea name=\"yaml\"[^>]*>(.*?)</textarea>", page, re.DOTALL)
    return html.unescape(typed)


def test_the_explanation_of_a_job_has_the_words_of_the_command_and_shows_where_it_would_run(
    server: Server, ann: Browser
) -> None:
    for name in ("one", "two"):
        assert submit(ann, name=name).status == 303
    page = ann.get("/jobs/ann/two/why")
    for line in explaining.lines(server.cluster.explain("ann~two"), full=True):
        assert line.removeprefix("- ").strip() in text_of(page)
    assert re.findall(r'class="leaf ([^"]*) place" title', page) == ["free"]
    assert re.findall(r'class="leaf ([^"]*) blocks" title', page) == ["held mine"]
    *_, last = re.findall(r'href="(/jobs/ann/two/why\?way=\d+)#picture"', page)
    assert re.findall(r'class="leaf ([^"]*) place" title', ann.get(last)) == ["held mine blocks"]
    assert 'aria-current="true"' in ann.get(last.replace("why?", "why/live?"))
    ann.get("/jobs/bob/two/why", 403)
    assert "is not waiting" in text_of(ann.get("/jobs/ann/one/why"))
    assert len(re.findall(r'class="leaf [^"]* place" title', ann.get("/jobs/ann/one/why"))) == 1
    assert "等待的原因" in ann.get("/jobs/ann/two", language="zh")


def test_an_explanation_names_no_other_tenant_and_offers_nothing_that_is_not_allowed(server: Server) -> None:
    bob, eve = Browser(server, server.session("bob")), Browser(server, server.session("root"))
    submit(eve, name="secret-plan", vc="default")
    submit(bob, name="mine", vc="default")
    page = bob.get("/jobs/bob/mine/why")
    assert "secret-plan" not in page
    assert "root~" not in page
    assert 'id="way-' in page
    assert not re.search(r'action="/jobs/(?!bob/mine/stop)', page)
    assert len(re.findall(r'class="leaf [^"]* blocks" title', page)) == 1


def test_a_job_that_is_too_large_is_resubmitted_smaller_and_the_old_one_stopped(server: Server, root: Browser) -> None:
    submit(root, name="base", vc="default")
    submit(root, name="pair", vc="default", instances="2", gpu="1", priority="oppo")
    page = root.get("/jobs/root/pair/why")
    offered = html.unescape(re.findall(r'href="(/submit[^"]+instances=1[^"]*)"', page)[0])
    form = root.get(offered)
    assert "Stop root~pair once this one is submitted" in text_of(form)
    assert 'name="instances" value="1"' in form
    sent = root.post(
        "/submit", "/submit", {"yaml": yaml_in(form), "wish": "submit", "replaces": "root~pair", "stop": "yes"}
    )
    assert sent.header("location") == "/jobs/root/pair-2"
    states = {job.key: job.state for job in server.cluster.jobs()}
    assert states["root~pair"] is JobState.STOPPED
    assert states["root~pair-2"] is JobState.RUNNING
    ann = Browser(server, server.session("ann"))
    ann.post("/submit", "/submit", {**JOB, "wish": "submit", "replaces": "root~base", "stop": "yes"})
    assert server.cluster.job("root~base").state is JobState.RUNNING


def test_a_job_that_says_more_than_the_form_is_not_overwritten_by_it(ann: Browser) -> None:
    submit(ann)
    assert 'name="image" value="pai/standard"' in ann.get("/submit?clone=ann~one")
    typed = yaml_in(ann.get("/submit?clone=ann~one")).replace("name: one-2", "name: more\ndescription: mine")
    assert ann.post("/submit", "/submit", {"yaml": typed, "wish": "submit"}).status == 303
    page = ann.get("/submit?clone=ann~more")
    assert "The form cannot show all of this job." in text_of(page)
    assert "description: mine" in yaml_in(page)


def test_a_stopped_service_is_the_reason_and_its_start_the_way_out(server: Server, root: Browser, ann: Browser) -> None:
    root.post("/admin/services", "/admin/services/hivedscheduler", {"action": "stop"})
    submit(ann)
    page = ann.get("/jobs/ann/one/why")
    assert "waits because hivedscheduler is stopped" in text_of(page)
    assert "Ask an administrator to start it." in text_of(page)
    assert "paictl " not in text_of(page).partition("Possible fixes")[0].partition("Sign out")[2]
    assert 'action="/admin/services/hivedscheduler"' in root.get("/jobs/ann/one/why")
    assert root.post("/jobs/ann/one/why", "/admin/services/hivedscheduler", {"action": "start"}).status == 303
    assert server.cluster.job("ann~one").state is JobState.RUNNING


def test_replaced_members_of_a_gang_are_listed(server: Server, ann: Browser) -> None:
    data = {
        "protocolVersion": 2,
        "name": "train",
        "type": "job",
        "prerequisites": [{"name": "image", "type": "dockerimage", "uri": "pai/standard"}],
        "taskRoles": {
            "worker": {
                "dockerImage": "image",
                "commands": ["sleep 9h"],
                "resourcePerInstance": {"gpu": 1, "cpu": 1, "memoryMB": 1024},
            }
        },
        "defaults": {"virtualCluster": "vc1"},
        "extras": {"restart": "member"},
    }
    server.cluster.submit([JobRequest("ann", data)])
    assert 'id="repairs"' not in ann.get("/jobs/ann/train")
    node = server.cluster.job("ann~train").tasks[0].node
    server.cluster.set_node(node, NodeChange.FAIL)
    server.cluster.tick(Millis(6_000))
    now = server.cluster.job("ann~train").tasks[0].node
    assert now not in ("", node)
    page = text_of(ann.get("/jobs/ann/train"))
    assert "Replaced members" in page
    assert f"{node} its node has failed" in page
    assert "被替换的成员" in ann.get("/jobs/ann/train", language="zh")


def test_tags_are_added_removed_and_lists_are_filtered_by_them(server: Server, ann: Browser, root: Browser) -> None:
    submit(ann)
    submit(ann, name="two")
    assert "New tag" in text_of(ann.get("/jobs/ann/one"))
    evil = "<b>x</b>"
    for tag in ("sweep-7", evil):
        assert ann.post("/jobs/ann/one", "/jobs/ann/one/tags", {"add": tag}).status == 303
    assert ann.post("/jobs/ann/one", "/jobs/ann/one/tags", {"add": "a b"}).status == 400
    assert root.post("/jobs/ann/one", "/jobs/ann/one/tags", {"add": "seen"}).status == 303
    assert Browser(server, server.session("bob")).post("/jobs", "/jobs/ann/one/tags", {"add": "z"}).status == 403
    assert server.cluster.job("ann~one").tags == ("sweep-7", evil, "seen")
    for path in ("/jobs", "/jobs/ann/one", "/jobs?tag=sweep-7"):
        assert evil not in ann.get(path)
        assert "sweep-7" in text_of(ann.get(path))
    listed = ann.get("/jobs?tag=sweep-7")
    assert ("ann~one" in listed, "ann~two" in listed) == (True, False)
    assert "No job matches" in text_of(ann.get("/jobs?tag=nosuch"))
    clone = html.unescape(ann.get("/submit?clone=ann~one"))
    assert "- sweep-7" in clone
    assert ann.post("/jobs/ann/one", "/jobs/ann/one/tags", {"remove": evil}).status == 303
    assert server.cluster.job("ann~one").tags == ("sweep-7", "seen")


def test_a_clone_has_the_class_that_the_job_got_and_its_stars_are_not_submitted(server: Server, ann: Browser) -> None:
    data = {**SubmitForm(**{**JOB, "name": "base"}).data(), "secrets": {"key": "geheim"}}
    server.cluster.submit([JobRequest("ann", data, priority="prod")])
    page = ann.get("/submit?clone=ann~base")
    typed = re.search(r"<textarea name=\"yaml\"[^>]*>(.*?)</textarea>", page, re.DOTALL)
    assert typed is not None
    copy = html.unescape(typed[1])
    assert ("jobPriorityClass: prod" in copy, "geheim" in copy) == (True, False)
    assert "JOB637" in page
    refused = ann.post("/submit", "/submit", {**JOB, "yaml": copy, "wish": "submit"})
    assert refused.status == 400
    edited = copy.replace("******", "neu")
    assert ann.post("/submit", "/submit", {**JOB, "yaml": edited, "wish": "submit"}).status == 303
    assert [(one.key, one.priority) for one in server.cluster.jobs()] == [("ann~base", "prod"), ("ann~base-2", "prod")]


def test_templates_of_ones_virtual_clusters_fill_the_form(server: Server, ann: Browser, root: Browser) -> None:
    bob = Browser(server, server.session("bob"))
    assert "There are no templates" in text_of(ann.get("/templates"))
    text = "# by <b>us</b>\n" + SubmitForm(**{**JOB, "name": "net"}).yaml()
    plain = JobTemplate("cv/net.yaml", text, "net", "<i>x</i>")
    wrong = JobTemplate("wrong.yaml", "protocolVersion: 2\ntype: jub\n", errors=3, warnings=1)
    moved = JobTemplate("moved.yaml", text.replace("virtualCluster: vc1", "virtualCluster: elsewhere"), "net")
    library = TemplateLibrary("vision", ("vc1",), (plain, wrong, moved))
    server.cluster.put_template_library(library, new=True)
    listed = ann.get("/templates")
    assert "3 errors, 1 warnings" in text_of(listed)
    assert "<i>x</i>" not in listed
    assert "/submit?template=vision&amp;file=cv%2Fnet.yaml" in listed
    assert "cv/net.yaml" in root.get("/templates")
    assert "cv/net.yaml" not in bob.get("/templates")

    def filled(path: str) -> str:
        page = ann.get(f"/submit?template=vision&file={path}")
        found = re.search(r'<textarea name="yaml"[^>]*>(.*?)</textarea>', page, re.DOTALL)
        assert found is not None
        return html.unescape(found[1])

    assert filled("cv/net.yaml") == text
    assert "virtualCluster: vc1" in filled("moved.yaml")
    assert "jub" in filled("wrong.yaml")
    assert ann.post("/submit", "/submit", {**JOB, "yaml": filled("moved.yaml"), "wish": "submit"}).status == 303
    assert "name: net-2" in filled("cv/net.yaml")
    ann.get("/submit?template=vision&file=nosuch.yaml", 404)
    bob.get("/submit?template=vision&file=cv/net.yaml", 404)
    api = "/api/v2/templates"
    assert [one["path"] for one in server.get(api, "ann").data[0]["templates"]] == [
        "cv/net.yaml",
        "wrong.yaml",
        "moved.yaml",
    ]
    assert server.get(f"{api}/vision?file=cv/net.yaml", "ann").text == text
    assert (server.get(api, "bob").data, server.get(f"{api}/vision?file=cv/net.yaml", "bob").status) == ([], 404)
