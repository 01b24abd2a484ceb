"""Addresses of what tasks serve, and of the site that serves it."""

from __future__ import annotations

import pytest

from paictl.errors import PaictlError
from paictl.server.app import ServerApp
from paictl.server.routing import Router
from paictl.server.serving import ServerSettings, check, networks_of, routes
from paictl.server.tasks import access, headers
from paictl.server.tasks.access import TaskAddress, TaskSite, site_of
from tests.unit.server.conftest import Server
from tests.unit.server.test_api import submit

DESK = TaskAddress("ann", "one", "worker", 0, 8888)


@pytest.mark.parametrize(
    "word",
    [
        "tasks.example.org",
        "https://tasks.example.org",
        "https://*.tasks.example.org/x",
        "ftp://*.a",
        "https://*",
        "https://a.*.example.org",
        "http://*.localhost:x",
    ],
)
def test_an_address_of_another_form_is_refused(word: str) -> None:
    with pytest.raises(PaictlError, match="--tasks"):
        site_of(word)


def test_tasks_are_encrypted_as_the_portal_is() -> None:
    site = site_of("https://*.tasks.example.org")
    assert site.origin("abc") == "https://abc.tasks.example.org"
    with pytest.raises(PaictlError, match="scheme must be http,"):
        check(ServerSettings("127.0.0.1", 9186, tasks=site))
    check(ServerSettings("127.0.0.1", 9186, proxies=networks_of(["10.0.0.1"]), tasks=site))
    local = site_of("http://*.localhost:9187")
    assert local.label_in(f"{DESK.label}.LOCALHOST:9187") == DESK.label
    check(ServerSettings("127.0.0.1", 9186, tasks=local))
    with pytest.raises(PaictlError, match="clear text"):
        check(ServerSettings("127.0.0.1", 9186, tasks=local, tasks_host="0.0.0.0"))  # noqa: S104


def test_addresses_survive_the_way_through_a_token() -> None:
    assert access.address_of(DESK.word) == DESK
    assert access.address_of("nonsense") is None
    assert not headers.is_forged("GET", {}, "http://x")


def test_a_simulated_task_serves_nothing_and_says_so(server: Server) -> None:
    submit(server, "one")
    server.app = ServerApp(server.workers, Router(routes(tasks=TaskSite("http", "tasks.test"))))
    reply = server.ask("GET", "/jobs/ann/one/open/train/0/8888", cookie=server.session("ann"))
    assert reply.status == 501
    assert "simulated" in reply.text
    assert 'id="ports"' not in server.ask("GET", "/jobs/ann/one", cookie=server.session("ann")).text
