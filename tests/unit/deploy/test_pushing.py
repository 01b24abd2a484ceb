"""Pushing packs: in pieces, resumed where a link broke, with words on how far it is and time enough for its size."""

from __future__ import annotations

import gzip
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from paictl.cli import console
from paictl.cli.deploy.progress import PhaseLines, machines_changed
from paictl.deploy.pushing import EVERY, PROGRESS, SLOWEST, STALLED, PushProgress, patience
from paictl.plan.events import PhaseBegan, PhaseDone, PhaseSaid, RunBegan, RunEnded
from paictl.remote.ansible.run import PlaybookOptions
from tests.unit.deploy.loading import load


class BrokenLinkError(Exception):
    """The host cannot be reached any more."""


class Link:
    """Runs scripts as a host does; breaks after so many of them, in the middle of what is sent then."""

    def __init__(self) -> None:
        self.left = 1000
        self.sent = 0

    def run(self, line: str, data: bytes | None) -> dict[str, Any]:
        self.left -= 1
        if self.left == 0 and data is not None:
            data = data[: len(data) // 2]
        done = subprocess.run(["sh", "-c", line], input=data or b"", capture_output=True, check=False)
        self.sent += len(data or b"")
        if self.left <= 0:
            raise BrokenLinkError
        return {"rc": done.returncode, "stdout": done.stdout.decode(), "stderr": done.stderr.decode()}


@pytest.fixture
def plugin(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The plugin's module, beside stand-ins for the parts of Ansible that it uses."""

    class ActionBase:
        def __init__(self, link: Link, arguments: dict[str, str], *, check: bool = False) -> None:
            self._link = link
            self._task = types.SimpleNamespace(args=arguments, check_mode=check)

        def run(self, _tmp: Any, _variables: Any) -> dict[str, Any]:
            return {}

        def _low_level_execute_command(self, line: str, *, sudoable: bool, in_data: bytes | None) -> dict[str, Any]:
            assert sudoable
            return self._link.run(line, in_data)

    names = ("ansible", "ansible.errors", "ansible.plugins", "ansible.plugins.action")
    made = {name: types.ModuleType(name) for name in names}
    made["ansible.errors"].AnsibleActionFail = RuntimeError  # type: ignore[attr-defined]
    made["ansible.plugins.action"].ActionBase = ActionBase  # type: ignore[attr-defined]
    for name, module in made.items():
        monkeypatch.setitem(sys.modules, name, module)
    module = load("action_plugins/paictl_push.py")
    for name in ("PIECE", "MOST"):
        monkeypatch.setattr(module, name, 1000)
    monkeypatch.setattr(module, "SLOW", 0)  # no link is: how long a piece takes is not a test's business
    return module


@pytest.fixture
def pack(tmp_path: Path) -> Path:
    path = tmp_path / "0123456789abcdef.tar"
    path.write_bytes(bytes(number % 251 for number in range(9500)))
    return path


def arguments(tmp_path: Path, pack: Path, key: str = "0123456789abcdef") -> dict[str, str]:
    (tmp_path / "progress").mkdir(exist_ok=True)
    (tmp_path / "host's").mkdir(exist_ok=True)
    target = str(tmp_path / "host's" / "pack.tar")
    return {"src": str(pack), "dest": target, "key": key, "progress": str(tmp_path / "progress")}


HOST = {"inventory_hostname": "h1"}


def test_a_pack_arrives_in_pieces_and_says_how_far_it_is(plugin: Any, pack: Path, tmp_path: Path) -> None:
    given, link = arguments(tmp_path, pack), Link()
    assert plugin.ActionModule(link, given).run(task_vars=HOST) == {"changed": True, "resumed": 0}
    target = Path(given["dest"])
    assert target.read_bytes() == pack.read_bytes()
    assert target.stat().st_mode & 0o777 == 0o600
    assert list(target.parent.iterdir()) == [target]
    assert [(path.name, path.read_text()) for path in (tmp_path / "progress").iterdir()] == [("h1", "9500 9500")]
    target.write_text("what an earlier run has left")
    plugin.ActionModule(link, given).run(task_vars=HOST)
    assert target.read_bytes() == pack.read_bytes()


def test_over_a_slow_link_pieces_are_compressed(
    plugin: Any, pack: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugin, "SLOW", 1 << 60)
    pack.write_bytes(b"much the same " * 700)
    given, link = arguments(tmp_path, pack), Link()
    plugin.ActionModule(link, given).run(task_vars=HOST)
    assert Path(given["dest"]).read_bytes() == pack.read_bytes()
    assert 1000 < link.sent < 2000, "the first piece as it is, to know how fast the link is"


def test_a_compressed_piece_that_does_not_arrive_whole_is_no_success(
    plugin: Any, pack: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugin, "SLOW", 1 << 60)
    given, link = arguments(tmp_path, pack), Link()
    whole = gzip.compress
    monkeypatch.setattr(plugin.gzip, "compress", lambda piece, level: whole(piece, level)[:-40])
    with pytest.raises(RuntimeError):
        plugin.ActionModule(link, given).run(task_vars=HOST)
    assert not Path(given["dest"]).exists()
    monkeypatch.undo()
    plugin.ActionModule(link, given).run(task_vars=HOST)
    assert Path(given["dest"]).read_bytes() == pack.read_bytes()


@pytest.mark.parametrize("cut", range(1, 14))
def test_what_has_arrived_when_the_link_breaks_is_not_sent_again(
    plugin: Any, pack: Path, tmp_path: Path, cut: int
) -> None:
    given, link = arguments(tmp_path, pack), Link()
    link.left = cut
    with pytest.raises(BrokenLinkError):
        plugin.ActionModule(link, given).run(task_vars=HOST)
    target, before = Path(given["dest"]), link.sent
    assert target.exists() is (cut == 13), "nobody takes a part for the whole"
    link.left = 1000
    plugin.ActionModule(link, given).run(task_vars=HOST)
    assert target.read_bytes() == pack.read_bytes()
    assert link.sent - before == 9500 - before


def test_a_command_that_a_dead_link_left_running_writes_only_in_its_place(
    plugin: Any, pack: Path, tmp_path: Path
) -> None:
    """sshd takes a while to see that a link is gone; the old command may still have bytes to write."""
    given, link = arguments(tmp_path, pack), Link()
    link.left = 6
    with pytest.raises(BrokenLinkError):
        plugin.ActionModule(link, given).run(task_vars=HOST)
    part = Path(f"{given['dest']}.{given['key']}.part")
    link.left, run = 1000, link.run

    def run_beside(line: str, data: bytes | None) -> dict[str, Any]:
        done = run(line, data)
        late = plugin.ActionModule(link, given)
        if part.exists():
            link.run = run  # type: ignore[method-assign]
            late._there(plugin._PIECE, str(part), "3000", data=pack.read_bytes()[3000:4000])
            link.run = run_beside  # type: ignore[method-assign]
        return done

    link.run = run_beside  # type: ignore[method-assign]
    plugin.ActionModule(link, given).run(task_vars=HOST)
    assert Path(given["dest"]).read_bytes() == pack.read_bytes()


def test_parts_of_other_packs_go_and_a_part_that_is_too_long_begins_again(
    plugin: Any, pack: Path, tmp_path: Path
) -> None:
    given = arguments(tmp_path, pack)
    target = Path(given["dest"])
    other, own = (Path(f"{target}.{key}.part") for key in ("another", given["key"]))
    other.write_bytes(b"x")
    own.write_bytes(b"x" * 9501)
    plugin.ActionModule(Link(), given).run(task_vars=HOST)
    assert target.read_bytes() == pack.read_bytes()
    assert list(target.parent.iterdir()) == [target]


def test_what_the_host_says_is_the_error_and_a_dry_run_sends_nothing(plugin: Any, pack: Path, tmp_path: Path) -> None:
    given = arguments(tmp_path, pack) | {"dest": str(tmp_path / "nowhere" / "pack.tar")}
    with pytest.raises(RuntimeError, match="nowhere"):
        plugin.ActionModule(Link(), given).run(task_vars=HOST)
    link = Link()
    assert plugin.ActionModule(link, given, check=True).run(task_vars=HOST) == {"changed": True}
    assert (link.sent, link.left) == (0, 1000)


def test_how_far_machines_are_is_told_now_and_then(tmp_path: Path) -> None:
    now, told = [0.0], list[tuple[str, str]]()
    progress = PushProgress(tmp_path, lambda line, host: told.append((str(line), host)), lambda: now[0])
    (tmp_path / "h1").write_text(f"{3 << 20} {10 << 20}")
    (tmp_path / "h2").write_text(f"{10 << 20} {10 << 20}")
    (tmp_path / ".h3").write_text("")
    assert progress() is False
    assert told == [], "a fast link is done by then"
    for _ in range(2):
        now[0] += EVERY
        assert progress() is False
    assert told == [("h1: 3 of 10 MiB pushed", PROGRESS)], "what has not moved is not told again"
    (tmp_path / "h1").write_text(f"{4 << 20} {10 << 20}")
    assert progress() is False
    now[0] += EVERY
    progress()
    assert told[1:] == [("h1: 4 of 10 MiB pushed", PROGRESS)]
    now[0] += STALLED - 1
    assert progress() is False
    now[0] += 1
    assert progress() is True
    assert told[2:] == [("no machine has made progress for 1 h: giving up", "")]


def test_a_large_pack_has_as_much_time_as_a_slow_link_needs(tmp_path: Path) -> None:
    usual = PlaybookOptions().timeout
    assert patience([]).timeout == usual
    pack = tmp_path / "a.tar"
    with pack.open("wb") as file:
        file.truncate(600 << 20)
    assert patience([str(pack)]).timeout == usual + (600 << 20) // SLOWEST > 10 * 3600


class Terminal:
    """The console of a person, with a line that moves, and what became of that line."""

    def __init__(self) -> None:
        self.shown: list[str] = []

    def status(self, _: str) -> Terminal:
        return self

    def start(self) -> None:
        self.shown.append("begins")

    def update(self, words: object) -> None:
        self.shown.append(str(words))

    def stop(self) -> None:
        self.shown.append("ends")


def test_on_a_terminal_a_phase_that_takes_long_says_what_it_does(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A minute of kubeadm once looked as if nothing happened."""
    screen = Terminal()
    monkeypatch.setattr(console, "stderr", lambda: screen)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    show = PhaseLines()
    show(RunBegan((("settings", "apply changed settings"),)))
    show(PhaseBegan("settings", 1, 1))
    show(PhaseSaid("settings", "Apply changed settings [1/2]"))
    show(PhaseDone("settings"))
    assert screen.shown == ["begins", "settings (1 of 1)", "settings (1 of 1) Apply changed settings [1/2]", "ends"]
    assert capsys.readouterr().err.startswith("==> settings (1 of 1) ")


@pytest.mark.parametrize(("phase", "said"), [("settings", True), ("preflight", False)])
def test_whoever_interrupts_a_change_learns_how_to_resume(
    capsys: pytest.CaptureFixture[str], phase: str, *, said: bool
) -> None:
    show = PhaseLines()
    show(PhaseBegan(phase, 1, 1))
    show(RunEnded(ok=False, interrupted=True))
    assert ("run the same command again to resume" in capsys.readouterr().err) is said


def test_how_far_a_push_is_is_no_warning(capsys: pytest.CaptureFixture[str]) -> None:
    show = PhaseLines()
    show(PhaseSaid("artifacts", "h1: 3 of 10 MiB pushed", PROGRESS))
    show(PhaseSaid("lock", "replacing the lock", "h1"))
    assert capsys.readouterr().err == "artifacts h1: 3 of 10 MiB pushed\nwarning: lock h1: replacing the lock\n"


@pytest.mark.parametrize(("count", "said"), [(1, "1 machine changed"), (2, "2 machines changed")])
def test_a_single_machine_is_not_counted_as_several(count: int, said: str) -> None:
    assert machines_changed(count) == said
