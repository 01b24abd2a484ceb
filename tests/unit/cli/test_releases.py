"""`paictl version --check` against an index on this machine."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, ClassVar

import pytest

from paictl.cli import releases
from tests.unit.cli.conftest import Paictl


class Index(BaseHTTPRequestHandler):
    answers: ClassVar[dict[str, tuple[int, bytes]]] = {}
    seen: ClassVar[list[dict[str, str]]] = []

    def do_GET(self) -> None:
        Index.seen.append(dict(self.headers))
        status, body = self.answers.get(self.path, (404, b""))
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def index() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Index)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    Index.answers, Index.seen = {}, []
    yield f"http://127.0.0.1:{server.server_port}/simple"
    server.shutdown()
    server.server_close()


def answer(**data: object) -> None:
    Index.answers["/simple/paictl/"] = (200, json.dumps(data).encode())


def test_a_newer_release_is_said_with_exit_code_1(paictl: Paictl, index: str, monkeypatch: pytest.MonkeyPatch) -> None:
    answer(versions=["0.1.0", "99.2", "99.10.0", "100.0rc1"], files=[])
    done = paictl("version", "--check", "--index", index)
    assert done.code == 1
    assert "paictl 99.10.0 is released" in done.err
    monkeypatch.setenv("PIP_INDEX_URL", index.replace("http://", "http://ann:hunter2@"))
    done = paictl("version", "--check", "-o", "json")
    assert (done.code, done.data["newest"], done.data["newer"]) == (1, "99.10.0", True)
    assert Index.seen[-1]["Authorization"] == "Basic YW5uOmh1bnRlcjI="
    assert Index.seen[-1]["Accept"] == "application/vnd.pypi.simple.v1+json"


def test_this_being_the_newest_is_exit_code_0(paictl: Paictl, index: str) -> None:
    answer(versions=["0.0.1"], files=[])
    done = paictl("version", "--check", "--index", index)
    assert (done.code, "this is the latest release" in done.err) == (0, True)
    Index.answers.clear()
    done = paictl("version", "--check", "--index", index)
    assert (done.code, "no release of paictl" in done.err) == (0, True)


def test_an_index_that_does_not_answer_is_exit_code_4_without_its_password(paictl: Paictl, index: str) -> None:
    Index.answers["/simple/paictl/"] = (500, b"")
    broken = index.replace("http://", "http://ann:hunter2@")
    for body in (None, b"<html>", b"[]", b"{}"):
        if body is not None:
            Index.answers["/simple/paictl/"] = (200, body)
        done = paictl("version", "--check", "--index", broken)
        assert done.code == 4, body
        assert "hunter2" not in done.err
    done = paictl("version", "--check", "--index", "http://127.0.0.1:1/simple", "--timeout", "1")
    assert (done.code, "--index URL" in done.err) == (4, True)
    assert paictl("version", "--check", "--index", "file:///etc").code == 2
    assert paictl("version").code == 0


def test_withdrawn_releases_do_not_count_and_old_indexes_are_understood(index: str) -> None:
    files = [
        {"filename": "paictl-1.2.tar.gz"},
        {"filename": "paictl-1.3-py3-none-any.whl", "yanked": "broken"},
        {"filename": "paictl-1.1-py3-none-any.whl"},
    ]
    answer(files=files)
    assert releases.newest_release(index, 5) == "1.2"
    answer(files=files, versions=["1.1", "1.2", "1.3"])
    assert releases.newest_release(index, 5) == "1.2"


@pytest.mark.parametrize(
    ("release", "own", "newer"),
    [
        ("0.1.0", "0.1.0.dev0", True),
        ("0.1", "0.1.0", False),
        ("0.1.0", "0.1", False),
        ("0.10", "0.9", True),
        ("0.9", "0.10.dev1", False),
        ("1.0", "1.0rc1", True),
        ("1.0", "1.0.post1", False),
        ("1.0", "1.0+local", False),
        ("2", "unknown", True),
    ],
)
def test_which_of_two_versions_is_newer(release: str, own: str, newer: bool) -> None:
    assert releases.is_newer(release, own) is newer
