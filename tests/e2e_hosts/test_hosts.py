"""The hosts themselves: users, what can happen to them and how it ends, and that nothing stays behind."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tools.hosts.lab import Lab, sweep
from tools.hosts.machine import CGROUPS, GROUP
from tools.hosts.shell import LabError, wait_until


@pytest.fixture(scope="module")
def hosts(lab: Lab) -> Lab:
    lab.up(3)
    return lab


def test_deploy_comes_in_by_key_and_is_root_without_a_password(hosts: Lab) -> None:
    assert hosts.ssh(1, "hostname").strip() == "h1"
    assert hosts.ssh(2, "sudo", "-n", "id", "-u").strip() == "0"


def test_ops_has_a_password_for_login_and_sudo(hosts: Lab) -> None:
    refused = hosts.run(hosts.ssh_words(1, "true", user="ops"), check=False)
    assert refused.returncode == 255  # the key is deploy's
    done = hosts.machine(1).execute(["runuser", "-u", "ops", "--", "sudo", "-S", "-p", "", "id", "-u"], text="ops-pw\n")
    assert done.stdout.strip() == "0"
    without = hosts.machine(1).execute(["runuser", "-u", "ops", "--", "sudo", "-n", "-k", "true"], check=False)
    assert without.returncode == 1


def test_hosts_reach_each_other_by_name_and_nothing_else(hosts: Lab) -> None:
    assert "SSH-2.0" in hosts.ssh(1, "bash", "-c", "'exec 3<>/dev/tcp/h2/22; head -1 <&3'")
    with pytest.raises(LabError):
        hosts.ssh(1, "timeout", "3", "bash", "-c", "'exec 3<>/dev/tcp/192.0.2.1/443'")


def test_a_cut_cable_a_frozen_host_and_a_power_cut_end_again(hosts: Lab) -> None:
    machine = hosts.machine(3)
    (machine.root / "root/kept").write_text("kept")
    faults: list[tuple[Callable[[], None], Callable[[], None]]] = [
        (lambda: hosts.network.cut(3), lambda: hosts.network.heal(3)),
        (lambda: hosts.network.drop(3), lambda: hosts.network.heal(3)),
        (machine.freeze, machine.thaw),
        (machine.kill, lambda: hosts.start(3)),
    ]
    for begin, end in faults:
        begin()
        assert not hosts.network.speaks(3, 22, "SSH")
        end()
        wait_until(lambda: hosts.network.speaks(3, 22, "SSH"), "h3 answers again")
    assert (machine.root / "root/kept").read_text() == "kept"


def test_reset_gives_a_new_machine_and_rekey_another_key(hosts: Lab) -> None:
    first = hosts.machine(3).host_key
    (hosts.machine(3).root / "root/lost").write_text("lost")
    hosts.reset(3)
    second = hosts.machine(3).host_key
    hosts.machine(3).rekey()
    assert len({first, second, hosts.machine(3).host_key}) == 3
    assert not (hosts.machine(3).root / "root/lost").exists()
    with pytest.raises(LabError, match="Host key verification failed"):
        hosts.ssh(3, "true")
    hosts.trust()
    assert hosts.ssh(3, "hostname").strip() == "h3"


def test_a_disk_is_full_and_a_clock_off(hosts: Lab) -> None:
    machine = hosts.machine(3)
    machine.fill("/srv/full")
    assert machine.execute(["sh", "-c", "echo x > /srv/full/x"], check=False).returncode != 0
    machine.unfill("/srv/full")
    machine.execute(["sh", "-c", "echo x > /srv/full/x"])
    machine.clock(300)
    assert abs(int(hosts.ssh(3, "date", "+%s")) - time.time() - 300) < 30
    machine.clock(0)
    assert abs(int(hosts.ssh(3, "sudo", "date", "+%s")) - time.time()) < 30


def test_what_a_killed_run_left_is_swept() -> None:
    name = f"killed-{os.getpid()}"
    script = f"""
        import os, signal
        from tools.hosts.lab import Lab
        lab = Lab({name!r}, owner=os.getpid())
        lab.up(1)
        print(lab.machine(1).leader(), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    words = [sys.executable, "-c", textwrap.dedent(script)]
    died = subprocess.run(words, cwd=ROOT, check=False, stdout=subprocess.PIPE, text=True)
    assert int(died.stdout)
    sweep()  # where another worker has just been faster, nothing is left either
    left = Lab(name)
    assert left.machine(1).leader() is None
    assert not left.folder.exists()
    assert not left.network.path.exists()
    assert not list(CGROUPS.glob(f"*/{GROUP}/{name}"))
    assert name not in Path("/proc/mounts").read_text()
