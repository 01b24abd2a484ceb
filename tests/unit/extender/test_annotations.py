"""What owners of pods write into annotations: nothing of it ends a door, or takes what others have."""

from __future__ import annotations

import copy
import json
import random
import subprocess
import sys

import pytest

from paictl.cluster.pods.labels import GROUP_SIZE, KUBEFLOW, LEAF_CELLS, PRIORITY, VC
from paictl.cluster.pods.reading import parse_text
from paictl.remote.kube.client import Json
from paictl.scheduler.invariants import validate
from paictl.scheduler.wire import BIND_INFO
from tests.unit.extender.conftest import NODES, spec
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
    "a tagged text in base 60": 'priority: !!int "' + "1:" * 120_000 + '1"',
    "a tagged block in base 60": "priority: !!int |-\n  " + "1:" * 120_000 + "1",
    "a large number in hexadecimal": "priority: 0x" + "f" * 200_000,
    "an empty number": 'priority: !!int ""',
    "an empty fraction": 'priority: !!float ""',
    "no date": "priority: !!timestamp x",
    "no truth": "priority: !!bool maybe",
    "no day": "priority: 2001-99-99",
    "many values": "x: [" + "a," * 130_000 + "]",
    "numbers as keys that collide": "{" + LIST(f"{n * sys.hash_info.modulus}: a" for n in range(101)) + "}",
    "tagged keys that collide": "{" + LIST(f'!!int "{n * sys.hash_info.modulus}": a' for n in range(101)) + "}",
    "keys that collide once merged": LIST(f"&a{n} {{{n * sys.hash_info.modulus}: a}}" for n in range(101)).join("[]"),
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


def test_words_and_some_numbers_are_keys_however_many_values_are_numbers() -> None:
    words = {f"word{number}": number for number in range(5000)}
    assert parse_text("\n".join(f"{key}: {value}" for key, value in words.items())) == words
    numbers = {number: f"{number}" for number in range(100)}
    assert parse_text("\n".join(f"{key}: '{value}'" for key, value in numbers.items())) == numbers
    assert parse_text("\n".join(f"'{key}': [{key}, {key}]" for key in range(500)))


@pytest.mark.parametrize("text", [text for text in HOSTILE.values() if len(text) < 10_000])
def test_a_pod_with_such_a_text_is_told_and_others_are_placed(harness: Harness, text: str) -> None:
    harness.create(pod("hostile", text))
    assert harness.reasons_of("hostile") == ["Unreadable"]
    assert harness.run(gang("honest", 1, 4)[0])


def labelled(name: str, vc: str, job: str, *, priority: int, cells: int, size: int) -> Json:
    """A pod of a PyTorchJob, whose name makes its gang; the admission policies do not guard that label."""
    said = {VC: vc, PRIORITY: str(max(priority, 0)), LEAF_CELLS: str(cells), GROUP_SIZE: str(size), KUBEFLOW: job}
    return pod(name, None, labels=said | ({PRIORITY: "opportunistic"} if priority < 0 else {}))


def given_away(harness: Harness) -> list[str]:
    """Pods that run on devices which nobody holds by the state of the scheduler, so that others may get them."""
    state = harness.core.book.engine.state
    validate(state)
    held = {(state.physical.node_name(leaf), state.physical.device(leaf)) for leaf in state.occupancy.user}
    found = []
    for one in harness.server.pods.values():
        if one["spec"].get("nodeName"):
            info = json.loads(one["metadata"]["annotations"][BIND_INFO])
            if not {(info["node"], device) for device in info["leafCellIsolation"]} <= held:
                found.append(one["metadata"]["name"])
    return found


def relabel(harness: Harness, name: str, job: str) -> None:
    changed = copy.deepcopy(harness.server.pods[f"default/{name}"])
    changed["metadata"]["labels"][KUBEFLOW] = job
    harness.create(changed)


def test_a_pod_that_leaves_its_gang_while_it_runs_keeps_its_devices_from_others(harness: Harness) -> None:
    """After a restart its place was taken for an empty one of its old gang, and given away when that ended."""
    for made in (labelled(f"g-{i}", "A", "old", priority=0, cells=4, size=2) for i in range(2)):
        harness.run(made)
    relabel(harness, "g-1", "new")
    harness.begin(spec())
    harness.open(NODES)
    harness.delete("g-0")
    assert not given_away(harness)
    others = [*gang("a", 3, 4), *gang("b", 1, 4, "B")]
    nodes = [harness.ask(one).names for one in others]
    own = harness.server.pods["default/g-1"]["spec"]["nodeName"]
    assert (own,) not in nodes


@pytest.mark.parametrize("seed", range(60))
def test_devices_of_running_pods_are_never_free_whatever_their_owners_call_them(seed: int) -> None:
    dice = random.Random(seed)  # noqa: S311
    harness = Harness(spec())
    harness.open(NODES)
    for job in range(4):
        size, cells, vc, priority = (
            dice.choice([1, 2, 2, 3]),
            dice.choice([1, 2, 4]),
            dice.choice("AAB"),
            dice.choice([-1, 0]),
        )
        for number in range(size):
            made = labelled(f"g{job}-{number}", vc, f"j{job}", priority=priority, cells=cells, size=size)
            if nodes := harness.ask(made).names:
                assert harness.bind(made, nodes[0]) == ""
            else:
                harness.delete(f"g{job}-{number}")
    names = [one["metadata"]["name"] for one in harness.server.pods.values()]
    for name in dice.choices(names, k=dice.randrange(1, 5)):
        relabel(harness, name, f"j{dice.randrange(5)}")
    assert not given_away(harness)
    harness.begin(spec())
    harness.open(NODES)
    dice.shuffle(names)
    for name in names:
        assert not given_away(harness)
        harness.delete(name)
    assert not harness.core.book.engine.state.occupancy.user
