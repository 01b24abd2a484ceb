"""What a reset takes away of networks: links, routes and rules of the cluster, and nothing of the machine's own."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.unit.deploy.loading import load

RULES = """*nat
:PREROUTING ACCEPT [0:0]
:FLANNEL-POSTRTG - [0:0]
:KUBE-SERVICES - [0:0]
:CNI-HOSTPORT-DNAT - [0:0]
-A PREROUTING -p tcp --dport 8080 -j REDIRECT --to-ports 80
-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A POSTROUTING -m comment --comment "flanneld masq" -j FLANNEL-POSTRTG
-A FLANNEL-POSTRTG -s 10.99.0.0/24 -m comment --comment "flanneld masq" -j RETURN
COMMIT
"""
OWN = """*nat
:PREROUTING ACCEPT [0:0]
-A PREROUTING -p tcp --dport 8080 -j REDIRECT --to-ports 80
COMMIT
"""


class Machine:
    """Takes commands and remembers them."""

    def __init__(self) -> None:
        self.commands: list[str] = []
        self.restored: dict[str, str] = {}

    def run(self, command: list[str], text: str | None = None, seconds: int = 60) -> tuple[int, str, str]:
        assert seconds > 0
        self.commands.append(" ".join(command))
        if text is not None:
            self.restored[command[0]] = text
        return 0, RULES if command == ["iptables-save"] else "", ""


@pytest.fixture
def machine() -> Machine:
    return Machine()


@pytest.fixture
def reset(machine: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """The module, with a machine in the place of this one; ansible-core is not in this environment."""
    parts = {
        "ansible": ModuleType("ansible"),
        "ansible.module_utils": ModuleType("ansible.module_utils"),
        "ansible.module_utils.basic": SimpleNamespace(AnsibleModule=None),
        "ansible.module_utils.paictl_host": load("module_utils/paictl_host.py"),
    }
    for name, module in parts.items():
        monkeypatch.setitem(sys.modules, name, module)
    made = load("library/paictl_reset.py")
    (tmp_path / "subnet.env").write_text("FLANNEL_NETWORK=10.99.0.0/16\nFLANNEL_SUBNET=10.99.0.1/24\n")
    read = made.read
    monkeypatch.setattr(made, "run", machine.run)
    monkeypatch.setattr(made, "read", lambda path: read(str(tmp_path / path.rpartition("/")[2])))
    return made


def test_rules_of_the_cluster_go_and_the_machine_s_own_stay(reset: Any, machine: Machine) -> None:
    reset.network()
    assert machine.restored == {"iptables-restore": OWN}  # nothing of ours in ip6tables: it is not written


def test_routes_and_tables_of_flannel_go(reset: Any, machine: Machine) -> None:
    reset.network()
    assert "ip route flush root 10.99.0.0/16" in machine.commands
    assert {"nft delete table ip flannel-ipv4", "nft delete table ip6 flannel-ipv6"} <= set(machine.commands)


def test_without_flannel_no_route_is_touched_but_those_that_bear_our_number(
    reset: Any, machine: Machine, tmp_path: Path
) -> None:
    (tmp_path / "subnet.env").unlink()
    reset.network()
    assert [one for one in machine.commands if one.startswith("ip route")] == ["ip route flush proto 77"]


def test_what_has_arrived_of_a_pack_that_was_not_resumed_goes(
    reset: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    part = tmp_path / "paictl-pack.tar.0123456789abcdef.part"
    part.touch()
    assert reset.PARTS.replace("*", "0123456789abcdef") == f"/var/lib/{part.name}"
    for name, value in {"PATHS": [], "EMPTIED": [], "STATE": str(tmp_path / "state")}.items():
        monkeypatch.setattr(reset, name, value)
    monkeypatch.setattr(reset, "PARTS", f"{tmp_path}/*.part")
    monkeypatch.setattr(reset, "installed", dict)
    for name in ("network", "end_shims"):  # those of this machine are none of its business
        monkeypatch.setattr(reset, name, lambda: None)
    monkeypatch.setattr(reset.os.path, "exists", lambda _: False)
    assert reset.work() == [str(part)]
    monkeypatch.undo()
    assert not part.exists()
