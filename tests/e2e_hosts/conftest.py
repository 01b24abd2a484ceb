"""Hosts for each module of tests; all of it is skipped, saying why, where they cannot run."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from paictl.config.models.services import load_images
from paictl.remote.ansible.environment import ansible_environment
from tools.hosts import artifacts as packing
from tools.hosts.lab import Lab, obstacle
from tools.hosts.seed import seed
from tools.images.build import build

WANTED = os.environ.get("PAICTL_E2E_HOSTS") == "1"
LONGEST = ("reconfigure", "audit", "textbook", "deploy", "masters", "apply_faults")
"""Modules that take minutes, the longest first: a worker that began one as the last would keep the others waiting."""
_number = itertools.count(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """These tests take minutes, root and what `tools/kube/build.sh hosts` builds: only `make e2e-hosts` runs them."""
    items.sort(key=_turn)
    reason = obstacle() if WANTED else "needs test hosts: make e2e-hosts"
    if not reason:
        return
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.skip(reason=reason))


def _turn(item: pytest.Item) -> int:
    """The place of a test's module; those of a module stay in their order, and all others come after."""
    name = item.path.stem.removeprefix("test_")
    ours = Path(__file__).parent in item.path.parents
    return LONGEST.index(name) if ours and name in LONGEST else len(LONGEST)


@pytest.fixture(scope="module")
def lab_seed() -> Path | None:
    """What containerd has already on the hosts of a module: nothing, unless the module overrides it (see `seeded`)."""
    return None


@pytest.fixture(scope="module")
def lab(lab_seed: Path | None) -> Iterator[Lab]:
    """No hosts yet: ``lab.up(3)`` makes them; gone after the module, or at the next ``up`` of anybody after kill -9."""
    made = Lab(f"pytest-{os.getpid()}-{next(_number)}", owner=os.getpid(), seed=lab_seed)
    try:
        yield made
    finally:
        made.down()


@pytest.fixture(scope="session")
def artifacts() -> Path:
    """The artifact folder as a mirror of upstream would give it, with paictl's own image; read only."""
    return packing.folder(images=_images())


def _images() -> list[Path]:
    """Beside Kubernetes': paictl's own, and a stand-in for NVIDIA's device plugin."""
    own = [built.path for built in build(print) if built.image == "paictl"]
    return [*own, packing.device_plugin(load_images()["nvidia-device-plugin"])]


@pytest.fixture(scope="session")
def seeded(artifacts: Path) -> Path:
    """A containerd store that has these images, for modules that are not about how images come to a host."""
    return seed(artifacts)


@pytest.fixture(scope="session", autouse=True)
def _ansible() -> None:
    """Ansible's own virtual environment: hosts and who deploys them reach no package registry, so it is made before."""
    ansible_environment(say=print)
