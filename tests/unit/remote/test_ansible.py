"""What of Ansible can be judged without running it: settings, secrets, messages, events, folders."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from paictl.remote.ansible.collecting import Collector, TaskEvent, TaskEventKind, hint_for, reason
from paictl.remote.ansible.environment import requirements_file
from paictl.remote.ansible.run import _yaml_of_secrets, inventory_data, ssh_arguments
from paictl.remote.inventory import Host, Inventory, Login
from paictl.remote.private import MARK, end_marked, marked, private_folder, write_private

INVENTORY = Inventory((Host("a", "10.0.0.1", "ops", 2222, ("master",), {"x": 1}), Host("b", "10.0.0.2")), Login("pw"))


def test_the_inventory_has_groups_and_no_secrets() -> None:
    data = inventory_data(INVENTORY)
    assert data["all"]["hosts"]["a"] == {
        "x": 1,
        "ansible_host": "10.0.0.1",
        "ansible_port": 2222,
        "ansible_user": "ops",
    }
    assert list(data["all"]["children"]["master"]["hosts"]) == ["a"]
    assert "pw" not in str(data)
    assert "'pw'" not in repr(INVENTORY)


@pytest.mark.parametrize("secret", ['a"b', "{{ 1 + 1 }}", "x: y # z", "ü\\n'", "%h $HOME"])
def test_any_password_reaches_ansible_as_it_is_and_is_no_template(secret: str) -> None:
    class Loader(yaml.SafeLoader):
        pass

    Loader.add_constructor("!unsafe", lambda _, node: ("unsafe", str(node.value)))
    loaded = yaml.load(_yaml_of_secrets({"ansible_password": secret}), Loader)  # noqa: S506 - a safe one
    assert loaded == {"ansible_password": ("unsafe", secret)}


def test_without_secrets_the_file_holds_nothing() -> None:
    assert yaml.safe_load(_yaml_of_secrets({})) == {}


def test_ssh_trusts_our_keys_only_and_ends_silence() -> None:
    words = ssh_arguments(Path("/a b/known_hosts"), 7, INVENTORY)
    for needed in (
        "StrictHostKeyChecking=yes",
        "GlobalKnownHostsFile=/dev/null",
        "ServerAliveInterval=5",
        "ServerAliveCountMax=3",
        "ControlPersist=60s",
        "ConnectTimeout=7",
    ):
        assert needed in words
    assert "'UserKnownHostsFile=\"/a b/known_hosts\"'" in words
    assert "-F /dev/null" in words


@pytest.mark.parametrize(("version", "name"), [((3, 11), "py311.txt"), ((3, 12), "py312.txt"), ((3, 14), "py312.txt")])
def test_every_package_for_ansible_is_pinned_with_hashes(version: tuple[int, int], name: str) -> None:
    path = requirements_file(version)
    assert path.name == name
    packages = re.split(r"\n(?=\S)", path.read_text(encoding="utf-8").strip())
    assert any(one.startswith("ansible-core==") for one in packages)
    assert all("==" in one and "--hash=sha256:" in one for one in packages)


@pytest.mark.parametrize(
    ("result", "said"),
    [
        ({"msg": "Task failed: No package"}, "No package"),
        ({"msg": "non-zero return code", "rc": 7, "stderr": "a\nboom"}, "exit code 7: boom"),
        ({"msg": "x", "results": [{"msg": "fine"}, {"failed": True, "msg": "the second"}]}, "the second"),
        ({"censored": "hidden"}, "its output is hidden, because it may contain secrets (no_log)"),
        ({}, "it gives no reason"),
    ],
)
def test_why_a_task_failed(result: dict[str, Any], said: str) -> None:
    assert reason(result) == said


def test_what_is_known_of_a_failure_is_said() -> None:
    assert "free some space" in hint_for("write: No space left on device")
    assert hint_for("something else") == ""


def test_an_unknown_host_key_is_named_where_a_password_signs_in_too(tmp_path: Path) -> None:
    """Ansible then speaks of a fingerprint in known_hosts, which is not the file that paictl reads."""
    words = (
        "Using a SSH password instead of a key is not possible because Host Key checking is enabled. "
        "Please add this host's fingerprint to your known_hosts file to manage this host."
    )
    _, heard = collected(tmp_path, event("runner_on_failed", "a", res={"msg": words}))
    assert heard[-1].message == "Host key verification failed: the key of this host is unknown or has changed"
    assert "node run true" in heard[-1].hint
    assert "--accept-new-host-keys" in heard[-1].hint


def event(name: str, host: str = "", task: str = "t", **data: Any) -> dict[str, Any]:
    return {"event": name, "event_data": {"host": host, "task": task, **data}}


def collected(tmp_path: Path, *events: dict[str, Any], secrets: tuple[str, ...] = ()) -> tuple[Collector, list[Any]]:
    heard: list[TaskEvent] = []
    collector = Collector(["a", "b"], tmp_path / "hosts", secrets, heard.append)
    assert not any(collector.take(one) for one in events)
    return collector, heard


STATS: dict[str, Any] = {"ok": {"a": 1}, "failures": {}, "dark": {}}


def test_a_run_that_ended_well(tmp_path: Path) -> None:
    collector, heard = collected(
        tmp_path,
        event("playbook_on_task_start"),
        event("runner_on_start", "a"),
        event("runner_on_ok", "a", res={"changed": True}),
        event("playbook_on_stats", **STATS),
    )
    outcome = collector.outcomes()["a"]
    assert (collector.ran, outcome.well, outcome.changed, outcome.changes) == (True, True, 1, ("t",))
    assert [one.what for one in heard] == [TaskEventKind.TASK, TaskEventKind.CHANGED]
    assert "changed     t" in (tmp_path / "hosts" / "a.log").read_text()


def test_what_was_being_done_when_it_was_stopped_may_be_half_done(tmp_path: Path) -> None:
    collector, heard = collected(
        tmp_path,
        event("runner_on_start", "a", "install"),
        event("runner_on_start", "b", "install"),
        event("runner_on_ok", "b", "install", res={}),
    )
    outcomes = collector.outcomes()
    assert not collector.ran
    assert outcomes["a"].unfinished == ("install",)
    assert outcomes["b"].unfinished == ()
    assert heard[-1] == TaskEvent(TaskEventKind.UNFINISHED, "install", "a", "may be half done")


def test_a_failure_that_was_rescued_or_ignored_is_none(tmp_path: Path) -> None:
    failed = event("runner_on_failed", "a", res={"msg": "no"})
    ignored = event("runner_on_failed", "b", res={"msg": "no"}, ignore_errors=True)
    rescued, _ = collected(tmp_path, failed, ignored, event("playbook_on_stats", **STATS))
    assert all(one.well for one in rescued.outcomes().values())
    real, _ = collected(tmp_path, failed, event("playbook_on_stats", **{**STATS, "failures": {"a": 1}}))
    assert [one.message for one in real.outcomes()["a"].failures] == ["no"]


def test_an_empty_end_of_the_message_means_that_the_link_was_cut(tmp_path: Path) -> None:
    collector, _ = collected(
        tmp_path, event("runner_on_unreachable", "a", res={"msg": "Failed to connect to the host via ssh: "})
    )
    gone = collector.outcomes()["a"].unreachable
    assert gone is not None
    assert "the link was cut" in gone.message


def test_secrets_are_starred_out_of_events_and_logs(tmp_path: Path) -> None:
    _, heard = collected(tmp_path, event("runner_on_failed", "a", res={"msg": "bad pw s3cret!"}), secrets=("s3cret!",))
    assert heard[-1].message == "bad pw ******"
    assert "s3cret" not in (tmp_path / "hosts" / "a.log").read_text()
    assert (tmp_path / "hosts").stat().st_mode & 0o777 == 0o700


def test_a_private_folder_is_ours_alone_and_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    with private_folder() as folder:
        write_private(folder / "secret", "x")
        assert folder.stat().st_mode & 0o777 == 0o700
        assert (folder / "secret").stat().st_mode & 0o777 == 0o600
        with private_folder() as other:
            assert folder.is_dir()
            assert other != folder
    assert not folder.exists()


def test_what_a_killed_run_left_is_removed_by_the_next_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    program = (
        "import os, subprocess, sys\n"
        "from paictl.remote.private import MARK, private_folder, write_private\n"
        "from paictl.remote.private import marked\n"
        "with private_folder() as folder:\n"
        "    write_private(folder / 'secret', 'x')\n"
        "    env = {**os.environ, MARK: str(folder)}\n"
        "    worker = subprocess.Popen(['sleep', '60'], env=env, stdout=subprocess.DEVNULL, start_new_session=True)\n"
        "    while not marked(f'{MARK}={folder}'):\n"  # its environment is there a moment after it began
        "        pass\n"
        "    print(folder, flush=True)\n"
        "    os.kill(os.getpid(), 9)\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=False)
    left = Path(ended.stdout.strip())
    assert (left / "secret").is_file()
    assert marked(f"{MARK}={left}")
    with private_folder():
        assert not left.exists()
        assert not marked(f"{MARK}={left}")


def test_workers_with_sessions_of_their_own_are_ended(tmp_path: Path) -> None:
    mark = f"{MARK}={tmp_path}"
    stubborn = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('on', flush=True); time.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", stubborn],
        env={**os.environ, MARK: str(tmp_path)},
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as worker:
        assert worker.stdout is not None
        worker.stdout.readline()
        assert worker.pid in marked(mark)
        end_marked(mark, patience=0.2)
        assert worker.wait() == -9
