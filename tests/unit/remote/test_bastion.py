"""Hosts that are reached through a machine in the middle, against servers on loopback."""

from __future__ import annotations

import http.client
import http.server
import shlex
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import paramiko
import pytest

from paictl.errors import ExitCode
from paictl.remote.ansible.run import ssh_arguments
from paictl.remote.inventory import Host, HostKey, Inventory, Login, remember
from paictl.remote.ssh.bastion import BastionError, jump_options, jump_setting
from paictl.remote.ssh.connection import forward_by_bastion
from paictl.remote.ssh.fleet import Fleet
from paictl.remote.ssh.link import SshOptions, shell_command
from paictl.remote.ssh.results import CommandStatus, HostResult
from tests.unit.remote.sshd import PASSWORD, USER, Server, server


class Site:
    """A host and a bastion, which take the same key; `trusted` are those whose host keys are known."""

    def __init__(self, host: Server, bastion: Server, folder: Path) -> None:
        self.host, self.bastion, self.known_hosts = host, bastion, folder / "known_hosts"
        key = paramiko.ECDSAKey.generate()
        key.write_private_key_file(str(folder / "id"))
        for one in (host, bastion):
            one.allowed = key
        bastion.forwards = True
        self.login = Login(None, folder / "id", PASSWORD, Host("bastion", "127.0.0.1", USER, bastion.port))

    def trust(self, *servers: Server) -> None:
        for one in servers:
            key = HostKey(one.host_key.get_name(), one.host_key.asbytes())
            remember(self.known_hosts, f"[127.0.0.1]:{one.port}", key)

    def options(self, *, accept: bool = False) -> SshOptions:
        return SshOptions(self.known_hosts, accept, connect=60.0, silence=60.0)

    def fleet(self, count: int = 1, *, accept: bool = False, login: Login | None = None) -> Fleet:
        hosts = tuple(Host(f"h{number}", "127.0.0.1", USER, self.host.port) for number in range(count))
        return Fleet(Inventory(hosts, login or self.login), self.options(accept=accept))

    def run(self, *, accept: bool = False, login: Login | None = None) -> HostResult:
        with self.fleet(accept=accept, login=login) as fleet:
            return fleet.run("echo here")["h0"]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with server() as host, server() as bastion:
        yield Site(host, bastion, tmp_path)


def test_all_hosts_are_reached_by_one_connection_to_the_bastion(site: Site) -> None:
    site.trust(site.host, site.bastion)
    with site.fleet(6) as fleet:
        results = fleet.run("echo here")
    assert {one.stdout for one in results.values()} == {"here\n"}
    assert site.bastion.connections == 1
    assert site.bastion.forwarded == [("127.0.0.1", site.host.port)] * 6
    assert site.bastion.commands == []
    assert site.bastion.passwords == []


def test_both_host_keys_are_verified(site: Site) -> None:
    site.trust(site.host)
    found = site.run()
    assert found.reach is CommandStatus.UNKNOWN_KEY
    assert found.message.startswith(f"bastion [127.0.0.1]:{site.bastion.port}: unknown host key: ")
    assert site.bastion.forwarded == []
    site.known_hosts.unlink()
    site.trust(site.bastion)
    found = site.run()
    assert found.reach is CommandStatus.UNKNOWN_KEY
    assert found.message.startswith("unknown host key: ")
    site.host.host_key = paramiko.ECDSAKey.generate()
    site.bastion.host_key = paramiko.ECDSAKey.generate()
    assert site.run(accept=True).reach is CommandStatus.CHANGED_KEY


def test_new_keys_of_both_are_trusted_on_wish_and_shown_once(site: Site) -> None:
    with site.fleet(accept=True) as fleet:
        first, second = fleet.run("true")["h0"], fleet.run("true")["h0"]
    mark = f"(bastion [127.0.0.1]:{site.bastion.port})"
    assert first.new_key.count("SHA256:") == 2
    assert first.new_key.endswith(mark)
    assert second.new_key == ""
    assert site.run().ok


def test_a_bastion_gets_no_password(site: Site) -> None:
    site.trust(site.host, site.bastion)
    found = site.run(login=replace(site.login, password=PASSWORD, key_file=None))
    assert found.reach is CommandStatus.REFUSED
    assert "bastion" in found.message
    assert site.bastion.passwords == []


def test_a_bastion_that_does_not_forward_is_named_with_the_host(site: Site) -> None:
    site.trust(site.host, site.bastion)
    site.bastion.forwards = False
    found = site.run()
    assert found.reach is CommandStatus.UNREACHABLE
    assert f"bastion [127.0.0.1]:{site.bastion.port} cannot reach 127.0.0.1:{site.host.port}: " in found.message


def test_a_bastion_that_is_away_is_named(site: Site) -> None:
    site.trust(site.host, site.bastion)
    site.bastion.close()
    found = site.run()
    assert found.reach is CommandStatus.UNREACHABLE
    assert "bastion" in found.message
    assert "refuses connections" in found.message


def test_a_connection_that_was_cut_is_made_again(site: Site) -> None:
    site.trust(site.host, site.bastion)
    with site.fleet() as fleet:
        assert fleet.run("true")["h0"].ok
        site.bastion.cut()
        assert not fleet.run("true")["h0"].ok or site.bastion.connections == 2
        site.bastion.forwarded.clear()
        assert fleet.run("true")["h0"].ok
    assert site.bastion.connections == 2


def test_a_port_of_this_machine_leads_through_the_bastion(site: Site) -> None:
    site.trust(site.bastion)
    made = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        port = forward_by_bastion(site.login, "127.0.0.1", made.server_address[1], site.options())
        for _ in range(2):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
            connection.request("HEAD", "/")
            assert connection.getresponse().status == http.client.OK
            connection.close()
    finally:
        made.shutdown()
        thread.join()
        made.server_close()
    site.bastion.close()
    with pytest.raises(BastionError, match="bastion") as away:
        forward_by_bastion(site.login, "127.0.0.1", 1, site.options())
    assert away.value.exit_code is ExitCode.UNREACHABLE


def test_ssh_is_told_of_the_bastion_and_verifies_its_key() -> None:
    bastion = Host("bastion", "gw.example", "jump", 2222)
    login = Login("pw", Path("/a b/100%/id"), "pw", bastion)
    (setting,) = jump_setting(jump_options(login, Path("/a b/100%/known"), control=Path("/run/x")))
    name, _, command = setting.partition("=")
    assert name == "ProxyCommand"
    expanded = command.replace("%%", "\0").replace("%h", "h1").replace("%p", "22").replace("\0", "%")
    words = shlex.split(expanded)
    assert words[0] == "ssh"
    assert words[-3:] == ["-W", "[h1]:22", "jump@gw.example"]
    settings = {words[at + 1] for at, word in enumerate(words) if word == "-o"}
    assert {
        "StrictHostKeyChecking=yes",
        "BatchMode=yes",
        "ForwardAgent=no",
        "IdentitiesOnly=yes",
        'UserKnownHostsFile="/a b/100%%/known"',
        "ControlPath=/run/x",
    } <= settings
    assert words[words.index("-i") + 1] == "/a b/100%/id"
    assert words[words.index("-p") + 1] == "2222"
    host = Host("h1", "10.0.0.1", "ann")
    assert any(word.startswith("ProxyCommand=ssh ") for word in shell_command(host, login, known_hosts=Path("/k")))
    inventory = Inventory((host,), login)
    assert "ProxyCommand=ssh " in ssh_arguments(Path("/k"), 7, inventory, Path("/run/x"))
    for plain in (
        ssh_arguments(Path("/k"), 7, replace(inventory, login=Login("pw"))),
        *shell_command(host, Login("pw")),
    ):
        assert "ProxyCommand" not in plain
