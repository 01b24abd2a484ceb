"""Every policy, by name: one line each. A module is loaded when its policy is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import cast

from paictl import i18n
from paictl.i18n import did_you_mean
from paictl.sim.policies.base import Policy, Setup
from paictl.sim.policies.parameters import ParameterError, read, split
from paictl.words import listed

POLICIES: Mapping[str, str] = {
    "fifo": "fifo:Fifo",
    "backfill": "backfill:Backfill",
    "sjf": "sjf:Sjf",
    "optimus": "optimus:Optimus",
    "srtf": "srtf:Srtf",
    "singularity": "singularity:Singularity",
    "parsync": "parsync:ParSync",
    "pipeswitch": "pipeswitch:PipeSwitch",
    "pooled": "pooled:Pooled",
    "topology": "topology:Topology",
    "srsf": "srsf:Srsf",
    "las": "las:Las",
    "gittins": "gittins:Gittins",
    "tiresias": "tiresias:Tiresias",
    "hived": "hived:Hived",
    "yarn-cs": "yarn_cs:YarnCs",
    "gandiva": "gandiva:Gandiva",
    "quota": "quota:Quota",
    "gavel": "gavel:Gavel",
    "antman": "antman:AntMan",
    "chronus": "chronus:Chronus",
    "edf": "edf:Edf",
    "edf-infeasible-last": "edf:EdfInfeasibleLast",
}
"""Name → module in this package:class."""


def policy_class(name: str) -> type[Policy]:
    """The class of a policy; raises `ParameterError` with the names that there are."""
    if name not in POLICIES:
        raise ParameterError(i18n.text("there is no policy {name!r}", name=name), hint=_instead_of(name))
    module, _, attribute = POLICIES[name].partition(":")
    found = getattr(import_module(f"paictl.sim.policies.{module}"), attribute)
    return cast("type[Policy]", found)


def _instead_of(name: str) -> str:
    first, comma, _ = name.partition(",")
    if comma and first.strip() in POLICIES:
        return f"one policy each: --policy {first.strip()} --policy …"
    return did_you_mean(name, POLICIES) or f"one of: {listed(POLICIES, 40)} (see `paictl sim policies`)"


def parse(text: str) -> tuple[type[Policy], object]:
    """Class and parameters of `name:key=value,…`; raises `ParameterError`."""
    name, given = split(text)
    kind = policy_class(name)
    return kind, read(kind.Parameters, given, name)


def make(text: str, setup: Setup) -> Policy:
    """A policy ready to run; raises `ParameterError`."""
    kind, parameters = parse(text)
    return kind(parameters, setup)
