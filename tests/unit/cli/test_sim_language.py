"""What `paictl sim` says, and its page, have a Chinese form: every text of the code is in the catalogue."""

from __future__ import annotations

import ast
import html
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from paictl.cli.paragraphs import wide
from paictl.cli.sim.runs import ROWS
from paictl.i18n import catalogue, in_language
from paictl.sim.generate import MIXES
from paictl.sim.knowledge import Knowledge
from paictl.sim.page import PAGE_WORDS, page
from paictl.sim.policies.parameters import described
from paictl.sim.policies.table import POLICIES, policy_class
from paictl.sim.report import compared
from paictl.sim.simulate import simulate
from paictl.sim.specify import cluster_named
from paictl.sim.traces.load import FORMATS, load
from tests.conftest import ROOT
from tests.unit.cli.conftest import Paictl

OURS = frozenset({"PolicyError", "BrokenError", "AssertionError", "NotImplementedError", "ProgramError", "ValueError"})
"""Errors of ours, or that never reach anybody."""
SOURCES = [*(ROOT / "paictl" / "sim").rglob("*.py"), *(ROOT / "paictl" / "cli" / "sim").rglob("*.py")]
TEMPLATES = ROOT / "templates" / "pages"


def texts(path: Path) -> Iterator[str]:
    """The texts of a module that people read: messages, hints, headings, and what is said by key."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        of = node.func.value if isinstance(node.func, ast.Attribute) else None
        first = node.args[:1]
        by_key = name in ("text", "counted") and (of is None or (isinstance(of, ast.Name) and of.id == "i18n"))
        if by_key or name in ("localized", "warning", "info"):
            yield from found(first)
        elif name.endswith("Error") and name not in OURS:
            yield from found([*first, *(word.value for word in node.keywords if word.arg == "hint")])
        elif name == "write_table" and isinstance(node.args[0], ast.Tuple):
            yield from found(node.args[0].elts)


def found(nodes: list[ast.expr]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if re.search(r"[^\W\d_]{2}", node.value) and not example(node.value):
                yield node.value
        elif isinstance(node, ast.IfExp):
            yield from found([node.body, node.orelse])
        elif isinstance(node, ast.BoolOp):
            yield from found(node.values)
        elif isinstance(node, ast.JoinedStr) and re.search(
            r"[^\W\d_]{2}", "".join(str(part.value) for part in node.values if isinstance(part, ast.Constant))
        ):
            yield f"line {node.lineno} says a text that cannot be looked up: use text(key, ...)"


def example(said: str) -> bool:
    """Whether it is a piece of a file or a command line, the same in every language."""
    return bool(re.match(r"[-{]|quotas: \{|jobs: \[", said)) and "; with" not in said and "OLD" not in said


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT / "paictl")))
def test_every_text_of_the_simulator_is_in_the_catalogue(path: Path) -> None:
    entries = catalogue("zh")._entries
    assert [said for said in texts(path) if said not in entries] == []


def test_figures_and_the_survey_are_in_the_catalogue() -> None:
    entries = catalogue("zh")._entries
    assert [words for words, _, _ in ROWS if words not in entries] == []
    assert [word for word in PAGE_WORDS if word not in entries] == []


def test_what_there_is_to_choose_from_is_in_the_catalogue() -> None:
    said = [one.title for one in FORMATS] + [one.unit for one in FORMATS] + [one.value for one in Knowledge]
    said += [text for mix in MIXES.values() for text in (mix.title, mix.choices)]
    for kind in map(policy_class, POLICIES):
        said += [kind.title, *kind.choices, *(row.help for row in described(kind.Parameters))]
        said += [" ".join(paragraph.split()) for paragraph in (kind.__doc__ or "").split("\n\n")]
    assert {one for one in said if one} - catalogue("zh")._entries.keys() == set()


def test_the_words_of_the_page_are_those_that_its_template_asks_for() -> None:
    script = (TEMPLATES / "sim.js").read_text(encoding="utf-8")
    shell = (TEMPLATES / "sim.html").read_text(encoding="utf-8")
    calls = re.findall(r'said\((?:[^"()]*\? )?"([^"]*)"(?: : "([^"]*)")?', script)
    asked = {key for call in calls for key in call if key}
    asked |= {f"{{count}} {kind}" for kind in ("better", "same", "worse")}
    (columns,) = re.findall(r"for \(const word of (\[.*?\])\)", script)
    asked |= set(re.findall(r'"([^"]*)"', columns))
    for attributes, words in re.findall(r"<\w+([^>]*) data-said[^>]*>([^<]*)", shell):
        label = re.search(r'aria-label="([^"]*)"', attributes)
        asked.add(label[1] if label else html.unescape(words.strip()))
    asked |= set(re.findall(r"<\w+ data-said>([^<]*)", shell))
    assert asked == set(PAGE_WORDS)


def test_the_page_is_made_in_a_language() -> None:
    trace = load("tiny")
    runs = [simulate(trace.jobs, cluster_named("2x4"), policy) for policy in ("fifo", "srtf")]
    given = compared(trace, runs)
    made = page(given, "t", "zh")
    assert '<html lang="zh">' in made
    assert json.dumps(in_language("Completion times", "zh")) in made
    assert '"words":{}' in page(given, "t")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("run nothing --policy fifo --cluster 2x4", "错误：nothing: 没有这个文件"),
        ("run tiny --policy fivo --cluster 2x4", "错误：没有策略 'fivo'"),
        ("run tiny --policy fifo --cluster 0x4", "集群至少有一个节点"),
        ("run tiny --policy las:queues=x --cluster 2x4", "策略 las，参数 queues: 'x' 不是允许的值"),
        ("compare tiny --policy fifo", "比较需要集群"),
        ("what-if tiny", "what-if 需要两份配置"),
    ],
)
def test_what_goes_wrong_is_said_in_chinese(
    paictl: Paictl, monkeypatch: pytest.MonkeyPatch, words: str, said: str
) -> None:
    monkeypatch.setenv("PAICTL_LANG", "zh")
    assert said in paictl("sim", *words.split()).err


def test_tables_have_chinese_headings(paictl: Paictl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAICTL_LANG", "zh")
    done = paictl("sim", "compare", "tiny", "--policy", "fifo", "--policy", "srtf", "--cluster", "2x4")
    assert all(word in done.out for word in ("指标", "平均 JCT", "总完工时间", "逐作业比较"))
    assert "个作业" in done.out
    assert "多队列最少已得服务" in paictl("sim", "policies").out
    shown = paictl("sim", "policies", "chronus").out
    assert all(word in shown for word in ("按时完成", "整数，至少 1", "须整除租约", "只计数，不定位", "时长"))
    assert all(wide(line) <= 100 for line in shown.splitlines() if line.startswith("- "))
    assert "与 Philly 的 82,247 个作业相似" in paictl("sim", "generate").out
    assert "手写的 YAML" in paictl("sim", "traces").out


@pytest.mark.parametrize(
    ("row", "told"),
    [("a,0,1,soon", "duration 为 'soon'，不是数字"), ("a,0,1", "4 列中有 3 个值")],
)
def test_what_is_wrong_with_a_row_has_a_chinese_form(tmp_path: Path, row: str, told: str) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(f"id,submit,gpus,duration\nb,0,1,60\n{row}\n")
    (bad,) = load(str(path), None).bad
    assert in_language(bad.message, "zh") == told
