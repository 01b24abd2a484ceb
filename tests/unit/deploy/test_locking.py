"""One deployment at a time: who is kept out, and what is left over."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from paictl.deploy.facts import HostFacts
from paictl.deploy.inventory import Machine, Role
from paictl.deploy.locking import LockHolder, holder, holder_from, refuse_locked
from paictl.deploy.site import DeployError
from paictl.errors import ExitCode
from tests.unit.deploy.loading import load

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


def test_a_number_that_another_process_has_now_is_left_over() -> None:
    mine = holder("deploy apply", NOW)
    assert [mine.left_over] == [False]
    number, boot, _ = mine.process.split()
    assert replace(mine, process=f"{number} {boot} 1").left_over
    assert replace(mine, process=f"{number} another-boot 1").left_over


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

            def exit_json(self, **_: Any) -> None:
                said.append("changed")
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
    assert call("b", "absent") == "changed"
    assert call("a") == "changed"
