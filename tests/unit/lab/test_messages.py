"""The two tables of texts, and messages as keys with arguments."""

from __future__ import annotations

import json
import re
import string
from pathlib import Path

import pytest

from paictl.cluster.interface import EventKind
from paictl.lab.messages import LANGUAGES, LabError, Message, catalogue, joined, literal, message, message_from, say
from tests.conftest import ROOT

SOURCES = [
    *(ROOT / "paictl/lab").rglob("*.py"),
    *(ROOT / "paictl/cli/lab").rglob("*.py"),
]


def arguments(template: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(template) if name}


def test_both_tables_have_the_same_keys_and_arguments() -> None:
    english, chinese = (catalogue(language) for language in LANGUAGES)
    assert set(english) == set(chinese)
    for key, template in english.items():
        assert arguments(template) == arguments(chinese[key]), key


def test_chinese_is_chinese() -> None:
    own = {"literal", "join.words", "aspect.happened", "report.python", "report.cpu"}
    texts = {key: text for key, text in catalogue("zh").items() if not key.startswith(("error.needs-reason",))}
    without = [key for key, text in texts.items() if not re.search(r"[\u3000-\u9fff\uff00-\uffef]", text)]
    assert set(without) <= own | {"error.needs-reason.hint"}, without


def used_keys() -> set[str]:
    text = "\n".join(path.read_text(encoding="utf-8") for path in SOURCES if "catalogue" not in path.parts)
    return set(re.findall(r"[\"']([a-z][\w. -]*)[\"']", text))


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_text_is_left_that_nothing_says(language: str) -> None:
    used = used_keys()
    prefixes = ("error.", "aspect.", "event.", "report.", "labs.")
    for key in catalogue(language):
        bare = next((key.removeprefix(prefix) for prefix in prefixes if key.startswith(prefix)), key)
        bare = bare.removesuffix(".hint")
        assert key in used or bare in used or key.startswith(("event.", "report.")), key


def test_every_error_that_is_raised_has_its_two_texts() -> None:
    for path in SOURCES:
        for call in re.findall(r"LabError\(\s*\"([\w-]+)\"([^\n]*)", path.read_text(encoding="utf-8")):
            assert f"error.{call[0]}" in catalogue("en"), f"{path}: {call[0]}"
            if "hint_key" not in call[1]:
                assert f"error.{call[0]}.hint" in catalogue("en"), f"{path}: {call[0]}"


def test_a_message_in_a_message_speaks_the_same_language() -> None:
    events = joined("join.then", [message("job", name="a"), literal("x")])
    found = message("only", what=events)
    assert found.text("en") == "only job a, then x"
    assert found.text("zh") == "只有 作业 a，然后 x"
    assert found.text("fr") == found.text("en")


def test_messages_survive_a_file() -> None:
    nested = message("found", subject=message("job", name="a"), what=joined("join.or", [literal(1), literal("b")]))
    back = message_from(json.loads(json.dumps(nested.data())))
    assert isinstance(back, Message)
    assert [back.text(language) for language in LANGUAGES] == [nested.text(language) for language in LANGUAGES]


def test_an_error_is_english_until_it_is_asked_for_in_chinese() -> None:
    error = LabError("not-started", lab="04")
    assert str(error) == "lab 04 has not been started"
    chinese = error.in_language("zh")
    assert str(chinese) == "实验 04 尚未开始"
    assert chinese.hint == "开始：paictl lab start 04"
    assert say("not-yet", "zh", command="x") == "尚未输入：x"
    assert Path(str(LabError("files-gone", where="/w", lab="02").where)) == Path("/w")


def test_every_kind_of_event_has_a_word() -> None:
    assert {f"event.{kind.value}" for kind in EventKind} == {key for key in catalogue("en") if key[:6] == "event."}
