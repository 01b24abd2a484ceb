"""Real hosts over SSH: commands, Ansible, preflight, and what goes wrong there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tools.hosts.lab import Lab
from tools.hosts.shell import run, wait_until

_AWAY = " -o ".join(f"-path {path}" for path in ("/proc", "/sys", "/run", "/tmp", "/var/log", "/home", "/root/.cache"))  # noqa: S108
SNAPSHOT = f"find / -xdev \\( {_AWAY} \\) -prune -o -printf '%p %T@ %m %u\\n' | sort"
"""Every file of a host with its time: logs and sessions are what SSH itself leaves."""


class Box:
    """paictl on the dev box of a lab."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.lab, self.folder = lab, folder
        (folder / "master.csv").write_text("h1,10.77.0.11\n")
        (folder / "worker.csv").write_text("h2,10.77.0.12\nh3,10.77.0.13\n")
        self.settings(f"user: deploy\nssh_key_file_path: {lab.key}\n")
        (folder / "config").mkdir()
        self.trust()

    def settings(self, text: str) -> None:
        (self.folder / "config.yaml").write_text(text + "docker_image_tag: v1.8.1\n")

    def trust(self) -> None:
        (self.folder / "config" / "paictl").mkdir(exist_ok=True)
        (self.folder / "config" / "paictl" / "known_hosts").write_bytes(self.lab.known_hosts.read_bytes())

    def paictl(self, *words: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
        files = ["-m", "master.csv", "-w", "worker.csv", "-c", "config.yaml"]
        return self.lab.run(
            [sys.executable, "-m", "paictl", *words[:2], *files, *words[2:]],
            check=False,
            folder=self.folder,
            seconds=120,
            text=text,
            environment={"XDG_CONFIG_HOME": str(self.folder / "config"), "PYTHONPATH": str(Path.cwd())},
        )

    def check(self, *words: str) -> tuple[int, dict[str, Any]]:
        done = self.paictl("deploy", "check", "-o", "json", *words)
        return done.returncode, {one["name"]: one["checks"] for one in json.loads(done.stdout)["hosts"]}


@pytest.fixture(scope="module")
def box(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Box:
    lab.up(3)
    return Box(lab, tmp_path_factory.mktemp("box"))


def test_preflight_changes_nothing_on_a_host_and_finds_it_sound(box: Box) -> None:
    before = box.lab.machine(1).execute(["sh", "-c", SNAPSHOT]).stdout
    code, hosts = box.check()
    after = box.lab.machine(1).execute(["sh", "-c", SNAPSHOT]).stdout
    assert len(before.splitlines()) > 1000
    assert before == after
    assert code == 0, hosts
    assert [hosts[name]["ssh"]["level"] for name in ("h1", "h2", "h3")] == ["ok"] * 3
    assert hosts["h1"]["cgroup"]["level"] == "warn"


def test_preflight_sees_what_is_in_the_way(box: Box) -> None:
    for number, line in (
        (1, "systemd-run --unit=taken python3 -m http.server 6443"),
        (2, "mkdir -p /etc/kubernetes && touch /etc/kubernetes/kubelet.conf"),
        (3, "cp /etc/machine-id /run/own-id && cp /run/other-id /etc/machine-id"),
    ):
        if number == 3:
            other = box.lab.machine(2).execute(["cat", "/etc/machine-id"]).stdout
            box.lab.machine(3).execute(["sh", "-c", f"echo {other.strip()} > /run/other-id"])
        box.lab.machine(number).execute(["sh", "-c", line])
    try:
        while "6443" not in box.lab.machine(1).execute(["ss", "-ltn"]).stdout:
            pass
        code, hosts = box.check()
        assert code == 1
        assert "6443 (python3)" in hosts["h1"]["ports"]["found"]
        assert hosts["h2"]["kubernetes"]["level"] == "fail"
        assert hosts["h3"]["identity"]["found"] == "machine id is the same as on h2"
    finally:
        box.lab.machine(1).execute(["systemctl", "stop", "taken"])
        box.lab.machine(2).execute(["rm", "-r", "/etc/kubernetes"])
        box.lab.machine(3).execute(["cp", "/run/own-id", "/etc/machine-id"])


def test_a_clock_that_is_off(box: Box) -> None:
    box.lab.machine(2).clock(-300)
    try:
        code, hosts = box.check()
    finally:
        box.lab.machine(2).clock(0)
    assert code == 1
    assert "behind" in hosts["h2"]["clock"]["found"]


def test_passwords_of_login_and_sudo(box: Box) -> None:
    box.settings("user: ops\npassword: ops-pw\n")
    done = box.paictl("node", "run", "--sudo", "id -u; hostname")
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == sorted(f"{n} | {line}" for n in ("h1", "h2", "h3") for line in ("0", n))
    box.settings("user: ops\npassword: wrong\n")
    done = box.paictl("node", "run", "true")
    box.settings(f"user: deploy\nssh_key_file_path: {box.lab.key}\n")
    assert done.returncode == 4
    assert "authentication failed for user ops with this password" in done.stderr


def test_unknown_and_changed_host_keys(box: Box) -> None:
    box.lab.machine(3).rekey()
    try:
        done = box.paictl("node", "run", "hostname")
        assert done.returncode == 3
        assert "host key changed" in done.stderr
        assert "ssh-keygen -R '10.77.0.13'" in done.stderr
        known = box.folder / "config" / "paictl" / "known_hosts"
        known.write_text("".join(line for line in known.read_text().splitlines(True) if "10.77.0.13" not in line))
        assert "unknown host key" in box.paictl("node", "run", "hostname").stderr
        done = box.paictl("node", "run", "--accept-new-host-keys", "hostname")
        assert done.returncode == 0
        assert "h3: new host key trusted: ssh-ed25519 SHA256:" in done.stderr
    finally:
        box.lab.trust()
        box.trust()


def test_no_python_is_named_with_what_mends_it(box: Box) -> None:
    box.lab.machine(2).execute(["sh", "-c", "mv /usr/bin/python3 /usr/bin/python3.away"])
    try:
        code, hosts = box.check()
    finally:
        box.lab.machine(2).execute(["sh", "-c", "mv /usr/bin/python3.away /usr/bin/python3"])
    assert code == 1
    assert hosts["h2"]["python"]["fix"].startswith("apt-get install")


def test_a_frozen_host_ends_in_bounded_time(box: Box) -> None:
    box.lab.machine(2).freeze()
    try:
        code, hosts = box.check()
    finally:
        box.lab.machine(2).thaw()
    assert code == 3
    assert hosts["h2"]["ssh"]["level"] == "fail"
    assert hosts["h3"]["ssh"]["level"] == "ok"


def test_a_playbook_whose_link_is_cut_in_the_middle(box: Box, tmp_path: Path) -> None:
    (tmp_path / "play.yml").write_text(
        "- hosts: all\n  gather_facts: false\n  become: true\n  tasks:\n"
        "    - {name: begin, ansible.builtin.command: touch /run/begun}\n"
        "    - {name: wait, ansible.builtin.command: sleep 31}\n"
    )
    (tmp_path / "password").write_text("ops-pw")
    program = (
        "import sys\nfrom pathlib import Path\n"
        "from paictl.remote.ansible.run import AnsibleSession, Trust\n"
        "from paictl.remote.inventory import Host, Inventory, Login\n"
        "hosts = Inventory((Host('h3', '10.77.0.13', 'ops'),), Login(Path('password').read_text()))\n"
        "with AnsibleSession(hosts, Path('run'), {}, Trust(Path(sys.argv[1]))) as session:\n"
        "    result = session.run(Path('play.yml'))\n"
        "print(result.unreachable, result.hosts['h3'].changed, result.hosts['h3'].unreachable.message)\n"
    )
    words = [*box.lab.network.inside(), sys.executable, "-c", program, str(box.lab.known_hosts)]
    with subprocess.Popen(
        list(map(str, words)),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path.cwd())},
    ) as running:
        try:
            while box.lab.machine(3).execute(["pgrep", "-f", "^sleep 31"], check=False).returncode:
                assert running.poll() is None
            arguments = b"".join(_command_lines())
            box.lab.network.cut(3)
            said, _ = running.communicate(timeout=240)
        finally:
            box.lab.network.heal(3)
    assert said.startswith("('h3',) 1 ")
    assert b"ops-pw" not in arguments
    assert "ops-pw" not in "".join(path.read_text() for path in (tmp_path / "run").rglob("*") if path.is_file())


@pytest.fixture
def apart(box: Box) -> Iterator[None]:
    """The dev box has no way to h2 and h3; h1 has."""
    routes = [["blackhole", f"{box.lab.address(number)}/32"] for number in (2, 3)]
    for route in routes:
        run(["ip", "-n", box.lab.network.namespace, "route", "add", *route])
    try:
        yield
    finally:
        for route in routes:
            run(["ip", "-n", box.lab.network.namespace, "route", "del", *route])
        box.settings(f"user: deploy\nssh_key_file_path: {box.lab.key}\n")


PLAY = (
    "import sys\nfrom pathlib import Path\n"
    "from paictl.remote.ansible.run import AnsibleSession, Trust\n"
    "from paictl.remote.inventory import Host, Inventory, Login\n"
    "key = Path(sys.argv[3]) if sys.argv[3:] else None\n"
    "hosts = Inventory(tuple(Host(f'h{n}', f'10.77.0.1{n}', 'deploy') for n in (1, 2, 3)),\n"
    "                  Login(None, key, None, Host('bastion', '10.77.0.11', 'deploy')))\n"
    "with AnsibleSession(hosts, Path(sys.argv[2]), {}, Trust(Path(sys.argv[1]))) as session:\n"
    "    result = session.run(Path('playbooks/connect.yml').resolve())\n"
    "print(result.ok, sorted(result.hosts))\n"
)
"""Signs in everywhere by a playbook."""


@pytest.mark.usefixtures("apart")
def test_hosts_that_only_a_bastion_reaches(box: Box, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    code, hosts = box.check()
    assert code == 3
    assert [hosts[name]["ssh"]["level"] for name in ("h1", "h2", "h3")] == ["ok", "fail", "fail"]
    box.settings(f"user: deploy\nssh_key_file_path: {box.lab.key}\ndeploy: {{bastion: 'deploy@10.77.0.11:22'}}\n")
    code, hosts = box.check()
    failed = [(name, what, one) for name, row in hosts.items() for what, one in row.items() if one["level"] == "fail"]
    assert (code, failed) == (0, [])
    assert [hosts[name]["ssh"]["level"] for name in ("h1", "h2", "h3")] == ["ok"] * 3
    (box.folder / "note").write_text("kelp\n")
    assert box.paictl("node", "copy", "note", "/tmp/note").returncode == 0  # noqa: S108 - on the hosts
    assert box.lab.machine(3).execute(["cat", "/tmp/note"]).stdout == "kelp\n"  # noqa: S108
    assert box.paictl("node", "ssh", "h2", text="hostname\n").stdout.splitlines()[-1] == "h2"
    play = [sys.executable, "-c", PLAY, str(box.lab.known_hosts), str(tmp_path / "runs")]
    told = {"PYTHONPATH": str(Path.cwd())}
    assert box.lab.run([*play, str(box.lab.key)], environment=told).stdout == "True ['h1', 'h2', 'h3']\n"
    box.settings("user: deploy\ndeploy: {bastion: 10.77.0.11, ssh_agent: true}\n")
    agent = tmp_path / "agent"
    with subprocess.Popen(["ssh-agent", "-D", "-a", str(agent)], stdout=subprocess.DEVNULL) as running:
        try:
            wait_until(agent.exists, "the agent")
            monkeypatch.setenv("SSH_AUTH_SOCK", str(agent))
            refused = box.paictl("node", "run", "hostname")
            assert refused.returncode == 4
            assert "ssh-add" in refused.stderr
            run(["ssh-add", "-q", box.lab.key])
            done = box.paictl("node", "run", "hostname")
            assert sorted(done.stdout.split()) == sorted(["h1", "|", "h1", "h2", "|", "h2", "h3", "|", "h3"])
            assert box.lab.run(play, environment=told).stdout == "True ['h1', 'h2', 'h3']\n"
        finally:
            running.terminate()


def _command_lines() -> Iterator[bytes]:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # a process may end at any time
            yield path.read_bytes()
