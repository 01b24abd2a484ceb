"""What runs on the machines themselves: who has the address of the API, and the routes to pods."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from tests.unit.deploy.loading import load, load_beside

address = load("files/paictl_address.py")
network = load("files/paictl_network.py")
host = load("module_utils/paictl_host.py")
unit: Any = load_beside("module_utils/paictl_unit.py")

MASTERS = ("m1", "m2", "m3")


class World:
    """Three masters that speak to each other in steps of half a second."""

    def __init__(self) -> None:
        settings = [{"name": name, "address": ""} for name in MASTERS]
        self.keepers: dict[str, Any] = {name: address.Keeper({"name": name, "masters": settings}) for name in MASTERS}
        self.holds = dict.fromkeys(MASTERS, False)
        self.works = dict.fromkeys(MASTERS, False)
        self.cut: set[str] = set()
        self.off: set[str] = set()
        self.now = 0.0

    def run(self, seconds: float) -> None:
        for _ in range(int(seconds / address.BEAT)):
            self.now += address.BEAT
            alive = [name for name in MASTERS if name not in self.off]
            ready = {name: self.keepers[name].ready(self.able(name), self.now) for name in alive}
            for name in alive:
                for other in alive:
                    if other != name and not {name, other} & self.cut:
                        self.keepers[other].hear(name, ready[name], self.holds[name], self.now)
            for name in alive:
                self.holds[name] = self.keepers[name].mine(ready[name], self.holds[name], self.now)

    def able(self, name: str) -> bool:
        """Whether the API server works: with etcd's majority behind it."""
        seen = [one for one in MASTERS if one not in self.off and (one == name or not {one, name} & self.cut)]
        return self.works[name] and sum(self.works[one] for one in seen) > sum(self.works.values()) / 2

    @property
    def holders(self) -> list[str]:
        return [name for name in MASTERS if self.holds[name] and name not in self.off]


def test_at_the_very_beginning_the_first_master_has_the_address() -> None:
    world = World()
    world.run(5)
    assert world.holders == ["m1"]


def test_a_master_that_dies_hands_the_address_over_and_does_not_take_it_back() -> None:
    world = World()
    world.works = dict.fromkeys(MASTERS, True)
    world.run(10)
    assert world.holders == ["m1"]
    world.off = {"m1"}
    world.holds["m1"] = False
    world.run(address.SILENCE + 1)
    assert world.holders == ["m2"]
    world.off = set()
    world.run(20)
    assert world.holders == ["m2"]


def test_a_master_that_is_cut_off_gives_it_up_once_it_is_heard_again() -> None:
    world = World()
    world.works = dict.fromkeys(MASTERS, True)
    world.run(10)
    world.cut = {"m1"}
    world.run(10)
    assert "m2" in world.holders
    world.cut = set()
    world.run(10)
    assert world.holders == ["m2"]


@pytest.mark.parametrize("seed", range(20))
def test_whatever_happens_to_one_of_three_there_is_one_holder_in_the_end(seed: int) -> None:
    dice, world = random.Random(seed), World()  # noqa: S311 - no secret
    world.works = dict.fromkeys(MASTERS, True)
    world.run(10)
    for _ in range(6):
        hurt = dice.choice(MASTERS)
        world.off, world.cut = (({hurt}, set()), (set(), {hurt}))[dice.random() < 0.5]
        for name in world.off:
            world.holds[name] = False
        world.run(dice.uniform(1, 12))
        world.off, world.cut = set(), set()
        world.run(dice.uniform(8, 12))
        assert len(world.holders) == 1


def test_datagrams_of_others_and_old_ones_are_nothing() -> None:
    data = address.sealed(b"key", "m1", True, False)
    now = __import__("time").time()
    assert address.opened(b"key", data, now) == ("m1", True, False)
    assert address.opened(b"other", data, now) is None
    assert address.opened(b"key", data, now + 60) is None
    assert address.opened(b"key", b"short", now) is None


def test_an_announcement_is_an_arp_request_for_oneself() -> None:
    frame = address.announcement(bytes.fromhex("02000a4d000b"), "10.77.0.100")
    assert len(frame) == 42
    assert frame[:14] == b"\xff" * 6 + bytes.fromhex("02000a4d000b") + b"\x08\x06"
    assert frame[28:32] == frame[38:42] == bytes([10, 77, 0, 100])


def test_routes_follow_the_nodes() -> None:
    nodes = {"h1": ("10.0.0.1", "10.200.0.0/24"), "h2": ("10.0.0.2", "10.200.1.0/24"), "h3": (None, "10.200.2.0/24")}
    wanted = network.wanted_routes(nodes, "h1")
    assert wanted == {"10.200.1.0/24": "10.0.0.2"}
    present = network.present_routes("10.200.1.0/24 via 10.0.0.9 dev e0\n10.200.7.0/24 via 10.0.0.7 dev e0\n")
    assert list(network.changes(wanted, present)) == [
        ["route", "del", "10.200.7.0/24", "proto", "77"],
        ["route", "replace", "10.200.1.0/24", "via", "10.0.0.2", "proto", "77"],
    ]
    assert list(network.changes(wanted, wanted)) == []


def test_kubelet_s_kubeconfig_is_read() -> None:
    text = "    server: https://10.0.0.1:6443\n  user:\n    client-certificate: /var/lib/kubelet/pki/x.pem\n"
    assert network.field(text, "server") == "https://10.0.0.1:6443"
    assert network.field(text, "client-certificate") == "/var/lib/kubelet/pki/x.pem"
    assert network.field(text, "client-key") == ""


def test_files_differ_by_content_and_by_mode(tmp_path: Path) -> None:
    wanted = [{"path": str(tmp_path / "a/b"), "content": "text", "mode": "0640"}]
    assert host.differing_files(wanted) == wanted
    host.write(wanted[0]["path"], "text", "0640")
    assert host.differing_files(wanted) == []
    (tmp_path / "a/b").chmod(0o644)
    assert host.differing_files(wanted) == wanted
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["b"]


def test_a_program_is_installed_while_nobody_touches_it(tmp_path: Path) -> None:
    program = {"name": "kubelet", "sha256": "0" * 64}
    path = tmp_path / "kubelet"
    path.write_text("x")
    known = {"kubelet": {"sha256": "0" * 64, "files": {str(path): host.stamp(str(path))}}}
    assert host.is_installed(program, known)
    assert not host.is_installed({**program, "sha256": "1" * 64}, known)
    path.write_text("xy")
    assert not host.is_installed(program, known)
    path.unlink()
    assert not host.is_installed(program, known)


def test_only_other_tags_of_our_own_repositories_are_released(monkeypatch: pytest.MonkeyPatch) -> None:
    """What somebody else has pinned, and what is not pinned, is left alone."""
    images = [{"reference": "r:5000/a:2", "id": "x"}, {"reference": "r/b:2", "id": "y"}]
    archives = [{"archive": "a.tar", "images": images}]
    tags = {"r:5000/a:1": True, "r:5000/a:2": True, "r/b:1": False, "theirs/a:1": True, "r/pause:3": True, "": True}
    listed = [{"repoTags": [tag] if tag else None, "pinned": pinned} for tag, pinned in tags.items()]
    monkeypatch.setattr(host, "listed_images", lambda: listed)
    assert host.stale_pins(archives) == ["r:5000/a:1"]
    monkeypatch.setattr(host, "listed_images", lambda: None)
    assert host.stale_pins(archives) == []


def test_images_are_missing_by_their_content() -> None:
    archive = {"archive": "a.tar", "images": [{"reference": "r/a:1", "id": "sha256:1"}]}
    assert host.missing_images([archive], {"r/a:1": "sha256:1"}) == []
    assert host.missing_images([archive], {"r/a:1": "sha256:2"}) == [archive]
    assert host.missing_images([archive], None) == [archive]


def test_lines_of_fstab_that_switch_swap_on() -> None:
    text = "UUID=1 / ext4 defaults 0 1\n/swapfile none swap sw 0 0\n# /dev/sda2 none swap sw 0 0\n"
    assert host.swap_lines(text) == ["/swapfile none swap sw 0 0"]


PULL = (
    "\t[ERROR ImagePull]: failed to pull image registry.k8s.io/coredns/coredns:v1.14.6: failed to do request: Head "
    '"https://registry.k8s.io/v2/coredns/coredns/manifests/v1.14.6": dial tcp: lookup registry.k8s.io'
)


@pytest.mark.parametrize(
    ("log", "said"),
    [
        (
            f"{PULL} on 10.77.0.1:53: read udp 10.77.0.11:5->10.77.0.1:53: i/o timeout",
            "cannot resolve registry.k8s.io by name server 10.77.0.1: images come from there; check it here: ",
        ),
        (f"{PULL}: no such host", "cannot resolve registry.k8s.io: images come from there"),
        (f"{PULL}: no such host\n\t[ERROR Port-6443]: Port 6443 is in use", "[ERROR ImagePull]"),
        ("I will lookup the version\nerror: no such file", "error: no such file"),
    ],
)
def test_names_that_kubeadm_cannot_resolve_are_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: str, said: str
) -> None:
    (tmp_path / "log").write_text(f"[init] begins\n{log}\n[preflight] more of this\n")
    monkeypatch.setattr(unit, "LOG", str(tmp_path / "log"))
    assert unit.last_words().startswith(said)
