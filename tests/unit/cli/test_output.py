"""What a command gives to a program: one document with a version, also when it fails; what goes wrong there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from paictl.cli import console
from paictl.cli.console import Output
from paictl.cli.envelope import names_in, plain
from paictl.cli.run import _unexpected
from tests.conftest import ROOT
from tests.unit.cli.conftest import Paictl


def process(command: str) -> subprocess.CompletedProcess[str]:
    """A line of bash, in which paictl is ours."""
    return subprocess.run(
        ["bash", "-c", command.replace("paictl", f"{sys.executable} -m paictl")],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


@pytest.fixture
def up(home: Path, paictl: Paictl) -> Path:
    assert paictl("cluster", "up", "-q").code == 0
    return home


def test_a_verb_without_data_of_its_own_says_what_it_did(paictl: Paictl, up: Path) -> None:
    done = paictl("node", "cordon", "worker1", "worker2", "-o", "json")
    assert (done.code, done.err) == (0, "")
    document = json.loads(done.out)
    assert document["schemaVersion"] == 1
    assert [(one["name"], one["before"], one["condition"]) for one in document["items"]] == [
        ("worker1", "Ready", "Cordoned"),
        ("worker2", "Ready", "Cordoned"),
    ]
    assert "error" not in document
    assert paictl("node", "uncordon", "worker1", "-o", "name").out == "worker1\n"
    assert yaml.safe_load(paictl("cluster", "tick", "5m", "-o", "yaml").out)["output"]
    assert up.is_dir()


def test_what_failed_is_told_to_the_program_too(paictl: Paictl, home: Path) -> None:
    done = paictl("job", "list", "-o", "json")
    assert done.code == 4
    assert json.loads(done.out) == {
        "schemaVersion": 1,
        "error": {
            "message": "no cluster is up",
            "where": str(home / "state"),
            "hint": "bring one up: paictl cluster up; "
            "for a Kubernetes cluster: paictl cluster add NAME, then --cluster NAME",
            "exitCode": 4,
        },
    }
    assert "error: " in done.err
    assert json.loads(paictl("version", "--output=json", "--nonsense").out)["error"]["exitCode"] == 2
    assert paictl("job", "list", "-o", "name").out == ""


def test_what_failed_of_several_things_is_beside_what_did_not(paictl: Paictl, up: Path) -> None:
    document = json.loads(paictl("job", "stop", "nobody~a", "nobody~b", "-o", "json").out)
    assert len(document["errors"]) == 2
    assert document["items"] == []
    assert up.is_dir()


def test_names_alone_and_one_line_an_item(paictl: Paictl, up: Path) -> None:
    names = paictl("node", "list", "-o", "name").out.split()
    assert "worker1" in names
    lines = paictl("node", "list", "-o", "ndjson").out.splitlines()
    assert [json.loads(line)["name"] for line in lines] == names
    events = paictl("cluster", "events", "-o", "ndjson").out.splitlines()
    assert all(datetime.fromisoformat(json.loads(line)["at"]).tzinfo for line in events)
    assert up.is_dir()


def test_the_fields_that_name_things() -> None:
    assert names_in([{"key": "a~b", "name": "b"}, {"number": 3}]) == ["a~b", "3"]
    assert names_in(["x"]) == ["x"]
    with pytest.raises(LookupError):
        names_in([{"vc": "x"}])


def test_values_that_json_lacks() -> None:
    assert plain(datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=UTC)) == "2026-01-02T03:04:05.678+00:00"
    assert plain(datetime(2026, 1, 2, tzinfo=UTC)) == "2026-01-02T00:00:00+00:00"
    assert [plain(Output.JSON), plain(Path("a")), plain({"b", "a"})] == ["json", "a", ["a", "b"]]
    with pytest.raises(TypeError):
        plain(object())


def test_a_command_in_a_command_keeps_the_document_of_the_outer_one() -> None:
    with console.command_line("table"):
        outer = console.envelope
        with console.command_line("json"):
            assert console.envelope is not outer
            console.envelope.written = True
        assert console.envelope is outer


def test_help_and_its_reader() -> None:
    assert process("set -o pipefail; paictl --help | head -1").returncode in (0, 141)
    shown = process("paictl job submit --help")
    assert not set("╭│╰") & set(shown.stdout)
    assert "<bool>" not in shown.stdout
    assert shown.stdout.index("Examples:") < shown.stdout.index("Options:")


def test_output_that_cannot_be_written_is_no_bug() -> None:
    done = process("paictl config rules > /dev/full")
    assert done.returncode == 2
    assert done.stderr.startswith("error: the output cannot be written: No space left on device\nhint: ")


def test_verbose_says_what_was_done_and_how_long_it_took(paictl: Paictl, home: Path) -> None:
    said = paictl("cluster", "up", "-v").err
    assert "bringing the cluster up ..." in said
    assert "the command took " in said
    assert home.is_dir()


def test_colours_can_be_forced_and_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from paictl.cli.settings import settings

    monkeypatch.setenv("FORCE_COLOR", "1")
    assert settings.wants_color(False)
    monkeypatch.setenv("FORCE_COLOR", "0")
    assert not settings.wants_color(True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    assert not settings.wants_color(True)


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("job delete", "paictl job stop"),
        ("node drain", "paictl maintenance add"),
        ("cluster start", "paictl cluster up"),
        ("lab check", "paictl lab verify"),
        ("submit", "paictl job submit"),
    ],
)
def test_words_of_other_tools_are_answered(paictl: Paictl, words: str, hint: str) -> None:
    done = paictl(*words.split(), "x")
    assert done.code == 2
    assert f"hint: use: {hint}" in done.err


def test_help_is_a_word_too(paictl: Paictl) -> None:
    assert paictl("help", "job", "submit").out == paictl("job", "submit", "-h").out
    assert paictl("lab", "help").out == paictl("lab", "-h").out
    assert paictl("help").out == paictl("-h").out


def test_where_there_is_no_posix_one_line_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PAICTL_STATE", str(tmp_path))
    told = _unexpected(ModuleNotFoundError("No module named 'fcntl'", name="fcntl"), [])
    assert "need Linux or macOS" in told.message
    assert "internal error" in _unexpected(ModuleNotFoundError("No module named 'x'", name="x"), []).message


@pytest.mark.parametrize(
    ("words", "module", "extra"),
    [
        ("extender serve", "uvicorn.server", "k8s"),
        ("extender explain-pod f", "orjson", "k8s"),
        ("serve", "starlette", "server"),
        ("sim run", "scipy.optimize", "sim"),
    ],
)
def test_a_module_of_an_extra_is_said_with_the_extra(words: str, module: str, extra: str) -> None:
    told = _unexpected(ModuleNotFoundError(f"No module named {module!r}", name=module), words.split())
    assert f"needs the package {module.partition('.')[0]}" in told.message
    assert told.hint == f"install it: pip install 'paictl[{extra}]'"


def test_configuration_is_checked_where_there_is_no_posix(tmp_path: Path) -> None:
    (tmp_path / "worker.csv").write_text("w1,10.0.0.1\n")
    blocked = "import sys; sys.modules['fcntl'] = None; from paictl.cli.main import main; main(sys.argv[1:])"
    words = [sys.executable, "-c", blocked]
    done = subprocess.run([*words, "config", "validate", str(tmp_path)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "1 file checked, all clean\n")


def test_no_group_has_the_help_of_an_option(paictl: Paictl) -> None:
    assert "extender     Serve a kube-scheduler" in paictl("-h").out


STEERING = "red \x1b[31m title \x1b]0;x\a back \r\b csi \x9b2J swapped \u202e end"
"""What a tenant may write into a description or a message: a terminal would obey it."""


def test_what_others_wrote_steers_nobody_s_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with console.command_line("table"):
        console.write(f"line\t中\n{STEERING}")
        console.write_table(("NAME", "WHY"), [["a", STEERING], ["b", [("bold", STEERING)]]])
        console.write_segments([[("", STEERING)]])
        for say in (console.info, console.warning):
            say(STEERING)
    said = capsys.readouterr()
    assert "line\t中\n" in said.out
    shown = said.out.count(r"red \x1b[31m title \x1b]0;x\x07 back \r\x08 csi \x9b2J swapped \u202e end")
    assert (shown, said.err.count(r"\x1b]0;x\x07")) == (4, 2)
    assert not {c for c in said.out + said.err if not c.isprintable()} - {"\n", "\t"}


@pytest.mark.parametrize("form", ["json", "yaml", "ndjson"])
def test_data_for_programs_keep_it_and_steer_nothing_either(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    with console.command_line(form):
        console.write_data([{"name": "a", "why": STEERING}], Output(form))
    out = capsys.readouterr().out
    assert not {c for c in out if not c.isprintable()} - ({"\n", "\u202e"} if form == "yaml" else {"\n"})
    read = yaml.safe_load(out)
    assert (read if form == "ndjson" else read["items"][0])["why"] == STEERING
