"""paictl_firewall on a machine: real rules between network namespaces, where root may make them and nft is there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.unit.deploy.loading import load

FOLDER = ROOT / "playbooks/files"
LISTEN = """
import socket, sys, time
for port in (22, 10250, 6443):
    held = socket.create_server(("0.0.0.0", port)); globals()[f"s{port}"] = held
print("up", flush=True)
time.sleep(600)
"""
TRY = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 3)"


@pytest.fixture(scope="module")
def firewall() -> Any:
    sys.path.insert(0, str(FOLDER))
    try:
        yield load("files/paictl_firewall.py")
    finally:
        sys.path.remove(str(FOLDER))


def node(*addresses: str) -> dict[str, Any]:
    found = [{"type": "InternalIP", "address": one} for one in addresses]
    return {"metadata": {"name": "w1"}, "status": {"addresses": [*found, {"type": "Hostname", "address": "w1"}]}}


def pod(space: str, *addresses: str, phase: str = "Running", host: bool = False) -> dict[str, Any]:
    return {
        "metadata": {"uid": "u", "namespace": space},
        "spec": {"hostNetwork": True} if host else {},
        "status": {"phase": phase, "podIPs": [{"ip": one} for one in addresses]},
    }


def test_addresses_are_those_of_machines_and_of_pods_that_live(firewall: Any) -> None:
    assert firewall.addresses_of(node("10.0.0.2", "fd00::2", "192.168.0.2")) == ("w1", ["10.0.0.2", "192.168.0.2"])
    assert firewall.pod_of(pod("kube-system", "10.200.0.4", "fd00::4")) == ("u", ("kube-system", ["10.200.0.4"]))
    assert firewall.pod_of(pod("kube-system", "10.200.0.4", phase="Succeeded")) == ("u", ("kube-system", []))
    assert firewall.pod_of(pod("kube-system", "10.0.0.2", host=True)) == ("u", ("kube-system", []))


def test_without_ports_there_are_no_rules(firewall: Any) -> None:
    assert "delete table inet paictl" in firewall.ruleset(set(), {"10.0.0.1"}, set())
    assert "chain" not in firewall.ruleset(set(), {"10.0.0.1"}, set())


def _possible() -> bool:
    return (
        os.geteuid() == 0
        and bool(shutil.which("nft"))
        and subprocess.run(
            [
                "sh",
                "-c",
                "ip netns add paictl-nft && ip netns exec paictl-nft nft list ruleset; c=$?; "
                "ip netns del paictl-nft; exit $c",
            ],
            capture_output=True,
        ).returncode
        == 0
    )


class Hosts:
    """Two machines on one cable; the first has a bridge cni0 with two pods."""

    def __init__(self) -> None:
        self.tag = f"fw{os.getpid()}"
        self.names = {name: f"{self.tag}-{name}" for name in ("m1", "m2", "pod", "watcher")}
        self.listening: list[subprocess.Popen[bytes]] = []

    def within(self, name: str, *words: str, text: str | None = None, check: bool = True) -> bool:
        done = subprocess.run(
            ["ip", "netns", "exec", self.names[name], *words], input=text, capture_output=True, text=True, check=False
        )
        assert not check or not done.returncode, done.stderr
        return not done.returncode

    def cable(self, one: str, other: str, links: tuple[str, str]) -> None:
        sides = [f"{self.tag[-9:]}{number}" for number in (1, 2)]
        subprocess.run(["ip", "link", "add", sides[0], "type", "veth", "peer", "name", sides[1]], check=True)
        for side, name, link in zip(sides, (one, other), links, strict=True):
            subprocess.run(["ip", "link", "set", side, "netns", self.names[name], "name", link, "up"], check=True)

    def up(self) -> None:
        for name in self.names.values():
            subprocess.run(["ip", "netns", "add", name], check=True)
            subprocess.run(["ip", "-n", name, "link", "set", "lo", "up"], check=True)
        self.within("m1", "ip", "link", "add", "cni0", "type", "bridge")
        self.within("m1", "ip", "link", "set", "cni0", "up")
        self.cable("m1", "m2", ("eth0", "eth0"))
        for number, name in enumerate(("pod", "watcher"), 2):
            self.cable("m1", name, (f"veth{number}", "eth0"))
            self.within("m1", "ip", "link", "set", f"veth{number}", "master", "cni0")
            self.within(name, "ip", "addr", "add", f"10.200.0.{number}/24", "dev", "eth0")
            self.within(name, "ip", "route", "add", "default", "via", "10.200.0.1")
        self.within("m1", "ip", "addr", "add", "10.200.0.1/24", "dev", "cni0")
        self.within("m1", "ip", "addr", "add", "10.77.0.1/24", "dev", "eth0")
        self.within("m1", "sysctl", "-qw", "net.ipv4.ip_forward=1")
        self.within("m2", "ip", "addr", "add", "10.77.0.2/24", "dev", "eth0")
        self.within("m2", "ip", "route", "add", "10.200.0.0/24", "via", "10.77.0.1")
        for name in ("m1", "m2"):
            words = ["ip", "netns", "exec", self.names[name], sys.executable, "-c", LISTEN]
            started = subprocess.Popen(words, stdout=subprocess.PIPE)
            self.listening.append(started)
            assert started.stdout is not None
            assert started.stdout.readline() == b"up\n"

    def down(self) -> None:
        for one in self.listening:
            one.kill()
            one.communicate()
        for name in self.names.values():
            subprocess.run(["ip", "netns", "del", name], check=False)

    def open(self, name: str, address: str, port: int) -> bool:
        """Whether somebody reaches a port."""
        return self.within(name, sys.executable, "-c", TRY, address, str(port), check=False)


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    made = Hosts()
    try:
        made.up()
        yield made
    finally:
        made.down()


@pytest.mark.skipif(not _possible(), reason="needs root, network namespaces and nft")
def test_pods_do_not_reach_closed_ports_of_any_machine(firewall: Any, hosts: Hosts) -> None:
    machines = ("10.77.0.1", "10.77.0.2")
    everywhere = [(address, port) for address in ("10.200.0.1", *machines) for port in (22, 10250, 6443)]
    assert all(hosts.open("pod", *one) for one in everywhere)
    for _ in range(2):  # the second time in place of the first
        hosts.within("m1", "nft", "-f", "-", text=firewall.ruleset({22, 10250}, machines, {"10.200.0.3"}))
    assert [one for one in everywhere if hosts.open("pod", *one)] == [one for one in everywhere if one[1] == 6443]
    assert all(hosts.open("watcher", *one) for one in everywhere)
    assert hosts.open("m1", "10.77.0.2", 22)
    assert hosts.open("m2", "10.77.0.1", 10250)
    hosts.within("m1", "nft", "-f", "-", text=firewall.ruleset(set(), machines, set()))
    assert hosts.open("pod", "10.77.0.2", 22)


def test_rules_are_written_when_something_changes_and_again_when_they_are_gone(
    firewall: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []
    there = iter(["there is none", ""])

    def nft(_: list[str], text: str | None = None) -> str:
        if text is None:
            return next(there)
        written.append(text)
        return ""

    def sleep(_: float) -> None:
        if len(written) == 4:
            raise SystemExit

    monkeypatch.setattr(firewall, "nft", nft)
    monkeypatch.setattr(firewall.time, "sleep", sleep)
    made = firewall.Firewall({22}, {"kube-system"}, "10.77.0.99")
    made.take_machines({"m1": ["10.77.0.1"]})
    made.take_machines({"m1": ["10.77.0.1"]})
    assert len(written) == 1
    assert "10.77.0.1, 10.77.0.99" in written[0]
    made.take_pods({"u": ("jobs", ["10.200.0.2"])})
    assert len(written) == 1, "a pod that may not changes nothing"
    made.take_pods({"u": ("jobs", ["10.200.0.2"]), "v": ("kube-system", ["10.200.0.3"])})
    assert "10.200.0.3" in written[1]
    assert "10.200.0.2" not in written[1]
    made.take_pods({})
    with pytest.raises(SystemExit):
        made.run()
    assert written[2] == written[3] == written[0]


def test_what_nft_says_against_the_rules_is_told_and_tried_again(
    firewall: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "")
    made = firewall.Firewall({22}, set())
    for _ in range(3):
        made.take_machines({})
    assert made.written is None
    assert capsys.readouterr().err.count("nft: ") == 1
    monkeypatch.setattr(firewall, "nft", lambda *_: "")
    made.take_machines({})
    assert capsys.readouterr().err == "nft: works again\n"
