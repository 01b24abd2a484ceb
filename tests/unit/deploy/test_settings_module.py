"""Changed settings on a machine: what is noted on the way, and what becomes of a kubelet that refuses its file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.unit.deploy.loading import load_beside

OLD, NEW = "maxPods: 110\n", "maxPods: 50\n"
NOTE = {"kubelet": {"maxPods": 50}, "etcd_arguments": {"a": 1}, "api_server_arguments": {"b": 2}}
BEFORE = {**NOTE, "kubelet": {"maxPods": 110}}
JOURNAL = """\
I1128 10:53:03.1 1505 server.go:1] "Starting"
E1128 10:53:03.2 1505 run.go:72] "command failed" err="failed to run Kubelet: unsupported eviction signal x.available"
  --a flag of its usage, as after any error
"""


class FailedError(Exception):
    """The module ended with a failure."""


class Machine:
    """Files of a machine, its kubelet and its kubeadm; a kubelet takes a file only if it is among `good`.

    A kubelet takes a moment to start, and systemd goes on counting if it is restarted between two of its own starts.
    """

    def __init__(self, module: Any, folder: Path, good: Sequence[str]) -> None:
        self.good = good
        self.restarts = 0
        self.starting = False
        self.asked: list[int] = []
        self.commands: list[str] = []
        self.notes: list[Any] = []
        self.params = {
            "configuration": "",
            "proxy": False,
            "control_plane": False,
            "etcd": False,
            "kubelet": True,
            "healthz": 10248,
            "modes": {},
            "note": json.dumps(NOTE),
            "seconds": 30,
        }
        self.module = module
        for name in ("CONFIGURATION", "KUBELET", "MANIFEST", "ENDED", "NOTE"):
            setattr(module, name, str(folder / name.lower()))
        Path(module.KUBELET).write_text(OLD)
        Path(module.NOTE).write_text(json.dumps(BEFORE))

    def run(self, command: Sequence[str]) -> tuple[int, str, str]:
        words = " ".join(command)
        if words == "systemctl restart kubelet":
            self.notes.append(json.loads(Path(self.module.NOTE).read_text()))
            self.starting = True
        if words.startswith("systemctl show kubelet"):
            self.restarts += not self.works
            return 0, f"{self.restarts}\n", ""
        return 0, JOURNAL if words.startswith("journalctl _SYSTEMD_UNIT=kubelet.service") else "", ""

    def start(self, command: str, _: int) -> str:
        self.commands.append(command)
        self.notes.append(json.loads(Path(self.module.NOTE).read_text()))
        Path(self.module.KUBELET).write_text(NEW)
        Path(self.module.ENDED).touch()
        return ""

    def urlopen(self, url: str, **_: float) -> Any:
        self.asked.append(int(url.partition("127.0.0.1:")[2].partition("/")[0]))
        was_starting, self.starting = self.starting, False
        if was_starting or not self.works:
            raise ConnectionRefusedError
        return Answer()

    @property
    def works(self) -> bool:
        return Path(self.module.KUBELET).read_text() in self.good

    def fail_json(self, **said: str) -> None:
        raise FailedError(said["msg"], said["hint"])

    @property
    def note(self) -> Any:
        return json.loads(Path(self.module.NOTE).read_text())


class Answer:
    """Of kubelet, which is healthy."""

    status = 200

    def __enter__(self) -> Answer:
        return self

    def __exit__(self, *_: object) -> None:
        pass


@pytest.fixture
def settings() -> Any:
    return load_beside("library/paictl_settings.py")


def machine(settings: Any, folder: Path, monkeypatch: pytest.MonkeyPatch, *good: str) -> Machine:
    made = Machine(settings, folder, good)
    now = iter(range(1_000_000))
    monkeypatch.setattr(settings, "run", made.run)
    monkeypatch.setattr(settings, "start", made.start)
    monkeypatch.setattr(settings, "chmod", lambda _: [])
    monkeypatch.setattr(settings, "tidy", lambda: None)
    monkeypatch.setattr(settings.time, "sleep", lambda _: None)
    monkeypatch.setattr(settings.time, "monotonic", lambda: float(next(now)))
    monkeypatch.setattr(settings.urllib.request, "urlopen", made.urlopen)
    return made


def test_what_does_not_change_stays_noted_all_the_time(
    settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next `apply` once wrote the manifests of etcd and the API server again: minutes without an API server."""
    host = machine(settings, tmp_path, monkeypatch, OLD, NEW)
    settings.work(host)
    assert host.notes == [{**NOTE, "kubelet": None}] * 2
    assert host.note == NOTE


def test_a_kubelet_that_refuses_its_file_has_the_old_one_again_and_says_why(
    settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = machine(settings, tmp_path, monkeypatch, OLD)
    host.params["control_plane"] = True
    Path(settings.NOTE).write_text(json.dumps({**BEFORE, "api_server_arguments": {}}))
    with pytest.raises(FailedError) as caught:
        settings.work(host)
    said, hint = caught.value.args
    assert said.endswith("has the old ones again: failed to run Kubelet: unsupported eviction signal x.available")
    assert "deploy: kubelet" in hint
    assert Path(settings.KUBELET).read_text() == OLD
    assert host.notes[0] == {**NOTE, "kubelet": None, "api_server_arguments": None}, "while kubeadm works"
    assert host.note == {**NOTE, "kubelet": None}, "the API server has its new settings"
    assert len(host.asked) < 10, "it is not waited for until the end"


def test_it_is_said_if_kubelet_does_not_work_with_the_old_settings_either(
    settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(FailedError, match=r"neither with the new settings \(.+\) nor with the old ones: failed to run"):
        settings.work(machine(settings, tmp_path, monkeypatch))


def test_the_old_kubelet_is_asked_at_its_old_port(
    settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = "healthzPort: 10300\n"
    host = machine(settings, tmp_path, monkeypatch, old)
    Path(settings.KUBELET).write_text(old)
    with pytest.raises(FailedError, match="has the old ones again"):
        settings.work(host)
    assert (host.asked[0], host.asked[-1]) == (10248, 10300)


@pytest.mark.parametrize("note", ["{", "[]"])
def test_a_note_that_cannot_be_read_leaves_everything_unknown(
    settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, note: str
) -> None:
    host = machine(settings, tmp_path, monkeypatch, OLD, NEW)
    Path(settings.NOTE).write_text(note)
    settings.work(host)
    assert host.notes[0] == dict.fromkeys(NOTE)
