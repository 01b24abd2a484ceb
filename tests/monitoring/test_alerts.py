"""Each alert of ours comes when it should, and only then: promtool and the figures of tests/data/alerts."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml

from tests.conftest import ROOT
from tests.monitoring.programs import said
from tests.unit.cluster.catalogue import Catalogue, by_name

CASES = ROOT / "tests" / "data" / "alerts"


@pytest.fixture
def rules(catalogue: Catalogue, tmp_path: Path) -> Path:
    data = by_name(catalogue["preset lab"]["prometheus"], "ConfigMap", "prometheus")["data"]
    path = tmp_path / "rules.yml"
    path.write_text(data["rules.yml"])
    return path


@pytest.mark.parametrize("cases", sorted(path.name for path in CASES.glob("*.yaml")))
def test_alerts_come_when_they_should(rules: Path, cases: str) -> None:
    shutil.copy(CASES / cases, rules.parent)
    code, out = said("promtool", "test", "rules", rules.parent / cases)
    assert code == 0, out


def test_every_alert_is_tried_both_ways(rules: Path) -> None:
    alerts = {rule["alert"] for group in yaml.safe_load(rules.read_text())["groups"] for rule in group["rules"]}
    tried = [
        (one["alertname"], bool(one["exp_alerts"]))
        for path in CASES.glob("*.yaml")
        for case in yaml.safe_load(path.read_text(encoding="utf-8"))["tests"]
        for one in case["alert_rule_test"]
    ]
    assert set(tried) == {(alert, comes) for alert in alerts for comes in (True, False)}
