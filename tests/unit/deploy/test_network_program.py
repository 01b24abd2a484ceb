"""paictl_network on a machine: routes in a network namespace of its own, where root may make one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.unit.deploy.loading import load

NODES = {"h1": ["10.77.0.11", "10.200.0.0/24"], "h2": ["10.77.0.12", "10.200.1.0/24"], "h3": ["10.77.0.13", None]}
SETTLE = """
import importlib.util, json, sys
spec = importlib.util.spec_from_file_location("net", sys.argv[1])
net = importlib.util.module_from_spec(spec)
spec.loader.exec_module(net)
net.CONFLIST = "/dev/null/none"
net.write_once = lambda *_: None
net.settle({name: tuple(one) for name, one in json.loads(sys.argv[2]).items()}, sys.argv[3])
"""


def _namespaces() -> bool:
    if os.geteuid() != 0:
        return False
    done = subprocess.run(["sh", "-c", "ip netns add paictl-try && ip netns del paictl-try"], capture_output=True)
    return done.returncode == 0


needs_namespaces = pytest.mark.skipif(not _namespaces(), reason="needs root and network namespaces")
Ip = Callable[..., str]


@pytest.fixture
def ip() -> Iterator[Ip]:
    """`ip` in a namespace with h2's link (10.77.0.12) and the bridge of its pods (10.200.1.1/24)."""
    name = f"paictl-u{os.getpid()}"

    def call(*words: str) -> str:
        return subprocess.run(["ip", "-n", name, *words], capture_output=True, text=True, check=True).stdout

    subprocess.run(["ip", "netns", "add", name], check=True)
    try:
        call("link", "add", "eth0", "type", "veth", "peer", "name", "cable")
        call("link", "add", "cni0", "type", "bridge")
        for link in ("cable", "eth0", "cni0"):
            call("link", "set", link, "up")
        for link, address in (("eth0", "10.77.0.12/24"), ("cni0", "10.200.1.1/24")):
            call("addr", "add", address, "dev", link)
        yield call
    finally:
        subprocess.run(["ip", "netns", "del", name], check=True)


def settle(nodes: dict[str, Any], own: str) -> None:
    program = str(ROOT / "playbooks/files/paictl_network.py")
    inside = ["ip", "netns", "exec", f"paictl-u{os.getpid()}", sys.executable, "-B", "-c", SETTLE]
    subprocess.run([*inside, program, json.dumps(nodes), own], check=True)


def routes(ip: Ip) -> dict[str, str]:
    """Network → how it is reached."""
    found = {}
    for line in ip("route", "show").splitlines():
        network, how, where, *_ = line.split()
        found[network] = f"{how} {where}"
    return found


OWN = {"10.77.0.0/24": "dev eth0", "10.200.1.0/24": "dev cni0"}


@needs_namespaces
def test_routes_to_others_come_go_and_come_back(ip: Ip) -> None:
    settle(NODES, "h2")
    assert routes(ip) == {**OWN, "10.200.0.0/24": "via 10.77.0.11"}
    ip("route", "del", "10.200.0.0/24")
    settle(NODES, "h2")
    assert routes(ip) == {**OWN, "10.200.0.0/24": "via 10.77.0.11"}
    settle({**NODES, "h1": ["10.77.0.14", "10.200.0.0/24"], "h3": ["10.77.0.13", "10.200.2.0/24"]}, "h2")
    assert routes(ip) == {**OWN, "10.200.0.0/24": "via 10.77.0.14", "10.200.2.0/24": "via 10.77.0.13"}
    settle({"h2": NODES["h2"]}, "h2")
    assert routes(ip) == OWN


@needs_namespaces
def test_the_network_of_the_pods_here_is_never_routed_away(ip: Ip) -> None:
    """Under the name of another machine it once replaced the kernel's route to the pods of its own."""
    settle({"h2": ["10.77.0.12", "10.200.2.0/24"], "h3": ["10.77.0.13", "10.200.1.0/24"]}, "h2")
    assert routes(ip) == OWN


@needs_namespaces
def test_what_was_routed_away_or_deleted_is_put_back(ip: Ip) -> None:
    ip("route", "replace", "10.200.1.0/24", "via", "10.77.0.13", "proto", "77")
    settle(NODES, "h2")
    assert routes(ip) == {**OWN, "10.200.0.0/24": "via 10.77.0.11"}
    ip("route", "del", "10.200.1.0/24")
    settle(NODES, "h2")
    assert routes(ip)["10.200.1.0/24"] == "dev cni0"
    assert "src 10.200.1.1" in ip("route", "show", "10.200.1.0/24")


def test_no_route_is_wanted_to_a_network_that_pods_here_are_in() -> None:
    program = load("files/paictl_network.py")
    nodes = {"h2": ("10.77.0.12", "10.200.2.0/24"), "h3": ("10.77.0.13", "10.200.1.0/24")}
    assert program.wanted_routes(nodes, "h2", {"10.200.1.0/24": "10.200.1.1"}) == {}
    assert program.wanted_routes(nodes, "h2") == {"10.200.1.0/24": "10.77.0.13"}


def test_networks_of_the_bridge_are_read_from_what_ip_says() -> None:
    program = load("files/paictl_network.py")
    said = "5: cni0    inet 10.200.1.1/24 brd 10.200.1.255 scope global cni0\\       valid_lft forever"
    assert program.connected_networks(said) == {"10.200.1.0/24": "10.200.1.1"}
    assert program.connected_networks("") == {}


def test_it_settles_again_without_news_of_the_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    program = load("files/paictl_network.py")
    keeper, seen = program.Keeper("h2"), []
    pauses = iter([None, None])

    def sleep(_: float) -> None:
        if next(pauses, "end") == "end":
            raise SystemExit

    monkeypatch.setattr(program.time, "sleep", sleep)
    monkeypatch.setattr(program, "settle", lambda nodes, own: seen.append((dict(nodes), own)))
    keeper.take({"h1": ("10.77.0.11", "10.200.0.0/24")})
    with pytest.raises(SystemExit):
        keeper.run()
    assert seen == [({"h1": ("10.77.0.11", "10.200.0.0/24")}, "h2")] * 3
