"""Secrets at rest: no master ever meets a Secret that it cannot read, whatever is interrupted."""

from __future__ import annotations

import base64
import json
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from paictl.deploy.encryption import IDENTITY, EncryptionState, encryption_changes, steps_to
from paictl.deploy.facts import HostFacts
from paictl.deploy.inventory import Machine, Role
from tests.unit.deploy.loading import load_beside

program: Any = load_beside("module_utils/paictl_encryption.py")


@dataclass
class Master:
    """A master: its file, whether the API server uses it, and the note of the first one."""

    text: str = ""
    used: bool = False
    written: str = ""

    @property
    def writes(self) -> str:
        return program.writer(self.text) if self.used else IDENTITY

    @property
    def reads(self) -> set[str]:
        keys = program.parsed(self.text)[0] if self.used else []
        return {IDENTITY, *(one["name"] for one in keys)}

    @property
    def state(self) -> EncryptionState:
        return EncryptionState(self.used, program.writer(self.text) if self.text else "", self.written)


class Interrupted(Exception):  # noqa: N818 - it is no error here
    """The run ended in the middle."""


class Cluster:
    """Masters, the writers of the Secrets that there are, and how many steps are left before a cut."""

    def __init__(self, count: int) -> None:
        self.masters = [Master() for _ in range(count)]
        self.secrets = {IDENTITY}
        self.left = 10**6

    def tick(self) -> None:
        """A moment: every master writes something, and must read all that there is."""
        self.secrets |= {one.writes for one in self.masters}
        for one in self.masters:
            assert self.secrets <= one.reads, (self.secrets, one.reads)
        if self.left == 0:
            raise Interrupted
        self.left -= 1

    def change(self, operation: str) -> None:
        text = program.changed(self.masters[0].text, operation)
        for one in self.masters:
            self.tick()
            if program.writer(text) != program.writer(one.text):
                one.written = ""
                self.tick()
            one.text = text
        self.tick()

    def rewrite(self) -> None:
        self.tick()
        self.secrets = {one.writes for one in self.masters}
        self.tick()
        self.masters[0].written = program.writer(self.masters[0].text)

    def settle(self, *, used: bool) -> None:
        for one in self.masters:
            self.tick()
            one.used = used
        self.tick()

    def apply(self, *, wanted: bool) -> None:
        """What the phase `settings` does."""
        steps = steps_to(wanted, [one.state for one in self.masters])
        if steps.before:
            self.change(steps.before)
        if steps.rewrite and not wanted:
            self.rewrite()
        self.settle(used=wanted)
        if steps.after:
            self.change(steps.after)
        if steps.rewrite and wanted:
            self.rewrite()

    def rotate(self) -> None:
        self.change("add")
        self.change("promote")
        self.rewrite()

    def run(self, verb: str) -> None:
        self.rotate() if verb == "rotate" else self.apply(wanted=verb == "on")


VERBS = st.lists(st.tuples(st.sampled_from(["on", "off", "rotate"]), st.integers(0, 14) | st.none()), max_size=8)


@example(1, [("on", 5), ("off", 1)], "off")
@example(1, [("on", None), ("off", None), ("on", 6), ("off", 4)], "off")
@settings(max_examples=400)
@given(st.integers(1, 3), VERBS, st.sampled_from(["on", "off"]))
def test_every_master_reads_all_secrets_at_every_moment(count: int, verbs: list[Any], last: str) -> None:
    cluster = Cluster(count)
    for verb, cut in verbs:
        if verb == "rotate" and not all(one.state.encrypts for one in cluster.masters):
            continue  # refused
        cluster.left = 10**6 if cut is None else cut
        with suppress(Interrupted):
            cluster.run(verb)
    cluster.left = 10**6
    cluster.run(last)
    writer = cluster.masters[0].writes
    assert (writer == IDENTITY) == (last == "off")
    assert cluster.secrets == {writer}  # what is there is as it shall be, too
    assert {one.writes for one in cluster.masters} == {writer}
    assert steps_to(last == "on", [one.state for one in cluster.masters]) == steps_to(True, [DONE])  # nothing is left


DONE = EncryptionState(True, "key1", "key1")


def test_a_rotation_writes_with_a_key_that_was_not_there_and_keeps_the_old_one() -> None:
    cluster = Cluster(2)
    cluster.run("on")
    before = program.parsed(cluster.masters[0].text)[0]
    cluster.run("rotate")
    keys = program.parsed(cluster.masters[0].text)[0]
    assert [one["name"] for one in keys] == ["key2", "key1"]
    assert keys[1] == before[0]
    assert keys[0]["secret"] != keys[1]["secret"]


def test_the_file_is_what_the_api_server_takes() -> None:
    made = json.loads(program.changed("", "write"))
    (rule,) = made["resources"]
    assert rule["resources"] == ["secrets"]
    ((name, settings),) = rule["providers"][0].items()
    assert name == "secretbox"
    assert len(base64.b64decode(settings["keys"][0]["secret"])) == 32
    assert rule["providers"][1] == {"identity": {}}


@pytest.mark.parametrize(
    ("wanted", "found", "said"),
    [
        (True, {"used": False, "writer": "", "written": ""}, ["secrets_encryption: off -> on"]),
        (True, {"used": True, "writer": "identity", "written": ""}, ["secrets_encryption: off -> on"]),
        (
            True,
            {"used": True, "writer": "key2", "written": "key1"},
            ["secrets_encryption: existing Secrets are written again"],
        ),
        (True, {"used": True, "writer": "key1", "written": "key1"}, []),
        (False, {"used": True, "writer": "key1", "written": "key1"}, ["secrets_encryption: on -> off"]),
        (
            False,
            {"used": False, "writer": "key1", "written": "key1"},
            ["secrets_encryption: existing Secrets are written again"],
        ),
        (
            False,
            {"used": True, "writer": "identity", "written": ""},
            ["secrets_encryption: existing Secrets are written again"],
        ),
        (False, {"used": False, "writer": "", "written": ""}, []),
    ],
)
def test_what_a_plan_says(wanted: bool, found: dict[str, Any], said: list[str]) -> None:
    facts = HostFacts(Machine("m1", "10.0.0.1", Role.MASTER), {"encryption": found})
    assert [str(one) for one in encryption_changes(wanted, facts, first=True)] == said
