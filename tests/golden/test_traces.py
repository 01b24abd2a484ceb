"""Every recorded decision of HiveD is ours, to the last tie."""

from __future__ import annotations

from pathlib import Path

import pytest

from paictl.scheduler.invariants import validate
from tests.golden.support import GOLDEN, first_difference

TRACES = GOLDEN / "traces"

RECORDED_WRONG = {
    "deepone/9002": "RC11: bad d10 was shown on A/1/1/2, which g10 holds on d11; so a group of equal priority falls",
    "odd/7002": "RC11: bad x00 was shown on u/0/1, which g13 holds on x02; so g13 is preempted although u/1 is free",
    "deepone/8000": "parents not bound to parents: A/0/0/1/2 goes to rack 0/1 while g20 holds A/0/0/0/1 in rack 0/0",
    "feature-2/13002": "a restart with an unchanged configuration takes the guarantee of g9, which fits its quota",
    "hetero3/5002": "relaxed splitting of the last V100-RACK leaves prod one of its two V100-PAIR: surplus -1",
}
"""Recorded decisions that contradict `hived-semantics.md`, with the reason; ours keep to the page."""


def configurations() -> list[str]:
    return sorted(path.name for path in TRACES.iterdir() if path.is_dir()) if TRACES.is_dir() else []


def name_of(path: Path) -> str:
    return f"{path.parent.name}/{path.name.removesuffix('.jsonl.gz')}"


@pytest.mark.slow
@pytest.mark.parametrize("config", configurations())
def test_decisions_are_those_recorded(config: str, shared: Path) -> None:
    wrong = {}
    for path in sorted((shared / "golden/traces" / config).glob("*.jsonl.gz")):
        difference = first_difference(path)
        if difference is not None:
            wrong[name_of(path)] = difference
    unexpected = {name: difference for name, difference in wrong.items() if name not in RECORDED_WRONG}
    assert not unexpected, "\n".join(f"{name}: {difference}" for name, difference in unexpected.items())
    assert wrong.keys() == {name for name in RECORDED_WRONG if name.startswith(f"{config}/")}


@pytest.mark.slow
@pytest.mark.parametrize("config", configurations())
def test_invariants_hold_after_every_operation(config: str, shared: Path) -> None:
    for path in sorted((shared / "golden/traces" / config).glob("*.jsonl.gz"))[::8]:
        if name_of(path) not in RECORDED_WRONG:
            assert first_difference(path, lambda engine: validate(engine.state)) is None
