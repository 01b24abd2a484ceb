"""A lab on a cluster that is not its own: what it takes, what it leaves alone, and what it gives back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from paictl.cli.main import run
from paictl.cluster.embedded import commands
from paictl.cluster.embedded.cluster import EmbeddedCluster
from paictl.cluster.interface import ClusterError, JobState, NodeChange
from paictl.cluster.machines import machines_in
from paictl.cluster.presets import LAYOUT, SERVICES, preset_files
from paictl.cluster.targets import bind, bound_to, chosen_name
from paictl.config.pushing.push import seal_files
from paictl.errors import PaictlError
from paictl.lab import registered
from paictl.lab.actions import prepare
from paictl.lab.checks import judge
from paictl.lab.fitting import session_for
from paictl.lab.manifest import Check, find_lab
from paictl.lab.messages import LabError
from paictl.lab.session import Session
from paictl.lab.site import LabSite, chosen_nodes, renamed, site_from
from paictl.operate import submitting
from paictl.service.catalogue import load_catalogue
from paictl.units import Millis

WORDS = {"worker1": "gpu-a", "worker2": "gpu-b"}
THERE = {
    **WORDS,
    "master1": "head",
    "10.0.0.1": "10.9.0.1",
    "10.0.1.1": "10.9.1.1",
    "10.0.1.2": "10.9.1.2",
}
OTHER_CELLS = "cellNumber: 2"
SITE = LabSite("prod", "pai", "ann-lab02-1a2b", 15, WORDS, "2026-11-22T12:00:00Z", ("hivedscheduler",))
LAB = find_lab("02")


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EmbeddedCluster:
    """A cluster of others, whose machines have other names, added as prod."""
    monkeypatch.setattr("paictl.config.secrets.sealing.COST", (4, 1, 1))  # seals take a quarter of a second on purpose
    text = {name: renamed(text, THERE) for name, text in preset_files("lab").items()}
    text[SERVICES] = text[SERVICES].replace("vc1:", "ours:")
    files = seal_files(text)
    up, then = commands.bring_up("pai", tuple(load_catalogue().services), machines_in(files), files)
    made = EmbeddedCluster.up(tmp_path / "theirs", up, then, clock=(0.0, False))
    monkeypatch.setattr(registered, "open_target", lambda _: made)
    monkeypatch.setattr(registered, "targets", lambda: {"prod": made})
    return made


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    for name in ("PAICTL_CLUSTER", "PAICTL_STATE"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def messages(cluster: EmbeddedCluster) -> list[str]:
    return [one.message for one in cluster.configurations()]


def submit(cluster: EmbeddedCluster, user: str, file: str = "job-2.yaml") -> None:
    submitting.submit(cluster, [str(LAB.folder / file)], user)


def test_a_lab_takes_the_cells_and_gives_them_back(cluster: EmbeddedCluster) -> None:
    before = cluster.configuration().files
    site = registered.take(LAB, "prod", "ann", 15)
    during = cluster.configuration().files
    assert site.nodes == {**WORDS, "master1": "head"}
    assert site.addresses == {"10.0.0.1": "10.9.0.1", "10.0.1.1": "10.9.1.1", "10.0.1.2": "10.9.1.2"}
    assert during[LAYOUT] == before[LAYOUT]
    assert "vc1:" in during[SERVICES]
    assert "ours:" not in during[SERVICES]
    assert "gpu-b" in during[SERVICES]
    assert "worker" not in during[SERVICES]
    submit(cluster, site.user)
    registered.leave(site)
    assert cluster.configuration().files == before
    assert [one.state for one in cluster.jobs()] == [JobState.STOPPED]
    loaded = {view.name: view.loaded for view in cluster.services()}
    assert loaded["hivedscheduler"] == cluster.configuration().number
    assert messages(cluster)[-2:] == [site.mark, f"as before {site.mark}"]


def test_the_configuration_of_before_comes_back_over_what_students_pushed(cluster: EmbeddedCluster) -> None:
    before = cluster.configuration().files
    site = registered.take(LAB, "prod", "ann", 15)
    files = cluster.configuration().files
    cluster.push({**files, SERVICES: files[SERVICES] + "# by hand\n"}, f"{site.mark}: pushed")
    cluster.set_service("hivedscheduler", running=False)
    registered.leave(site)
    assert cluster.configuration().files == before
    assert next(view for view in cluster.services() if view.name == "hivedscheduler").running


def test_whoever_somebody_is_here_the_lab_has_a_user_there(cluster: EmbeddedCluster) -> None:
    site = registered.take(LAB, "prod", "SCHOOL\\ann li" + "x" * 80, 15)
    assert site.user.startswith("SCHOOL-ann-lix")
    submit(cluster, site.user)
    assert len(site.user) <= 64
    assert site.mark.startswith("lab 02 (SCHOOL-ann")


def test_a_lab_is_left_when_its_pods_have_gone(cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    site = registered.take(LAB, "prod", "ann", 15)
    here, naps = cluster.nodes(), list[float]()
    held = [[replace(node, pods=("theirs/pod",)) for node in here], here]
    monkeypatch.setattr(EmbeddedCluster, "nodes", lambda _: held.pop(0))
    monkeypatch.setattr("paictl.lab.registered.time.sleep", naps.append)
    registered.leave(site)
    assert (len(naps), held) == (1, [])


def test_what_others_pushed_since_then_stays(cluster: EmbeddedCluster) -> None:
    site = registered.take(LAB, "prod", "ann", 15)
    files = {**cluster.configuration().files, SERVICES: cluster.configuration().files[SERVICES] + "# theirs\n"}
    cluster.push(files, "pushed")
    registered.leave(site)
    assert cluster.configuration().files == files


def test_a_service_that_does_not_start_leaves_the_configuration_of_before(
    cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = cluster.configuration().files

    def fail(*_: object) -> None:
        raise ClusterError("the image cannot be pulled")

    monkeypatch.setattr(registered, "_perform", fail)
    with pytest.raises(ClusterError, match="image"):
        registered.take(LAB, "prod", "ann", 15)
    assert cluster.configuration().files == before


def busy(cluster: EmbeddedCluster) -> None:
    submit(cluster, "bob", "job-5.yaml")


def cordoned(cluster: EmbeddedCluster) -> None:
    cluster.set_node("gpu-b", NodeChange.CORDON)


def unlisted(cluster: EmbeddedCluster) -> None:
    files = cluster.configuration().files
    cluster.push({**files, LAYOUT: files[LAYOUT].replace("gpu-b", "gpu-c")}, "pushed")


@pytest.mark.parametrize(
    ("change", "error"), [(busy, "others work"), (cordoned, "idle workers"), (unlisted, "idle workers")]
)
def test_nothing_is_changed_where_others_work_or_machines_are_lacking(
    cluster: EmbeddedCluster, change: Callable[[EmbeddedCluster], None], error: str
) -> None:
    change(cluster)
    before = messages(cluster)
    with pytest.raises(LabError, match=error):
        registered.take(LAB, "prod", "ann", 15)
    assert messages(cluster) == before


@pytest.mark.parametrize(("number", "more"), [("02", set()), ("05", {"rest-server"})])
def test_what_a_lab_stops_and_starts_runs_when_it_begins(cluster: EmbeddedCluster, number: str, more: set[str]) -> None:
    for view in cluster.services():
        cluster.set_service(view.name, running=False)
    site = registered.take(find_lab(number), "prod", "ann", 15)
    devices = {"device-plugin", "dra-driver", "gpu-driver"}
    needed = {"cluster-configuration", *devices, "hivedscheduler", "frameworkcontroller"}
    assert needed | more <= {view.name for view in cluster.services() if view.running} <= needed | more
    assert site.services == ()


@pytest.mark.parametrize(
    ("number", "why"),
    [("11", "needs the embedded cluster"), ("17", "starts without a cluster")],
)
def test_labs_that_were_not_tried_there_are_refused(cluster: EmbeddedCluster, number: str, why: str) -> None:
    with pytest.raises(
        LabError, match=f"lab {number} {why}; labs that run on an added cluster: 01, 02, 03, 04, 05, 06, 07"
    ):
        registered.take(find_lab(number), "prod", "ann", 15)
    assert len(messages(cluster)) == 1


def test_a_lab_sees_its_own_jobs_by_its_own_names_and_clock(cluster: EmbeddedCluster) -> None:
    submit(cluster, "bob", "job-5.yaml")
    cluster.stop_job("bob~job-5")
    site = registered.take(LAB, "prod", "ann", 15)
    submit(cluster, site.user)
    cluster.tick(Millis(10_000))
    seen = registered.watched(site)
    assert [one.key for one in seen.jobs()] == [f"{site.user}~job-2"]
    assert {one.subject for one in seen.events()} == {f"job/{site.user}~job-2"}
    assert [task.node for task in seen.job(f"{site.user}~job-2").tasks] == ["worker2"]
    assert {one.machine.name for one in seen.nodes()} == {"master1", "worker1", "worker2"}
    assert seen.name == "lab02"
    assert (seen.now - seen.epoch).total_seconds() == pytest.approx(150, abs=15)


def test_another_cluster_of_that_name_is_not_the_labs(cluster: EmbeddedCluster) -> None:
    site = registered.take(LAB, "prod", "ann", 15)
    other = LabSite(site.cluster, "other", site.user, 15, site.nodes, site.began)
    with pytest.raises(LabError, match="is now pai"):
        registered.watched(other)
    with pytest.raises(LabError, match="is now pai"):
        registered.leave(other)
    assert cluster.configuration().message == site.mark


def test_a_cluster_whose_name_was_removed_is_left_alone(
    cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = registered.take(LAB, "prod", "ann", 15)
    monkeypatch.setattr(registered, "targets", dict)
    registered.leave(site)
    assert cluster.configuration().message == site.mark


def test_a_site_is_read_back_and_its_mark_names_the_lab() -> None:
    assert site_from(SITE.data()) == SITE
    assert SITE.mark == "lab 02 (ann-lab02-1a2b)"
    older = {name: value for name, value in SITE.data().items() if name != "services"}
    assert site_from(older).services == ()


@pytest.mark.parametrize(("site", "looks"), [(SITE, 3), (None, 1)])
def test_at_a_site_somebody_looks_again_until_what_is_due_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, site: LabSite | None, looks: int
) -> None:
    session, seen = Session(LAB, tmp_path), list[int]()
    session.start(site=site)

    def observe(_: Session) -> list[Check]:
        seen.append(1)
        return []

    monkeypatch.setattr(Session, "observe", observe)
    monkeypatch.setattr(Session, "_is_due", lambda _: len(seen) < 3)
    monkeypatch.setattr("paictl.lab.session.time.sleep", lambda _: None)
    session.settle()
    assert len(seen) == looks


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("cellAddress: worker1", "cellAddress: gpu-a"),
        ("[worker1, worker2]", "[gpu-a, gpu-b]"),
        ("worker10 my-worker1 worker1.x", "worker10 my-worker1 worker1.x"),
        ("On worker1. Not on worker2.", "On gpu-a. Not on gpu-b."),
    ],
)
def test_only_whole_words_are_names(text: str, wanted: str) -> None:
    assert renamed(text, WORDS) == wanted


def test_the_first_lab_is_told_in_the_names_of_the_cluster(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    first = find_lab("01")
    before = cluster.configuration().files
    site = registered.take(first, "prod", "ann", 15)
    Session(first, tmp_path).start(site=site)
    session = session_for(first, tmp_path)
    told = session.lab.steps[0]
    for text in (told.text.en, told.text.zh, told.hints[0].zh):
        assert "head" in text
        assert "10.9.0.1" in text
    assert "worker1" not in told.text.en + told.text.zh
    assert "paictl node list" in told.commands
    assert not any("cluster up" in line for step in session.lab.steps for line in step.commands)
    edits = prepare(session.lab, told.solution, session.workspace.files)
    assert "+gpu-b,10.9.1.2" in edits
    (written,) = [one for one in first.checks if one.id == "written"]
    *files, typed = [one.ok for one in judge(session.observation(), written).findings]
    assert (set(files), typed) == ({True}, False), "only the command is missing"
    registered.leave(site)
    assert cluster.configuration().files == before


def test_a_lab_that_deploys_wants_a_master(cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    workers = [one for one in cluster.nodes() if one.machine.name != "head"]
    monkeypatch.setattr(EmbeddedCluster, "nodes", lambda _: workers)
    with pytest.raises(LabError, match="no master"):
        registered.take(find_lab("01"), "prod", "ann", 15)
    assert registered.take(LAB, "prod", "ann", 15).nodes == WORDS


def test_what_the_first_lab_pushes_there_is_what_was_generated(tmp_path: Path) -> None:
    folder, made = find_lab("01").folder / "solution", tmp_path / "made"
    lists = [
        word
        for flag, name in (("-m", "master.csv"), ("-w", "worker.csv"), ("-c", "config.yaml"))
        for word in (flag, str(folder / name))
    ]
    assert run(["config", "generate", *lists, "--sku", "GPU=gpu:1,cpu:8,memory:32Gi", "-o", str(made)]) == 0
    generated = yaml.safe_load((made / SERVICES).read_text())
    assert yaml.safe_load((folder / "one-vc.txt").read_text()) == {"hivedscheduler": generated["hivedscheduler"]}


def test_names_that_are_exchanged_are_exchanged_at_once() -> None:
    assert renamed("a b", {"a": "b", "b": "a"}) == "b a"


def test_workers_get_nodes_in_order_of_name(cluster: EmbeddedCluster) -> None:
    wanted = machines_in(preset_files("lab"))
    assert chosen_nodes(wanted, reversed(cluster.nodes())) == WORDS
    with pytest.raises(LabError, match="2 idle workers with 1 devices"):
        chosen_nodes(wanted, cluster.nodes()[:1])


def test_a_folder_that_is_bound_means_its_cluster_and_no_other(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = home / "lab"
    folder.mkdir()
    monkeypatch.setenv("PAICTL_STATE", str(folder))
    assert (bound_to(folder), chosen_name()) == ("local", "local")
    (folder / "cluster-name").write_bytes(b"\xff")
    assert (bound_to(folder), bound_to(folder / "cluster-name")) == ("local", "local"), "nobody can read that"
    bind(folder, "prod")
    assert (bound_to(folder), chosen_name()) == ("prod", "prod")
    monkeypatch.setenv("PAICTL_CLUSTER", "prod")
    assert chosen_name() == "prod"
    assert chosen_name("local") == "local"
    monkeypatch.setenv("PAICTL_CLUSTER", "other")
    with pytest.raises(PaictlError, match="names other"):
        chosen_name()
