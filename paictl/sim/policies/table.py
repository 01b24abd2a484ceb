"""Every policy by name: one line each, and external policies. A module is loaded when its policy is used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import cast

from paictl import i18n
from paictl.i18n import did_you_mean, listed
from paictl.sim.policies import external
from paictl.sim.policies.base import Policy, Setup
from paictl.sim.policies.parameters import ParameterError, read, split

POLICIES: Mapping[str, str] = {
    "fifo": "queue:Fifo",
    "backfill": "queue:Backfill",
    "easy": "easy:Easy",
    "conservative": "conservative:Conservative",
    "sjf": "queue:Sjf",
    "optimus": "optimus:Optimus",
    "srtf": "ranked:Srtf",
    "singularity": "singularity:Singularity",
    "parsync": "parsync:ParSync",
    "pipeswitch": "pipeswitch:PipeSwitch",
    "pooled": "pooled:Pooled",
    "topology": "topology:Topology",
    "srsf": "ranked:Srsf",
    "las": "las:Las",
    "gittins": "gittins:Gittins",
    "tiresias": "las:Tiresias",
    "hived": "hived:Hived",
    "yarn-cs": "yarn_cs:YarnCs",
    "gandiva": "gandiva:Gandiva",
    "quota": "queue:Quota",
    "gavel": "gavel:Gavel",
    "antman": "antman:AntMan",
    "chronus": "chronus:Chronus",
    "fgd": "fgd:Fgd",
    "random": "packing:RandomFit",
    "bestfit": "packing:TightestFit",
    "dotprod": "packing:DotProduct",
    "gpupacking": "packing:GpuPacking",
    "gpuclustering": "packing:GpuClustering",
    "rounds": "rounds:FairRounds",
    "shockwave": "shockwave:Shockwave",
    "muri": "muri:Muri",
    "themis": "themis:Themis",
    "elasticflow": "elasticflow:ElasticFlow",
    "pollux": "pollux:Pollux",
    "sia": "sia:Sia",
    "edf": "edf:Edf",
    "edf-infeasible-last": "edf:EdfInfeasibleLast",
}
"""Name → module in this package:class."""


_LOADED: dict[str, type[Policy]] = {}
"""External policies that this process has loaded, by id."""


def policy_class(name: str) -> type[Policy]:
    """The class of a policy by its name, or by the id of an external policy that was loaded before.

    Raises `ParameterError` with the known names.
    """
    if name in POLICIES:
        module, _, attribute = POLICIES[name].partition(":")
        return cast("type[Policy]", getattr(import_module(f"paictl.sim.policies.{module}"), attribute))
    if external.is_file(name.partition(":")[0]):
        path, attribute, _ = external.split_file(name)
        return _enter(external.from_file(path, attribute), f"policy {path}")
    if name in _LOADED:
        return _LOADED[name]
    points = external.installed()
    if name in points:
        return _enter(external.from_entry_point(points[name]), f"policy {name}")
    raise ParameterError(i18n.text("no policy {name!r}", name=name), hint=_instead_of(name, [*points]))


def _enter(kind: type[Policy], where: str) -> type[Policy]:
    """Register an external policy by its id, which must be unique because results use it."""
    if kind.id in POLICIES or _LOADED.setdefault(kind.id, kind) is not kind:
        raise _id_conflict(kind, where)
    return kind


def _id_conflict(kind: type[Policy], where: str) -> ParameterError:
    return ParameterError(
        i18n.text("its id {name!r} is taken by another policy", name=kind.id),
        where=where,
        hint=i18n.text("give class {name} another id", name=kind.__name__),
    )


def register(kind: type[Policy]) -> type[Policy]:
    """Register a class of this process by its id, for instance in a notebook; it replaces an earlier class of that id.

    Other processes do not know it: play with `processes=1`, or put the class into a file. Raises `ParameterError`.
    """
    where = f"policy {kind.__name__}"
    external.check(kind, where)
    if kind.id in POLICIES:
        raise _id_conflict(kind, where)
    _LOADED[kind.id] = kind
    return kind


def known_policies() -> list[str]:
    """The names of all policies: ours, then those of installed packages."""
    return [*POLICIES, *(name for name in external.installed() if name not in POLICIES)]


def _instead_of(name: str, more: Sequence[str]) -> str:
    first, comma, _ = name.partition(",")
    if comma and first.strip() in POLICIES:
        return i18n.text("one policy each: --policy {first} --policy …", first=first.strip())
    names = [*POLICIES, *more]
    return did_you_mean(name, names) or i18n.text(
        "one of: {names}, or a file: my.py (see `paictl sim policies`)", names=listed(names, 40)
    )


def parse(text: str) -> tuple[type[Policy], object]:
    """Class and parameters of `name:key=value,…` or `file.py:Class:key=value,…`; raises `ParameterError`."""
    if external.is_file(text.partition(":")[0].strip()):
        path, attribute, rest = external.split_file(text)
        _, values = split(f"{path}:{rest}")
        name = f"{path}:{attribute}" if attribute else path
    else:
        name, values = split(text)
    kind = policy_class(name)
    return kind, read(kind.Parameters, values, name)


def make(text: str, setup: Setup) -> Policy:
    """A policy ready to run; raises `ParameterError`."""
    kind, parameters = parse(text)
    return kind(parameters, setup)
