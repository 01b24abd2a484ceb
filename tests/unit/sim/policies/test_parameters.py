"""Parameters of policies: every number has bounds, and every policy runs at its bounds."""

from __future__ import annotations

import pytest

from paictl.sim.policies.parameters import ParameterError, described
from paictl.sim.policies.table import POLICIES, parse, policy_class


@pytest.mark.parametrize(
    "text",
    [
        "fifo:overhead=1",
        "fifo:overhead=-0.1",
        "fifo:overhead=inf",
        "fifo:overhead=nan",
        "fifo:suspend=-1",
        "optimus:interval=0",
        "optimus:interval=inf",
        "gandiva:quantum=0",
        "gavel:round=0",
        "chronus:slot=0",
        "chronus:padding=0",
        "chronus:nodes=0",
        "parsync:schedulers=0",
        "parsync:variance=2",
        "pooled:slowdown=0.5",
        "singularity:sla=2",
        "topology:sockets=17",
        "las:knob=-1",
        "las:queues=5/-1",
        "gittins:queues=0",
        "yarn-cs:relax=-1",
        "hived:placement=skew",
        "chronus:lease=7,slot=5",
        "edf:lease=1m",
        "edf-infeasible-last:slot=7",
    ],
)
def test_what_cannot_be_is_refused_with_what_can(text: str) -> None:
    with pytest.raises(ParameterError) as caught:
        parse(text)
    assert caught.value.hint
    assert text.partition(":")[0] in str(caught.value.where)


@pytest.mark.parametrize(
    "text",
    [
        "fifo:overhead=0.99",
        "fifo:suspend=inf",
        "las:knob=inf,queues=1/inf",
        "topology:sockets=16",
        "optimus:interval=0.001",
        "tiresias:placement=consolidate",
        "chronus:padding=1",
    ],
)
def test_bounds_are_included(text: str) -> None:
    assert parse(text)


def test_defaults_keep_to_their_own_bounds_and_are_written_as_they_are_read() -> None:
    for name in POLICIES:
        kind = policy_class(name)
        rows = [row for row in described(kind.Parameters) if row.default]
        written = ",".join(f"{row.name}={row.default}" for row in rows)
        assert parse(f"{name}:{written}")[1] == kind.Parameters(), name


def test_bounds_are_shown() -> None:
    shown = {row.name: row.allowed for row in described(policy_class("topology").Parameters)}
    assert shown["sockets"] == "whole number, 1 to 16"
    assert shown["overhead"] == "number, 0 to 0.99"
    assert shown["suspend"] == "seconds, or with a unit"
    assert {row.name: row.allowed for row in described(policy_class("las").Parameters)}[
        "knob"
    ] == "number, at least 0, or inf"
