"""Versions and machines make steps: cases from a file, and what holds for all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from paictl.deploy.inventory import Role
from paictl.deploy.versions import (
    ClusterVersions,
    Kubeadm,
    MachineVersions,
    UpgradeRefusedError,
    Version,
    plan_upgrade,
    version_of,
)
from paictl.errors import ExitCode, PaictlError

CASES = yaml.safe_load(Path(__file__).with_name("upgrade_cases.yaml").read_text())


def present(host: str, row: list[str]) -> MachineVersions:
    kubelet, *programs = [version_of(word) for word in row if word not in ("lacks", "held")]
    role = Role.MASTER if host.startswith("m") else Role.WORKER
    return MachineVersions(host, role, kubelet, tuple(programs), "lacks" in row, "held" in row)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_versions_make_steps(case: dict[str, Any]) -> None:
    machines = tuple(present(host, row) for host, row in case["machines"].items())
    proxy = version_of(case["proxy"]) if "proxy" in case else None
    cluster = ClusterVersions(machines, version_of(case["configured"]), proxy)
    target = version_of(case["target"])
    if "refused" in case:
        with pytest.raises(UpgradeRefusedError) as refused:
            plan_upgrade(target, cluster, 1)
        assert case["refused"] in str(refused.value.message)
        assert refused.value.exit_code is ExitCode.NEGATIVE
        assert refused.value.hint
        assert "where" not in case or refused.value.where == case["where"]
        return
    plan = plan_upgrade(target, cluster, case.get("batch", 1))
    assert {one.host: [one.kubeadm.value, one.kubelet] for one in plan.steps} == case["steps"]
    assert all(one.what for one in plan.steps)
    if "batches" in case:
        assert [[one.host for one in batch] for batch in plan.batches] == case["batches"]


@pytest.mark.parametrize(
    ("said", "is_"), [("v1.37.1", (1, 37, 1)), ("1.9.10", (1, 9, 10)), ("v1.37.1+k3s1", (1, 37, 1))]
)
def test_a_version_is_read(said: str, is_: tuple[int, int, int]) -> None:
    assert version_of(said) == Version(*is_)


@pytest.mark.parametrize("said", ["", "1.37", "v1", "latest", "v1.37.x", "v1.37.1 "])
def test_what_is_no_version_is_refused(said: str) -> None:
    with pytest.raises(PaictlError, match="is not a Kubernetes version"):
        version_of(said)


OLDER = st.builds(Version, st.just(1), st.integers(36, 37), st.integers(0, 2))
NUMBERS = st.just(Version(1, 37, 2)) | OLDER  # a refused plan shows nothing: few may be newer than the target
MASTERS = st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=3)
WORKERS = st.lists(NUMBERS, max_size=5)


@given(NUMBERS, NUMBERS, NUMBERS, MASTERS, WORKERS, st.integers(1, 3))
def test_what_is_planned_is_enough_and_a_second_plan_is_empty(
    target: Version, configured: Version, proxy: Version, masters: list[Any], workers: list[Version], batch: int
) -> None:
    machines = [MachineVersions(f"m{i}", Role.MASTER, kubelet, (own,)) for i, (kubelet, own) in enumerate(masters)]
    machines += [MachineVersions(f"w{i}", Role.WORKER, kubelet) for i, kubelet in enumerate(workers)]
    try:
        plan = plan_upgrade(target, ClusterVersions(tuple(machines), configured, proxy), batch)
    except UpgradeRefusedError:
        return
    steps = {one.host: one for one in plan.steps}
    assert [one.host for one in plan.steps if one.kubeadm is Kubeadm.APPLY] in ([], ["m0"])
    assert all(0 < len(one) <= batch for one in plan.batches)
    for one in machines:
        assert (one.kubelet != target) == (one.host in steps and steps[one.host].kubelet)
        assert all(own == target for own in one.programs) or steps[one.host].kubeadm
    after = tuple(MachineVersions(one.host, one.role, target, tuple(target for _ in one.programs)) for one in machines)
    assert plan_upgrade(target, ClusterVersions(after, target, target), batch).steps == ()
