"""What owners of pods write into annotations: nothing of it ends a door, or takes what others have."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.unit.extender.harness import Harness, gang, pod

LIST = ",".join
MERGED = "\n".join(["a0: &a0 {x: 1}", *(f"a{i}: &a{i} {{<<: [{LIST([f'*a{i - 1}'] * 10)}]}}" for i in range(1, 9))])
ALIASED = "\n".join(["a0: &a0 [x]", *(f"a{i}: &a{i} [{LIST([f'*a{i - 1}'] * 10)}]" for i in range(1, 12))])
HOSTILE = {
    "nested deeply": "[" * 100_000,
    "nested deeply after JSON": '{"virtualCluster":' + "[" * 100_000,
    "nested deeply in blocks": "- " * 100_000,
    "merged again and again": MERGED,
    "aliased again and again": ALIASED,
    "an alias within itself": "&a [*a]",
    "merged with itself": "&a {<<: *a, virtualCluster: A, leafCellNumber: 1}",
    "a number in base 60": "priority: " + ":".join(["1", *["59"] * 80_000]),
    "a large number in hexadecimal": "priority: 0x" + "f" * 200_000,
    "an empty number": 'priority: !!int ""',
    "an empty fraction": 'priority: !!float ""',
    "no date": "priority: !!timestamp x",
    "no truth": "priority: !!bool maybe",
    "no day": "priority: 2001-99-99",
    "many values": "x: [" + "a," * 130_000 + "]",
}


PROGRAM = """
import json, resource, sys
from paictl.cluster.pods.reading import parse_text
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
for name, text in json.load(sys.stdin).items():
    try:
        parse_text(text)
    except ValueError:
        print(name, flush=True)
"""


def test_yaml_that_would_end_or_hold_up_the_scheduler_is_refused() -> None:
    """In a process of its own: libyaml ends it, without an exception."""
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM], input=json.dumps(HOSTILE), capture_output=True, text=True, check=False
    )
    assert run.stdout.splitlines() == list(HOSTILE), run.stderr[-300:]
    assert run.returncode == 0


@pytest.mark.parametrize("text", [text for text in HOSTILE.values() if len(text) < 10_000])
def test_a_pod_with_such_a_text_is_told_and_others_are_placed(harness: Harness, text: str) -> None:
    harness.create(pod("hostile", text))
    assert harness.reasons_of("hostile") == ["Unreadable"]
    assert harness.run(gang("honest", 1, 4)[0])
