"""Findings in another language: what a rule found is said in one language, from the message to the last argument."""

from __future__ import annotations

import re

import pytest

from paictl.config.linting.report import FORMATS, plain
from paictl.config.linting.validate import Report, validate
from paictl.config.reading.load import load_memory
from paictl.config.reading.source import one_line
from paictl.i18n import Text, catalogue, text

BROKEN = """\
physicalCluster:
  cellTypes:
    NODE: {childCellType: GPU, childCellNum: 4, isNodeLevel: true}
  physicalCells:
  - {cellType: NODE, cellAddress: worker1}
virtualClusters:
  default:
    virtualCells:
    - {cellType: NODE, cellNumber: 3}
"""


def report_of(written: str, name: str = "hivedscheduler.yaml") -> Report:
    return validate(load_memory({name: written.encode()}))


@pytest.mark.parametrize("form", ["text", "concise"])
def test_reports_for_people_follow_the_language_from_label_to_summary(form: str) -> None:
    shown = plain(FORMATS[form](report_of(BROKEN)), "zh")
    assert "physicalCluster.cellTypes.NODE 中未知的键 'childCellNum'" in shown
    assert "提示：你是否想写 'childCellNumber'？" in shown
    assert "错误" in shown
    assert not re.search(r"error|hint|did you mean|unknown key|repaired", shown)
    if form == "text":
        assert shown.endswith("1 个文件中有 2 个错误；1 个可用 --fix 修复\n")


@pytest.mark.parametrize("form", sorted(FORMATS.keys() - {"text", "concise"}))
def test_reports_for_machines_are_english_in_every_language(form: str) -> None:
    report = report_of(BROKEN)
    assert plain(FORMATS[form](report), "zh") == plain(FORMATS[form](report))
    assert "unknown key" in plain(FORMATS[form](report), "zh")


def test_lines_of_a_file_are_shown_as_they_are_whatever_the_catalogue_has() -> None:
    assert "hint" in catalogue("zh")._entries
    assert "1 | hint\n" in plain(FORMATS["text"](report_of("hint\n")), "zh")


def test_a_mistake_in_yaml_is_explained_in_chinese() -> None:
    shown = plain(FORMATS["text"](report_of("physicalCluster:\n  cellTypes: {a: [1, 2}\n")), "zh")
    assert "不是有效的 YAML：" in shown or "没有闭合" in shown
    assert "hint" not in shown


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_message_of_one_line_keeps_its_other_language_and_lets_nothing_raw_through(language: str) -> None:
    made = one_line(text("no node {name!r}, {more}", name="a", more=text("no node {name}", name="b\x1b[2J\n")))
    assert isinstance(made, Text)
    assert made.of(language).isprintable()
    assert "\\x1b" in made.of(language)


def test_a_long_message_is_cut_in_english_and_its_arguments_in_chinese() -> None:
    made = one_line(text("no node {name}", name="n" * 10_000), 200)
    assert len(made) <= 200
    assert isinstance(made, Text)
    assert made.of("zh").startswith("没有节点") or len(made.of("zh")) <= 220
