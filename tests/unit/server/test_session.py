"""Browsers: sign in, cookies, forgery, language and colours."""

from __future__ import annotations

import re

import pytest

from paictl.server.credentials import csrf_of
from tests.unit.server.conftest import PASSWORD, Server


def test_signing_in_gives_a_cookie_that_no_script_reads_and_leads_on(server: Server) -> None:
    reply = server.form("/sign-in", {"user": "ann", "password": PASSWORD, "next": "/jobs?vc=vc1"})
    assert (reply.status, reply.header("location")) == (303, "/jobs?vc=vc1")
    cookie = reply.header("set-cookie")
    assert re.search(r"^paictl_session=pai-[\w-]{43}; Path=/; HttpOnly; SameSite=Lax; Max-Age=43200$", cookie)
    over_tls = server.form("/sign-in", {"user": "ann", "password": PASSWORD}, scheme="https").header("set-cookie")
    assert over_tls.startswith("__Host-paictl=")
    assert over_tls.endswith("; Secure")


@pytest.mark.parametrize(
    "where", ["https://evil.example", "//evil.example", "/\\evil.example", "jobs", "/x\r\nA: b", ""]
)
def test_signing_in_never_leads_to_another_server(server: Server, where: str) -> None:
    assert server.form("/sign-in", {"user": "ann", "password": PASSWORD, "next": where}).header("location") == "/jobs"


def test_a_wrong_password_says_no_more_than_that(server: Server) -> None:
    wrong, nobody = (server.form("/sign-in", {"user": user, "password": "x"}) for user in ("ann", "<b>zoe</b>"))
    assert (wrong.status, nobody.status) == (400, 400)
    assert "user name or password is wrong" in wrong.text
    assert "<b>" not in nobody.text
    assert "&lt;b&gt;zoe&lt;/b&gt;" in nobody.text
    assert not wrong.cookies


def test_signing_out_ends_the_session_for_the_server_too(server: Server) -> None:
    cookie = server.session("ann")
    assert server.ask("GET", "/jobs", cookie=cookie).status == 200
    token = cookie.partition("=")[2]
    reply = server.form("/sign-out", {"csrf": csrf_of(token)}, cookie=cookie)
    assert (reply.status, reply.header("location")) == (303, "/sign-in")
    assert server.ask("GET", "/jobs", cookie=cookie).header("location") == "/sign-in"


@pytest.mark.parametrize(
    ("fields", "headers"),
    [
        ({}, {}),
        ({"csrf": ""}, {}),
        ({"csrf": "0" * 64}, {}),
        ({"csrf": "é"}, {}),
        ({"csrf": "right"}, {"origin": "https://evil.example"}),
        ({"csrf": "right"}, {"sec-fetch-site": "cross-site"}),
        ({"csrf": "right"}, {"sec-fetch-site": "same-site"}),
        ({"csrf": "right"}, {"origin": "null"}),
    ],
)
def test_another_site_cannot_make_a_browser_change_anything(
    server: Server, fields: dict[str, str], headers: dict[str, str]
) -> None:
    cookie = server.session("ann")
    right = csrf_of(cookie.partition("=")[2])
    fields = {name: right if value == "right" else value for name, value in fields.items()}
    assert server.form("/sign-out", fields, cookie=cookie, headers=headers).status == 403
    assert server.ask("GET", "/jobs", cookie=cookie).status == 200
    assert server.ask("DELETE", "/api/v2/authn/basic/logout", cookie=cookie, headers=headers).status == 403


def test_the_page_has_a_policy_and_the_language_that_was_asked_for(server: Server) -> None:
    reply = server.get("/sign-in", headers={"accept-language": "zh-CN,zh;q=0.9"})
    policy = reply.header("content-security-policy")
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert 'lang="zh"' in reply.text
    assert "登录" in reply.text
    assert not re.search(r"<script(?! src)|<style|\son\w+=|\sstyle=", reply.text)
    chosen = server.form("/preferences", {"language": "en", "theme": "dark", "back": "/sign-in"})
    jar = "; ".join(f"{name}={value}" for name, value in chosen.cookies.items())
    again = server.get("/sign-in", cookie=jar, headers={"accept-language": "zh"}).text
    assert '<html lang="en" data-theme="dark">' in again
    assert server.form("/preferences", {"language": "xx", "theme": '"><script>'}).status == 400


def test_static_files_are_the_ones_there_are(server: Server) -> None:
    style = server.get("/static/portal.css")
    assert (style.status, style.header("content-type")) == (200, "text/css; charset=utf-8")
    for path in ("/static/../base.html", "/static/%2e%2e%2fbase.html", "/static/..", "/static/base.html", "/static/"):
        assert server.get(path).status == 404, path
