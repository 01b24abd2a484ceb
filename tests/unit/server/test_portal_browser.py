"""The portal in Chromium: sign in, submit, wait, explain, stop, users; both languages; nothing from elsewhere."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvicorn
import yaml

from paictl.cluster.embedded.cluster import EmbeddedCluster
from paictl.cluster.interface import FOREVER, JobRequest, JobState
from paictl.operate.users import passwords
from paictl.operate.users.accounts import NewUser, add
from paictl.server.app import ServerApp
from paictl.server.routing import Router
from paictl.server.serving import routes
from paictl.server.workers import Workers
from paictl.units import Millis
from tests.browser import CHROMIUM, Page, browser, click, fill, reads
from tests.browser import sign_in as sign_in_with
from tests.contract.conftest import embedded
from tests.portal_pages import AXE, wrong_with
from tests.unit.server.conftest import PASSWORD
from tests.unit.server.test_api import JOB

pytestmark = [
    pytest.mark.slow,  # a browser and a server
    pytest.mark.skipif(not CHROMIUM, reason="needs Chromium"),
]


@pytest.fixture
def portal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, EmbeddedCluster]]:
    """The address of a server over the preset "lab", and the cluster behind it."""
    monkeypatch.setattr("paictl.config.secrets.sealing.COST", (4, 1, 1))
    monkeypatch.setattr(passwords, "COST", (4, 1, 1))
    users = embedded(tmp_path).cluster.users
    for name, admin, vcs in (("root", True, ()), ("ann", False, ("vc1",))):
        add(users, NewUser(name, PASSWORD, admin, vcs))
    folder = tmp_path / "state"
    workers = Workers(lambda: EmbeddedCluster.at(folder), threads=2)
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(ServerApp(workers, Router(routes())), log_level="critical", lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}", EmbeddedCluster.at(folder)
    finally:
        server.should_exit = True
        thread.join()
        workers.close()
        listening.close()


def sign_in(page: Page, address: str, user: str) -> None:
    sign_in_with(page, address, user, PASSWORD)


def test_from_sign_in_to_the_end_of_a_job(portal: tuple[str, EmbeddedCluster]) -> None:
    address, cluster = portal
    with browser() as page:
        page.size(1280, 900)
        sign_in(page, address, "ann")
        for name, state in (("one", "Running"), ("two", "Waiting")):
            page.open(f"{address}/submit")
            fill(page, name=name, image="pai/standard", command="sleep 1h")
            reads(page, "can run now" if state == "Running" else "Any one of these would let it run")
            page.follow(click(page, "#submit"))
            reads(page, state)
        page.follow(click(page, "#explained"))
        reads(page, "In the way: ann~one")
        page.follow(click(page, "#place-1"))
        assert page.run("document.querySelectorAll('.cells .leaf.place').length") == 1
        page.open(f"{address}/submit")
        fill(page, yaml="protocolVersion: 2\nname: x\ntype: jub\n")
        page.until("document.querySelectorAll('.findings li').length === 2")
        page.run("document.querySelectorAll('.findings .place')[1].click()")
        assert (
            page.run(
                "document.activeElement.value.slice(document.activeElement.selectionStart,"
                "document.activeElement.selectionEnd)"
            )
            == "jub"
        )
        page.open(f"{address}/jobs/ann/two")
        cluster.stop_job("ann~one")
        reads(page, "Running")  # by itself: the page renews what changes
        page.run("window.confirm = () => true")
        page.follow(click(page, "#stop"))
        reads(page, "Stopped")
        assert cluster.job("ann~two").state is JobState.STOPPED
        page.follow(click(page, ".mine button[lang=zh]"))
        reads(page, "提交")
        assert page.complaints == []
        assert {one.split("/")[2] for one in page.requests if not one.startswith("data:")} == {address.split("/")[2]}


def test_an_administrator_adds_a_user_on_a_phone_in_the_dark(portal: tuple[str, EmbeddedCluster]) -> None:
    address, cluster = portal
    with browser() as page:
        page.size(390, 800, dark=True)
        sign_in(page, address, "root")
        page.open(f"{address}/admin/users")
        fill(page, name="eve", password=PASSWORD)
        click(page, "[name='vc.vc1']")()
        page.follow(click(page, "form.card button.main"))
        reads(page, "eve")
        account = cluster.users.account("eve")
        assert account is not None
        assert account.vcs == ("vc1",)
        for path in ("/jobs", "/submit", "/cluster", "/admin/users", "/admin/services", "/account"):
            page.open(address + path)
            wide = page.run("document.documentElement.scrollWidth")
            assert wide <= 390, (path, wide)
        page.size(375, 800, dark=True)
        name, buttons = (
            f"document.querySelector('.bar .{part}').getBoundingClientRect()" for part in ("brand", "mine")
        )
        assert page.run(f"{buttons}.top < {name}.bottom"), "the buttons are beside the name, not below it"
        assert page.run("getComputedStyle(document.body).backgroundColor") == "rgb(18, 22, 28)"
        assert page.complaints == []


@pytest.mark.skipif(not AXE.is_file(), reason="needs axe-core (make axe)")
@pytest.mark.parametrize(("width", "dark"), [(1280, False), (375, True)], ids=["wide and light", "narrow and dark"])
def test_every_page_is_there_and_axe_finds_no_violation(
    portal: tuple[str, EmbeddedCluster], width: int, dark: bool
) -> None:
    address, cluster = portal
    with browser() as page:
        page.size(width, 900, dark=dark)
        sign_in(page, address, "root")
        for name in ("one", "two"):
            cluster.submit([job_request(name)])
        cluster.tick(Millis(3_600_000))
        assert wrong_with(page, address) == {}


def job_request(name: str) -> JobRequest:
    data = yaml.safe_load(JOB.format(name=name, vc="vc1"))
    return JobRequest("root", data, None, None, FOREVER)
