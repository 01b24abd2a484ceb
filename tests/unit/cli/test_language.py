"""Texts by key and arguments, and the catalogue of what the command line says."""

from __future__ import annotations

import ast
import re
import string
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer

from paictl import i18n
from paictl.cli import console
from paictl.cli.app import app
from paictl.cli.command import LazyGroup, global_options
from paictl.cli.console import localized
from paictl.cli.helptext import is_example, paragraphs
from paictl.cli.paragraphs import wide
from paictl.cli.settings import settings
from paictl.cli.synonyms import SYNONYMS
from paictl.cluster.eventtext import reasons
from paictl.i18n import Text, catalogue, counted, in_language, recalled, text
from tests.conftest import ROOT
from tests.unit.cli.conftest import Paictl
from tools.messages import SPEAKS, bare, missing

OF_STUDENTS = ("lab", "job", "node", "cluster", "service", "config push", "sim")
"""Groups and commands that the labs use."""


def test_a_text_is_its_english_and_knows_its_chinese() -> None:
    said = text("no node {name!r}", name="gpu9")
    assert said == "no node 'gpu9'"
    assert said.of("zh") == "没有节点 'gpu9'"
    assert said.of("fr") == said
    assert in_language("pass --yes to confirm", "zh") == "加上 --yes 即表示确认"
    assert in_language("nobody has translated this", "zh") == "nobody has translated this"
    assert in_language("", "zh") == ""


def test_a_text_in_a_text_is_said_in_the_same_language() -> None:
    inner = text("no node {name!r}", name="n")
    assert text("{question}: an answer is required", question=inner).of("zh") == "没有节点 'n'：需要确认"


def test_a_person_reads_instants_in_local_time(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as zone:
        zone.setenv("TZ", "UTC-08:30")
        time.tzset()
        shown = localized("{job} starts at {at}", job="ann~2026-12-31", at="2026-12-31T16:00:00Z")
    time.tzset()
    assert shown == "ann~2026-12-31 starts at 2027-01-01 00:30:00"


@pytest.mark.parametrize(("zone", "at"), [("UTC-08:30", "9999-12-31 23:59:59"), ("UTC+08:30", "0001-01-01 00:00:00")])
def test_a_local_time_beyond_the_calendar_is_shown_in_utc(zone: str, at: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", zone)
        time.tzset()
        shown = localized("{job} starts at {at}", job="j", at=f"{at}Z".replace(" ", "T"))
    time.tzset()
    assert shown.removeprefix("j starts at ").zfill(len(at)) == at


def test_one_thing_and_several() -> None:
    assert [counted("{count} job", "{count} jobs", count=n) for n in (0, 1, 2)] == ["0 jobs", "1 job", "2 jobs"]


def test_the_catalogue_keeps_every_argument() -> None:
    entries = catalogue("zh")._entries
    assert len(entries) > 30
    for key, other in entries.items():
        assert _places(other) == _places(key), key


def test_a_job_and_its_tasks_have_one_word_each_in_chinese() -> None:
    """The labs' glossary: 作业 is the job, 任务 one of its tasks."""
    for key, other in catalogue("zh")._entries.items():
        named = {word: re.search(rf"\b{word}s?\b", key, re.IGNORECASE) is not None for word in ("job", "task")}
        if named["job"] and not named["task"]:
            assert "任务" not in other, key
        if named["task"] and not named["job"]:
            assert "作业" not in other, key


def _places(template: str) -> set[tuple[str, str | None]]:
    return {(name, conversion) for _, name, _, conversion in string.Formatter().parse(template) if name}


def test_every_text_gets_exactly_the_arguments_that_it_has_places_for() -> None:
    """A place without an argument would fail only where the message is shown: in the rarest of mistakes."""
    wrong = []
    for path in sorted((ROOT / "paictl").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.func.id != "text":
                continue
            key = node.args[0] if node.args else None
            if not isinstance(key, ast.Constant) or not isinstance(key.value, str):
                continue
            names = {keyword.arg for keyword in node.keywords}
            places = {re.split(r"[.\[]", name)[0] for name, _ in _places(key.value)}
            if None not in names and names != places:
                wrong.append((f"{path.relative_to(ROOT)}:{node.lineno}", sorted(map(str, names ^ places))))
    assert wrong == []


@pytest.mark.parametrize("package", ["cli", "deploy", "config"])
def test_every_text_with_arguments_that_the_command_line_says_is_in_the_catalogue(package: str) -> None:
    assert list(missing(ROOT / "paictl" / package)) == []


def test_a_text_without_chinese_is_listed_with_its_place(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(
        'text("no node {name!r}", name=name)\nlocalized("nobody has translated {this}")\n', encoding="utf-8"
    )
    assert list(missing(tmp_path)) == [(module, 2, "nobody has translated {this}")]


@pytest.mark.parametrize("package", SPEAKS)
def test_nothing_is_said_that_can_only_be_said_in_english(package: str) -> None:
    assert list(bare(ROOT / "paictl" / package)) == []


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('console.info(f"cluster {name} is down")', "f'cluster {name} is down'"),
        (
            'raise PaictlError(text("no"), hint=f"one of: {names}, or none" if names else None)',
            "f'one of: {names}, or none'",
        ),
        ('raise ClusterError("nobody has translated this")', "'nobody has translated this'"),
        ('hint = "nobody has translated this" if near else "pass --yes to confirm"', "'nobody has translated this'"),
        ('confirm("pass --yes to confirm")', ""),
        ('raise PaictlError(text("no"), hint=f"paictl config validate {path}")', ""),
        ('raise ValueError(f"version {number} is not known")', ""),
        ('raise SpecError(f"{path}.virtualCells[{i}].cellNumber")', ""),
    ],
)
def test_a_message_that_is_english_for_good_is_found(tmp_path: Path, line: str, words: str) -> None:
    module = tmp_path / "module.py"
    module.write_text(line + "\n", encoding="utf-8")
    assert list(bare(tmp_path)) == ([(module, 1, words)] if words else [])


def test_what_was_stored_in_english_is_said_in_chinese() -> None:
    keys = ("stopped", "runs with configuration {loaded}, the newest is {newest}")
    assert recalled("stopped", keys) == "stopped"
    assert recalled("stopped by hand", keys) == "stopped by hand"
    said = recalled("runs with configuration 2, the newest is 3", keys)
    assert in_language(said, "zh") == "按配置 2 运行，最新的是 3"
    assert recalled("runs with configuration 2, the newest", keys) == "runs with configuration 2, the newest"
    assert in_language(reasons("stopped; in maintenance (w)"), "zh") == "已停止；正在维护（w）"
    assert reasons("a reason of another version") == "a reason of another version"


@pytest.mark.parametrize("broken", ["msgstr", 'msgid "a"\nmsgstr "b', "msgid b"])
def test_a_broken_catalogue_names_the_line(broken: str) -> None:
    with pytest.raises(ValueError, match=r"line (1|2) "):
        list(i18n._entries([*broken.splitlines()]))


def test_a_catalogue_of_several_lines_and_numbers_is_read() -> None:
    lines = [
        'msgid ""',
        '"two "',
        '"parts"',
        'msgstr "a\\n"',
        '"b"',
        "# no",
        'msgid "x"',
        'msgid_plural "xs"',
        'msgstr[0] "y"',
    ]
    assert dict(i18n._entries(lines)) == {"two parts": "a\nb", "x": "y"}


def test_the_environment_chooses_the_language(paictl: Paictl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAICTL_LANG", "zh_CN.UTF-8")
    done = paictl("jub")
    assert done.err == "错误：paictl 没有子命令 'jub'\n提示：你是否想输入 'job'？全部用法见 paictl -h\n"
    monkeypatch.setenv("PAICTL_LANG", "en")
    assert paictl("jub").err.startswith("error: no command 'jub' in paictl\nhint: did you mean 'job'?")


def test_the_file_of_the_user_chooses_it_too(paictl: Paictl, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("PAICTL_LANG", raising=False)
    (tmp_path / "paictl").mkdir()
    (tmp_path / "paictl" / "config.toml").write_text('lang = "zh"\n')
    assert re.match("错误：", paictl("jub").err)
    assert isinstance(text("a"), Text)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("job show nope", "错误：没有作业 '"),
        ("job submit nope.yaml", "错误：nope.yaml: 没有这个文件或文件夹"),
        ("node fail nope", "错误：没有节点 'nope'"),
        ("job list --vc nope", "错误：没有虚拟集群 'nope'"),
        ("cluster up", "这里已经启动了集群"),
        ("config push -p nodir", "错误：nodir: 没有这个文件或文件夹"),
        ("config rollback 7", "错误：没有版本 7"),
        ("job submit x.yaml --priority best", "错误：没有优先级 'best'"),
    ],
)
@pytest.mark.usefixtures("home")
def test_what_goes_wrong_outside_labs_is_said_in_chinese(
    paictl: Paictl, monkeypatch: pytest.MonkeyPatch, words: str, said: str
) -> None:
    paictl("cluster", "up")
    monkeypatch.setenv("PAICTL_LANG", "zh")
    err = paictl(*words.split()).err
    assert said in err
    assert "hint:" not in err


def _helps(command: Any) -> Iterator[str]:
    """Every paragraph on the help pages of a command and of those below it."""
    notes = [line for line in (command.epilog or "").splitlines() if not is_example(line.strip())]
    texts = [command.help, "\n".join(notes), *(param.help for param in command.params if not param.hidden)]
    if isinstance(command, LazyGroup):
        shown = list(command.summaries(None))
        texts += [summary for _, summary in shown]
        for name, _ in shown:
            yield from _helps(command.get_command(None, name))
    for one in filter(None, texts):
        yield from paragraphs(one)


@pytest.mark.parametrize("path", OF_STUDENTS)
def test_every_help_text_that_students_read_has_its_chinese(path: str) -> None:
    command: Any = typer.main.get_command(app)
    for word in path.split():
        command = command.get_command(None, word)
    found = set(_helps(command)) | set(paragraphs(str(app.info.help))) | {option.help for option in global_options()}
    assert len(found) > 10
    assert found - catalogue("zh")._entries.keys() == set()


@pytest.mark.parametrize(
    "words",
    [
        "--help",
        "lab --help",
        "lab report -h",
        "help job submit",
        "service start -h",
        "sim -h",
        "sim run -h",
        "sim compare -h",
        "sim generate -h",
    ],
)
def test_a_help_page_in_chinese_has_the_same_lines_of_command(
    paictl: Paictl, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    """Names, options and examples are as in English; all else is Chinese, and no line is wider than a terminal."""
    monkeypatch.setenv("COLUMNS", "80")
    english = paictl(*words.split()).out
    monkeypatch.setenv("PAICTL_LANG", "zh")
    chinese = paictl(*words.split()).out
    assert chinese.startswith("用法：paictl")
    assert "选项：\n" in chinese
    assert "  显示本帮助并退出。\n" in chinese
    assert not re.search(r"default:|required\]|Usage|Options of|Show ", chinese)
    examples = re.findall(r"^  paictl .*", english, re.MULTILINE)
    assert re.findall(r"^  paictl .*", chinese, re.MULTILINE) == examples
    names = re.findall(r"^  (--?\w[\w-]*|\w[\w-]*)  ", english, re.MULTILINE)
    assert re.findall(r"^  (--?\w[\w-]*|\w[\w-]*)  ", chinese, re.MULTILINE) == names
    assert all(wide(line) <= 80 for line in chinese.splitlines() if line not in examples)


@pytest.mark.parametrize("words", SYNONYMS)
def test_what_is_said_of_a_word_of_another_tool_is_chinese_where_it_is_more_than_a_command(words: str) -> None:
    chinese = i18n.translated(SYNONYMS[words], "zh")
    assert not {"or", "then", "which", "for", "the"} & set(re.findall(r"(?<!-)\b[a-z]+", chinese)), chinese


def test_what_goes_on_is_said_in_the_language_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []

    def status(words: str) -> nullcontext[None]:
        shown.append(words)
        return nullcontext()

    monkeypatch.setattr(console, "stderr", lambda: SimpleNamespace(status=status))
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setattr(settings, "language", "zh")
    with console.progress(text("submitting")):
        pass
    assert shown == ["正在提交"]
