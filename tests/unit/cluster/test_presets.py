from __future__ import annotations

import pytest
import yaml

from paictl.cells.spec import ClusterSpec
from paictl.cluster.machines import machines_in
from paictl.cluster.presets import PRESETS, preset_files
from paictl.config.linting.validate import validate
from paictl.config.reading.load import load_memory
from paictl.errors import PaictlError
from paictl.scheduler.engine import Engine


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_a_configuration_without_mistakes(name: str) -> None:
    files = preset_files(name)
    report = validate(load_memory({file: text.encode() for file, text in files.items()}))
    assert [str(problem) for problem in report.problems if problem.severity.value == "error"] == []
    hived = yaml.safe_load(yaml.safe_load(files["services-configuration.yaml"])["hivedscheduler"]["config"])
    engine = Engine(ClusterSpec.from_mapping(hived))
    assert set(engine.state.physical.nodes) == set(PRESETS[name].nodes)


def test_sizes_are_what_the_titles_say() -> None:
    sizes = {name: len(preset.nodes) * preset.hardware.devices for name, preset in PRESETS.items()}
    assert sizes == {"lab": 2, "dgx2": 32, "three-tenants": 32, "production": 2232}
    assert len(PRESETS["production"].vcs) == 11


def test_machines_have_as_many_devices_as_their_gpus_have_mig_instances() -> None:
    files = preset_files("lab")
    assert [one.devices for one in machines_in(files)] == [0, 1, 1]
    cells = files["services-configuration.yaml"].replace("memory: 32768Mi}", "memory: 32768Mi, migInstances: 7}")
    files["services-configuration.yaml"] = cells.replace("childCellNumber: 1,", "childCellNumber: 7,")
    assert [one.devices for one in machines_in(files)] == [0, 7, 7]


def test_an_unknown_preset_names_the_known_ones() -> None:
    with pytest.raises(PaictlError) as caught:
        preset_files("huge")
    assert "production" in str(caught.value.hint)
