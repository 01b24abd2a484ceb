"""`paictl config generate` as a whole."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Paictl

SKU = ("--sku", "V100=gpu:8,cpu:96,memory:900Gi")


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    (tmp_path / "m.csv").write_text("head-1,10.0.2.1\n")
    (tmp_path / "w.csv").write_text("gpu-1,10.0.3.1\ngpu-2,10.0.3.2\n")
    (tmp_path / "c.yaml").write_text("user: operator\npassword: nine-Lanterns-77\ndocker_image_tag: v1.8.1\n")
    options = zip(("-m", "-w", "-c", "-o"), ("m.csv", "w.csv", "c.yaml", "out"), strict=True)
    return ["config", "generate", *(word for option, name in options for word in (option, str(tmp_path / name)))]


def test_it_writes_two_files_that_validate(paictl: Paictl, words: list[str], tmp_path: Path) -> None:
    done = paictl(*words, *SKU)
    assert done.code == 0, done.err
    assert "V100" in done.out
    assert "note: " in done.err
    out = tmp_path / "out"
    made = ["layout.yaml", "services-configuration.yaml"]
    assert sorted(path.name for path in out.iterdir()) == ["layout.yaml", "schemas", "services-configuration.yaml"]
    for name in made:
        schema = out / (out / name).read_text("utf-8").splitlines()[0].partition("$schema=")[2]
        assert json.loads(schema.read_text("utf-8"))["title"].endswith(f"({name})")
    assert paictl("config", "validate", str(out)).code == 0


def test_it_speaks_json(paictl: Paictl, words: list[str]) -> None:
    data = paictl(*words, *SKU, "--format", "json").data
    assert data["pools"][0] == {
        "sku": "V100",
        "virtualCluster": "default",
        "nodes": ["gpu-1", "gpu-2"],
        "cellsPerNode": 8,
        "cpuPerCell": 11,
        "memoryPerCellMi": 115072,
    }
    assert [Path(file).name for file in data["files"]][:2] == ["layout.yaml", "services-configuration.yaml"]


def test_it_overwrites_nothing_without_force(paictl: Paictl, words: list[str], tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "layout.yaml").write_text("mine")
    done = paictl(*words, *SKU)
    assert done.code == 2
    assert "--force" in done.err
    assert (tmp_path / "out" / "layout.yaml").read_text() == "mine"
    assert paictl(*words, *SKU, "--force").code == 0


def test_inputs_with_errors_are_shown_and_nothing_is_written(paictl: Paictl, words: list[str], tmp_path: Path) -> None:
    (tmp_path / "w.csv").write_text("gpu-1,10.0.3.1\ngpu-2,10.0.3.400\n")
    done = paictl(*words, *SKU)
    assert done.code == 1
    assert "w.csv:2:7" in done.out
    assert "CSV209" in done.out
    assert not (tmp_path / "out").exists()


def test_without_a_sku_it_says_what_is_needed(paictl: Paictl, words: list[str]) -> None:
    done = paictl(*words)
    assert done.code == 2
    assert "NAME[@HOSTS]=gpu:8,cpu:96,memory:900Gi" in done.err


def test_a_missing_input_is_an_error(paictl: Paictl, words: list[str], tmp_path: Path) -> None:
    (tmp_path / "m.csv").unlink()
    done = paictl(*words, *SKU)
    assert done.code == 2
    assert "m.csv" in done.err
