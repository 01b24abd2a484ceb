"""The portal of a real API server in Chromium: the pages of a laptop's, from sign-in to the end of a job."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import replace

import pytest

from paictl.cluster.interface import Cluster, JobState
from paictl.operate.users.accounts import NewUser, add
from tests.browser import CHROMIUM, browser, click, fill, reads, sign_in
from tests.e2e_kube.controlplane import ControlPlane
from tests.e2e_kube.jobrig import opened, rack_of_jobs, request, role
from tests.e2e_kube.kubeapi import KubeApi, until
from tests.e2e_kube.shell import Shell
from tests.portal_pages import AXE, wrong_with

pytestmark = pytest.mark.skipif(not CHROMIUM or not AXE.is_file(), reason="needs Chromium and axe-core (make axe)")
PASSWORD = "correct horse"  # noqa: S105 - of a test


@pytest.fixture(scope="module")
def portal(
    plane: ControlPlane, api: KubeApi, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Cluster]]:
    """The address of `paictl serve` for the control plane, and the cluster."""
    with rack_of_jobs(plane, api, tmp_path_factory.mktemp("portal")):
        cluster = opened(plane)
        for name, admin, vcs in (("root", True, ()), ("ann", False, ("A",))):
            add(cluster.users, NewUser(name, PASSWORD, admin, vcs))
        shell = Shell(plane, tmp_path_factory.mktemp("admin"))
        server = shell.begun("serve", "--listen", "127.0.0.1:0")
        try:
            assert server.stderr is not None
            address = next(found[0] for line in server.stderr if (found := re.search(r"http://127\.0\.0\.1:\d+", line)))
            drain = subprocess.Popen(["cat"], stdin=server.stderr, stdout=subprocess.DEVNULL)
            yield address, cluster
        finally:
            server.terminate()
            server.wait(60)
            drain.wait(30)


def is_in(cluster: Cluster, key: str, state: JobState) -> bool:
    return cluster.job(key).state is state


def test_every_page_is_there_and_axe_finds_no_violation(portal: tuple[str, Cluster]) -> None:
    address, cluster = portal
    for name, devices in (("one", 4), ("two", 4)):
        jobs = [replace(request(name, {"train": role(devices, 4)}), user="root")]
        cluster.submit(jobs)
        state = JobState.RUNNING if name == "one" else JobState.WAITING
        until(lambda: is_in(cluster, f"root~{name}", state), 60, f"{name} is {state.value}")  # noqa: B023
    with browser() as page:
        page.size(1280, 900)
        sign_in(page, address, "root", PASSWORD)
        assert wrong_with(page, address) == {}
        page.size(375, 900, dark=True)
        assert wrong_with(page, address) == {}
        page.size(1280, 900)
        page.complaints.clear()  # of the page that is not there
        page.open(f"{address}/jobs/root/two/why")
        reads(page, "In the way: root~one")
        page.run("window.confirm = () => true")
        page.follow(click(page, "form[action='/jobs/root/one/stop'] button"))
        until(lambda: is_in(cluster, "root~two", JobState.RUNNING), 120, "two runs")
        page.open(f"{address}/jobs/root/two")
        reads(page, "Running")
        assert page.complaints == []
    cluster.stop_job("root~two")
    until(lambda: is_in(cluster, "root~two", JobState.STOPPED), 60, "two is stopped")


def test_a_user_submits_and_stops_a_job(portal: tuple[str, Cluster]) -> None:
    address, cluster = portal
    with browser() as page:
        page.size(1280, 900)
        sign_in(page, address, "ann", PASSWORD)
        page.open(f"{address}/submit")
        fill(page, name="mine", image="pai/standard", command="sleep 1h")
        reads(page, "can run now")
        page.follow(click(page, "#submit"))
        reads(page, "Running")
        page.run("window.confirm = () => true")
        page.follow(click(page, "#stop"))
        reads(page, "Stopped")
        assert page.complaints == []
    until(lambda: is_in(cluster, "ann~mine", JobState.STOPPED), 60, "mine is stopped")
