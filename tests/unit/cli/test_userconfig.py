"""Defaults of options: flag > environment > project > user."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NoReturn

import pytest

from paictl.places import config_folder, state_folder
from tests.unit.cli.conftest import Paictl


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of the user, whose folder is there; the shell stands in a project."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    for name in ("PAICTL_OUTPUT", "PAICTL_LANG", "PAICTL_STATE"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "home" / "paictl").mkdir(parents=True)
    (tmp_path / "project" / "inner").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "project" / "inner")
    return tmp_path / "home" / "paictl" / "config.toml"


def test_each_source_wins_over_the_next(
    paictl: Paictl, user: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert paictl("version").out.startswith("paictl ")
    user.write_text('output = "yaml"\n')
    assert paictl("version").out.startswith("schemaVersion: 1")
    (tmp_path / "project" / ".paictl.toml").write_text('output = "json"\n')
    assert json.loads(paictl("version").out)["schemaVersion"] == 1
    monkeypatch.setenv("PAICTL_OUTPUT", "table")
    assert paictl("version").out.startswith("paictl ")
    assert paictl("version", "-o", "yaml").out.startswith("schemaVersion: 1")


def test_an_option_of_one_command_has_a_table(paictl: Paictl, user: Path, tmp_path: Path) -> None:
    user.write_text('[config.rules]\nkind = "job"\n[version]\noutput = "json"\n')
    rules = paictl("config", "rules").out
    assert "JOB601" in rules
    assert "HVD525" not in rules
    assert "HVD525" in paictl("config", "rules", "--kind", "hived").out
    assert paictl("version").data["paictl"]
    user.write_text(f'state = "{tmp_path}/mine"\n')
    assert f"{tmp_path}/mine: no cluster is up" in paictl("job", "list").err


def test_the_folder_of_the_environment_comes_before_the_file_s(
    paictl: Paictl, user: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user.write_text(f'state = "{tmp_path}/mine"\n')
    monkeypatch.setenv("PAICTL_STATE", str(tmp_path / "theirs"))
    assert f"{tmp_path}/theirs: no cluster is up" in paictl("job", "list").err


def test_a_form_that_a_command_does_not_know_is_left_out(paictl: Paictl, user: Path, tmp_path: Path) -> None:
    user.write_text('output = "yaml"\n')
    (tmp_path / "a.yaml").write_text("- x\n")
    assert paictl("config", "validate", str(tmp_path / "a.yaml"), "--kind", "job").code == 1
    assert "missing --output" in paictl("config", "pull").err, "that one is a folder"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("outptu = 'json'", "unknown key 'outptu'"),
        ("output = 3", "output is not a text"),
        ("color = 'no'", "color is not true or false"),
        ("output = ", "not TOML"),
        ("[version]\noutput = 'jsn'", "'jsn' is not one of"),
    ],
)
def test_a_wrong_file_is_named(paictl: Paictl, user: Path, text: str, said: str) -> None:
    user.write_text(text)
    done = paictl("version")
    assert done.code == 2
    assert said in done.err
    assert str(user) in done.err or "jsn" in text


def test_who_has_no_home_has_no_defaults_and_no_traceback(paictl: Paictl, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user of a container whom no file knows, with an empty environment."""

    def unknown(number: int) -> NoReturn:
        raise KeyError(number)

    monkeypatch.setattr("pwd.getpwuid", unknown)
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "PAICTL_STATE"):
        monkeypatch.delenv(name, raising=False)
    done = paictl("version")
    assert (done.code, done.err) == (0, "")
    assert (config_folder(), state_folder()) == (Path("/.config/paictl"), Path("/.local/state/paictl"))
