"""`paictl service` and the commands of `paictl config` that talk to a cluster, on an embedded one."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from paictl.cli.service.commands import _say_protections
from paictl.cluster.embedded.cluster import EmbeddedCluster
from paictl.cluster.interface import DriverSource, NodeDriver
from paictl.cluster.values import Protection
from paictl.config.secrets import sealing as secrets
from paictl.plan.events import RunEnded
from paictl.plan.folder import RunFolder
from tests.conftest import ROOT
from tests.unit.cli.conftest import Paictl

SERVICES = "services-configuration.yaml"
SECRETS = ("only-on-this-machine", "correct-horse", "chosen-when-you-deploy", "also-chosen")


@pytest.fixture(autouse=True)
def lab(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, paictl: Paictl) -> None:
    monkeypatch.setattr(secrets, "COST", (4, 1, 1))
    monkeypatch.setenv("PAICTL_STATE", str(tmp_path / "state"))
    assert paictl("cluster", "up", "--speed", "0").code == 0


@pytest.fixture
def pulled(paictl: Paictl, tmp_path: Path) -> Path:
    assert paictl("config", "pull", "-o", str(tmp_path / "pulled")).code == 0
    return tmp_path / "pulled"


def edit(folder: Path, old: str, new: str) -> None:
    path = folder / SERVICES
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def test_no_secret_is_in_the_state_or_in_what_is_pulled(paictl: Paictl, tmp_path: Path) -> None:
    assert paictl("config", "push", "-p", str(ROOT / "examples" / "cluster"), "-y").code == 0
    assert paictl("config", "pull", "-o", str(tmp_path / "pulled")).code == 0
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) > 2
    for path in files:
        assert not [secret for secret in SECRETS if secret.encode() in path.read_bytes()], path


def test_services_are_listed_with_what_they_mean_here(paictl: Paictl) -> None:
    done = paictl("service", "list")
    assert "hivedscheduler         running" in done.out
    data = paictl("service", "list", "-o", "json").data
    assert data[0]["name"] == "cluster-configuration"
    assert data[0]["configuration_version"] == 1


def test_all_services_of_a_new_cluster_are_ready(paictl: Paictl) -> None:
    done = paictl("service", "status")
    assert (done.code, done.out.count(" yes")) == (0, 13), done.out


def test_a_stopped_scheduler_makes_the_rest_server_not_ready(paictl: Paictl) -> None:
    done = paictl("service", "stop", "-n", "hivedscheduler")
    assert done.out == "hivedscheduler: stopped\n"
    assert "is needed by rest-server and webportal, which keep running without it" in done.err
    done = paictl("service", "status", "-n", "rest-server")
    assert done.code == 1
    assert "needs hivedscheduler (stopped)" in done.out


def test_the_drivers_of_nodes_are_said_when_they_were_applied(paictl: Paictl, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the name of OpenPAI's service, too."""
    old = NodeDriver("w1", DriverSource.SERVICE, "570.1", "580.1", "", "pod-1")
    monkeypatch.setattr(EmbeddedCluster, "drivers", lambda _: (old,))
    assert paictl("service", "stop", "-n", "gpu-driver").out == "gpu-driver: stopped\n"
    done = paictl("service", "start", "-n", "drivers")
    assert done.out == "gpu-driver: started\n"
    assert "GPU driver of w1: 570.1, not 580.1 yet" in done.err
    assert "kubectl -n paictl-system delete pod pod-1" in done.err
    assert "570.1" in paictl("service", "status", "-n", "gpu-driver").err
    (found,) = paictl("service", "status", "-n", "gpu-driver", "-o", "json").data
    assert [(one["node"], one["source"], one["version"]) for one in found["drivers"]] == [("w1", "service", "570.1")]
    assert "570.1" not in paictl("service", "restart", "-n", "node-exporter").err


def test_names_may_follow_one_option(paictl: Paictl) -> None:
    assert paictl("service", "stop", "-n", "prometheus", "grafana").out == "grafana: stopped\nprometheus: stopped\n"
    done = paictl("service", "stop", "-k", "cluster-configuration", "hivedscheduler", "--dry-run")
    assert "would stop rest-server" in done.out
    assert "cluster-configuration" not in done.out
    assert paictl("service", "start", "prometheus").out == "prometheus: started\n"


def test_a_start_that_lacks_something_does_nothing_and_says_how(paictl: Paictl) -> None:
    paictl("service", "stop", "-n", "device-plugin", "hivedscheduler", "rest-server")
    done = paictl("service", "start", "-n", "rest-server")
    assert (done.code, done.out) == (2, "")
    assert "rest-server needs device-plugin (stopped) and hivedscheduler (stopped)" in done.err
    done = paictl("service", "start", "-n", "rest-server", "--with-prerequisites")
    assert done.out == "device-plugin: started\nhivedscheduler: started\nrest-server: started\n"


def test_everything_stops_and_starts_again(paictl: Paictl) -> None:
    done = paictl("service", "stop")
    assert (done.code, done.out, "an answer is required" in done.err) == (2, "", True)
    assert paictl("service", "stop", "-y").out.splitlines()[-1] == "cluster-configuration: stopped"
    assert paictl("service", "start").out.splitlines()[0] == "cluster-configuration: started"
    assert paictl("service", "status").code == 0


def test_delete_asks_and_says_what_is_lost(paictl: Paictl) -> None:
    done = paictl("service", "delete", "-n", "cluster-configuration")
    assert done.code == 2
    assert "lost with cluster-configuration: 1 version of the configuration" in done.err
    assert "an answer is required" in done.err
    assert "at start" in paictl("config", "history").out
    done = paictl("service", "delete", "-n", "cluster-configuration", "-y")
    assert (done.code, done.out) == (0, "cluster-configuration: deleted\n")
    assert "nothing was pushed yet" in paictl("config", "history").err
    done = paictl("service", "delete", "-n", "grafana", "-y")
    assert "lost" not in done.err
    assert done.out == "grafana: deleted\n"
    listed = {row["name"]: row["state"] for row in paictl("service", "list", "-o", "json").data}
    assert (listed["grafana"], listed["rest-server"]) == ("absent", "running")
    assert paictl("service", "start", "-n", "cluster-configuration", "grafana").code == 0


def test_another_cluster_is_not_touched(paictl: Paictl) -> None:
    for command in (["service", "stop"], ["config", "push", "-p", "."], ["config", "rollback", "1"]):
        done = paictl(*command, "--cluster-id", "other")
        assert done.code == 2
        assert "this is cluster pai, not other" in done.err
    assert paictl("config", "get-id").out == "pai\n"


def test_what_was_pulled_can_be_pushed_and_changes_nothing(paictl: Paictl, pulled: Path) -> None:
    done = paictl("config", "push", "-p", str(pulled), "-y")
    assert (done.code, done.out) == (0, "")
    assert "already has this configuration" in done.err
    assert paictl("config", "diff", str(pulled)).code == 0


def test_a_push_stores_a_version_and_names_who_has_to_load_it(paictl: Paictl, pulled: Path) -> None:
    edit(pulled, "vc1:", "vc2:")
    assert paictl("config", "diff", str(pulled)).code == 1
    lines = paictl("config", "diff", str(pulled), "--unified").out.splitlines()
    assert "-      vc1:" in lines
    assert "+      vc2:" in lines
    done = paictl("config", "push", "-p", str(pulled), "-y")
    assert "-      vc1:" in done.out.splitlines()
    assert "version 2 stored" in done.err
    assert "paictl service refresh -n hivedscheduler -n rest-server" in done.err
    assert paictl("service", "refresh", "-n", "hivedscheduler", "rest-server").code == 0
    loaded = {row["name"]: row["configuration_version"] for row in paictl("service", "list", "-o", "json").data}
    assert (loaded["hivedscheduler"], loaded["rest-server"], loaded["grafana"]) == (2, 2, 1)


def test_a_push_says_which_services_to_refresh_and_which_to_start(paictl: Paictl, pulled: Path) -> None:
    edit(pulled, "vc1:", "vc2:")
    assert paictl("service", "stop", "-n", "rest-server").code == 0
    said = paictl("config", "push", "-p", str(pulled), "-y").err
    assert "to load it: paictl service refresh -n hivedscheduler\n" in said
    assert "to load it: paictl service start -n rest-server\n" in said


def test_a_push_of_sharing_says_that_the_scheduler_has_to_load_it(paictl: Paictl, pulled: Path) -> None:
    path = pulled / "services-configuration.yaml"
    path.write_text(path.read_text(encoding="utf-8") + "sharing: {task-limits: [{tasks: 9}]}\n", encoding="utf-8")
    said = paictl("config", "push", "-p", str(pulled), "-y").err
    assert "to load it: paictl service refresh -n hivedscheduler\n" in said
    said = paictl("usage", "budget", "set", "--vc", "vc1", "--hours", "5", "-y").err
    assert "to load it: paictl service refresh -n hivedscheduler\n" in said


def test_a_push_asks_and_a_dry_run_does_not(paictl: Paictl, pulled: Path) -> None:
    edit(pulled, "vc1:", "vc2:")
    done = paictl("config", "push", "-p", str(pulled))
    assert done.code == 2
    assert "an answer is required" in done.err
    assert paictl("config", "push", "-p", str(pulled), "--dry-run").code == 0
    assert len(paictl("config", "history", "-o", "json").data) == 1
    assert paictl("config", "push", "-p", str(pulled), "--cluster-id", "pai").code == 0
    assert [row["number"] for row in paictl("config", "history", "-o", "json").data] == [1, 2]


def test_errors_stop_the_push(paictl: Paictl, pulled: Path) -> None:
    edit(pulled, "cellNumber: 1", "cellNumber: 9")
    done = paictl("config", "push", "-p", str(pulled), "-y")
    assert done.code == 2
    assert "HVD" in done.err
    assert "nothing was sent" in done.err
    assert f"hint: correct them, see: paictl config validate {pulled / SERVICES}\n" in done.err
    assert "VERSION" in paictl("config", "history").out
    assert len(paictl("config", "history", "-o", "json").data) == 1


def test_errors_in_two_files_name_the_folder(paictl: Paictl, pulled: Path) -> None:
    edit(pulled, "cellNumber: 1", "cellNumber: 9")
    (pulled / "layout.yaml").write_text("machine-list: []\n", encoding="utf-8")
    done = paictl("config", "push", "-p", str(pulled), "-y")
    assert f"hint: correct them, see: paictl config validate {pulled}\n" in done.err


def test_keys_that_only_the_cluster_has_stay_unless_dropped(paictl: Paictl, pulled: Path) -> None:
    edit(pulled, "rest-server:\n", "rest-server:\n  server-port: 9187 # by hand\n")
    assert paictl("config", "push", "-p", str(pulled), "-y").code == 0
    edit(pulled, "  server-port: 9187 # by hand\n", "  sql-max-connection: 9\n")
    done = paictl("config", "push", "-p", str(pulled), "-y", "-m", "service")
    assert "kept: services-configuration.yaml rest-server.server-port" in done.err
    done = paictl("config", "push", "-p", str(pulled), "-y", "--drop", "rest-server.server-port")
    assert done.code == 0
    assert "-  server-port: 9187 # by hand" in done.out.splitlines()


def test_rollback_stores_an_old_version_again(paictl: Paictl, pulled: Path) -> None:
    edit(pulled, "vc1:", "vc2:")
    paictl("config", "push", "-p", str(pulled), "-y", "--message", "rename")
    assert paictl("config", "rollback", "1", "--dry-run").code == 0
    done = paictl("config", "rollback", "1", "-y")
    assert "version 3 stored" in done.err
    assert "already has this configuration" in paictl("config", "rollback", "1", "-y").err
    messages = [row["message"] for row in paictl("config", "history", "-o", "json").data]
    assert messages == ["at start", "rename", "version 1 again"]
    assert paictl("config", "rollback", "9", "-y").code == 2


def test_pull_does_not_overwrite_unless_told(paictl: Paictl, pulled: Path) -> None:
    assert paictl("config", "pull", "-o", str(pulled)).code == 0  # the same already
    assert (pulled / "schemas" / "layout.schema.json").is_file()
    edit(pulled, "vc1:", "vc2:")
    done = paictl("config", "pull", "-o", str(pulled))
    assert done.code == 2
    assert "already exists" in done.err
    assert paictl("config", "pull", "-o", str(pulled), "--force", "--version", "1").code == 0


def test_diff_of_two_files_still_shows_what_tenants_gain_and_lose(paictl: Paictl, pulled: Path) -> None:
    one = ROOT / "examples" / "cluster" / SERVICES
    assert paictl("config", "diff", str(one), str(one)).code == 0
    assert paictl("config", "diff", str(one), str(pulled / SERVICES)).code == 1


def test_without_a_cluster_the_commands_say_so(paictl: Paictl, tmp_path: Path) -> None:
    for command in (["service", "list"], ["config", "get-id"], ["config", "diff", "examples"]):
        assert paictl(*command, "--state", str(tmp_path / "nothing")).code == 4


def test_a_run_on_a_real_cluster_is_kept_and_one_on_an_imagined_cluster_is_not(
    paictl: Paictl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An imagined cluster has a log of its own; here it is taken for a real one."""
    runs = tmp_path / "runs"
    monkeypatch.setattr("paictl.cli.service.commands.runs_folder", lambda: runs)
    assert paictl("service", "stop", "-n", "rest-server").code == 0
    assert not runs.exists()
    monkeypatch.setattr("paictl.cli.service.commands.HandClock", NoClock)
    assert paictl("service", "start", "-n", "rest-server", "--dry-run").code == 0
    assert not runs.exists()
    assert "the record of this run is in" in paictl("service", "start", "-n", "rest-server", "-v").err
    (folder,) = runs.iterdir()
    assert folder.name.endswith("-service-start")
    assert json.loads((folder / "run.json").read_text())["wish"] == {"cluster": "pai", "steps": ["start rest-server"]}
    assert list(RunFolder(folder).events())[-1] == RunEnded(True)
    assert paictl("service", "start", "-n", "rest-server").code == 0
    assert len(list(runs.iterdir())) == 1, "nothing was to do"


class NoClock:
    """Nothing is one."""


def test_policies_of_the_network_are_not_called_in_force(capsys: pytest.CaptureFixture[str]) -> None:
    """The bridge of `deploy` enforces none, as `deploy verify` says."""
    guards = (Protection("mutual-tls", in_force=True), Protection("network-policies", in_force=True))
    _say_protections(SimpleNamespace(protections=guards))  # type: ignore[arg-type]
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "protections in force between tenants: mutual-tls"
    assert "paictl deploy verify" in said[1]
