"""One place for versions, and names by content."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tools.hosts.artifacts import programs
from tools.hosts.lab import Lab
from tools.hosts.network import Network
from tools.hosts.places import kept, key_of, versions
from tools.hosts.shell import LabError, run, wait_until


def test_the_environment_wins_over_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RUNC_VERSION", raising=False)
    assert versions()["RUNC_VERSION"].startswith("v1.")
    monkeypatch.setenv("RUNC_VERSION", "v9.9.9")
    assert versions()["RUNC_VERSION"] == "v9.9.9"


def test_programs_are_where_the_build_puts_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PAICTL_KUBE", "KUBE_STAMP"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    programs.cache_clear()
    known = versions()
    try:
        assert programs("etcd") == tmp_path / "paictl/kube" / known["KUBE_VERSION"]
        assert programs("runc") == tmp_path / "paictl/kube" / f"runc-{known['RUNC_VERSION']}"
        assert programs("kubeadm", "v1.2.3") == tmp_path / "paictl/kube" / f"{known['KUBE_VERSION']}-as-v1.2.3"
    finally:
        programs.cache_clear()


def test_a_key_changes_with_each_part_and_with_where_parts_end() -> None:
    keys = {key_of(parts) for parts in (["ab", "c"], ["a", "bc"], ["abc"], ["ab", "c", ""])}
    assert len(keys) == 4
    assert key_of(["ab", b"c"]) == key_of(["ab", "c"])


def test_of_what_was_made_the_newest_stay_and_what_may_be_in_use(tmp_path: Path) -> None:
    """Hours since each was asked for: the sixth and seventh in line are too many, one of them may be in use."""
    for hours in (1, 2, 4, 5, 6, 7, 8):
        kept(tmp_path / f"{hours}h", lambda at: (at / "file").touch())
        os.utime(tmp_path / f"{hours}h.lock", times=(time.time() - hours * 3600,) * 2)
    kept(tmp_path / "new", lambda at: (at / "file").touch())
    assert {one.name for one in tmp_path.iterdir() if one.is_dir()} == {"new", "1h", "2h", "4h", "5h"}


def test_what_another_process_has_just_forgotten_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "gone.lock").symlink_to(tmp_path / "nowhere")
    assert kept(tmp_path / "new", lambda at: (at / "file").touch()).is_dir()


def test_a_lab_has_a_name_that_a_namespace_can_have() -> None:
    assert Lab("pytest-1-2").network.namespace == "paictl-pytest-1-2"
    for name in ("", "a/b", "-a", "A", "x" * 40):
        with pytest.raises(LabError, match="no name of a lab"):
            Lab(name)


def test_addresses_are_those_of_the_documentation() -> None:
    network = Network("n")
    assert [network.address(number) for number in (1, 2, 10)] == ["10.77.0.11", "10.77.0.12", "10.77.0.20"]


def test_a_failed_command_says_what_it_said() -> None:
    with pytest.raises(LabError, match="exit code 3\n  why"):
        run(["sh", "-c", "echo why >&2; exit 3"])
    with pytest.raises(LabError, match="no-such-program is not on this machine"):
        run(["no-such-program"])
    with pytest.raises(LabError, match=r"no end after 0\.05 s"):
        run(["sleep", "5"], seconds=0.05)


def test_waiting_ends_with_what_was_waited_for() -> None:
    with pytest.raises(LabError, match="the moon is blue: not after 0 s"):
        wait_until(lambda: False, "the moon is blue", seconds=0, pause=0)
