"""`paictl config capacity` and `paictl config diff`."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import yaml

from tests.conftest import ROOT
from tests.unit.cli.conftest import Paictl
from tests.unit.config.hivedtexts import RACKS

GOOD = str(ROOT / "examples" / "cluster")
BROKEN = str(ROOT / "examples" / "broken-cluster")


def written(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text(dedent(text), encoding="utf-8")
    return str(path)


def test_capacity_shows_cells_and_shares(paictl: Paictl, tmp_path: Path) -> None:
    done = paictl("config", "capacity", written(tmp_path, "hivedscheduler.yaml", RACKS))
    assert done.code == 0
    words = [line.split() for line in done.out.splitlines()]
    assert ["RACK", "RACK", "8", "2", "0", "0"] in words
    assert ["NODE", "(node)", "4", "4", "2", "1"] in words
    assert ["web", "RACK", "SWITCH", "corner", "(pinned,", "n4[2,3])", "2", "2", "2"] in words


def test_capacity_of_a_folder_as_data(paictl: Paictl) -> None:
    done = paictl("config", "capacity", GOOD, "-o", "json")
    data = done.data
    assert done.err == ""
    assert [vc["name"] for vc in data["vcs"]] == ["default", "vision", "speech"]
    assert yaml.safe_load(paictl("config", "capacity", GOOD, "-o", "yaml").out) == {"schemaVersion": 1, **data}


def test_capacity_says_that_a_configuration_has_errors(paictl: Paictl) -> None:
    done = paictl("config", "capacity", BROKEN)
    assert done.code == 0
    assert "errors: paictl config validate" in done.err
    assert " -1" in done.out


def test_capacity_without_a_configuration(paictl: Paictl, tmp_path: Path) -> None:
    done = paictl("config", "capacity", str(tmp_path))
    assert done.code == 2
    assert "no hivedscheduler configuration here" in done.err


def test_diff_answers_by_exit_code(paictl: Paictl, tmp_path: Path) -> None:
    old = written(tmp_path, "hived-old.yaml", RACKS)
    new = written(
        tmp_path, "hived-new.yaml", RACKS.replace("NODE, cellNumber: 1", "NODE, cellNumber: 2").replace("n3", "n9")
    )
    same = paictl("config", "diff", old, old)
    assert (same.code, "no difference" in same.out) == (0, True)
    assert paictl("config", "diff", old, old, "-o", "json").data == {"same": True, "chains": [], "vcs": []}
    done = paictl("config", "diff", old, new)
    assert done.code == 1
    words = [line.split() for line in done.out.splitlines()]
    assert ["default", "changed", "RACK", "NODE", "1", "2", "+4"] in words
    assert ["keeps", "pinned", "box"] in words
    assert ["RACK", "changed", "16", "16", "+n9", "-n3"] in words
    assert paictl("config", "diff", old, new, "-o", "json").data["same"] is False
