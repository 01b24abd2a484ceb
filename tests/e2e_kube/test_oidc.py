"""Signing in with a real OpenID provider: in a browser, with a token, with a code that is typed on another device."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any

import pytest
import yaml

from paictl.cluster.embedded.cluster import EmbeddedCluster
from paictl.remote.oidc.provider import Provider
from tests.browser import CHROMIUM, browser, click, fill, reads
from tests.conftest import ROOT
from tests.contract.conftest import embedded
from tests.e2e_kube.controlplane import free_ports
from tests.e2e_kube.kubeapi import until
from tests.unit.server.process import Served, served

FILE = "services-configuration.yaml"
PASSWORD = "correct horse"  # noqa: S105 - of a test


@dataclass
class Lab:
    """A server of ours, and its provider."""

    server: Served
    issuer: str
    cluster: EmbeddedCluster

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server.port}"


@pytest.fixture(scope="module")
def program() -> Path:
    build = str(ROOT / "tools" / "kube" / "build.sh")
    folder = subprocess.run([build, "--where", "oidc"], check=True, capture_output=True, text=True).stdout.strip()
    if not Path(folder, "oidc-provider").is_file():
        pytest.skip(f"no OpenID provider in {folder}: make kube")
    return Path(folder, "oidc-provider")


@pytest.fixture
def lab(program: Path, tmp_path: Path) -> Iterator[Lab]:
    own, port = free_ports(2)
    issuer = f"http://localhost:{port}"
    about = {
        "Port": port,
        "Redirects": [f"http://127.0.0.1:{own}/sign-in/oidc/callback"],
        "Users": {"eve": PASSWORD, "carl": PASSWORD},
        "Groups": {"eve": ["vision"], "carl": ["gpu-admins"]},
    }
    (tmp_path / "provider.json").write_text(json.dumps(about))
    cluster = embedded(tmp_path).cluster
    files = dict(cluster.configuration().files)
    section = {
        "issuer": issuer,
        "client-id": "paictl",
        "groups": {"vision": ["vc1"]},
        "admin-groups": ["gpu-admins"],
    }
    whole = yaml.safe_load(files[FILE]) | {"authentication": {"oidc": section}}
    cluster.push({**files, FILE: yaml.safe_dump(whole)}, "oidc")
    process = subprocess.Popen([program, tmp_path / "provider.json"], stderr=subprocess.DEVNULL)
    try:
        until(lambda: _answers(port), 30, "the provider answers")
        state = tmp_path / "state"
        with served(state, "--listen", f"127.0.0.1:{own}") as server:
            yield Lab(server, issuer, EmbeddedCluster.at(state))
    finally:
        process.terminate()
        process.wait(timeout=30)


def _answers(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("localhost", port)) == 0


def opener() -> urllib.request.OpenerDirector:
    """A browser without pages: cookies and redirects."""
    return urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))


def posted(client: urllib.request.OpenerDirector, address: str, **fields: str) -> str:
    with client.open(address, urllib.parse.urlencode(fields).encode(), timeout=30) as answer:
        return str(answer.read().decode())


@pytest.mark.skipif(not CHROMIUM, reason="no Chromium")
def test_in_a_real_browser(lab: Lab) -> None:
    with browser() as page:
        page.open(f"{lab.address}/cluster")
        page.follow(click(page, "#oidc"))
        reads(page, "Username:")
        fill(page, username="eve", password=PASSWORD)
        page.follow(click(page, "button[type=submit]"))
        reads(page, "eve")
        assert page.run("location.pathname") == "/cluster"
    account = lab.cluster.users.account("eve")
    assert account is not None
    assert (account.vcs, account.admin, account.subject) == (("vc1",), False, f"{lab.issuer}#eve")


def device_tokens(lab: Lab, client: str, user: str) -> Any:
    """The tokens that the provider gives a program of a client, for a user who types its code."""
    provider = Provider(lab.issuer, client)
    code = provider.device_code("openid profile groups")
    typed(lab, code.code, user)
    return provider.await_device(code, lambda _: None)


def typed(lab: Lab, code: str, user: str) -> None:
    there = opener()
    posted(there, f"{lab.issuer}/device/login", user_code=code, username=user, password=PASSWORD)
    there.open(f"{lab.issuer}/device/confirm?action=allowed", timeout=30).close()


def test_a_token_of_the_provider_asks_the_api(lab: Lab) -> None:
    tokens = device_tokens(lab, "paictl", "carl")
    for word in (tokens.access_token, tokens.id_token):
        status, body = lab.server.ask("GET", "/api/v2/users/carl", Authorization=f"Bearer {word}")
        assert status == 200, body
        assert json.loads(body)["admin"] is True
    for client, said in (("other", "for another audience (other), not for paictl"), ("brief", "another audience")):
        word = device_tokens(lab, client, "carl").id_token
        status, body = lab.server.ask("GET", "/api/v2/jobs", Authorization=f"Bearer {word}")
        assert status == 401
        assert said in json.loads(body)["message"]


def test_a_code_is_typed_on_another_device(lab: Lab) -> None:
    environment = {**os.environ, "COLUMNS": "200"}
    process = subprocess.Popen(
        [sys.executable, "-m", "paictl", "user", "sign-in", lab.address],
        cwd=ROOT,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stderr is not None
    match = re.search(r"type the code (\S+)", process.stderr.readline())
    assert match is not None
    typed(lab, match[1], "eve")
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert "signed in as eve" in err
    status, body = lab.server.ask("GET", "/api/v2/users/eve", Authorization=f"Bearer {out.strip()}")
    assert status == 200
    assert json.loads(body)["grouplist"] == ["vc1"]


def test_an_expired_token_says_so(lab: Lab) -> None:
    """Its client has no other audience than itself, so the server is told to accept that."""
    files = dict(lab.cluster.configuration().files)
    whole = yaml.safe_load(files[FILE])
    whole["authentication"]["oidc"]["audiences"] = ["brief"]
    lab.cluster.push({**files, FILE: yaml.safe_dump(whole)}, "audience")
    word = device_tokens(lab, "brief", "eve").id_token
    status, body = lab.server.ask("GET", "/api/v2/jobs", Authorization=f"Bearer {word}")
    assert status == 401
    assert "this token expired at" in json.loads(body)["message"]
