"""One deployment at a time: who is kept out, and what is left over."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, Self

import pytest

from paictl.deploy import locking
from paictl.deploy.facts import HostFacts
from paictl.deploy.inventory import Machine, Role
from paictl.deploy.locking import Lock, LockHolder, holder, holder_from, locked, refuse_locked
from paictl.deploy.site import DeployError
from paictl.errors import ExitCode
from paictl.remote.ansible.collecting import HostOutcome, PlaybookResult, TaskEvent, TaskEventKind
from paictl.remote.inventory import Inventory
from tests.unit.deploy.loading import load
from tests.unit.deploy.test_desired import deployment

NOW = datetime(2026, 9, 1, 12, 0, tzinfo=UTC)


def site(lock: LockHolder | str, *, break_lock: bool = False) -> Any:
    """A master with a lock, as it was looked at."""
    written = lock if isinstance(lock, str) else json.dumps(asdict(lock))
    facts = {"m1": HostFacts(Machine("m1", "10.0.0.1", Role.MASTER), {"lock": written})}
    return SimpleNamespace(facts=facts, break_lock=break_lock)


def test_nobody_is_kept_out_without_a_lock() -> None:
    refuse_locked(site(""))
    refuse_locked(site("{half written"))


def test_another_machine_s_lock_keeps_out_and_says_who_where_and_since_when() -> None:
    other = replace(holder("deploy upgrade", NOW), who="alice@box-1", box="box-1 0a 1", process="1 a 1")
    with pytest.raises(DeployError) as caught:
        refuse_locked(site(other))
    assert "alice@box-1 has been running deploy upgrade on this cluster since 2026-09-01T12:00:00Z" in str(caught.value)
    assert caught.value.where == "m1"
    assert "--break-lock" in str(caught.value.hint)
    assert caught.value.exit_code is ExitCode.NEGATIVE
    refuse_locked(site(other, break_lock=True))


def test_a_process_of_this_machine_keeps_out_while_it_runs_and_not_any_more() -> None:
    code = (
        "import json,sys,time; from dataclasses import asdict; from datetime import *; "
        "from paictl.deploy.locking import holder; print(json.dumps(asdict(holder('deploy apply', "
        "datetime.now(timezone.utc)))), flush=True); sys.stdin.read()"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        held = holder_from(other.stdout.readline().decode())
        assert held is not None
        with pytest.raises(DeployError):
            refuse_locked(site(held))
        other.kill()
        other.wait()
    assert held.left_over
    refuse_locked(site(held))


@pytest.mark.parametrize("error", [KeyError("uid not found"), OSError("No username set in the environment")])
def test_a_user_without_a_name_holds_the_lock_by_number(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python 3.13 raises `OSError`; those before it raise `KeyError`."""

    def nameless() -> str:
        raise error

    monkeypatch.setattr("getpass.getuser", nameless)
    assert holder("deploy apply", NOW).who.startswith(f"{os.getuid()}@")


def test_a_number_that_another_process_has_now_is_left_over() -> None:
    mine = holder("deploy apply", NOW)
    assert [mine.left_over] == [False]
    number, boot, _ = mine.process.split()
    assert replace(mine, process=f"{number} {boot} 1").left_over
    assert replace(mine, process=f"{number} another-boot 1").left_over


class Session:
    """Stands in for Ansible: the locks of masters that answer, as the module keeps them."""

    locks: ClassVar[dict[str, str]] = {}
    silent: ClassVar[set[str]] = set()

    def __init__(self, inventory: Inventory, folder: Path) -> None:
        assert [one.name for one in inventory][:2] == ["m1", "m2"]
        self.folder = folder

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def run(self, playbook: Path, variables: Any, *, options: Any) -> PlaybookResult:
        assert playbook.name == "lock.yml"
        hosts = {}
        for name in options.limit:
            if name in self.silent:
                gone = TaskEvent(TaskEventKind.UNREACHABLE, "lock", name, "no route to host")
                hosts[name] = HostOutcome(name, unreachable=gone)
                continue
            hosts[name] = HostOutcome(name, facts={"paictl_lock": self.locks.get(name, "")})
            if variables["paictl_lock_state"] == "present":
                self.locks[name] = json.dumps(variables["paictl_lock_holder"])
            if variables["paictl_lock_state"] == "absent":
                self.locks.pop(name, None)
        return PlaybookResult(hosts, True, self.folder)


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> type[Session]:
    monkeypatch.setattr(Session, "locks", {})
    monkeypatch.setattr(Session, "silent", set())
    monkeypatch.setattr(locking, "AnsibleSession", Session)
    return Session


def test_what_is_no_deployment_holds_the_lock_too_however_it_ends(session: type[Session], tmp_path: Path) -> None:
    two = replace(
        deployment(), machines=(Machine("m1", "10.0.0.1", Role.MASTER), Machine("m2", "10.0.0.2", Role.MASTER))
    )

    def interrupted() -> None:
        with locked(two, "deploy reset", tmp_path):
            assert {json.loads(one)["command"] for one in session.locks.values()} == {"deploy reset"}
            assert set(session.locks) == {"m1", "m2"}
            with pytest.raises(DeployError, match="running deploy reset"), locked(two, "node remove", tmp_path):
                raise AssertionError("two at once")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert session.locks == {}
    session.locks["m2"] = json.dumps(asdict(replace(holder("deploy apply", NOW), box="box-1", who="bo@box-1")))
    with pytest.raises(DeployError, match="bo@box-1 has been running deploy apply"), locked(two, "x", tmp_path):
        raise AssertionError("another is at work")
    with locked(two, "deploy reset", tmp_path, break_lock=True):
        assert "bo@box-1" not in session.locks["m2"]
    session.silent = {"m2"}
    with pytest.raises(DeployError, match="no route to host"), locked(two, "deploy certs renew", tmp_path):
        raise AssertionError("nobody knows whether m2 has a lock")
    with locked(two, "deploy reset", tmp_path, lenient=True):
        assert set(session.locks) == {"m1"}
    assert session.locks == {}


def test_the_module_takes_and_releases_and_replaces_only_what_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = load("module_utils/paictl_host.py")
    monkeypatch.setitem(sys.modules, "ansible.module_utils.basic", SimpleNamespace(AnsibleModule=None))
    for name in ("ansible", "ansible.module_utils"):
        monkeypatch.setitem(sys.modules, name, SimpleNamespace())
    monkeypatch.setitem(sys.modules, "ansible.module_utils.paictl_host", host)
    program = load("library/paictl_lock.py")
    monkeypatch.setattr(program, "STATE", str(tmp_path))
    monkeypatch.setattr(program, "LOCK", str(tmp_path / "lock.json"))

    def call(identity: str, state: str = "present", *replaced: str) -> str:
        """What the module ends with: `changed`, or why not."""
        said: list[str] = []

        class Module:
            def __init__(self, **_: Any) -> None:
                own = {"id": identity, "who": identity, "command": "deploy apply", "since": "noon"}
                self.params = {"state": state, "holder": own, "replace": list(replaced)}
                self.check_mode = False

            def exit_json(self, changed: bool, ansible_facts: Any = None) -> None:
                said.append(ansible_facts["paictl_lock"] if ansible_facts else "changed" if changed else "left alone")
                raise SystemExit

            def fail_json(self, msg: str, **_: Any) -> None:
                said.append(msg)
                raise SystemExit

        monkeypatch.setattr(program, "AnsibleModule", Module)
        with pytest.raises(SystemExit):
            program.main()
        return said[0]

    assert call("a") == "changed"
    assert call("a") == "changed"
    assert call("b") == "a has been running deploy apply on this cluster since noon"
    assert call("b", "absent") == "changed"
    assert call("b") == "a has been running deploy apply on this cluster since noon"
    assert call("b", "present", "a") == "changed"
    assert call("a", "absent") == "changed"
    assert call("a") == "b has been running deploy apply on this cluster since noon"
    assert json.loads(call("c", "known"))["id"] == "b"
    assert call("b", "absent") == "changed"
    assert call("c", "known") == ""
    assert call("a") == "changed"
    monkeypatch.setattr(program, "STATE", str(tmp_path / "was-reset"))
    assert call("a", "absent") == "left alone"
    assert not (tmp_path / "was-reset").exists()


def test_a_deployment_releases_only_a_lock_that_it_took() -> None:
    other = replace(holder("deploy upgrade", NOW), who="alice@box-1", box="box-1 0a 1", process="1 a 1")
    played: list[tuple[Any, ...]] = []

    def play(name: str, _: object, machines: tuple[Machine, ...], variables: dict[str, Any]) -> None:
        assert (name, [one.name for one in machines]) == ("lock", ["m1"]), "masters only"
        played.append((variables["paictl_lock_state"], variables["paictl_lock_holder"]))

    at_work = site(other, break_lock=True)
    at_work.command, at_work.play = "deploy apply", play
    at_work.desired = SimpleNamespace(deployment=deployment())
    phase = Lock(at_work)
    phase.clean_up()
    assert played == [], "it never took one"
    phase.run(lambda *_: None)
    phase.clean_up()
    assert [state for state, _ in played] == ["present", "absent"]
    assert played[0][1] == played[1][1], "what is released is what was taken"
    assert played[0][1]["command"] == "deploy apply"
