"""Durations as people write them, and as commands imply them."""

from __future__ import annotations

import math
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paictl.units import FOREVER, DurationError, parse_duration
from paictl.workload.duration import sleep_seconds, task_seconds
from tests.unit.workload.cases import cases, load

TEXTS = [item for path in cases("duration") for item in load(path).get("durations", {}).items()]
COMMANDS = [(item["run"], item["seconds"]) for path in cases("duration") for item in load(path).get("commands", [])]
UNITS = {"d": 86400, "h": 3600, "m": 60, "s": 1}


@pytest.mark.parametrize(("text", "seconds"), TEXTS)
def test_duration_text(text: str, seconds: float | None) -> None:
    if seconds is None:
        with pytest.raises(DurationError, match="is not a duration") as caught:
            parse_duration(text)
        assert "1h30m" in (caught.value.hint or "")
    else:
        assert parse_duration(text) == seconds


@pytest.mark.parametrize(("commands", "seconds"), COMMANDS)
def test_sleep_in_commands(commands: list[str], seconds: float | None) -> None:
    assert sleep_seconds(commands) == seconds


def test_what_is_told_comes_first_and_the_default_last() -> None:
    assert task_seconds(["sleep 5"], given=1.0, default=9.0) == 1.0
    assert task_seconds(["sleep 0"], default=9.0) == 0.0
    assert task_seconds(["date"], default=9.0) == 9.0
    assert task_seconds(["sleep inf"], default=9.0) == FOREVER


@given(st.tuples(*[st.integers(0, 99)] * 4).filter(any))
def test_a_written_duration_reads_back(parts: tuple[int, ...]) -> None:
    text = "".join(f"{part}{unit}" for part, unit in zip(parts, UNITS, strict=True) if part)
    assert parse_duration(text) == sum(part * unit for part, unit in zip(parts, UNITS.values(), strict=True))


@given(st.lists(st.tuples(st.integers(0, 999), st.sampled_from(["", *UNITS])), min_size=1, max_size=5), st.data())
def test_sleeps_add_up_however_they_are_joined(sleeps: list[tuple[int, str]], data: st.DataObject) -> None:
    text = ""
    for number, unit in sleeps:
        joint = data.draw(st.sampled_from([" && ", "; ", "\n", " | "])) if text else ""
        text += f"{joint}sleep {number}{unit}"
    assert sleep_seconds([text]) == sum(number * UNITS.get(unit, 1) for number, unit in sleeps)


@given(st.text(alphabet="sleep 5m&|;'\"\\()<>#$\n{}=", max_size=60))
def test_no_command_line_is_too_odd_to_read(text: str) -> None:
    seconds = sleep_seconds([text])
    assert seconds is None or seconds >= 0 or math.isinf(seconds)


@pytest.mark.parametrize("text", ["x", "x ", "'a'", '"a"', '"', "'", "\\\\", '"\\a', "1", "#", "a=b ", "'\\'\"", ">"])
def test_a_long_command_takes_little_memory(text: str) -> None:
    command = "sleep 5; " + text * (200_000 // len(text))
    tracemalloc.start()
    try:
        assert sleep_seconds([command]) == 5
        assert tracemalloc.get_traced_memory()[1] < 100 * len(command)
    finally:
        tracemalloc.stop()
