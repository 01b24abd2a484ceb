"""OpenPAI's REST API v2 as its clients use it."""

from __future__ import annotations

import re
import sqlite3
import threading
from contextlib import closing
from datetime import datetime, timedelta
from typing import Any

import pytest
import yaml

from paictl.cluster.embedded.store import FILE
from paictl.cluster.interface import ClusterError, JobState, NodeChange
from paictl.cluster.maintenance import WindowRequest
from paictl.i18n import catalogue
from paictl.operate.users import passwords
from paictl.server.openapi import description
from paictl.server.serving import routes
from paictl.units import Millis
from tests.conftest import ROOT
from tests.unit.server.conftest import PASSWORD, Reply, Server

JOB = """\
protocolVersion: 2
name: {name}
type: job
prerequisites: [{{name: image, type: dockerimage, uri: pai/standard}}]
secrets: {{key: hunter2-secret}}
taskRoles:
  train:
    instances: 1
    dockerImage: image
    resourcePerInstance: {{gpu: 1, cpu: 1, memoryMB: 512}}
    commands: ["echo <% $secrets.key %>", "sleep 1h"]
defaults: {{virtualCluster: {vc}}}
"""


def submit(server: Server, name: str, user: str = "ann", vc: str = "vc1") -> Reply:
    body = JOB.format(name=name, vc=vc).encode()
    return server.ask("POST", "/api/v2/jobs", token=server.token(user), body=body, media="text/yaml")


# --- tokens


def test_a_client_of_openpai_signs_in_asks_and_signs_out(server: Server) -> None:
    assert server.get("/api/v2/info").data["name"] == "PAI RESTful API"
    reply = server.form("/api/v2/authn/basic/login", {"username": "root", "password": PASSWORD})
    assert {name: reply.data[name] for name in ("user", "admin")} == {"user": "root", "admin": True}
    token = reply.data["token"]
    assert server.ask("GET", "/api/v2/users/root", token=token).data["admin"] is True
    assert server.ask("DELETE", "/api/v2/authn/basic/logout", token=token).status == 200
    assert server.ask("GET", "/api/v2/users/root", token=token).status == 401
    wrong = server.form("/api/v2/authn/basic/login", {"username": "root", "password": "no"})
    nobody = server.form("/api/v2/authn/basic/login", {"username": "nobody", "password": "no"})
    assert (wrong.status, wrong.data["code"]) == (400, "IncorrectPasswordError")
    assert (nobody.status, nobody.data) == (wrong.status, wrong.data)


def test_tokens_are_listed_by_id_and_revoked_by_id_or_by_themselves(server: Server) -> None:
    first = server.token("ann")
    second = server.send("POST", "/api/v2/tokens/application", {}, "ann").data["token"]
    found = server.get("/api/v2/tokens", "ann").data
    assert len(found["tokens"]) == 2
    assert not {first, second} & set(found["tokens"])
    assert [one["kind"] for one in found["details"]] == ["login", "application"]
    assert found["details"][1]["expires"] is None
    assert server.ask("DELETE", f"/api/v2/tokens/{second}", token=first).status == 200
    assert server.ask("GET", "/api/v2/jobs", token=second).status == 401
    assert server.ask("DELETE", f"/api/v2/tokens/{found['tokens'][0]}", token=server.token("bob")).status == 403
    assert server.ask("DELETE", f"/api/v2/tokens/{found['tokens'][0]}", token=first).status == 200
    assert server.ask("GET", "/api/v2/jobs", token=first).status == 401


def test_tokens_of_applications_neither_end_sessions_nor_keep_their_user_out(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("paictl.operate.users.tokens.MOST", 3)
    token = server.token("ann")
    made = [server.send("POST", "/api/v2/tokens/application", {}, "ann") for _ in range(4)]
    assert [reply.status for reply in made] == [200, 200, 200, 400]
    assert "DELETE /api/v2/tokens/ID" in made[3].data["hint"]
    assert server.ask("GET", "/api/v2/jobs", token=token).status == 200
    later = [server.form("/api/v2/authn/basic/login", {"username": "ann", "password": PASSWORD}) for _ in range(3)]
    assert [reply.status for reply in later] == [200] * 3
    assert server.ask("GET", "/api/v2/jobs", token=token).status == 401  # the oldest session made room
    newest = later[-1].data["token"]
    kinds = server.ask("GET", "/api/v2/tokens", token=newest).data["details"]
    assert sorted(one["kind"] for one in kinds) == ["application"] * 3 + ["login"] * 3
    first = next(one["id"] for one in kinds if one["kind"] == "application")
    assert server.ask("DELETE", f"/api/v2/tokens/{first}", token=newest).status == 200
    assert server.ask("POST", "/api/v2/tokens/application", token=newest).status == 200


def test_a_hash_of_old_cost_is_made_anew_at_sign_in(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    before = server.cluster.users.account("ann")
    monkeypatch.setattr(passwords, "COST", (5, 1, 1))
    token = server.token("ann")
    after = server.cluster.users.account("ann")
    assert before is not None
    assert after is not None
    assert before.password.startswith("scrypt:4:1:1:")
    assert after.password.startswith("scrypt:5:1:1:")
    assert server.ask("GET", "/api/v2/jobs", token=token).status == 200


# --- users and groups


def test_an_administrator_makes_changes_and_removes_users(server: Server) -> None:
    zoe = {"username": "zoe", "password": "long enough", "virtualCluster": ["vc1"], "email": "zoe@example.org"}
    assert server.send("POST", "/api/v2/users", zoe, "root").status == 201
    again = server.send("POST", "/api/v2/users", zoe, "root")
    assert (again.status, again.data["code"]) == (409, "ConflictUserError")
    assert server.get("/api/v2/users/zoe", "root").data == {
        "username": "zoe",
        "admin": False,
        "virtualCluster": ["vc1"],
        "grouplist": ["vc1"],
        "storageConfig": [],
        "email": "zoe@example.org",
        "extension": {},
    }
    assert [one["username"] for one in server.get("/api/v2/users", "root").data] == ["ann", "bob", "root", "zoe"]
    change = {"data": {"username": "zoe", "virtualCluster": ["default"]}, "patch": True}
    assert server.send("PUT", "/api/v2/users", change, "root").status == 201
    assert server.send("PUT", "/api/v2/users", {**change, "patch": False}, "root").status == 400
    joined = server.send("PUT", "/api/v2/users/zoe/group/", {"groupname": "vc1"}, "root")
    assert joined.status == 201
    assert server.get("/api/v2/users/zoe", "root").data["virtualCluster"] == ["default", "vc1"]
    assert server.send("PUT", "/api/v2/users/zoe/grouplist", {"grouplist": []}, "root").status == 201
    assert server.get("/api/v2/users/zoe", "root").data["virtualCluster"] == []
    assert server.ask("DELETE", "/api/v2/users/zoe", token=server.token("root")).status == 200
    assert server.get("/api/v2/users/zoe", "root").data["code"] == "NoUserError"


@pytest.mark.parametrize(
    ("change", "status", "code"),
    [
        ({"username": "../../etc"}, 400, "InvalidParametersError"),
        ({"username": "me"}, 400, "InvalidParametersError"),
        ({"username": "a~b"}, 400, "InvalidParametersError"),
        ({"username": 7}, 400, "InvalidParametersError"),
        ({"password": "short"}, 400, "InvalidParametersError"),
        ({"password": "x" * 300}, 400, "InvalidParametersError"),
        ({"virtualCluster": ["nowhere"]}, 400, "NoVirtualClusterError"),
        ({"virtualCluster": "vc1"}, 400, "InvalidParametersError"),
        ({"admin": "yes"}, 400, "InvalidParametersError"),
        ({"email": "<script>@x"}, 400, "InvalidParametersError"),
        ({"extension": {"a": 1}}, 501, "NotImplementedError"),
    ],
)
def test_a_user_that_cannot_be_is_refused(server: Server, change: dict[str, Any], status: int, code: str) -> None:
    reply = server.send("POST", "/api/v2/users", {"username": "zoe", "password": "long enough", **change}, "root")
    assert (reply.status, reply.data["code"]) == (status, code)
    assert len(server.cluster.users.accounts()) == 3


def test_the_last_administrator_stays(server: Server) -> None:
    demoted = server.send("PUT", "/api/v2/users", {"data": {"username": "root", "admin": False}, "patch": True}, "root")
    removed = server.ask("DELETE", "/api/v2/users/root", token=server.token("root"))
    assert [(one.status, one.data["code"]) for one in (demoted, removed)] == [(403, "RemoveAdminError")] * 2
    assert server.get("/api/v2/users/root", "root").data["admin"] is True


@pytest.mark.parametrize(
    "wrong",
    [{"password": "x"}, {"email": "<script>@x"}, {"virtualCluster": ["nowhere"]}, {"admin": "yes"}, {"groups": []}],
    ids=lambda wrong: next(iter(wrong)),
)
def test_a_change_that_is_refused_has_changed_nothing(server: Server, wrong: dict[str, Any]) -> None:
    before = server.cluster.users.account("ann")
    whole = {
        "username": "ann",
        "admin": True,
        "virtualCluster": [],
        "email": "a@b.example",
        "password": "long enough",
    }
    assert server.send("PUT", "/api/v2/users", {"data": {**whole, **wrong}}, "root").status == 400
    assert server.cluster.users.account("ann") == before
    token = server.token("ann")
    assert server.send("PUT", "/api/v2/users", {"data": whole}, "root").status == 201
    assert server.get("/api/v2/users/ann", "root").data["email"] == "a@b.example"
    assert server.ask("GET", "/api/v2/jobs", token=token).status == 401


@pytest.mark.parametrize(
    ("data", "status"),
    [
        ({"admin": True}, 403),
        ({"virtualCluster": ["vc1"]}, 403),
        ({"grouplist": []}, 403),
        ({"nickname": "b"}, 400),
        ({"email": "b@example.org", "newPassword": "x", "oldPassword": PASSWORD}, 400),
    ],
)
def test_what_users_cannot_change_about_themselves_is_refused(server: Server, data: Any, status: int) -> None:
    before = server.cluster.users.account("bob")
    assert server.send("PUT", "/api/v2/users/me", {"data": data, "patch": True}, "bob").status == status
    assert server.cluster.users.account("bob") == before


def test_a_name_with_jobs_of_an_earlier_user_is_not_given_to_another(server: Server) -> None:
    assert submit(server, "one").status == 202
    assert server.ask("DELETE", "/api/v2/users/ann", token=server.token("root")).status == 200
    ann = {"username": "ann", "password": "long enough"}
    refused = server.send("POST", "/api/v2/users", ann, "root")
    assert (refused.status, refused.data["code"]) == (409, "ConflictUserError")
    assert "--with-jobs" in refused.data["hint"]
    assert server.cluster.users.account("ann") is None
    assert server.send("POST", "/api/v2/users", {**ann, "username": "zoe"}, "root").status == 201


def test_users_change_their_own_password_and_all_other_sessions_end(server: Server) -> None:
    cookie, token = server.session("ann"), server.token("ann")
    change = {"data": {"oldPassword": "wrong", "newPassword": "another one"}, "patch": True}
    assert server.send("PUT", "/api/v2/users/me", change, "ann").status == 400
    change["data"] = {"oldPassword": PASSWORD, "newPassword": "another one", "username": "ann"}
    assert server.send("PUT", "/api/v2/users/me", change, "ann").status == 201
    assert server.ask("GET", "/api/v2/jobs", token=token).status == 401
    assert server.ask("GET", "/jobs", cookie=cookie).status == 303
    assert server.form("/api/v2/authn/basic/login", {"username": "ann", "password": PASSWORD}).status == 400
    assert server.form("/api/v2/authn/basic/login", {"username": "ann", "password": "another one"}).status == 200
    other = {"data": {"username": "bob", "email": "x@example.org"}, "patch": True}
    assert server.send("PUT", "/api/v2/users/me", other, "bob").status == 201
    assert server.send("PUT", "/api/v2/users/me", {"data": {"username": "root"}}, "bob").status == 403


def test_groups_are_the_virtual_clusters_and_their_members(server: Server) -> None:
    assert [one["groupname"] for one in server.get("/api/v2/groups", "ann").data] == ["default", "vc1"]
    members = server.get("/api/v2/groups/vc1/userlist", "root").data
    assert members == [{"username": "ann", "clusterAdmin": False}]
    assert server.get("/api/v2/groups/nowhere", "ann").data["code"] == "NoGroupError"
    assert server.send("POST", "/api/v2/groups", {"groupname": "x"}, "root").status == 501


def test_virtual_clusters_say_what_is_promised_and_used(server: Server) -> None:
    assert submit(server, "one").status == 202
    found = server.get("/api/v2/virtual-clusters", "bob").data
    assert set(found) == {"default", "vc1"}
    assert (found["vc1"]["capacity"], found["vc1"]["usedCapacity"]) == (50, 50)
    assert found["vc1"]["resourcesUsed"]["gpu"] == 1
    assert found["default"]["resourcesUsed"] == {"cpu": 0, "vCores": 0, "memory": 0, "gpu": 0, "GPUs": 0}
    assert server.get("/api/v2/virtual-clusters/vc1", "bob").data == found["vc1"]
    assert server.get("/api/v2/virtual-clusters/vc9", "bob").data["code"] == "NoVirtualClusterError"


# --- jobs


def test_a_job_is_submitted_shown_and_stopped(server: Server) -> None:
    reply = submit(server, "one")
    assert (reply.status, reply.data["message"]) == (202, "update job one successfully")
    job = server.get("/api/v2/jobs/ann~one", "ann").data
    assert (job["name"], job["jobStatus"]["state"], job["jobStatus"]["virtualCluster"]) == ("one", "RUNNING", "vc1")
    (task,) = job["taskRoles"]["train"]["taskStatuses"]
    assert (task["taskState"], task["containerGpus"]) == ("RUNNING", "0")
    assert job["jobStatus"]["createdTime"] > 1.7e12
    kept = server.get("/api/v2/jobs/ann~one/config", "ann")
    assert kept.header("content-type") == "text/yaml; charset=utf-8"
    assert yaml.safe_load(kept.text)["taskRoles"]["train"]["instances"] == 1
    assert "hunter2" not in kept.text
    told = server.get("/api/v2/jobs/ann~one/events", "ann").data
    assert [event["reason"] for event in told["data"]] == ["Submitted", "Started"]
    assert server.get("/api/v2/jobs/ann~one/events?type=Warning", "ann").data["totalCount"] == 0
    for _ in range(2):
        assert server.send("PUT", "/api/v2/jobs/ann~one/executionType", {"value": "STOP"}, "ann").status == 202
    assert server.cluster.job("ann~one").state is JobState.STOPPED
    assert server.get("/api/v2/jobs/ann~one", "root").data["jobStatus"]["executionType"] == "STOP"
    again = server.send("PUT", "/api/v2/jobs/ann~one/executionType", {"value": "START"}, "ann")
    assert (again.status, again.data["code"]) == (501, "NotImplementedError")
    assert server.get("/api/v2/jobs/ann~two", "ann").data["code"] == "NoJobError"


def test_many_who_stop_a_job_at_once_are_all_told_that_it_is_stopped(server: Server) -> None:
    assert submit(server, "one").status == 202
    barrier = threading.Barrier(4)
    raised: list[BaseException] = []

    def stop() -> None:
        cluster = server.cluster
        barrier.wait()
        try:
            cluster.stop_job("ann~one")
        except ClusterError as error:
            raised.append(error)

    threads = [threading.Thread(target=stop) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert raised == []
    assert server.cluster.job("ann~one").state is JobState.STOPPED


def test_a_name_is_taken_once_so_that_asking_again_does_no_harm(server: Server) -> None:
    assert submit(server, "one").status == 202
    again = submit(server, "one")
    assert (again.status, again.data["code"]) == (409, "ConflictJobError")
    assert [job.key for job in server.cluster.jobs()] == ["ann~one"]


def test_users_submit_where_they_were_granted_to_and_administrators_everywhere(server: Server) -> None:
    refused = submit(server, "one", "ann", "default")
    assert (refused.status, refused.data["code"]) == (403, "ForbiddenUserError")
    assert "default" in refused.data["message"]
    assert submit(server, "one", "root", "default").status == 202
    body = JOB.format(name="two", vc="vc1").replace("defaults: {virtualCluster: vc1}\n", "").encode()
    unsaid = server.ask("POST", "/api/v2/jobs", token=server.token("ann"), body=body, media="text/yaml")
    assert unsaid.status == 403
    assert submit(server, "three", "root", "nowhere").status == 400
    assert [job.key for job in server.cluster.jobs()] == ["root~one"]


def test_what_the_validator_finds_is_told_in_full(server: Server) -> None:
    body = JOB.format(name="one", vc="vc1").replace("instances: 1", "instances: none").replace("gpu: 1", "gpu: -1")
    for path in ("/api/v2/jobs", "/api/v2/jobs/check"):
        reply = server.ask("POST", path, token=server.token("ann"), body=body.encode(), media="text/yaml")
        problems = reply.data["problems"]
        assert {one["line"] for one in problems if one["severity"] == "error"} == {8, 10}
        assert all(one["message"] and one["rule"] for one in problems)
        if path.endswith("jobs"):
            assert (reply.status, reply.data["code"]) == (400, "InvalidProtocolError")
            assert all(one["message"] in reply.data["message"] for one in problems)
    assert server.cluster.jobs() == []


def test_what_would_become_of_a_job_is_told_before_it_is_submitted(server: Server) -> None:
    def check(name: str) -> Any:
        body = JOB.format(name=name, vc="vc1").encode()
        return server.ask("POST", "/api/v2/jobs/check", token=server.token("ann"), body=body, media="text/yaml").data

    assert "can run now" in check("one")["lines"][0]
    assert submit(server, "one").status == 202
    assert "waits" in " ".join(check("two")["lines"])
    assert len(server.cluster.jobs()) == 1


def test_the_list_is_filtered_ordered_and_paged(server: Server) -> None:
    for name in ("c", "a", "b"):
        assert submit(server, name).status == 202
    assert submit(server, "z", "bob", "default").status == 202

    def names(query: str, user: str = "root") -> list[str]:
        return [one["name"] for one in server.get(f"/api/v2/jobs?{query}", user).data]

    assert names("") == ["z", "b", "a", "c"]
    assert names("", "ann") == ["b", "a", "c"]
    assert names("order=jobName,ASC&limit=2&offset=1") == ["b", "c"]
    assert names("vc=default") == ["z"]
    assert names("username=bob,ann&keyword=a") == ["b", "a", "c"]
    assert names("state=RUNNING") == ["z", "c"]
    assert names("state=STOPPING") == []
    total = server.get("/api/v2/jobs?withTotalCount=true&limit=1", "ann").data
    assert (total["totalCount"], len(total["data"])) == (3, 1)
    assert server.get("/api/v2/jobs?username=bob", "ann").status == 403
    for wrong in ("state=HAPPY", "order=colour,ASC", "order=name,UP", "limit=-1", "offset=x", "limit=1e3"):
        assert server.get(f"/api/v2/jobs?{wrong}", "root").status == 400, wrong


def test_while_the_service_is_stopped_jobs_are_not_taken_and_it_says_so(server: Server) -> None:
    assert submit(server, "one").status == 202
    server.cluster.set_service("rest-server", running=False)
    reply = submit(server, "two")
    assert (reply.status, reply.data["code"]) == (503, "UnavailableError")
    assert reply.data["hint"] == "start it: paictl service start -n rest-server"
    assert server.get("/api/v2/jobs/ann~one", "ann").data["jobStatus"]["state"] == "RUNNING"
    server.cluster.set_service("rest-server", running=True)
    assert submit(server, "two").status == 202


# --- the description


def test_the_description_is_what_is_served(server: Server) -> None:
    told = server.get("/openapi.json").data
    assert told == description([route for route in routes() if not route.page and route.path != "/openapi.json"])
    for path, methods in told["paths"].items():
        address = re.sub(r"\{\w+\}", "x", path)
        fitting = (
            other for name, other in told["paths"].items() if re.fullmatch(re.sub(r"\{\w+\}", "[^/~]+", name), address)
        )
        allowed = {name.upper() for other in fitting for name in other}
        for method in ("GET", "POST", "PUT", "DELETE", "PATCH"):
            status = server.ask(method, address).status
            assert (status == 405) is (method not in allowed), (method, path, status)
            if method.lower() in methods:
                assert str(status) in methods[method.lower()]["responses"], (method, path, status)
    ids = [one["operationId"] for methods in told["paths"].values() for one in methods.values()]
    assert len(ids) == len(set(ids))


def test_every_refusal_is_said_in_chinese_too(server: Server) -> None:
    entries = catalogue("zh")._entries
    said = {
        key
        for path in (ROOT / "paictl" / "server").rglob("*.py")
        for key in re.findall(r'\btext\(\s*"([^"]+)"', path.read_text(encoding="utf-8"))
    }
    assert sorted(said - entries.keys()) == []
    reply = server.get("/api/v2/users", "ann", headers={"accept-language": "zh-CN"})
    assert (reply.data["code"], reply.data["message"]) == ("ForbiddenUserError", "仅管理员可用")


def test_moves_that_make_room_name_only_ones_own_gangs(server: Server) -> None:
    path = "/api/v2/defragmentation"
    assert server.ask("GET", f"{path}?for=1xGPU-NODE").status == 401
    assert server.get(path, "ann").status == 400
    assert server.get(f"{path}?for=9xGPU-NODE", "ann").status >= 400
    for user in ("ann", "root"):
        (room,) = server.get(f"{path}?for=1xGPU-NODE", user).data["rooms"]
        assert (room["number"], room["cell_type"], room["moves"]) == (1, "GPU-NODE", [])


def test_windows_are_read_by_users_and_by_nobody_else(server: Server) -> None:
    assert server.get("/api/v2/maintenance", "ann").data == []
    server.cluster.add_window(WindowRequest(("worker1",), Millis(3_600_000), reason="disks"))
    (found,) = server.get("/api/v2/maintenance", "ann").data
    assert (found["name"], found["nodes"], found["reason"], found["active"]) == (
        "maintenance-1",
        ["worker1"],
        "disks",
        True,
    )
    assert datetime.fromisoformat(found["end"]) - datetime.fromisoformat(found["start"]) == timedelta(hours=1)
    assert server.ask("GET", "/api/v2/maintenance").status == 401


def test_attempts_of_a_job_that_was_retried(server: Server) -> None:
    submit(server, "one")
    path = "/api/v2/jobs/ann~one/job-attempts"
    (only,) = server.get(path, "ann").data
    assert (only["attemptIndex"], only["isLatest"], only["attemptState"]) == (0, True, "RUNNING")
    assert 'id="attempts"' not in server.ask("GET", "/jobs/ann/one", cookie=server.session("ann")).text
    (task,) = server.cluster.job("ann~one").tasks
    server.cluster.set_node(task.node, NodeChange.FAIL)
    server.cluster.tick(Millis(600_000))
    first, second = server.get(path, "ann").data
    assert (first["attemptState"], first["isLatest"], first["nodes"]) == ("LOST", False, [task.node])
    assert first["attemptLaunchedTime"] < first["attemptCompletedTime"] <= second["attemptLaunchedTime"]
    assert (second["attemptIndex"], second["attemptState"], second["exitCode"]) == (1, "RUNNING", None)
    assert server.get(f"{path}/1", "ann").data == second
    assert server.get(f"{path}/2", "ann").status == 404
    assert server.get(f"{path}/healthz", "ann").status == 200
    assert server.get(path, "bob").status == 403
    page = server.ask("GET", "/jobs/ann/one", cookie=server.session("ann")).text
    assert 'id="attempts"' in page


def test_tags_are_openpais_and_filter_lists(server: Server) -> None:
    assert [submit(server, name).status for name in ("one", "two")] == [202, 202]
    path = "/api/v2/jobs/ann~one/tag"
    for value in ("sweep-7", "best", "best"):
        assert server.send("PUT", path, {"value": value}, "ann").status == 200
    assert server.get("/api/v2/jobs/ann~one", "ann").data["tags"] == ["sweep-7", "best"]
    assert server.send("DELETE", path, {"value": "best"}, "ann").status == 200
    for wrong in ("a,b", "a b", "", 7, None):
        assert server.send("PUT", path, {"value": wrong}, "ann").status == 400
    assert server.send("PUT", path, {"value": "z"}, "bob").status == 403
    assert server.send("PUT", "/api/v2/jobs/ann~nosuch/tag", {"value": "z"}, "ann").status == 404

    def names(query: str) -> list[tuple[str, list[str]]]:
        return [(one["name"], one["tags"]) for one in server.get(f"/api/v2/jobs?{query}", "ann").data]

    assert names("tag=sweep-7") == names("tagsContain=x,sweep-7") == [("one", ["sweep-7"])]
    assert names("tagsNotContain=sweep-7") == [("two", [])]
    assert names("tag=nosuch") == []


def test_a_full_disk_is_no_fault_of_the_request_and_names_no_folder(server: Server) -> None:
    job = JOB.format(name="late", vc="vc1").encode()
    with closing(sqlite3.connect(server.folder / FILE)) as db:
        (pages,) = db.execute("PRAGMA page_count").fetchone()
    connect = sqlite3.connect

    def full(*given: Any, **named: Any) -> sqlite3.Connection:
        db: sqlite3.Connection = connect(*given, **named)
        db.execute(f"PRAGMA max_page_count = {pages}")
        return db

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite3, "connect", full)
        body = job.replace(b"sleep 1h", b"sleep 1h  # " + b"x" * 400_000)
        reply = server.ask("POST", "/api/v2/jobs", token=server.token("ann"), body=body, media="text/yaml")
    assert (reply.status, reply.data["code"]) == (503, "UnavailableError")
    assert "full" in reply.data["message"]
    assert str(server.folder) not in reply.text
    assert server.get("/api/v2/jobs", "ann").data == []
