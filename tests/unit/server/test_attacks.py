"""The REST server attacked: what was tried, one line each, and what has to come of it."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import re
import threading
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Any, Final

import pytest

from paictl.operate.jobfiles import MOST_JOBS
from paictl.operate.users.accounts import NewUser, add, remove, set_password
from paictl.operate.users.tokens import TokenKind, caller_of, digest_of, issue
from paictl.server import credentials
from paictl.server.app import ServerApp
from paictl.server.calls import Answer, Call
from paictl.server.routing import BODY, Access, Operation, Route, Router
from paictl.server.serving import routes
from paictl.server.workers import SLOW_EACH, SPARE, Workers
from paictl.serving.connections import subscriber
from tests.unit.server.conftest import PASSWORD, Reply, Server, occupied, queued
from tests.unit.server.test_api import JOB, submit

# --- another user's job


@pytest.mark.parametrize("path", ["", "/config", "/events", "/explain", "/job-attempts/healthz"])
@pytest.mark.parametrize("job", ["ann~one", "ann~nothing"])
def test_a_job_of_another_user_is_not_shown_whether_it_is_there_or_not(server: Server, path: str, job: str) -> None:
    submit(server, "one")
    mine, other = (server.get(f"/api/v2/jobs/{job}{path}", user) for user in ("ann", "bob"))
    assert mine.status in (200, 404, 501)
    assert (other.status, other.data["message"]) == (403, "only ann and administrators may do this")


def test_a_job_of_another_user_is_neither_stopped_nor_listed_nor_submitted(server: Server) -> None:
    submit(server, "one")
    assert server.send("PUT", "/api/v2/jobs/ann~one/executionType", {"value": "STOP"}, "bob").status == 403
    assert server.get("/api/v2/jobs", "bob").data == []
    for query in ("username=ann", "username=bob,ann", "username=*", "username=%25"):
        assert server.get(f"/api/v2/jobs?{query}", "bob").status == 403, query
    assert server.get("/api/v2/jobs?keyword=ann", "bob").data == []
    named = JOB.format(name="ann~two", vc="default").encode()
    assert server.ask("POST", "/api/v2/jobs", token=server.token("bob"), body=named).status == 400
    assert [job.state.value for job in server.cluster.jobs()] == ["Running"]


# --- tokens


def test_tokens_expired_forged_and_revoked(server: Server) -> None:
    users = server.cluster.users
    ann = users.account("ann")
    assert ann is not None
    good = issue(users, ann, TokenKind.LOGIN)
    stored = users.token(digest_of(good))
    assert stored is not None

    expired = issue(users, ann, TokenKind.LOGIN, timedelta(seconds=1))
    digest = digest_of(expired)
    users.remove_tokens([digest])
    users.add_token(replace(stored, digest=digest, expires=datetime.now(UTC) - timedelta(seconds=1)))
    flipped = good[:-1] + ("A" if good[-1] != "A" else "B")
    none_jwt = "eyJhbGciOiJub25lIn0.eyJ1c2VybmFtZSI6InJvb3QiLCJhZG1pbiI6dHJ1ZX0."
    tried = [
        expired,
        flipped,
        none_jwt,
        digest_of(good),
        stored.digest[:16],
        good.upper(),
        good + "A",
        good[:-1],
        "pai-",
        good.replace("pai-", ""),
        "' OR 1=1 --",
        "pai-" + "%00" * 14 + "A",
        "null",
        "undefined",
        "ann",
    ]
    for token in tried:
        assert server.ask("GET", "/api/v2/jobs", token=token).status == 401, token
        assert server.ask("GET", "/jobs", cookie=f"paictl_session={token}").status == 303, token
    assert server.ask("GET", "/api/v2/jobs", token=good).status == 200
    assert server.ask("GET", "/api/v2/jobs", more=[("authorization", f"Basic {good}")]).status == 401
    assert server.ask("GET", "/api/v2/jobs", token=flipped, cookie=f"paictl_session={good}").status == 401
    twice = [("authorization", f"Bearer {flipped}"), ("authorization", f"Bearer {good}")]
    assert server.ask("GET", "/api/v2/jobs", more=twice).status == 400
    assert server.ask("GET", f"/api/v2/jobs?token={good}").status == 401
    users.remove_tokens([stored.digest])
    assert server.ask("GET", "/api/v2/jobs", token=good).status == 401


def test_a_token_ends_with_its_password_and_with_its_account(server: Server) -> None:
    users = server.cluster.users
    token, again = server.token("ann"), server.token("bob")
    late = [users.token(digest_of(one)) for one in (token, again)]
    set_password(users, "ann", "something else")
    remove(users, "bob")
    add(users, NewUser("bob", PASSWORD, vcs=("default",)))
    for one in late:  # as if it had been stored in that very moment
        assert one is not None
        users.add_token(one)
    assert (caller_of(users, token), caller_of(users, again)) == (None, None)
    assert server.ask("GET", "/api/v2/jobs", token=token).status == 401


def test_the_store_holds_neither_a_token_nor_a_password(server: Server) -> None:
    token = server.token("ann")
    data = b"".join(path.read_bytes() for path in server.folder.iterdir() if path.is_file())
    assert digest_of(token).encode() in data
    assert token.encode() not in data
    assert PASSWORD.encode() not in data
    assert (server.folder / "users.db").stat().st_mode & 0o777 == 0o600


# --- paths


@pytest.mark.parametrize(
    "path",
    [
        "/api/v2/users/../info",
        "/api/v2/users/%2e%2e/info",
        "/api/v2/users/%2e",
        "/api/v2//users",
        "//api/v2/users",
        "/api/v2/users/%00",
        "/api/v2/users/ann%00",
        "/api/v2/users/ann%2fgroup",
        "/api/v2/users/ann%5c",
        "/api/v2/users/%252e%252e",
        "/api/v2/users/ann%20",
        "/api/v2/users/ann;admin=1",
        "/api/v2/users/\xc3\xa4",
        "/API/v2/users",
        "/api/v2/users/ann/",
        "/api/v2/jobs/bob~one~x",
        "/api/v2/jobs/~one",
        "/api/v2/jobs/bob~",
        "/api/v2/jobs/bob%7Eone",
        "/api/v2/jobs/bob~one/../ann~one",
        "/api/v2/jobs/..~..",
        "/api/v2/jobs/bob~one/config/x",
        "/static/%2e%2e%2fbase.html",
        "/static/..%2f..%2fpyproject.toml",
        "/.git/config",
        "/etc/passwd",
        "/static/",
        "/api/v2/users/" + "a" * 300,
        "/" + "x/" * 2000,
        "/api/v2/users/<script>",
        "/?" + "a=1&" * 600,
    ],
)
def test_no_trick_with_a_path_leads_anywhere(shared: Server, path: str) -> None:
    reply = shared.get(path, "ann", headers={"accept": "application/json"})
    # What is decoded once and names a thing is treated as that thing; everything else is not there.
    expected = {"/api/v2/users/ann/": 200, "/api/v2/jobs/bob%7Eone": 403, "/?" + "a=1&" * 600: 400}
    assert reply.status == expected.get(path, 404), reply.text
    assert "root:" not in reply.text


# --- HTML and text


def test_html_in_names_is_text_wherever_it_is_shown(server: Server) -> None:
    evil = "<img src=x onerror=alert(1)>"
    tried = [
        server.form("/sign-in", {"user": evil, "password": "x", "next": f"/{evil}"}),
        server.get(f"/sign-in?next=/{evil}"),
        server.get("/nothing", headers={"accept": "text/html"}),
        server.ask("GET", f"/{evil.replace(' ', '%20')}", headers={"accept": "text/html"}),
        server.form("/preferences", {"language": evil, "back": evil}, headers={"accept": "text/html"}),
    ]
    for reply in tried:
        assert "<img" not in reply.text
    api = server.get(f"/api/v2/jobs?state={evil.replace(' ', '+')}", "ann")
    assert (api.status, api.header("content-type")) == (400, "application/json")
    assert api.header("x-content-type-options") == "nosniff"


def test_a_header_cannot_be_smuggled_into_an_answer(server: Server) -> None:
    for where in ("/jobs%0d%0aSet-Cookie:x=y", "/jobs\r\nSet-Cookie: x=y"):
        reply = server.form("/sign-in", {"user": "ann", "password": PASSWORD, "next": where})
        assert reply.header("location") == "/jobs" or "\r" not in reply.header("location")
        assert set(reply.cookies) == {"paictl_session"}


# --- bodies


def bomb(levels: int) -> bytes:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, levels)]
    return "\n".join(lines).encode()


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"x" * (10 << 20), 413),
        (b"name: " + b"x" * (500 << 10), 400),
        (bomb(9), 400),
        (bomb(40), 400),
        (b"[" * 100_000, 400),
        (b"{a: " * 50_000, 400),
        (b"- " * 50_000, 400),
        (b"a: &a [*a]", 400),
        (b"!!python/object/apply:os.system ['id']", 400),
        (b"\xff\xfe\x00", 400),
        (b"\x00" * 1000, 400),
        (b"", 400),
        (b"null", 400),
        (b"--- a\n--- b\n", 400),
        (JOB.format(name="x" * 10_000, vc="vc1").encode(), 400),
        (JOB.format(name="one", vc="vc1").replace("instances: 1", f"instances: {10**12}").encode(), 400),
        (JOB.format(name="one", vc="<b>").encode(), 403),
        (JOB.format(name="one", vc="vc1").replace("1h", "1h " + "<% $secrets.key %>" * 5000).encode(), 202),
    ],
    ids=lambda one: str(one)[:24] if isinstance(one, int) else str(len(one)),
)
def test_bodies_that_are_too_much_or_nothing(server: Server, body: bytes, status: int) -> None:
    spent = time.process_time()
    for path in ("/api/v2/jobs/check", "/api/v2/jobs"):
        reply = server.ask("POST", path, token=server.token("ann"), body=body, media="text/yaml")
        if path == "/api/v2/jobs":
            assert reply.status == status, reply.text[:300]
        assert reply.status < 500, reply.text[:300]
    assert time.process_time() - spent < 20
    assert len(server.cluster.jobs()) < MOST_JOBS


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/v2/authn/basic/login", b"username=ann&password=%ff%fe"),
        ("/api/v2/authn/basic/login", b"username=ann" + b"&a=b" * 5000),
        ("/api/v2/authn/basic/login", b"username[]=ann&password[]=x"),
        ("/api/v2/authn/basic/login", b'{"username": {"$ne": 1}, "password": {"$ne": 1}}'),
        ("/api/v2/authn/basic/login", b"[" * 60_000),
        ("/api/v2/authn/basic/login", b'{"username":"ann","password":"x","expiration":1e400}'),
        ("/api/v2/authn/basic/login", b"\x00"),
        ("/sign-in", b"user=ann%00&password=x"),
    ],
)
def test_forms_and_json_that_are_none_are_refused(server: Server, path: str, body: bytes) -> None:
    for media in ("application/x-www-form-urlencoded", "application/json", "multipart/form-data; boundary=x", "a"):
        assert 400 <= server.ask("POST", path, body=body, media=media).status < 500


# --- headers


def test_who_is_no_trusted_proxy_cannot_choose_an_address_or_be_secure() -> None:
    networks = (ipaddress.ip_network("10.0.0.0/8"),)
    headers = {"x-forwarded-for": "1.2.3.4, 10.0.0.9", "x-forwarded-proto": "https", "host": "a"}
    stranger = credentials.sender_of("203.0.113.7", "http", headers, networks)
    assert (stranger.address, stranger.secure) == ("203.0.113.7", False)
    proxied = credentials.sender_of("10.0.0.7", "http", headers, networks)
    assert (proxied.address, proxied.secure) == ("1.2.3.4", True)
    forged = credentials.sender_of("10.0.0.7", "http", {"x-forwarded-for": "9.9.9.9, 1.2.3.4, 10.1.1.1"}, networks)
    assert forged.address == "1.2.3.4"
    nonsense = credentials.sender_of("10.0.0.7", "http", {"x-forwarded-for": "<script>"}, networks)
    assert nonsense.address == "unknown"
    assert credentials.sender_of("10.0.0.7", "http", headers, ()).address == "10.0.0.7"


@pytest.mark.parametrize(
    ("proxy", "network"),
    [
        ("10.0.0.7", "10.0.0.0/8"),
        ("::ffff:10.0.0.7", "10.0.0.0/8"),
        ("::ffff:10.0.0.7", "::ffff:10.0.0.0/104"),
    ],
)
def test_a_proxy_and_what_it_says_may_be_ipv4_written_as_ipv6(proxy: str, network: str) -> None:
    networks = (ipaddress.ip_network(network),)
    headers = {"x-forwarded-for": "9.9.9.9, ::ffff:1.2.3.4, ::ffff:10.0.0.9", "host": "a"}
    assert credentials.sender_of(proxy, "http", headers, networks).address == "1.2.3.4"
    stranger = credentials.sender_of("::ffff:203.0.113.7", "http", headers, networks)
    assert subscriber(stranger.address) == "203.0.113.7"


@pytest.mark.parametrize(
    "headers",
    [
        {"cookie": "paictl_session=\x01; a=b"},
        {"cookie": "=;;;=" * 500},
        {"x-http-method-override": "DELETE"},
        {"x-original-url": "/api/v2/users"},
        {"x-rewrite-url": "/api/v2/users"},
        {"x-forwarded-host": "evil.example"},
        {"accept-language": "x" * 5000},
        {"content-type": "é"},
        {"x-forwarded-for": "127.0.0.1"},
        {"x-user": "root"},
    ],
)
def test_headers_change_nothing_that_they_should_not(shared: Server, headers: dict[str, str]) -> None:
    assert shared.ask("GET", "/api/v2/info", headers=headers).status == 200
    assert shared.ask("GET", "/api/v2/users", headers=headers).status == 401
    assert shared.get("/api/v2/users", "ann", headers=headers).status == 403


def test_an_error_of_ours_shows_nothing_of_the_inside(
    server: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> Any:
        raise RuntimeError("secret inside")

    token = server.token("ann")
    monkeypatch.setattr("paictl.cluster.embedded.cluster.EmbeddedCluster.job_page", broken)
    reply = server.get("/api/v2/jobs", "ann")
    assert (reply.status, reply.data) == (
        500,
        {"code": "UnknownError", "message": "internal error: this is a bug in paictl"},
    )
    assert "secret inside" in caplog.text
    assert token not in caplog.text


def test_the_log_has_neither_tokens_nor_what_is_asked_for_in_the_open(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "paictl.server")
    token = server.token("ann")
    server.ask("DELETE", f"/api/v2/tokens/{token}", token=token)
    server.get(f"/api/v2/jobs?token={token}")
    server.get(f"/{token}")
    assert "ann DELETE /api/v2/tokens/{token} 200" in re.sub(r" [\d.]+ ms", "", caplog.text)
    assert token not in caplog.text
    assert PASSWORD not in caplog.text


def test_every_answer_has_the_headers_that_browsers_heed(server: Server) -> None:
    for route in routes():
        reply = server.ask(route.method, re.sub(r"\{\w+\}", "x", route.path))
        assert reply.header("x-content-type-options") == "nosniff", route.path
        assert reply.header("cache-control"), route.path
        if reply.header("content-type").startswith("text/html"):
            assert "frame-ancestors 'none'" in reply.header("content-security-policy"), route.path
        elif reply.body:
            assert json.loads(reply.body) is not None


# --- small requests that cost much


def large_job(copies: int) -> bytes:
    """A job of about 20 bytes a copy, whose command has 1,000 bytes a copy with its templates filled in."""
    command = "<%$parameters.a%>" * copies + " sleep"
    job = JOB.format(name="large", vc="vc1").replace("sleep", command)
    return f"parameters: {{a: {'x' * 1000}}}\n{job}".encode()


@pytest.mark.parametrize(("path", "status"), [("/api/v2/jobs", 400), ("/api/v2/jobs/check", 200)])
def test_templates_that_make_a_job_too_large_are_refused(server: Server, path: str, status: int) -> None:
    reply = server.ask("POST", path, token=server.token("ann"), body=large_job(1001))
    assert (reply.status, "JOB629" in reply.text) == (status, True)
    assert "more than 1,000,000 bytes" in reply.text
    assert server.ask("POST", path, token=server.token("ann"), body=large_job(900)).status in (200, 202)


@pytest.mark.parametrize("path", ["/api/v2/jobs", "/api/v2/jobs/check"])
@pytest.mark.parametrize("first", ["", "# paictl: ignore-file=JOB620\n"])
def test_a_job_with_a_billion_ports_is_refused(server: Server, path: str, first: str) -> None:
    """A line of ten characters; the validator may be told to be silent about it."""
    text = first + JOB.format(name="ports", vc="vc1").replace("gpu: 1", "gpu: 1, ports: {a: 2000000000}")
    assert "2000000000" in text
    reply = server.ask("POST", path, token=server.token("ann"), body=text.encode())
    assert "at most 1,000 ports" in reply.text
    assert server.cluster.jobs() == []


SLOW: Final = (
    ("GET", "/api/v2/defragmentation"),
    ("GET", "/api/v2/jobs/{user}~{job}/explain"),
    ("POST", "/api/v2/jobs"),
    ("POST", "/api/v2/jobs/check"),
    ("GET", "/api/v2/jobs/{user}~{job}/config"),
    ("GET", "/submit"),
    ("POST", "/submit"),
    ("POST", "/submit/draft"),
    ("POST", "/submit/check"),
)


def test_whatever_takes_a_large_body_is_among_what_costs_much() -> None:
    large = {(route.method, route.path) for route in routes() if route.size > BODY}
    assert large and large <= set(SLOW)  # noqa: PT018


@pytest.mark.parametrize(("method", "path"), SLOW)
def test_slow_questions_of_one_account_keep_nobody_else_from_an_answer(server: Server, method: str, path: str) -> None:
    """Eight plans of moves, each of half a minute, would take all threads; so would eight large jobs."""
    gate, begun = threading.Event(), list[str]()

    def slow(call: Call) -> Answer:
        begun.append(call.me.name)
        if call.me.name == "ann":
            gate.wait(60)
        return Answer(call.me.name.encode())

    tokens = {user: server.token(user) for user in ("ann", "bob")}
    workers = Workers(lambda: server.cluster, threads=SLOW_EACH + SPARE + 1)
    real = next(route for route in routes() if (route.method, route.path) == (method, path))
    server.app = ServerApp(workers, Router([replace(real, handle=slow)]))

    def ask(user: str) -> asyncio.Future[Reply]:
        return asyncio.ensure_future(server.sent(method, path.format(user=user, job="one"), tokens[user]))

    async def everybody() -> tuple[Reply, list[Reply]]:
        first = [ask("ann") for _ in range(SLOW_EACH + SPARE + 1)]
        while len(begun) < SLOW_EACH:
            await asyncio.sleep(0)
        try:
            other = await asyncio.wait_for(ask("bob"), 20)
            seen = begun.count("ann")
        finally:
            gate.set()
        assert seen == SLOW_EACH
        return other, await asyncio.gather(*first)

    try:
        other, mine = server.loop.run_until_complete(everybody())
    finally:
        workers.close()
    assert (other.status, other.text) == (200, "bob")
    assert [reply.text for reply in mine] == ["ann"] * (SLOW_EACH + SPARE + 1)


def test_a_script_that_submits_eight_jobs_at_a_time_is_never_refused(server: Server) -> None:
    token, names = server.token("ann"), [f"job{number}" for number in range(24)]

    async def some() -> list[int]:
        found = []
        while names:
            body = JOB.format(name=names.pop(), vc="vc1").encode()
            found.append((await server.sent("POST", "/api/v2/jobs", token, body)).status)
        return found

    async def script() -> list[list[int]]:
        return await asyncio.gather(*[some() for _ in range(8)])

    found = server.loop.run_until_complete(script())
    assert list(chain.from_iterable(found)) == [202] * 24
    assert len(server.cluster.jobs()) == 24


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_what_waits_for_a_thread_is_dropped_when_its_client_goes(server: Server, method: str) -> None:
    handled: list[str] = []

    def handle(call: Call) -> Answer:
        handled.append(call.query["who"])
        return Answer(b"")

    route = Route(method, "/work", Access.ANYBODY, handle, Operation("Work"))
    server.app = ServerApp(server.workers, Router([route]))
    release = threading.Event()

    async def occupy() -> list[asyncio.Future[bool]]:
        return [asyncio.ensure_future(server.workers.ask(lambda _: release.wait(60), "")) for _ in range(2)]

    async def all_done(waiting: list[asyncio.Future[bool]]) -> None:
        await asyncio.gather(*waiting)

    blocked = server.loop.run_until_complete(occupy())
    server.leaves = True
    server.ask(method, "/work?who=gone")
    server.leaves = False
    release.set()
    server.loop.run_until_complete(all_done(blocked))
    assert server.ask(method, "/work?who=stays").status == 200
    assert handled == ["stays"]


def test_error_pages_of_one_address_fill_the_queue_for_themselves_alone(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann = server.session("ann")
    monkeypatch.setattr(server.workers._threads, "_most", 2 + 4)

    def page(client: str, cookie: str) -> asyncio.Future[Reply]:
        server.client = client
        asked = server._request("GET", "/nowhere", cookie=cookie, headers={"accept": "text/html"})
        return asyncio.ensure_future(server._sent(*asked))

    async def act() -> Reply:
        async with occupied(server.workers):
            strangers = [page("198.51.100.7", "paictl_session=pai-x.y") for _ in range(4)]
            await queued(server.workers, 2 + 4)
            anns = page("203.0.113.9", ann)
            await asyncio.wait([*strangers, anns], return_when=asyncio.FIRST_COMPLETED)  # one makes room
        await asyncio.gather(*strangers)
        return await anns

    reply = server.loop.run_until_complete(asyncio.wait_for(act(), 30))
    assert reply.status == 404
    assert '<a class="user" href="/account">ann</a>' in reply.text
