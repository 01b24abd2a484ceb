"""`config push`, `plan`, `apply` and `diff` against a cluster that others use, too."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from paictl.cli.config.push import HARM
from paictl.cli.deploy.services import push_folder
from paictl.cluster.accounts import Account
from paictl.cluster.interface import ConflictError
from paictl.cluster.scheduling import JobImpact
from paictl.cluster.targets import open_target
from paictl.config.secrets import sealing
from paictl.i18n import counted, in_language
from paictl.operate.deploying import plan_configuration, store_configuration
from paictl.operate.pushing.folder import MARK
from paictl.operate.pushing.plan import StaleFilesError
from tests.unit.cli.conftest import Done, Paictl
from tests.unit.cli.test_job import JOB

SERVICES = "services-configuration.yaml"


@pytest.fixture(autouse=True)
def lab(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, paictl: Paictl) -> None:
    monkeypatch.setattr(sealing, "COST", (4, 1, 1))
    monkeypatch.setenv("PAICTL_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("LOGNAME", "ann")
    assert paictl("cluster", "up", "--speed", "0").code == 0


def pull(paictl: Paictl, folder: Path) -> Path:
    assert paictl("config", "pull", "-o", str(folder)).code == 0
    return folder


def edit(folder: Path, old: str, new: str, name: str = SERVICES) -> None:
    path = folder / name
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def push(paictl: Paictl, folder: Path, *words: str) -> Done:
    return paictl("config", "push", "-p", str(folder), "-y", *words)


def versions(paictl: Paictl) -> int:
    return len(paictl("config", "history", "-o", "json").data)


def stored(paictl: Paictl, tmp_path: Path, name: str = SERVICES) -> str:
    assert paictl("config", "pull", "-o", str(tmp_path / "look"), "--force").code == 0
    return (tmp_path / "look" / name).read_text(encoding="utf-8")


VC1 = "      vc1:\n        virtualCells:\n        - {cellType: GPU-POOL.GPU-NODE, cellNumber: 1}\n"


def test_who_was_granted_an_earlier_virtual_cluster_of_the_name_of_a_new_one_is_named(
    paictl: Paictl, tmp_path: Path
) -> None:
    secret = tmp_path / "password"
    assert paictl("user", "add", "bob", "--vc", "vc1", "--generate-password", str(secret)).code == 0
    users = open_target().users
    users.put_account(Account("eve", vcs=("vc1",), subject="https://sso.example#eve"))  # by what a group is granted
    folder = pull(paictl, tmp_path / "config")
    edit(folder, VC1, "")
    without = push(paictl, folder)
    assert (without.code, "granted" in without.err) == (0, False), without.err
    folder = pull(paictl, tmp_path / "again")
    edit(folder, "    virtualClusters:\n", f"    virtualClusters:\n{VC1}")
    done = push(paictl, folder)
    assert done.code == 0, done.err
    assert "virtual cluster vc1 is new, and an earlier one of this name was granted to bob; " in done.err


@pytest.mark.parametrize("way", ["push", "rollback", "plan"])
def test_however_its_name_comes_back_a_new_tenant_is_warned_of_and_gets_no_storage(
    paictl: Paictl, tmp_path: Path, way: str
) -> None:
    assert paictl("user", "add", "bob", "--vc", "vc1", "--generate-password", str(tmp_path / "password")).code == 0
    assert paictl("storage", "add", "data", "--nfs", "10.0.0.9:/data", "--vc", "vc1").code == 0
    folder = pull(paictl, tmp_path / "config")
    edit(folder, VC1, "")
    done = push(paictl, folder)
    assert "storage data is no longer granted to vc1, which is removed" in done.err, done.err
    edit(folder, "    virtualClusters:\n", f"    virtualClusters:\n{VC1}")
    if way == "plan":
        file = str(tmp_path / "plan.json")
        assert paictl("config", "plan", "-p", str(folder), "-o", file).code == 0
        done = paictl("config", "apply", file, "-y")
    else:
        done = push(paictl, folder) if way == "push" else paictl("config", "rollback", "1", "-y")
    assert done.code == 0, done.err
    assert "an earlier one of this name was granted to bob; " in done.err
    assert paictl("storage", "list", "-o", "json").data[0]["vcs"] == []


# --- two administrators


def test_what_a_colleague_added_meanwhile_is_not_dropped_unasked(paictl: Paictl, tmp_path: Path) -> None:
    mine, yours = pull(paictl, tmp_path / "mine"), pull(paictl, tmp_path / "yours")
    edit(yours, "      default:\n", "      teamb:\n        virtualCells: []\n      default:\n")
    assert push(paictl, yours).code == 0
    edit(mine, "memory: 32768Mi", "memory: 30000Mi")
    done = push(paictl, mine)
    assert (done.code, versions(paictl)) == (2, 2)
    assert "is based on version 1, but the newest is 2" in done.err
    assert "paictl config pull" in done.err
    rows = {line.split()[1]: line for line in done.out.splitlines()[1:]}
    assert rows["hivedscheduler.config.virtualClusters.teamb"].split()[2:3] == ["-"]
    assert any("memory" in key and "30000Mi" in row for key, row in rows.items())
    assert "teamb" in stored(paictl, tmp_path)
    assert paictl("config", "push", "-p", str(mine), "--dry-run").code == 2, "a dry run says so, too"
    over = push(paictl, mine, "--base", "2")
    assert (over.code, versions(paictl)) == (0, 3)
    assert "virtual cluster teamb: removed" in over.err


def test_one_who_pushes_twice_from_a_folder_is_no_stranger(paictl: Paictl, tmp_path: Path) -> None:
    mine = pull(paictl, tmp_path / "mine")
    for memory in ("30000Mi", "29000Mi"):
        edit(mine, "memory: 32768Mi" if memory == "30000Mi" else "memory: 30000Mi", f"memory: {memory}")
        assert push(paictl, mine).code == 0
    assert json.loads((mine / MARK).read_text())["version"] == 3
    assert paictl("config", "rollback", "2", "-y").code == 0
    edit(mine, "memory: 29000Mi", "memory: 28000Mi")
    assert "others changed 1 key" in push(paictl, mine).err


def test_a_folder_of_another_cluster_of_that_name_has_no_base_here(paictl: Paictl, tmp_path: Path) -> None:
    mine = pull(paictl, tmp_path / "mine")
    edit(mine, "memory: 32768Mi", "memory: 30000Mi")
    mark = json.loads((mine / MARK).read_text())
    (mine / MARK).write_text(json.dumps({**mark, "at": "2001-01-01T00:00:00Z"}))
    assert push(paictl, mine).code == 0


def test_a_plan_is_kept_and_applied_unless_the_cluster_has_moved(paictl: Paictl, tmp_path: Path) -> None:
    mine, file = pull(paictl, tmp_path / "mine"), tmp_path / "change.json"
    edit(mine, "vc1:", "vision:")
    done = paictl("config", "plan", "-p", str(mine), "-o", str(file), "--message", "rename")
    assert (done.code, versions(paictl)) == (0, 1), done.err
    assert "virtual cluster vision: new, 1 device" in done.err
    assert file.stat().st_mode & 0o077 == 0
    assert "only-on-this-machine" not in file.read_text()
    assert paictl("config", "apply", str(file)).code == 2, "it asks"
    done = paictl("config", "apply", str(file), "-y")
    assert (done.code, "version 2 stored" in done.err) == (0, True)
    assert paictl("config", "history", "-o", "json").data[-1]["message"] == "rename"
    again = paictl("config", "apply", str(file), "-y")
    assert (again.code, "the configuration has changed since" in again.err, versions(paictl)) == (2, True, 2)


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"kind": "other", "base": 1, "message": "", "files": {}}'])
def test_what_is_no_plan_is_refused(paictl: Paictl, tmp_path: Path, text: str) -> None:
    (tmp_path / "plan.json").write_text(text)
    done = paictl("config", "apply", str(tmp_path / "plan.json"), "-y")
    assert (done.code, "contains no plan" in done.err) == (2, True)


# --- what a push means


def test_a_push_says_which_virtual_clusters_and_jobs_lose_what(paictl: Paictl, tmp_path: Path) -> None:
    for name, vc in (("runs", "vc1"), ("waits", "vc1"), ("other", "default")):
        (tmp_path / "job.yaml").write_text(JOB.format(name=name, vc=vc), encoding="utf-8")
        assert paictl("job", "submit", str(tmp_path / "job.yaml")).code == 0
    mine = pull(paictl, tmp_path / "mine")
    edit(mine, "vc1:", "vision:")
    for words in (["push", "-p", str(mine), "--dry-run"], ["push", "-p", str(mine), "-y"], ["rollback", "1", "-y"]):
        said = paictl("config", *words).err
        if words[0] == "push":
            assert "virtual cluster vc1: removed, it had 1 device" in said
            assert "warning: 1 job will keep running without its guarantee: ann~runs (vc1)" in said
            assert "warning: 1 job then waits for a virtual cluster that is gone: ann~waits (vc1)" in said
            assert "other" not in said
        else:
            assert "warning" not in said, "nobody has loaded it, and the jobs keep what they have"


def test_several_jobs_lose_their_guarantee_in_the_plural() -> None:
    assert set(HARM) == set(JobImpact)
    said = counted(*HARM[JobImpact.NO_GUARANTEE], count=2, jobs="a, b")
    assert said == "2 jobs will keep running without their guarantee: a, b"
    assert all(in_language(counted(*words, count=2, jobs="a"), "zh").startswith("2 个作业") for words in HARM.values())


def test_a_broken_file_cannot_be_compared_and_says_so(paictl: Paictl, tmp_path: Path) -> None:
    mine = pull(paictl, tmp_path / "mine")
    (mine / "services-configuration.yaml").write_text("a: [")
    done = paictl("config", "diff", str(mine))
    assert (done.code, "nothing was sent" in done.err) == (2, False)
    assert "the files have errors, so they cannot be compared" in done.err


def test_warnings_of_the_rules_are_shown(paictl: Paictl, tmp_path: Path) -> None:
    mine = pull(paictl, tmp_path / "mine")
    edit(mine, "rest-server:\n", "rest-server:\n  jwt-expire: 7d\n")
    done = push(paictl, mine)
    assert done.code == 0
    assert "warning: " in done.err
    assert "jwt-expire" in done.err


def test_diff_and_a_dry_run_agree_and_files_that_are_absent_stay(paictl: Paictl, tmp_path: Path) -> None:
    folder = tmp_path / "part"
    folder.mkdir()
    text = stored(paictl, tmp_path)
    (folder / SERVICES).write_text(text, encoding="utf-8")
    assert paictl("config", "diff", str(folder)).code == 0
    (folder / SERVICES).write_text(text.replace("vc1:", "vision:"), encoding="utf-8")
    words = ("config", "push", "-p", str(folder), "--dry-run")
    for dry, of_diff in (((), ("--unified",)), (("--table",), ())):
        shown, pushed = paictl("config", "diff", str(folder), *of_diff), paictl(*words, *dry)
        assert (shown.code, pushed.code) == (1, 0)
        assert shown.out == pushed.out
        assert "layout.yaml" not in shown.out


def test_a_push_says_first_who_gains_and_loses_and_then_which_lines(
    paictl: Paictl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = pull(paictl, tmp_path / "mine")
    edit(folder, "vc1:", "vision:")
    monkeypatch.setattr("sys.stderr", sys.stdout)
    lines = push(paictl, folder, "--dry-run").out.splitlines()
    words = [number for number, line in enumerate(lines) if line.startswith("virtual cluster v")]
    assert len(words) == 2
    assert max(words) < lines.index(f"--- {SERVICES} (old)")
    assert any(line.startswith("-") and line.endswith("vc1:") for line in lines)
    assert any(line.startswith("+") and line.endswith("vision:") for line in lines)
    assert not any("\x1b" in line for line in lines)
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[32m" in push(paictl, folder, "--dry-run").out
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in push(paictl, folder, "--dry-run").out


# --- names and fragments


def test_the_textbooks_fragment_can_be_pushed(paictl: Paictl, tmp_path: Path) -> None:
    """A file with nothing but hivedscheduler, under the name that the textbook has for it."""
    folder = tmp_path / "cluster-configuration"
    folder.mkdir()
    text = stored(paictl, tmp_path)
    fragment = text[text.index("hivedscheduler:") :].replace("vc1:", "vision:")
    (folder / "service-configuration.yaml").write_text(fragment, encoding="utf-8")
    done = push(paictl, folder, "-m", "service")
    assert done.code == 0, done.err
    assert f"service-configuration.yaml is read as {SERVICES}" in done.err
    assert "kept: services-configuration.yaml rest-server" in done.err
    now = stored(paictl, tmp_path)
    assert "vision:" in now
    assert "default-pai-admin-password" in now
    assert not (tmp_path / "look" / "service-configuration.yaml").exists()


def test_an_error_of_a_fragment_is_an_error_all_the_same(paictl: Paictl, tmp_path: Path) -> None:
    folder = tmp_path / "part"
    folder.mkdir()
    text = stored(paictl, tmp_path)
    fragment = text[text.index("hivedscheduler:") :].replace("cellNumber: 1", "cellNumber: 9")
    (folder / SERVICES).write_text(fragment, encoding="utf-8")
    done = push(paictl, folder)
    assert (done.code, versions(paictl)) == (2, 1)
    assert "HVD" in done.err
    assert "SHP103" not in done.err, "that rest-server is absent is no error of a fragment"


def test_two_files_that_set_the_same_service_are_refused(paictl: Paictl, tmp_path: Path) -> None:
    folder = pull(paictl, tmp_path / "mine")
    (folder / "more-services.yaml").write_text("hivedscheduler:\n  config: |\n    a: 1\n", encoding="utf-8")
    done = push(paictl, folder)
    assert (done.code, versions(paictl)) == (2, 1)
    (folder / "service-configuration.yaml").write_text("rest-server: {}\n", encoding="utf-8")
    done = push(paictl, folder)
    assert (done.code, "are the same file to OpenPAI" in done.err) == (2, True)


def test_a_renamed_file_keeps_its_secrets_and_the_old_one_can_be_dropped(paictl: Paictl, tmp_path: Path) -> None:
    folder = pull(paictl, tmp_path / "mine")
    (folder / SERVICES).rename(folder / "services-configuration.new.yaml")
    done = push(paictl, folder)
    assert (done.code, "both set" in done.err) == (2, True)
    assert "has a seal that the cluster does not have" not in done.err
    done = push(paictl, folder, "--drop", SERVICES)
    assert done.code == 0, done.err
    assert "sealed:" in stored(paictl, tmp_path, "services-configuration.new.yaml")


def test_a_file_that_cannot_be_read_is_named_with_its_path(paictl: Paictl, tmp_path: Path) -> None:
    folder = pull(paictl, tmp_path / "mine")
    (folder / SERVICES).write_text("rest-server: [\n", encoding="utf-8")
    done = paictl("config", "diff", str(folder))
    assert done.code == 2
    assert str(folder / SERVICES) in done.err
    assert push(paictl, folder).code == 2


@pytest.mark.parametrize("verb", ["stop", "restart", "refresh", "delete"])
def test_what_nobody_named_is_asked_for(paictl: Paictl, verb: str) -> None:
    for words in ((), ("-k", "cluster-configuration")):
        done = paictl("service", verb, *words)
        assert (done.code, done.out, "an answer is required" in done.err) == (2, "", True)
    assert paictl("service", verb, "--cluster-id", "pai").code in (0, 3)
    if verb != "delete":
        assert paictl("service", "start").code == 0
        assert paictl("service", verb, "-n", "grafana").code == 0


def test_a_file_with_nothing_but_comments_is_no_configuration(paictl: Paictl, tmp_path: Path) -> None:
    folder = pull(paictl, tmp_path / "mine")
    (folder / SERVICES).write_text("# all of it is gone\n", encoding="utf-8")
    assert (push(paictl, folder).code, versions(paictl)) == (2, 1)


# --- the end of `deploy apply`


def test_a_deployment_replaces_no_newer_configuration(
    paictl: Paictl, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`apply -p DIR` once pushed an old folder over what others had pushed meanwhile."""
    mine, yours = pull(paictl, tmp_path / "mine"), pull(paictl, tmp_path / "yours")
    edit(yours, "memory: 32768Mi", "memory: 31000Mi")
    assert push(paictl, yours).code == 0
    edit(mine, "memory: 32768Mi", "memory: 30000Mi")
    cluster = open_target("local")
    with pytest.raises(StaleFilesError, match="is based on version 1, but the newest is 2"):
        plan_configuration(cluster, mine)
    (mine / MARK).unlink()
    with pytest.raises(ConflictError, match="it is not known whether these files are newer") as caught:
        plan_configuration(cluster, mine)
    assert "paictl config push -p DIR" in str(caught.value.hint)
    with pytest.raises(ConflictError):
        push_folder(cluster, mine, named=True, yes=True)
    push_folder(cluster, mine, named=False, yes=True)
    assert "keeps its configuration" in capsys.readouterr().err
    assert versions(paictl) == 2
    assert "31000Mi" in stored(paictl, tmp_path)


def test_a_deployment_pushes_from_the_newest_and_its_readers_load_it(
    paictl: Paictl, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = pull(paictl, tmp_path / "mine")
    edit(mine, "memory: 32768Mi", "memory: 30000Mi")
    cluster = open_target("local")
    made = plan_configuration(cluster, mine)
    assert "hivedscheduler" in made.readers.to_refresh
    assert store_configuration(cluster, made, mine) == 2
    assert [one.loaded for one in open_target("local").services() if one.name == "hivedscheduler"] == [2]
    edit(mine, "memory: 30000Mi", "memory: 29000Mi")
    push_folder(open_target("local"), mine, named=False, yes=True)
    assert "29000Mi" in capsys.readouterr().out, "what it changes is shown"
    assert versions(paictl) == 3
