"""Generated files: the arithmetic, and that they are clean under our own rules."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import yaml

from paictl.config.linting.validate import validate
from paictl.config.making.generate import (
    LAYOUT_FILE,
    SERVICES_FILE,
    GeneratedFiles,
    GenerateInputs,
    inventory_of,
    plan,
    recheck,
)
from paictl.config.making.generate_text import render
from paictl.config.making.skus import parse_sku
from paictl.config.reading.document import Bundle
from paictl.config.reading.kinds import FileKind
from paictl.config.reading.load import Loaded, load_bytes
from paictl.config.reading.schema import named_schemas
from paictl.config.reading.values import scalar
from paictl.errors import PaictlError
from tests.unit.config.cases import lines_of, problems_of

MASTERS = "head-1,10.0.2.1\nhead-2,10.0.2.2\nhead-3,10.0.2.3\n"
WORKERS = "gpu-1,10.0.3.1\ngpu-2,10.0.3.2\nbox-1,10.0.4.1\n"
CONFIG = "user: operator\npassword: nine-Lanterns-77\ndocker_image_tag: v1.8.1\n"
V100 = "V100=gpu:8,cpu:96,memory:900Gi"


def inputs(masters: str = MASTERS, workers: str = WORKERS, config: str = CONFIG) -> GenerateInputs:
    files = ((masters, "master.csv", FileKind.MASTER_CSV), (workers, "worker.csv", FileKind.WORKER_CSV))
    documents = [d for text, name, kind in files for d in load_bytes(name, text.encode(), kind)]
    documents += load_bytes("config.yaml", config.encode(), FileKind.CONFIG)
    return GenerateInputs(tuple(documents), validate(Loaded((Bundle("inputs", tuple(documents)),))))


def planned(*skus: str, source: GenerateInputs | None = None) -> GeneratedFiles:
    return plan(
        inventory_of(source or inputs()), [parse_sku(text) for text in skus], lambda: "a-secret-of-24-characters"
    )


def pools_of(made: GeneratedFiles) -> list[Sequence[object]]:
    return [(p.sku.name, p.vc, p.nodes, p.leaves, p.cpus, p.memory) for p in made.pools]


def test_a_machine_is_divided_by_its_devices_after_the_reserve() -> None:
    # 96 - 0.5 CPUs and 921,600 - 1,024 MiB by 8
    assert pools_of(planned(V100)) == [("V100", "default", ("gpu-1", "gpu-2", "box-1"), 8, 11, 115072)]


def test_the_reserve_of_a_small_machine_is_one_per_cent() -> None:
    # 20 - 0.2 CPUs by 2; 61,440 - 614.4 MiB by 2
    assert pools_of(planned("T4=gpu:2,cpu:20,memory:60Gi"))[0][3:] == (2, 9, 30412)


def test_a_machine_without_devices_is_divided_into_cores() -> None:
    # 64 - 0.5 = 63 cells; (512,000 - 1,024) / 63.5
    assert pools_of(planned("box=cpu:64,memory:500Gi"))[0][3:] == (63, 1, 8046)


def test_daemons_with_quality_of_service_take_their_memory_first() -> None:
    with_qos = planned(V100, source=inputs(config=CONFIG + 'qos-switch: "true"\n'))
    assert with_qos.pools[0].memory == (921_600 - 1_024 - 896) // 8


def test_the_first_sku_goes_to_default_and_the_others_to_numbered_clusters() -> None:
    made = planned("box@box-*=cpu:64,memory:500Gi", V100, "head@head-1=cpu:24,memory:60Gi")
    assert [(p.sku.name, p.vc, p.nodes) for p in made.pools] == [
        ("box", "default", ("box-1",)),
        ("V100", "vc1", ("gpu-1", "gpu-2")),
    ]
    assert [sku.name for sku in made.skus] == ["head", "box", "V100"]


def test_the_first_master_is_the_master_and_the_others_are_noted() -> None:
    made = planned(V100)
    assert [(m.name, m.role) for m in made.machines][:2] == [("head-1", "pai-master"), ("gpu-1", "pai-worker")]
    assert any("head-2, head-3" in note for note in made.notes)


def test_without_hived_there_is_no_section_for_it() -> None:
    made = planned(V100, source=inputs(config=CONFIG + "enable_hived_scheduler: false\n"))
    assert made.pools == ()
    assert "hivedscheduler" not in yaml.safe_load(render(made)[SERVICES_FILE])
    assert any("enable_hived_scheduler" in note for note in made.notes)


@pytest.mark.parametrize(
    "skus",
    [
        (V100,),
        ("4090@gpu-*=gpu:2,cpu:32,memory:128G", "box=cpu:64,memory:500Gi"),
        ("box@box-1=cpu:2,memory:4Gi", "MI50=gpu:4,cpu:64,memory:256Gi,type:amd.com/gpu,model:MI 50"),
    ],
)
@pytest.mark.parametrize("extra", ["", "enable_hived_scheduler: true\nqos-switch: 'true'\ndocker_data_root: /data\n"])
def test_the_files_are_clean_alone_and_beside_their_inputs(skus: tuple[str, ...], extra: str) -> None:
    made = render(planned(*skus, source=inputs(config=CONFIG + extra)))
    files = {name: text.encode() for name, text in made.items()}
    assert lines_of(problems_of(files)) == []
    beside = {"master.csv": MASTERS, "worker.csv": WORKERS, "config.yaml": CONFIG + extra}
    assert lines_of(problems_of({**{name: text.encode() for name, text in beside.items()}, **files})) == []


def test_every_file_names_its_schema_first() -> None:
    texts = render(planned(V100)).values()
    firsts = [text.splitlines()[0].removeprefix("# yaml-language-server: $schema=") for text in texts]
    assert firsts == list(named_schemas(texts))


def test_names_that_yaml_would_read_otherwise_are_quoted() -> None:
    workers = "1e3,10.0.3.1\nno,10.0.3.2\n0123,10.0.3.3\n2024-01-02,10.0.3.4\n"
    texts = render(planned(V100, source=inputs(workers=workers)))
    names = [machine["hostname"] for machine in yaml.safe_load(texts[LAYOUT_FILE])["machine-list"][1:]]
    assert names == ["1e3", "no", "0123", "2024-01-02"]
    config = yaml.safe_load(yaml.safe_load(texts[SERVICES_FILE])["hivedscheduler"]["config"])
    cells = config["physicalCluster"]["physicalCells"][0]["cellChildren"]
    assert [cell["cellAddress"] for cell in cells] == names


@pytest.mark.parametrize("text", ["a: b", "#x", "", "yes", "1.10", "é", 'a"b', "*x", "- x"])
def test_a_scalar_is_read_back_as_the_same_string(text: str) -> None:
    assert yaml.safe_load(scalar(text)) == text


def test_registry_and_account_come_from_the_settings() -> None:
    config = (
        CONFIG
        + 'docker_registry_domain: registry.lab\ndocker_registry_username: ci\ndocker_registry_password: "x: y"\n'
    )
    services = yaml.safe_load(render(planned(V100, source=inputs(config=config)))[SERVICES_FILE])
    registry = services["cluster"]["docker-registry"]
    assert (registry["domain"], registry["tag"]) == ("registry.lab", "v1.8.1")
    assert (registry["username"], registry["password"]) == ("ci", "x: y")


def test_secrets_are_random_unless_given() -> None:
    first, second = (plan(inventory_of(inputs()), [parse_sku(V100)]) for _ in range(2))
    secrets = {first.admin_password, first.jwt_secret, second.admin_password, second.jwt_secret}
    assert len(secrets) == 4
    assert min(map(len, secrets)) >= 20


@pytest.mark.parametrize(
    ("skus", "message"),
    [
        ((), "hardware is not known"),
        (("V100=gpu:8,cpu:4,memory:900Gi",), "too small"),
        (("box=cpu:1,memory:4Gi",), "too small"),
        (("a@gpu-*=cpu:8,memory:32Gi", "a-NODE=cpu:8,memory:32Gi"), "two cell types would be called 'a-NODE'"),
        (("master-machine=cpu:8,memory:32Gi",), "does not have the master"),
    ],
)
def test_what_cannot_be_planned_is_refused(skus: tuple[str, ...], message: str) -> None:
    with pytest.raises(PaictlError, match=message) as caught:
        planned(*skus)
    assert caught.value.hint


def test_a_silenced_empty_list_is_no_crash() -> None:
    silenced = inputs(workers="# paictl: ignore-file=CSV\n")
    assert silenced.usable
    with pytest.raises(PaictlError, match="names no host"):
        planned(V100, source=silenced)


def test_inputs_with_errors_are_not_usable_and_warnings_do_not_matter() -> None:
    assert not inputs(workers="gpu-1,10.0.3.400\n").usable
    assert inputs(workers="gpu-1, 10.0.3.4\n").usable


def test_files_that_would_have_problems_are_refused() -> None:
    silenced = inputs(workers="gpu_1,10.0.3.1\n# paictl: ignore-file=CSV\n")
    with pytest.raises(PaictlError, match="would have problems") as caught:
        recheck(silenced, render(planned(V100, source=silenced)))
    assert str(caught.value.where).startswith(LAYOUT_FILE)
