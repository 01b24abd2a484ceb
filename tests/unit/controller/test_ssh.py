"""The plugin `ssh`: what pods get of it, ports that are given back, and a real sshd in a container of this machine."""

from __future__ import annotations

import base64
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from paictl.cluster.accounts import Account
from paictl.cluster.interface import JobState, TaskPlace
from paictl.controller.cache import WORKS
from paictl.controller.ssh import MOUNTED
from paictl.operate.users.accounts import add_key
from paictl.remote.kube.client import Json, KubeError
from paictl.remote.openssl import key_pair
from paictl.workload.fields import JobError
from tests.unit.controller.conftest import cluster, job, request
from tests.unit.controller.fakejobs import SPACE, Bench, FakeJobs
from tests.unit.controller.test_mounts import run_controller

KEY = "ssh-ed25519 " + base64.b64encode(b"\0\0\0\x0bssh-ed25519\0\0\0\x20" + b"k" * 32).decode()
BASES = Path.home() / ".cache/paictl/hosts/base"
SECRET = f"{SPACE}/secrets/{{}}-ssh"


def extras(**parameters: Any) -> Json:
    plugin = {"plugin": "ssh", "parameters": parameters, "taskRoles": ["worker"]}
    return {"extras": {"com.microsoft.pai.runtimeplugin": [plugin]}}


PEOPLE = extras(jobssh=True, userssh={"type": "custom"})


@pytest.fixture
def ann(kube: FakeJobs) -> FakeJobs:
    cluster(kube).users.put_account(Account("ann"))
    add_key(cluster(kube).users, "ann", f"{KEY} ann@laptop")
    return kube


def submitted(kube: FakeJobs, **more: Any) -> str:
    """The name of a job's object after its first pods were made."""
    cluster(kube).submit([request({"worker": {"instances": 2}, "ps": {}}, **more)])
    run_controller(kube)
    (name,) = [path.rpartition("/")[2] for path in kube.objects if "/paijobs/" in path]
    return name


def services(kube: FakeJobs) -> dict[str, Json]:
    prefix = f"{SPACE}/services/"
    return {
        path.removeprefix(prefix): one
        for path, one in kube.objects.items()
        if path.startswith(prefix) and one["spec"].get("type") == "NodePort"
    }


def test_each_task_of_the_role_gets_a_port_that_leads_to_it_alone(ann: FakeJobs) -> None:
    name = submitted(ann, **PEOPLE)
    found = services(ann)
    assert sorted(found) == [f"{name}-worker-ssh-0", f"{name}-worker-ssh-1"]
    works = {
        one["metadata"]["annotations"]["paictl.io/role"]: one["spec"]["template"]
        for path, one in ann.objects.items()
        if path.startswith(f"{WORKS}/")
    }
    selector = found[f"{name}-worker-ssh-1"]["spec"]["selector"]
    assert selector.pop("batch.kubernetes.io/job-completion-index") == "1"
    assert selector.items() <= works["worker"]["metadata"]["labels"].items()
    assert not selector.items() <= works["ps"]["metadata"]["labels"].items()
    (port,) = found[f"{name}-worker-ssh-1"]["spec"]["ports"]
    container = works["worker"]["spec"]["containers"][0]
    assert container["ports"] == [{"containerPort": port["targetPort"]}]
    assert {"name": "PAI_CONTAINER_SSH_PORT", "value": str(port["targetPort"])} in container["env"]
    assert "ports" not in works["ps"]["spec"]["containers"][0]
    assert not [one for one in works["ps"]["spec"]["volumes"] if one["name"] == "ssh"]
    mounts = {
        role: {one["name"]: one for one in work["spec"]["containers"][0]["volumeMounts"]}
        for role, work in works.items()
    }
    assert mounts["worker"]["ssh"] == {"name": "ssh", "mountPath": MOUNTED, "readOnly": True}
    assert "ssh" not in mounts["ps"]


def test_the_account_s_keys_and_the_job_s_own_are_let_in_and_the_private_ones_stay_in_the_secret(ann: FakeJobs) -> None:
    name = submitted(ann, **PEOPLE)
    data = {key: base64.b64decode(one).decode() for key, one in ann.objects[SECRET.format(name)]["data"].items()}
    assert data["authorized_keys"].splitlines()[0] == f"{KEY} ann@laptop"
    assert len(data["authorized_keys"].splitlines()) == 2
    others = str({path: one for path, one in ann.objects.items() if path != SECRET.format(name)})
    for key in ("host_key", "job_key"):
        assert "PRIVATE KEY" in data[key]
        assert data[key] not in others
        assert ann.objects[SECRET.format(name)]["data"][key] not in others
    assert {one["metadata"]["annotations"]["paictl.io/ssh-host-key"] for one in services(ann).values()} == {
        data["host_key.pub"]
    }


def test_ports_are_given_back_when_the_job_ends_and_others_keep_theirs(ann: FakeJobs) -> None:
    submitted(ann, **PEOPLE)
    assert len(services(ann)) == 2
    cluster(ann).stop_job("ann~job")
    bench = Bench(ann)
    for _ in range(4):
        bench.tell()
        bench.look()
    assert job(ann).state is JobState.STOPPED
    assert services(ann) == {}


def test_a_job_starts_without_ports_where_others_have_taken_all(ann: FakeJobs, monkeypatch: pytest.MonkeyPatch) -> None:
    made = ann.request

    def request_of(method: str, path: str, body: Any = None, **named: Any) -> Json:
        if method == "POST" and body.get("spec", {}).get("type") == "NodePort" and len(services(ann)) == 1:
            message = "Internal error occurred: failed to allocate a nodePort: range is full"
            raise KubeError(message, status=500, reason="InternalError")
        return made(method, path, body, **named)

    monkeypatch.setattr(ann, "request", request_of)
    name = submitted(ann, **PEOPLE)
    assert sorted(services(ann)) == [f"{name}-worker-ssh-0"]
    assert {
        one["metadata"]["annotations"]["paictl.io/role"]
        for path, one in ann.objects.items()
        if path.startswith(f"{WORKS}/")
    } == {"worker", "ps"}


def test_without_userssh_nobody_from_outside_gets_in(kube: FakeJobs) -> None:
    name = submitted(kube, **extras(jobssh=True, userssh={}))
    assert services(kube) == {}
    data = kube.objects[SECRET.format(name)]["data"]
    assert base64.b64decode(data["authorized_keys"]).decode().count("\n") == 1


def test_tasks_that_do_not_start_together_do_not_reach_each_other(ann: FakeJobs) -> None:
    more = extras(jobssh=True, userssh={"type": "custom"})
    more["extras"]["gangAllocation"] = False
    name = submitted(ann, **more)
    assert "job_key" not in ann.objects[SECRET.format(name)]["data"]


def test_a_user_without_a_key_is_told_what_to_do(kube: FakeJobs) -> None:
    with pytest.raises(JobError, match="user ann has no SSH key") as refused:
        cluster(kube).submit([request({"worker": {}}, **PEOPLE)])
    assert str(refused.value.where).endswith("[0].parameters.userssh")
    assert "paictl user key add ann" in str(refused.value.hint)
    assert cluster(kube).jobs() == []
    cluster(kube).submit([request({"worker": {}}, **extras(userssh={"type": "custom", "value": KEY}))])


def test_a_job_without_the_plugin_has_no_trace_of_it(ann: FakeJobs) -> None:
    name = submitted(ann)
    assert SECRET.format(name) not in ann.objects
    assert services(ann) == {}
    script = base64.b64decode(ann.objects[f"{SPACE}/secrets/{name}-scripts-0"]["data"]["runtime.sh"]).decode()
    assert "ssh" not in script


def test_a_paijob_made_by_hand_and_wrongly_has_failed_for_good(ann: FakeJobs) -> None:
    """Its `PaiJob` asked nobody; the controller neither makes pods nor looks at it for ever."""
    cluster(ann).submit([request({"worker": {}}, **PEOPLE)])
    (made,) = [one for path, one in ann.objects.items() if "/paijobs/" in path]
    made["spec"]["job"]["extras"] = extras(usersh={})["extras"]
    run_controller(ann)
    run_controller(ann)
    done = job(ann)
    assert done.state is JobState.FAILED
    assert "usersh: no such field" in done.reason
    assert made["metadata"]["name"]
    (now,) = [one for path, one in ann.objects.items() if "/paijobs/" in path]
    assert now["status"]["closed"] is True
    assert services(ann) == {}


# --- a real server


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Where a container's file system is to be mounted, with what goes over it."""
    base = next(iter(sorted(BASES.glob("*/usr/sbin/sshd"))), None) if BASES.is_dir() else None
    probe = ["unshare", "--mount", "--net", "--pid", "--fork", "true"]
    if (
        base is None
        or not shutil.which("unshare")
        or subprocess.run(probe, check=False, capture_output=True).returncode
    ):
        pytest.skip("needs namespaces, and a file system with sshd: make hosts")
    for part in ("upper", "work", "merged"):
        (tmp_path / part).mkdir()
    (tmp_path / "base").symlink_to(base.parents[2])
    return tmp_path


def contained(root: Path, name: str, kube: FakeJobs, command: str) -> subprocess.CompletedProcess[str]:
    """Run what a container of task worker:0 runs, with `command` as the job's own."""
    scripts = kube.objects[f"{SPACE}/secrets/{name}-scripts-0"]["data"]
    keys = kube.objects[SECRET.format(name)]["data"]
    upper = root / "upper"
    for folder, files in (("usr/local/pai", {"runtime.sh": scripts["runtime.sh"]}), (MOUNTED.lstrip("/"), keys)):
        (upper / folder).mkdir(parents=True)
        for key, data in files.items():
            if key != "host_key.pub":
                (upper / folder / key).write_bytes(base64.b64decode(data))
    (upper / "usr/local/pai/user.sh").write_text(command)
    (upper / "etc").mkdir()
    hosts = [f"127.0.0.{1 + i} {name}-worker-0-{i}.{name}.paictl-jobs.svc" for i in range(2)]
    (upper / "etc/hosts").write_text("\n".join([*hosts, f"127.0.0.9 {name}-ps-0-0.{name}.paictl-jobs.svc", ""]))
    inside = "mount -t proc proc /proc; exec /bin/sh /usr/local/pai/runtime.sh"
    steps = (
        f"mount -t tmpfs none {root}/work && mkdir {root}/work/u {root}/work/w && "
        f"cp -a {root}/upper/. {root}/work/u && "
        f"mount -t overlay none -o lowerdir=$(readlink {root}/base),upperdir={root}/work/u,workdir={root}/work/w "
        f"{root}/merged && mount --bind /dev {root}/merged/dev && ip link set lo up && "
        f"exec chroot {root}/merged /bin/sh -c '{inside}'"
    )
    environment = {
        "PATH": "/usr/bin:/bin:/usr/sbin:/sbin",
        "PAI_JOB_OBJECT": name,
        "PAI_CURRENT_TASK_ROLE_NAME": "worker",
        "PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX": "0",
        "PAI_CURRENT_CONTAINER_IP": "127.0.0.1",
        "PAI_JOB_NAME": "ann~job",
        "HOME": "/root",
    }
    words = ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "/bin/sh", "-c", steps]
    return subprocess.run(words, env=environment, capture_output=True, text=True, check=False, timeout=120)


def test_tasks_reach_each_other_by_name_with_the_job_s_environment(ann: FakeJobs, root: Path) -> None:
    name = submitted(ann, **PEOPLE)
    done = contained(root, name, ann, "ssh worker-0 'echo in $PAI_JOB_NAME as $(id -un)'; ssh -p 15000 127.0.0.1 true")
    assert (done.returncode, done.stdout) == (0, "in ann~job as root\n"), done.stderr


def test_the_job_s_commands_begin_once_its_server_listens(ann: FakeJobs, root: Path) -> None:
    slow = root / "upper/usr/bin/sshd"
    slow.parent.mkdir(parents=True)
    slow.write_text('#!/bin/sh\n(sleep 1; exec /usr/sbin/sshd "$@") &\n')
    slow.chmod(0o755)
    done = contained(root, submitted(ann, **PEOPLE), ann, "ssh worker-0 echo in")
    assert (done.returncode, done.stdout) == (0, "in\n"), done.stderr


def test_a_stranger_and_a_password_are_not_let_in(ann: FakeJobs, root: Path) -> None:
    """The container's own key is not let in without jobssh, another neither; that of the account is."""
    mine, other = key_pair(), key_pair()
    add_key(cluster(ann).users, "ann", mine.public, "mine")
    name = submitted(ann, **extras(userssh={"type": "custom"}))
    tries = "".join(
        f"cat >/tmp/{who} <<'END'\n{pair.private}END\nchmod 600 /tmp/{who}\n"
        f"ssh -o BatchMode=yes -o StrictHostKeyChecking=no -p 15000 -i /tmp/{who} 127.0.0.1 echo {who} in\n"
        for who, pair in (("mine", mine), ("other", other))
    )
    done = contained(root, name, ann, f"{tries}exit 0")
    assert "mine in" in done.stdout, done.stderr
    assert "other in" not in done.stdout
    assert "Permission denied (publickey)" in done.stderr


def test_a_task_has_no_address_before_it_runs(ann: FakeJobs) -> None:
    submitted(ann, **PEOPLE)
    with pytest.raises(Exception, match=r"has no container yet|is not running"):
        cluster(ann).ssh_address("ann~job", TaskPlace("worker"))
