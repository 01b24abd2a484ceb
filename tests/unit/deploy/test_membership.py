"""Joining and leaving as a change of the configuration: refused, planned on the version that was read, stored."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from paictl.cluster.interface import ConfigVersion, Port
from paictl.deploy import partial_runs
from paictl.deploy.inventory import Deployment, Machine, Role
from paictl.deploy.reset import forget_nodes
from paictl.deploy.site import DeployError
from paictl.errors import ExitCode, PaictlError
from paictl.operate.membership import change_configuration, note_in_list, plan_joining, plan_leaving, worker_of
from paictl.remote.ansible.collecting import HostOutcome, PlaybookResult, TaskEvent, TaskEventKind
from paictl.remote.kube.client import KubeError, NoAnswerError
from tests.unit.cluster.fakekube import FakeKube
from tests.unit.config.pushing.test_machines import LAYOUT, POOL, services
from tests.unit.deploy.test_desired import deployment

W1 = Machine("w1", "10.0.0.2", Role.WORKER)
W2 = Machine("w2", "10.0.0.3", Role.WORKER)
M1 = Machine("m1", "10.0.0.1", Role.MASTER)


class Cluster:
    """A cluster that has nothing but a configuration."""

    name = "lab"
    lacks = {Port.SCHEDULING: "", Port.SERVICES: ""}  # noqa: RUF012

    def __init__(self, **files: str) -> None:
        named = {f"{name.replace('_', '-')}.yaml": text for name, text in files.items()}
        self.kept = [ConfigVersion(3, datetime(2026, 1, 1, tzinfo=UTC), "", named)] if named else []
        self.pushed: list[tuple[Any, ...]] = []

    def configurations(self) -> list[ConfigVersion]:
        return self.kept

    def push(self, files: dict[str, str], message: str, *, base: int, secrets: object) -> ConfigVersion:
        self.pushed.append((files, message, base, secrets))
        return replace(self.kept[-1], number=base + 1)


def api(**refused: Exception) -> FakeKube:
    """An API server with nodes m1 and w1, that answers a request about a machine with an error."""
    client = FakeKube({f"/api/v1/nodes/{name}": {"metadata": {"name": name}} for name in ("m1", "w1")})

    def before(number: int) -> None:
        if error := refused.get(client.requests[number][1].rpartition("/")[2]):
            raise error

    client.before = before
    return client


def quota(number: int) -> str:
    return services(POOL, 3, f"a: {{virtualCells: [{{cellType: POOL.NODE, cellNumber: {number}}}]}}")


def test_a_broken_promise_is_refused_with_cells_and_virtual_cluster() -> None:
    cluster: Any = Cluster(layout=LAYOUT, services_configuration=quota(3))
    with pytest.raises(DeployError, match=r"3 cells of type NODE are promised \(a 3\), and 2 would be left") as caught:
        plan_leaving(cluster, W1)
    assert caught.value.exit_code is ExitCode.NEGATIVE


def test_what_leaves_is_stored_on_the_version_it_was_read_from() -> None:
    cluster: Any = Cluster(layout=LAYOUT, services_configuration=quota(2))
    made = plan_leaving(cluster, W1)
    assert change_configuration(cluster, made, "without w1") == 4
    ((files, message, base, _),) = cluster.pushed
    assert (message, base) == ("without w1", 3)
    assert not any("w1" in text for text in files.values())


def test_a_cluster_without_configuration_needs_no_change() -> None:
    cluster: Any = Cluster()
    assert (plan_leaving(cluster, W1).plan, plan_joining(cluster, W2, None).plan) == (None, None)
    assert change_configuration(cluster, plan_leaving(cluster, W1), "") is None


def test_any_worker_is_the_model_where_all_are_of_one_kind() -> None:
    cluster: Any = Cluster(layout=LAYOUT, services_configuration=quota(2).replace("address: w2", "address: w8"))
    made = plan_joining(cluster, Machine("w9", "10.0.0.9", Role.WORKER), None)
    assert made.plan is not None
    assert "hostname: w9\n    machine-type: big" in made.plan.files["layout.yaml"]
    assert "- cellAddress: w9\n" in made.plan.files["services-configuration.yaml"]
    other = LAYOUT.replace("# the end", "  - {hostname: x, hostip: 10.0.0.8, machine-type: small, pai-worker: 'true'}")
    mixed: Any = Cluster(layout=other)
    with pytest.raises(PaictlError, match="several kinds"):
        plan_joining(mixed, W2, None)


def test_masters_and_strangers_do_not_leave() -> None:
    deployment: Any = Deployment((M1, W1), None)  # type: ignore[arg-type]
    assert worker_of(deployment, "w1") is W1
    for name, said in (("m1", "is a master"), ("w7", "no machine w7")):
        with pytest.raises(PaictlError, match=said):
            worker_of(deployment, name)


def test_the_list_of_the_site_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "worker.csv"
    path.write_text("w1,10.0.0.2\n")
    path.chmod(0o640)
    note_in_list(path, W2, there=True)
    assert path.read_text() == "w1,10.0.0.2\nw2,10.0.0.3\n"
    note_in_list(path, W1, there=False)
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("w2,10.0.0.3\n", 0o640)


def test_a_node_that_is_gone_already_is_forgotten_and_one_that_stays_is_named() -> None:
    client = api(w2=KubeError("no webhook", status=500), m1=NoAnswerError("connection refused"))
    assert forget_nodes(client, [W1, W2, Machine("w3", "10.0.0.4", Role.WORKER), M1]) == ["w2", "m1"]
    assert "/api/v1/nodes/w1" not in client.objects


@pytest.mark.parametrize("what", ["well", "reset fails", "node stays"])
def test_a_machine_leaves_as_a_whole_or_it_is_said_what_is_left(
    what: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    held: list[str] = []
    failed = (TaskEvent(TaskEventKind.FAILED, "reset", "w1", "a mount is busy"),) if what == "reset fails" else ()

    @contextmanager
    def locked(few: Deployment, command: str, *_: object, **__: object) -> Iterator[None]:
        assert [one.name for one in few.machines] == ["m1", "w1"], "nobody else is asked for anything"
        held.append(command)
        yield
        held.pop()

    def clean(few: Deployment, chosen: list[Machine], folder: Path, _: object) -> PlaybookResult:
        assert (few.machines[0], chosen, held) == (M1, [W1], ["node remove"])
        return PlaybookResult({"w1": HostOutcome("w1", failures=failed)}, True, folder)

    monkeypatch.setattr(partial_runs, "locked", locked)
    monkeypatch.setattr(partial_runs, "clean", clean)
    client = api(**({"w1": KubeError("forbidden", status=403)} if what == "node stays" else {}))
    cluster = replace(deployment(), machines=(M1, W1, W2))
    with partial_runs.leaving(
        cluster, W1, tmp_path, lambda: datetime(2026, 1, 1, tzinfo=UTC), break_lock=False
    ) as leave:
        if what == "well":
            leave(client, lambda *_: None)
        else:
            with pytest.raises(DeployError) as caught:
                leave(client, lambda *_: None)
            wanted = {"reset fails": ExitCode.NEGATIVE, "node stays": ExitCode.PARTIAL}[what]
            assert caught.value.exit_code is wanted, "all of one machine is not some of them"
    assert ("/api/v1/nodes/w1" in client.objects) is (what != "well"), "no node is forgotten whose machine is in use"
    assert held == []
