"""`paictl usage report`: the forms of the report, and what is refused before anything is printed."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
import yaml

from tests.unit.cli.conftest import Paictl

JOB = {
    "protocolVersion": 2,
    "name": "train",
    "type": "job",
    "prerequisites": [{"name": "image", "type": "dockerimage", "uri": "pai/standard"}],
    "taskRoles": {
        "train": {
            "instances": 1,
            "dockerImage": "image",
            "commands": ["sleep 30m"],
            "resourcePerInstance": {"gpu": 2, "cpu": 2, "memoryMB": 2048},
        }
    },
    "defaults": {"virtualCluster": "tenanta"},
}
HOUR = 3_600_000


@pytest.fixture
def used(mid_month: Path, paictl: Paictl) -> Paictl:
    """A cluster on which a job of two devices has run for half an hour, of two hours."""
    file = mid_month / "train.yaml"
    file.write_text(yaml.safe_dump(JOB), encoding="utf-8")
    assert paictl("cluster", "up", "--preset", "three-tenants", "--speed", "0").code == 0
    assert paictl("job", "submit", str(file), "--user", "ann").code == 0
    assert paictl("cluster", "tick", "2h").code == 0
    return paictl


def test_all_forms_say_the_same(used: Paictl) -> None:
    data = used("usage", "report", "--by", "vc,user", "--sku", "-o", "json").data
    assert data["rows"][1] == {
        "vc": "tenanta",
        "user": "ann",
        "sku": "V100",
        "guaranteedDeviceMs": HOUR,
        "opportunisticDeviceMs": 0,
        "lostDeviceMs": 0,
        "idleDeviceMs": 0,
    }
    assert data["total"]["guaranteedDeviceMs"] == HOUR
    table = used("usage", "report", "--by", "vc,user", "--sku").out.splitlines()
    assert table[0].split() == ["VC", "USER", "SKU", "GUARANTEED", "OPPORTUNISTIC", "LOST", "IDLE"]
    assert table[2].split() == ["tenanta", "ann", "V100", "1.00", "0.00", "0.00", "0.00"]
    assert table[-1].split()[:2] == ["total", "1.00"]
    rows = list(csv.DictReader(io.StringIO(used("usage", "report", "--by", "vc,user", "--sku", "-o", "csv").out)))
    assert (rows[1]["user"], rows[1]["guaranteed_hours"], rows[1]["guaranteed_device_ms"]) == (
        "ann",
        "1.000000",
        f"{HOUR}",
    )
    page = used("usage", "report", "--by", "vc,user", "-o", "html").out
    assert page.startswith("<!doctype html>")
    assert '<td>ann</td><td class="n">1.00</td>' in page


def test_one_tenant_only(used: Paictl) -> None:
    data = used("usage", "report", "--vc", "tenanta", "-o", "json").data
    assert [row["vc"] for row in data["rows"]] == ["tenanta"]
    assert data["total"]["guaranteedDeviceMs"] == HOUR


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (["--month", "2999-01"], "--month: month 2999-01 has not started yet", "the time on this cluster is"),
        (["--month", "2026-13"], "'2026-13' is not a month", "2026-10"),
        (["--month", "october"], "'october' is not a month", "2026-10"),
        (["--vc", "tenantx"], "--vc: virtual cluster 'tenantx'", "did you mean 'tenant"),
        (["--by", "usr"], "--by: usage cannot be grouped by 'usr'", "did you mean 'user'?"),
        (["--by", ""], "--by: usage cannot be grouped by ''", "one of: vc, user, job, sku"),
    ],
)
def test_what_is_refused(used: Paictl, words: list[str], message: str, hint: str) -> None:
    done = used("usage", "report", *words)
    assert (done.code, done.out) == (2, "")
    assert message in done.err
    assert hint in done.err


def test_a_month_before_the_cluster_is_empty(used: Paictl) -> None:
    assert used("usage", "report", "--month", "1999-12", "-o", "json").data["rows"] == []
