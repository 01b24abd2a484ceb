"""`paictl deploy check` on real hosts: every fault is named with its host and what mends it, and then it is gone."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.e2e_hosts.site import Site, site_of
from tools.hosts.lab import Lab

SUDO = "/etc/sudoers.d/deploy"


@dataclass(frozen=True, slots=True)
class Fault:
    """What is done to a host, what `deploy check` then says of it, and what ends it."""

    id: str
    host: int
    begin: Callable[[Lab], object]
    end: Callable[[Lab], object]
    check: str
    found: str
    fix: str
    code: int = 1


def _run(host: int, script: str) -> Callable[[Lab], object]:
    return lambda lab: lab.machine(host).execute(["sh", "-c", script])


FAULTS = (
    Fault(
        "sudo wants a password that nobody gave",
        2,
        _run(2, f"sed -i s/NOPASSWD:// {SUDO}"),
        _run(2, f"echo 'deploy ALL=(ALL) NOPASSWD: ALL' >{SUDO}"),
        "sudo",
        "password is required",
        "--ask-sudo-password",
    ),
    Fault(
        "no Python",
        2,
        _run(2, "mv /usr/bin/python3 /usr/bin/gone"),
        _run(2, "mv /usr/bin/gone /usr/bin/python3"),
        "python",
        "python3 not found",
        "apt-get install -y python3",
    ),
    Fault(
        "clock off",
        3,
        lambda lab: lab.machine(3).clock(300),
        lambda lab: lab.machine(3).clock(0),
        "clock",
        "300 s ahead",
        "set-ntp",
    ),
    Fault(
        "disk full",
        3,
        lambda lab: lab.machine(3).fill("/var/lib/containerd"),
        lambda lab: lab.machine(3).unfill("/var/lib/containerd"),
        "disk",
        "0 MiB free",
        "df -h /var/lib/containerd",
    ),
    Fault(
        "port taken",
        1,
        _run(1, "systemd-run -q --unit=taken python3 -m http.server 6443"),
        _run(1, "systemctl stop taken"),
        "ports",
        "6443",
        "sport = :6443",
    ),
    Fault(
        "another Kubernetes",
        2,
        _run(2, "mkdir -p /etc/kubernetes && echo x >/etc/kubernetes/kubelet.conf"),
        _run(2, "rm -r /etc/kubernetes"),
        "kubernetes",
        "kubelet.conf",
        "reset",
    ),
    Fault(
        "host key changed",
        3,
        lambda lab: lab.machine(3).rekey(),
        Lab.trust,
        "ssh",
        "host key changed",
        "ssh-keygen -R",
        code=3,
    ),
    Fault(
        "host frozen",
        2,
        lambda lab: lab.machine(2).freeze(),
        lambda lab: lab.machine(2).thaw(),
        "ssh",
        "does not answer over SSH",
        "check that it is running",
        code=3,
    ),
    Fault(
        "packets lost",
        2,
        lambda lab: lab.network.drop(2),
        lambda lab: lab.network.heal(2),
        "ssh",
        "10.77.0.12:22",
        "check that it is running",
        code=3,
    ),
    Fault(
        "host off",
        3,
        lambda lab: lab.machine(3).kill(),
        lambda lab: lab.start(3),
        "ssh",
        "10.77.0.13:22",
        "check that it is running",
        code=3,
    ),
)


@pytest.fixture(scope="module")
def site(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Site:
    lab.up(3)
    return site_of(lab, tmp_path_factory.mktemp("site"), Path("/nowhere"), [1], [2, 3])


def _checked(site: Site, *words: str) -> tuple[int, dict[str, dict[str, Any]]]:
    """Exit code and check → what was found, by host."""
    done = site.paictl("deploy", "check", *site.files, "-o", "json", *words)
    assert "Traceback" not in done.stderr
    hosts = json.loads(done.stdout)["hosts"]
    return done.returncode, {host["name"]: host["checks"] for host in hosts}


def _failures(hosts: dict[str, dict[str, Any]]) -> set[tuple[str, str]]:
    return {(host, check) for host, checks in hosts.items() for check, one in checks.items() if one["level"] == "fail"}


def test_good_hosts_pass_whether_in_by_key_or_by_password(site: Site) -> None:
    for one in (site, site.having(user="ops", password="ops-pw")):  # noqa: S106  # of the test hosts
        code, hosts = _checked(one)
        assert (code, _failures(hosts)) == (0, set())
    site.write()


def test_a_wrong_password_is_refused_by_every_host_and_never_shown(site: Site) -> None:
    code, hosts = _checked(site.having(user="ops", password="battery-staple"))  # noqa: S106  # not even a right one
    site.write()
    assert (code, _failures(hosts)) == (4, {(name, "ssh") for name in ("h1", "h2", "h3")})
    assert "authentication failed for user ops with this password" in hosts["h1"]["ssh"]["found"]
    assert "battery-staple" not in json.dumps(hosts)


def test_unknown_hosts_are_trusted_only_on_explicit_wish(site: Site) -> None:
    known = site.folder / "home/.config/paictl/known_hosts"
    known.unlink()
    code, hosts = _checked(site)
    assert (code, _failures(hosts)) == (4, {(name, "ssh") for name in ("h1", "h2", "h3")})
    assert "unknown host key: ssh-ed25519 SHA256:" in hosts["h1"]["ssh"]["found"]
    assert "--accept-new-host-keys" in hosts["h1"]["ssh"]["fix"]
    code, hosts = _checked(site, "--accept-new-host-keys")
    assert (code, _failures(hosts)) == (0, set())
    assert _checked(site)[0] == 0


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.id)
def test_a_fault_is_named_with_its_host_and_what_mends_it(site: Site, fault: Fault) -> None:
    fault.begin(site.lab)
    try:
        code, hosts = _checked(site)
    finally:
        fault.end(site.lab)
        site.trusting()
    name = f"h{fault.host}"
    assert (code, _failures(hosts)) == (fault.code, {(name, fault.check)})
    assert fault.found in hosts[name][fault.check]["found"]
    assert fault.fix in hosts[name][fault.check]["fix"]


def test_a_slow_link_is_no_fault(site: Site) -> None:
    """A modem's speed: the program that looks at a machine takes its time, and nothing gives up."""
    site.lab.network.slow(2, "256kbit")
    try:
        code, hosts = _checked(site)
    finally:
        site.lab.network.heal(2)
    assert (code, _failures(hosts)) == (0, set()), hosts["h2"]


def test_after_all_faults_are_mended_all_is_well(site: Site) -> None:
    code, hosts = _checked(site)
    assert (code, _failures(hosts)) == (0, set())
