"""The command line as a whole: exit codes, streams, global options, completion, start-up."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from paictl.cli import app as app_module
from paictl.cli import logfile
from paictl.cli.command import without_globals
from paictl.cli.run import _command_tree
from paictl.cli.settings import settings
from paictl.errors import PaictlError
from tests.conftest import ROOT
from tests.unit.cli.conftest import Paictl


def process(*words: str, **options: object) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(  # type: ignore[call-overload,no-any-return]
        [sys.executable, "-m", "paictl", *words],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        **options,
    )


def test_help_lists_commands_and_exit_codes(paictl: Paictl) -> None:
    done = paictl("--help")
    assert done.code == 0
    assert "config" in done.out
    for code in ("0 clean", "1 findings", "2 usage", "3 partly", "4 unreachable", "130 interrupted"):
        assert code in " ".join(done.out.split())


def test_version_speaks_json_and_yaml(paictl: Paictl) -> None:
    data = paictl("version", "-o", "json").data
    assert data["paictl"]
    assert yaml.safe_load(paictl("version", "-o", "yaml").out) == {"schemaVersion": 1, **data}


@pytest.mark.parametrize(
    ("words", "suggestion"),
    [
        (("confg",), "config"),
        (("config", "validat"), "validate"),
        (("config", "rules", "--outpt", "json"), "--output"),
        (("serve", "--port", "80"), "did you mean '--listen'?"),
        (("config", "push", "--dir", "x"), "did you mean '--path'?"),
        (("config", "push", "-f", "x"), "did you mean '--path'?"),
        (("job", "submit", "-f", "x"), "give it without an option: paictl job submit FILES..."),
        (("cluster", "up", "-p", "x"), "give it without an option: paictl cluster up FOLDER"),
        (("job", "list", "-f", "x"), "hint: paictl job list -h shows all"),
        (("config", "pull", "--dir", "x"), "did you mean '--output'?"),
        (("config", "explain", "duplicate-keys"), "duplicate-key"),
        (("config", "explain", "TXT05"), "TXT005"),
        (("config", "validate", "--select", "HDV", "x"), "did you mean HVD?"),
        (("config", "validate", "--format", "jsn", "x"), "did you mean 'json'?"),
        (("config", "validate", "--severity", "warn", "x"), "did you mean 'warning'?"),
        (("config", "validate", "--kind", "jobs", "x"), "did you mean 'job'?"),
        (("config", "schema", "show", "jbo"), "did you mean 'job'?"),
    ],
)
def test_a_mistyped_word_gets_a_suggestion(paictl: Paictl, words: tuple[str, ...], suggestion: str) -> None:
    done = paictl(*words)
    assert done.code == 2
    assert suggestion in done.err
    assert done.out == ""


@pytest.mark.parametrize(
    "words", [("-q", "config", "validate", "."), ("config", "-q", "validate", "."), ("config", "validate", ".", "-q")]
)
def test_global_flags_may_stand_anywhere(
    paictl: Paictl, words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert paictl(*words).code == paictl("config", "validate", ".").code
    paictl(*words)
    assert settings.verbosity == -1
    paictl("config", "validate", ".")
    assert settings.verbosity == 0, "what one command line says does not hold for the next"


def test_what_a_lab_notes_holds_no_global_flags() -> None:
    words = ["job", "-vv", "list", "-q", "--no-color", "--debug", "--verbose", "--", "-q"]
    assert without_globals(words) == ["job", "list", "--", "-q"]


def test_an_error_names_place_and_next_step_on_stderr(paictl: Paictl) -> None:
    done = paictl("config", "validate", "/nonexistent/file.yaml")
    assert done.code == 2
    assert done.out == ""
    assert "error: /nonexistent/file.yaml: no such file or folder" in done.err
    assert "hint: " in done.err


def test_control_characters_of_a_file_name_do_not_reach_the_terminal(paictl: Paictl) -> None:
    done = paictl("config", "validate", "/nonexistent/\x1b[31mred.yaml")
    assert "\x1b" not in done.err
    assert "\\x1b[31mred" in done.err


def test_an_internal_error_is_called_one_and_kept(
    paictl: Paictl, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr(app_module, "write", broken)
    monkeypatch.setenv("PAICTL_STATE", str(tmp_path / "state"))
    for _ in range(logfile.REPORTS_KEPT + 2):
        done = paictl("version")
    assert done.code == 2
    assert "internal error: RuntimeError: boom" in done.err
    kept = sorted((tmp_path / "state" / "crashes").iterdir())
    assert len(kept) == logfile.REPORTS_KEPT
    assert str(kept[-1]) in done.err.replace("\n", "")
    assert kept[-1].stat().st_mode & 0o777 == 0o600
    report = kept[-1].read_text()
    assert "RuntimeError: boom" in report
    assert "in broken" in report
    assert "paictl version" in report
    monkeypatch.setenv("PAICTL_STATE", "/dev/null/nowhere")
    assert "--debug" in paictl("version").err
    with pytest.raises(RuntimeError):
        paictl("version", "--debug")


@pytest.mark.parametrize(("error", "code"), [(KeyboardInterrupt(), 130), (PaictlError("no", hint="yes"), 2)])
def test_how_a_command_ends_decides_the_exit_code(
    paictl: Paictl, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int
) -> None:
    def ended(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(app_module, "write", ended)
    assert paictl("version").code == code


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_exist_and_complete(shell: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    shown = subprocess.run(
        [sys.executable, "-m", "paictl", "--show-completion", shell],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert shown.returncode == 0
    assert "paictl" in shown.stdout.lower()


_BASH = """
source <(paictl --show-completion bash)
complete=$(complete -p paictl | sed 's/.* -F \\([^ ]*\\).*/\\1/')
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}
$complete paictl "${COMP_WORDS[COMP_CWORD]}" ""
echo "${COMPREPLY[*]}"
"""


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("config", "va"), "validate"),
        (("config", "validate", "--format", "ju"), "junit"),
        (("config", "validate", "--kind", "ma"), "master-csv"),
        (("config", "validate", "--select", "XRF96"), "XRF961 XRF962 XRF963"),
        (("config", "explain", "CSV21"), "CSV210 CSV211 CSV212 CSV213 CSV214 CSV215 CSV216"),
        (("config", "schema", "show", "hi"), "hived hivedscheduler"),
    ],
)
def test_bash_completes(tmp_path: Path, words: tuple[str, ...], offered: str) -> None:
    command = tmp_path / "paictl"
    command.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m paictl "$@"\n')
    command.chmod(0o755)
    path = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    done = subprocess.run(
        ["bash", "-c", _BASH, "bash", "paictl", *words],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **path},
    )
    assert done.stdout.strip() == offered, done.stderr


@pytest.mark.parametrize(
    ("shell", "environment"),
    [
        ("zsh", {"_TYPER_COMPLETE_ARGS": "paictl config va"}),
        (
            "fish",
            {
                "_TYPER_COMPLETE_ARGS": "paictl config va",
                "_TYPER_COMPLETE_FISH_ACTION": "get-args",
                "_TYPER_COMPLETE_WORD_TO_COMPLETE": "va",
            },
        ),
    ],
)
def test_zsh_and_fish_are_given_what_to_complete(shell: str, environment: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "paictl"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT), "_PAICTL_COMPLETE": f"complete_{shell}", **environment},
    )
    assert "validate" in done.stdout


def test_wrong_usage_is_said_in_two_lines(paictl: Paictl) -> None:
    done = paictl("config", "validate", "--format", "jsn", "x")
    first, error, hint = done.err.splitlines()
    assert first.startswith("Usage: paictl config validate ")
    assert error.startswith("error: --format: 'jsn' is not one of 'text', ")
    assert hint == "hint: did you mean 'json'? paictl config validate -h shows all"


def test_the_version_is_also_an_option(paictl: Paictl) -> None:
    assert paictl("--version").out == paictl("version").out


def test_a_reason_is_broken_to_the_width_of_the_page(paictl: Paictl) -> None:
    text = paictl("config", "explain", "XRF910").out
    assert "\nA job that takes" in text
    assert max(len(line) for line in text.splitlines() if not line.startswith("    ")) <= 100


def test_a_reader_that_goes_away_is_no_traceback() -> None:
    command = f"{sys.executable} -m paictl config rules -o json | head -1"
    done = subprocess.run(
        ["bash", "-c", command],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.stdout.strip() == "{"
    assert done.stderr == ""


def test_start_up_imports_nothing_heavy() -> None:
    heavy = "jsonschema yaml rich.table kubernetes fabric ansible_runner paictl.config.linting.rules"
    code = (
        "import sys; from paictl.cli.main import run; code = run(['version']); "
        f"loaded = [name for name in {heavy!r}.split() if name in sys.modules]; "
        "print(loaded, file=sys.stderr); sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0
    assert done.stderr.strip() == "[]"


@pytest.fixture(scope="module")
def lab_with_a_job(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """The environment of a lab in which a job runs."""
    folder = tmp_path_factory.mktemp("lab")
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder), "NO_COLOR": "1", "PYTHONPATH": str(ROOT)}
    environment["PAICTL_STATE"] = str(folder)
    subprocess.run([sys.executable, "-m", "paictl", "lab", "start", "2"], env=environment, check=True)
    lab = folder / "labs" / "02_vc_safety"
    environment["PAICTL_STATE"] = str(lab)
    words = [sys.executable, "-m", "paictl", "job", "submit", "job-2.yaml"]
    subprocess.run(words, env=environment, cwd=lab / "files", check=True)
    return environment


LOOKING = (
    "yaml jsonschema rich.markdown paictl.config.linting.validate paictl.config.reading.load paictl.cells.tree "
    "paictl.scheduler.engine paictl.scheduler.snapshot paictl.scheduler.placement paictl.scheduler.explain "
    "paictl.workload.feasible paictl.workload.supply paictl.cluster.picture paictl.workload.job paictl.scheduler "
    "paictl.cluster.embedded.views paictl.cluster.embedded.world rich hmac"
)
"""What no command needs that only looks at a cluster: what decides, reads configurations and draws."""


@pytest.mark.parametrize(
    ("words", "heavy"),
    [
        ("lab list", "yaml sqlite3 jsonschema rich.markdown paictl.cluster paictl.scheduler"),
        ("lab verify", LOOKING),
        ("lab next", LOOKING),
        ("job list", LOOKING),
        ("config validate none.yaml", "jsonschema paictl.lab.session paictl.scheduler paictl.cluster.picture"),
    ],
)
def test_commands_load_what_they_need_only(lab_with_a_job: Mapping[str, str], words: str, heavy: str) -> None:
    code = (
        f"import sys; from paictl.cli.main import run; run({words!r}.split()); "
        f"print([name for name in {heavy!r}.split() if name in sys.modules])"
    )
    environment = dict(lab_with_a_job)
    if words.startswith("config"):  # in a lab it would tick off checks
        environment["PAICTL_STATE"] = environment["XDG_CACHE_HOME"]
    for _ in range(2 if words == "lab list" else 1):  # the first one reads the manifests
        done = subprocess.run([sys.executable, "-c", code], env=environment, cwd=ROOT, capture_output=True, check=True)
    assert done.stdout.decode().splitlines()[-1] == "[]"


DECIDING = (
    "jsonschema rich socket paictl.config.reading.yamlerrors paictl.cluster.picture "
    "paictl.cluster.timeline paictl.scheduler.inspection paictl.scheduler.freecells paictl.scheduler.explain "
    "paictl.cluster.attempts"
)
"""What no command needs that lets the scheduler decide: what draws, explains and talks to others."""


@pytest.mark.parametrize("words", ["lab start 3", "lab solve", "job submit job-2.yaml"])
def test_commands_that_decide_load_what_they_need_only(tmp_path: Path, words: str) -> None:
    lab = tmp_path / "labs" / "02_vc_safety"
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    environment["PAICTL_STATE"] = str(tmp_path)
    subprocess.run([sys.executable, "-m", "paictl", "lab", "start", "2"], env=environment, check=True)
    if words != "lab start 3":
        environment["PAICTL_STATE"] = str(lab)
    code = (
        f"import sys; from paictl.cli.main import run; code = run({words!r}.split()); "
        f"loaded = [name for name in {DECIDING!r}.split() if name in sys.modules]; "
        "print(code, 'paictl.cluster.embedded.world' in sys.modules, loaded)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=lab / "files", capture_output=True, check=True
    )
    assert done.stdout.decode().splitlines()[-1] == "0 True []"


def test_the_tree_builds_no_command_before_it_is_named() -> None:
    """To read the options of one takes as long as a part of what is typed."""
    tree = _command_tree.__wrapped__()
    assert tree.commands == {}
    assert {"job", "version"} <= set(tree.list_commands(None))
    assert {option.name for option in tree.get_command(None, "version").params} >= {"check", "index"}
    assert list(tree.commands) == ["version"]


@pytest.mark.parametrize(
    "words", [("config", "diff", "a.yaml", "b.yaml"), ("config", "diff", "a.yaml", "b.yaml", "-o", "json"), ("-h",)]
)
def test_a_terminal_without_a_character_gets_an_escape(tmp_path: Path, words: tuple[str, ...]) -> None:
    for name, node in (("a.yaml", "n1"), ("b.yaml", "näh")):
        (tmp_path / name).write_text(
            "physicalCluster:\n  cellTypes: {N: {childCellType: G, childCellNumber: 2, isNodeLevel: true}}\n"
            f"  physicalCells: [{{cellType: N, cellAddress: {node}}}]\n"
            "virtualClusters: {default: {virtualCells: [{cellType: N, cellNumber: 1}]}}\n",
            "utf-8",
        )
    done = subprocess.run(
        [sys.executable, "-m", "paictl", *words],
        capture_output=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "ascii"},
    )
    assert b"internal error" not in done.stderr
    assert done.stdout.isascii()
    if "json" in words:
        assert "näh" in str(json.loads(done.stdout))


def test_without_docstrings_explaining_says_so() -> None:
    done = subprocess.run(
        [sys.executable, "-OO", "-m", "paictl", "config", "explain", "HVD525"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "without -OO" in done.stderr


def test_no_color_wins(paictl: Paictl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert settings.wants_color(True) is False
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "xterm-256color")
    assert settings.wants_color(True) is True
    assert settings.wants_color(False) is False
    paictl("version", "--no-color")
    assert settings.wants_color(True) is False


def test_schemas_can_be_listed_shown_and_exported(paictl: Paictl, tmp_path: Path) -> None:
    names = [row["name"] for row in paictl("config", "schema", "list", "-o", "json").data]
    assert "hivedscheduler" in names
    assert json.loads(paictl("config", "schema", "show", "hived").out)["title"]
    done = paictl("config", "schema", "export", str(tmp_path / "schemas"))
    assert done.code == 0
    assert {path.name for path in (tmp_path / "schemas").iterdir()} == {f"{name}.schema.json" for name in names}
    assert f"$schema={tmp_path / 'schemas' / 'layout.schema.json'}" in done.err
    (tmp_path / "schemas" / "job.schema.json").write_text("mine")
    again = paictl("config", "schema", "export", str(tmp_path / "schemas"))
    assert again.code == 2
    assert "job.schema.json already exists" in again.err
    assert "--force" in again.err
    assert paictl("config", "schema", "export", str(tmp_path / "schemas"), "--force").code == 0


LONG = "9" * 4400


@pytest.mark.parametrize(
    "words",
    [
        ("sim", "run", "tiny", "--policy", "fifo", "--cluster", LONG),
        ("lab", "start", LONG),
        ("config", "validate", LONG),
        ("config", "push", "-p", LONG),
        ("job", "submit", LONG),
        ("scheduler", "replay", "--config", LONG, "-"),
        ("node", "list", "--state", LONG),
    ],
)
def test_a_word_that_is_too_long_for_a_path_or_a_number_is_an_error_like_any_other(
    paictl: Paictl, words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAICTL_STATE", str(tmp_path / "state"))
    assert paictl("cluster", "up", "--speed", "0").code == 0  # or that there is none would be said first
    done = paictl(*words)
    assert (done.code in (2, 4), "internal error" in done.err) == (True, False)  # 4: Python 3.14 says "no such folder"


def test_a_folder_of_a_name_that_is_too_long_is_not_written_to(
    paictl: Paictl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAICTL_STATE", str(tmp_path / "state"))
    assert paictl("cluster", "up", "--speed", "0").code == 0
    done = paictl("config", "pull", "-o", LONG)
    assert done.code == 2
    assert re.search("cannot (be read|write): File name too long", done.err), done.err
