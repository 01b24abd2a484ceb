"""Accounts at registries, tried from machines: the program that is sent there, and what comes of its answers."""

from __future__ import annotations

import base64
import http.server
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from paictl.deploy import registry_checks
from paictl.deploy.downloads import RegistryAccount
from paictl.deploy.registry_checks import accounts_to_try, registry_findings
from paictl.deploy.settings import DeploySettings, LoginSettings
from paictl.deploy.verifying import CheckState, NodeCheck
from paictl.remote.ssh.link import SshOptions
from paictl.remote.ssh.results import CommandStatus, HostResult
from tests.conftest import ROOT
from tests.unit.deploy.loading import load
from tests.unit.deploy.test_downloads import with_token
from tests.unit.deploy.test_inventory import made

PROGRAM = ROOT / "playbooks/files/paictl_registries.py"
WORD = "kelp 'é"
BASIC = "Basic " + base64.b64encode(f"bo:{WORD}".encode()).decode()


class Handler(http.server.BaseHTTPRequestHandler):
    """`/basic/`, `/bearer/`, `/closed/`, `/moved/`, `/broken/`; `/token` for the second."""

    seen: list[tuple[str, str]] = []  # noqa: RUF012 - of all requests

    def do_GET(self) -> None:
        given, place = self.headers.get("Authorization", ""), self.path.split("/")[1].partition("?")[0]
        self.seen.append((self.path, given))
        here = f"http://{self.headers['Host']}"
        challenge, good = {
            "basic": ('Basic realm="x"', BASIC),
            "closed": ('Basic realm="x"', "nobody"),
            "bearer": (f'Bearer realm="{here}/token",service="lab"', "Bearer t0ken"),
            "evil": ('Bearer realm="file:///etc/passwd"', "nobody"),
            "token": ('Basic realm="x"', BASIC),
        }.get(place, ("", ""))
        status = {"moved": 302, "broken": 503}.get(place, 200 if given == good else 401)
        self.send_response(status)
        if status == 401:
            self.send_header("WWW-Authenticate", challenge)
        if status == 302:
            self.send_header("Location", f"{here}/elsewhere")
        self.end_headers()
        self.wfile.write(b'{"token": "t0ken"}')

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def server() -> Iterator[str]:
    made = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{made.server_address[1]}"
    finally:
        made.shutdown()
        thread.join()
        made.server_close()


def ran(places: list[str], password: str = WORD) -> list[Any]:
    """What the program answers on this machine, sent as it is sent to others."""
    wish = json.dumps([{"url": one, "username": "bo", "password": password} for one in places])
    stdin = PROGRAM.read_bytes() + f"\nmain(json.loads({wish!r}))\n".encode()
    done = subprocess.run([sys.executable, "-"], input=stdin, capture_output=True, check=True, env={})
    return list(json.loads(done.stdout))


def test_accounts_are_tried_as_registries_ask_for_them() -> None:
    with server() as here:
        good = ran([f"{here}/{place}/v2/" for place in ("basic", "bearer", "closed", "evil", "broken", "moved")])
        assert good[:4] == [["ok", ""], ["ok", ""], ["refused", "401"], ["refused", "401"]]
        assert good[4:] == [["failed", "HTTP 503"], ["ok", ""]]
        assert ran([f"{here}/basic/v2/", f"{here}/bearer/v2/"], "other") == [["refused", "401"]] * 2
    assert not any(path == "/elsewhere" for path, _ in Handler.seen), "an account is not for where a registry leads"
    ((state, why),) = ran([f"{here}/basic/v2/"])
    assert state == "failed"
    assert "refused" in why.lower()


def test_a_registry_with_tls_cannot_have_the_account_sent_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    program, asked = load("files/paictl_registries.py"), []

    def ask(url: str, authorization: str = "") -> tuple[int, str, bytes]:
        asked.append((url, authorization))
        return 401, 'Bearer realm="http://tokens.example.org/"', b""

    monkeypatch.setattr(program, "ask", ask)
    account = {"url": "https://registry.example.org/v2/", "username": "bo", "password": WORD}
    assert program.tried(account) == ["refused", "401"]
    assert asked == [("https://registry.example.org/v2/", "")]


def test_networks_without_a_proxy_are_those_of_the_file(tmp_path: Path) -> None:
    program = load("files/paictl_registries.py")
    path = tmp_path / "proxy.env"
    path.write_text(
        '# Written by paictl deploy.\nhttp_proxy="http://a:b=c@p:1"\nno_proxy="localhost,10.0.0.0/8,.svc"\n'
    )
    assert program.proxies(str(path)) == {"http_proxy": "http://a:b=c@p:1", "no_proxy": "localhost,10.0.0.0/8,.svc"}
    assert program.proxies(str(tmp_path / "none")) == {}
    assert program.is_direct("10.9.0.1", "localhost,10.0.0.0/8,.svc")
    assert not program.is_direct("11.9.0.1", "localhost,10.0.0.0/8,.svc")
    assert not program.is_direct("r.example", "10.0.0.0/8")


def test_each_account_is_tried_where_containerd_pulls() -> None:
    account = RegistryAccount("bo", WORD)
    settings = DeploySettings(
        LoginSettings("ops", "x"),
        mirrors={"docker.io": ("http://m.example:5000/hub",)},
        insecure=("plain.example",),
        accounts=dict.fromkeys(("m.example:5000", "plain.example", "r.example", "docker.io"), account),
    )
    assert {one["host"]: one["url"] for one in accounts_to_try(settings)} == {
        "m.example:5000": "http://m.example:5000/hub/v2/",
        "plain.example": "http://plain.example/v2/",
        "r.example": "https://r.example/v2/",
        "docker.io": "https://registry-1.docker.io/v2/",
    }


class Machines:
    """Instead of a fleet."""

    answers: dict[str, HostResult] = {}  # noqa: RUF012 - set by the test
    sent = b""

    def __init__(self, inventory: Any, _: SshOptions) -> None:
        self.names = [one.name for one in inventory]

    def __enter__(self) -> Machines:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def run(self, command: str, *, stdin: bytes, manner: Any) -> dict[str, HostResult]:
        assert (command, manner.sudo) == ("python3 -", True)
        Machines.sent = stdin
        return {name: self.answers[name] for name in self.names}


def test_what_machines_answer_becomes_findings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry_checks, "Fleet", Machines)
    deployment = with_token(tmp_path)

    def found(one: HostResult) -> NodeCheck:
        Machines.answers = {"m1": HostResult("m1", CommandStatus.DONE, 0, '[["ok", ""]]'), "w1": one}
        first, second = registry_findings(deployment, SshOptions())
        assert first == NodeCheck("registry:r.example:5000", "m1", CheckState.OK)
        return second

    refused = found(HostResult("w1", CommandStatus.DONE, 0, '[["refused", "401"]]'))
    assert (refused.node, refused.verdict) == ("w1", CheckState.FAILED)
    assert refused.message == "r.example:5000 refuses the account (HTTP 401): see registry_credentials"
    failed = found(HostResult("w1", CommandStatus.DONE, 0, '[["failed", "no route"]]'))
    assert (failed.verdict, failed.message) == (CheckState.FAILED, "r.example:5000: no route")
    away = HostResult("w1", CommandStatus.UNREACHABLE, message="does not answer")
    for one in (away, *(HostResult("w1", CommandStatus.DONE, 0, said) for said in ("[]", "no", "[1]"))):
        assert found(one).verdict is CheckState.WARNING
    assert b"kelp-41" in Machines.sent


def test_without_accounts_no_machine_is_asked(tmp_path: Path) -> None:
    assert registry_findings(made(tmp_path), SshOptions()) == ()
