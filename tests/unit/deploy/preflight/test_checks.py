"""Every check on facts of hosts, from data files."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import cache
from typing import Any

import pytest
import yaml

from paictl.deploy.preflight.checking import _JUDGED, GROUPS
from paictl.deploy.preflight.verdict import DesiredHost, Level
from tests.conftest import ROOT

DATA = ROOT / "tests" / "data" / "preflight"
CASES = yaml.safe_load((DATA / "cases.yaml").read_text(encoding="utf-8"))


def merged(base: Any, change: Any) -> Any:
    """Mappings are joined, all else replaced."""
    if not isinstance(base, Mapping) or not isinstance(change, Mapping):
        return copy.deepcopy(change)
    return {**base, **{name: merged(base.get(name), value) for name, value in change.items()}}


@cache
def hosts() -> dict[str, Any]:
    return dict(yaml.safe_load((DATA / "hosts.yaml").read_text(encoding="utf-8")))


def facts(host: str = "debian", change: Mapping[str, Any] | None = None) -> dict[str, Any]:
    return dict(merged(merged(hosts()["debian"], hosts()[host]), change or {}))


@pytest.mark.parametrize("case", CASES, ids=[f"{one['check']}: {one['name']}" for one in CASES])
def test_a_check(case: dict[str, Any]) -> None:
    wish = {"master": False, **case.get("wish", {})}
    wish["clock"] = tuple(wish.get("clock", (999.0, 1002.0)))
    verdict = _JUDGED[case["check"]](
        facts(case.get("host", "debian"), case.get("change")), DesiredHost("gpu-1", "10.0.0.1", **wish)
    )
    assert verdict.level.value == case["level"]
    for field in ("found", "wanted", "fix"):
        assert str(case.get(field, "")) in getattr(verdict, field)
    if verdict.level in (Level.FAIL, Level.WARN):
        assert verdict.found
        assert verdict.wanted
        assert verdict.fix


@pytest.mark.parametrize("name", list(_JUDGED))
def test_every_check_has_a_case_that_is_not_well(name: str) -> None:
    assert {one["level"] for one in CASES if one["check"] == name} & {"fail", "warn"}


@pytest.mark.parametrize("host", ["debian", "ubuntu", "rhel", "dgx", "instinct"])
@pytest.mark.parametrize("master", [True, False])
def test_a_sound_host_passes_every_check(host: str, master: bool) -> None:
    wish = DesiredHost("gpu-1", "10.0.0.1", master, clock=(999.0, 1002.0))
    assert {name: check(facts(host), wish).level for name, check in _JUDGED.items()} == dict.fromkeys(_JUDGED, Level.OK)


def test_every_check_stands_in_one_group() -> None:
    shown = [name for group in GROUPS.values() for name in group]
    assert len(shown) == len(set(shown))
    assert set(_JUDGED) <= set(shown)
