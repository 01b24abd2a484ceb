"""Service descriptions on disk: files that they name, and what they are called."""

from __future__ import annotations

from pathlib import Path

import pytest

from paictl.config.linting.validate import Choice, validate
from paictl.config.models.service import service_name
from paictl.config.reading.load import load
from tests.unit.config.cases import lines_of

DESCRIPTION = """\
cluster-type: [k8s]
prerequisite: [cluster-configuration]
template-list: [pylon.yaml, start.sh, conf/run.sh]
start-script: start.sh
stop-script: stop.sh
delete-script: delete.sh
refresh-script: refresh.sh
upgraded-script: upgraded.sh
"""
FILES = ("pylon.yaml.template", "start.sh.template", "conf/run.sh.template", "stop.sh", "delete.sh", "refresh.sh")


def deployed(folder: Path, files: tuple[str, ...], name: str = "service.yaml") -> list[str]:
    """The findings about missing files, for a description beside some files, without the folder's path."""
    here = folder / "src" / "pylon" / "deploy"
    for file in (*files, name):
        path = here / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(DESCRIPTION if file == name else "", encoding="utf-8")
    report = validate(load([str(here / name)]), Choice(select=("XRF963",)))
    return [line.removeprefix(f"{here}/") for line in lines_of(list(report.problems))]


def test_a_script_that_is_neither_there_nor_made_from_a_template_is_missing(tmp_path: Path) -> None:
    assert deployed(tmp_path, FILES) == ["service.yaml:8:18 XRF963"]


def test_nothing_is_missing_once_it_is_there(tmp_path: Path) -> None:
    assert deployed(tmp_path, (*FILES, "upgraded.sh")) == []


def test_a_template_in_a_folder_below_counts(tmp_path: Path) -> None:
    files = tuple(file for file in (*FILES, "upgraded.sh") if not file.startswith("conf"))
    assert deployed(tmp_path, files) == ["service.yaml:3:39 XRF963"]


@pytest.mark.parametrize(("files", "name"), [((), "service.yaml"), (FILES, "pylon.service.yaml")])
def test_a_lone_or_renamed_description_is_not_judged(tmp_path: Path, files: tuple[str, ...], name: str) -> None:
    assert deployed(tmp_path, files, name) == []


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("src/pylon/deploy/service.yaml", "pylon"),
        ("/home/me/pai/src/pylon/deploy/service.yaml", "pylon"),
        ("pylon/service.yaml", "pylon"),
        ("graph/pylon.service.yaml", "pylon"),
        ("service.yaml", None),
        ("deploy/service.yaml", None),
        ("<stdin>", None),
    ],
)
def test_a_service_is_called_as_its_folder_or_file(path: str, name: str | None) -> None:
    assert service_name(path) == name
