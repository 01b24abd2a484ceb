from __future__ import annotations

from pathlib import Path

import pytest

from paictl.config.linting.validate import validate
from paictl.config.models.services import GONE
from paictl.config.reading.load import load
from paictl.config.reading.schema import load_schema
from paictl.service.catalogue import Catalogue, DeployRule, load_catalogue
from paictl.service.order import ServiceError
from tests.conftest import ROOT
from tests.unit.service.test_order import openpai

TEMPLATES = ROOT / "templates"


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return load_catalogue()


def test_our_descriptions_have_no_problem() -> None:
    report = validate(load(sorted(str(path) for path in TEMPLATES.glob("*/service.yaml"))))
    assert [f"{problem.place} {problem.message}" for problem in report.problems] == []
    assert len(report.files) == len(load_catalogue())


def test_the_services_of_the_lab_are_there_in_start_order(catalogue: Catalogue) -> None:
    names = [service.name for service in catalogue]
    assert len(names) == 13
    assert names[0] == "cluster-configuration"
    for service in catalogue:
        assert all(names.index(need) < names.index(service.name) for need in service.prerequisites)
    assert catalogue["hivedscheduler"].prerequisites == (
        "cluster-configuration",
        "device-plugin",
        "dra-driver",
        "frameworkcontroller",
    )


def test_prerequisites_and_placement_are_those_of_openpai(catalogue: Catalogue, shared: Path) -> None:
    folder = shared / "corpus" / "graph"
    original = openpai(folder)
    left_out = {"dra-driver", "gpu-driver", "drivers", "yarn-frameworklauncher", "docker-cache", *GONE}
    theirs = load_descriptions(folder)
    for service in (one for one in catalogue if one.name not in ("dra-driver", "gpu-driver")):
        assert set(service.prerequisites) | left_out == set(original[service.name]) | left_out, service.name
        assert service.deploy_rules == theirs[service.name], service.name


def load_descriptions(folder: Path) -> dict[str, tuple[DeployRule, ...]]:
    rules = {}
    for path in folder.glob("*.service.yaml"):
        lines = path.read_text(encoding="utf-8").splitlines()
        pairs = [line.removeprefix("  - ").split(": ") for line in lines if line.startswith(("  - in:", "  - notin:"))]
        name = path.name.removesuffix(".service.yaml")
        rules[name] = tuple(DeployRule(label.strip(), key == "in") for key, label in pairs)
    return rules


def test_every_section_that_a_service_reads_is_in_the_schema(catalogue: Catalogue) -> None:
    sections = load_schema("services-configuration")["properties"]
    for service in catalogue:
        for reference in service.configuration:
            file, _, section = reference.partition(":")
            assert file in ("config.yaml", "layout.yaml", "services-configuration.yaml")
            assert not section or section in sections, reference


def test_an_unknown_name_is_refused_with_the_one_that_was_meant(catalogue: Catalogue) -> None:
    with pytest.raises(ServiceError) as caught:
        catalogue.known(["rest-server", "hived-scheduler"])
    assert (caught.value.message, caught.value.hint) == (
        "no service 'hived-scheduler'",
        "did you mean 'hivedscheduler'?",
    )
    with pytest.raises(ServiceError) as caught:
        catalogue["zzz"]
    assert caught.value.hint == "list them with: paictl service list"


@pytest.mark.parametrize("name", GONE)
def test_a_service_that_was_given_up_leads_to_what_took_its_place(catalogue: Catalogue, name: str) -> None:
    with pytest.raises(ServiceError) as caught:
        catalogue.known([name])
    assert (caught.value.message, caught.value.hint) == (f"paictl no longer has a service {name}", GONE[name])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- a list\n", "is not a service description"),
        ("a: [\n", "is not a service description"),
        ("embedded: x\ncluster-type: [k8s]\n", "has no 'description'"),
        ("description: x\nembedded: ''\n", "has no 'embedded'"),
    ],
)
def test_a_description_that_cannot_be_used_is_named(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "thing").mkdir()
    (tmp_path / "thing" / "service.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(ServiceError) as caught:
        load_catalogue(tmp_path)
    assert caught.value.message == message
    assert "thing/service.yaml" in str(caught.value)


def test_an_empty_folder_is_an_empty_catalogue(tmp_path: Path) -> None:
    assert len(load_catalogue(tmp_path)) == 0


def test_data_placement_and_text_arrive(catalogue: Catalogue) -> None:
    assert catalogue["frameworkcontroller"].data == ("all jobs, running ones too",)
    assert str(catalogue["node-exporter"].deploy_rules[0]) == "not in no-nodeexporter"
    assert catalogue["hivedscheduler"].embedded.startswith("schedules pods; while it is stopped nothing new starts")
