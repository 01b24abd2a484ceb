"""All of it is skipped, saying why, where the programs are not there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e_kube import controlplane
from tests.e2e_kube.controlplane import ControlPlane, control_plane
from tests.monitoring.programs import missing
from tests.unit.cluster.catalogue import Catalogue, whole_catalogue


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """These tests need programs that are built for minutes: only `make monitoring` runs them."""
    reason = ""
    if os.environ.get("PAICTL_MONITORING") != "1":
        reason = "needs Prometheus, Alertmanager and node-exporter: make monitoring"
    elif absent := missing():
        reason = f"not there: {', '.join(absent)}: make monitoring"
    here = Path(__file__).parent
    for item in items:
        if reason and here in item.path.parents:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def catalogue() -> Catalogue:
    return whole_catalogue()


@pytest.fixture(scope="session")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    if absent := controlplane.missing():
        pytest.skip(f"{', '.join(absent)} not in {controlplane.binaries()}: make kube")
    with control_plane(tmp_path_factory.mktemp("cp")) as up:
        yield up
