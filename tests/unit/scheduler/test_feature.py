"""The features of the scheduler as stories, one a file: see the README beside them."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.unit.scheduler.scenarios.story import Story

CASES = Path(__file__).parents[2] / "cases" / "scheduler" / "feature"


@pytest.mark.parametrize("path", sorted(CASES.glob("*.yaml")), ids=lambda path: path.stem)
def test_story(path: Path) -> None:
    data = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert set(data) == {"title", "shows", "cluster", "steps"}
    story = Story(CASES / "clusters", data["cluster"])
    for step in data["steps"]:
        story.tell(step)


def test_a_sentence_that_does_not_hold_fails() -> None:
    story = Story(CASES / "clusters", "pools")
    story.tell({"submit": {"job": "a", "vc": "vc1", "pods": 1, "gpus": 4, "class": "test"}, "see": ["a runs on k1"]})
    for sentence in ("a waits", "a runs on k2", "a is gone", "a is opportunistic", "a sleeps", "a runs within one K80"):
        with pytest.raises(AssertionError):
            story.check(sentence)
