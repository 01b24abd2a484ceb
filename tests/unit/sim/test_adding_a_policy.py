"""docs/adding-a-policy.md: its file and its line work as they stand there."""

from __future__ import annotations

import re
import sys
from types import ModuleType

import pytest

from paictl.sim.cluster import homogeneous
from paictl.sim.job import Job
from paictl.sim.policies import table
from paictl.sim.policies.parameters import ParameterError, as_data, described
from paictl.sim.simulate import simulate
from paictl.units import Millis
from tests.conftest import ROOT


def test_the_policy_of_the_page_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs/adding-a-policy.md").read_text(encoding="utf-8"), re.S)
    module = ModuleType("paictl.sim.policies.longest")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(blocks[0], module.__dict__)  # noqa: S102 the page's own example
    name, entry = re.findall(r'"(\w+)": "(\w+:\w+)"', blocks[1])[0]
    monkeypatch.setattr(table, "POLICIES", {**table.POLICIES, name: entry})

    jobs = [Job(str(i), Millis(0), 1, Millis(1000 * (i + 1))) for i in range(3)]
    result = simulate(jobs, homogeneous(1, 1), "longest:most=1")

    assert [outcome.first_start for outcome in result.outcomes] == [5000, 3000, 0]
    assert result.parameters["most"] == 1
    assert "most" in [one.name for one in described(table.policy_class("longest").Parameters)]
    with pytest.raises(ParameterError, match="no parameter 'mots'") as caught:
        simulate(jobs, homogeneous(1, 1), "longest:mots=1")
    assert caught.value.hint == "did you mean 'most'?"


def test_thresholds_are_told_as_they_are_typed() -> None:
    kind, given = table.parse("las:queues=300/7200.5")
    assert as_data(given)["queues"] == [300, 7200.5]
    assert next(one.default for one in described(kind.Parameters) if one.name == "queues") == "3200"


def test_what_cannot_be_is_said_with_what_can() -> None:
    for text, hint in (
        ("fifo,edf", "one policy each: --policy fifo --policy …"),
        ("fifu", "did you mean 'fifo'?"),
        ("chronus:padding=abc", "allowed: number, 0.1 to 100"),
        ("las:queues=3ms", "allowed: seconds, or with a unit, at least 0.001"),
        ("gavel:aware=no", "allowed: true | false"),
    ):
        with pytest.raises(ParameterError) as caught:
            table.parse(text)
        assert caught.value.hint == hint
