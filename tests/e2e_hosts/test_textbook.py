"""The whole of the textbook's lab on hosts: `deploy apply`, jobs 0 to 7, two reconfigurations, the portal."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.browser import CHROMIUM, Page, browser, click, fill, reads, sign_in
from tests.conftest import ROOT
from tests.e2e_hosts import features, intruder
from tests.e2e_hosts.book import DIVIDED, ISOLATION, NAMES, SYSTEM, UNITED, Book, lives, phase, places
from tests.e2e_hosts.deploying import PASSWORD, DevBox
from tools.hosts import share
from tools.hosts.artifacts import BUSYBOX
from tools.hosts.desk import DESK
from tools.hosts.gpu import plug_in
from tools.hosts.lab import Lab

FILES = ("-m", "master.csv", "-w", "worker.csv", "-c", "config.yaml")
OFF = {"dra-driver", "gpu-driver"}
"""Services that are started and run nothing unless somebody switches them on."""
OURS = {
    "cluster-configuration",
    "device-plugin",
    "frameworkcontroller",
    "hivedscheduler",
    "rest-server",
    "webportal",
    *OFF,
}
FOREIGN = {"alert-manager", "grafana", "job-exporter", "node-exporter", "prometheus"}


@pytest.fixture(scope="module")
def lab_seed(seeded: Path) -> Path:
    """What is on trial begins after the images have come to the hosts (test_deploy.py has that)."""
    return seeded


@pytest.fixture(scope="module")
def book(lab: Lab, artifacts: Path, tmp_path_factory: pytest.TempPathFactory) -> Book:
    """A master and two workers with a GPU each."""
    lab.up(len(NAMES))
    for machine in lab.machines():
        machine.execute(["chpasswd"], text=f"ops:{PASSWORD}\n")
    for number in (2, 3):
        plug_in(lab.machine(number), 1)
    made = Book(DevBox(lab, tmp_path_factory.mktemp("home")))
    made.write(artifacts, PASSWORD)
    return made


def _in_check(book: Book) -> dict[str, list[str]]:
    """What the playbook of the devices would change on the workers, with --check."""
    files = ("master.csv", "worker.csv", "config.yaml")
    words = [*map(str, book.box.lab.network.inside()), sys.executable, "-m", "tests.e2e_hosts.in_check", *files]
    done = subprocess.run(
        [*words, str(book.box.home / "run"), "worker1", "worker2"],
        env=book.box.environment,
        cwd=book.box.home,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, list[str]] = json.loads(done.stdout)["devices"]
    return found


DESCRIBE = ["Describe the devices to containers", "Let containers have the devices that NVIDIA_VISIBLE_DEVICES names"]
INSTALL = ["Make a folder for its packages", "Install its packages"]


def test_with_check_hosts_with_gpus_stay_as_they_are(book: Book) -> None:
    """worker2 has no toolkit for as long as it is looked at."""
    toolkit = book.box.lab.machine(3).root / "usr/bin/nvidia-ctk"
    aside = toolkit.rename(toolkit.with_name("aside"))
    try:
        assert _in_check(book) == {"worker1": DESCRIBE, "worker2": [*INSTALL, *DESCRIBE]}
    finally:
        aside.rename(toolkit)
    for number in (2, 3):
        root = book.box.lab.machine(number).root
        assert not any((root / path).exists() for path in ("etc/cdi", "etc/containerd", "var/lib/paictl"))


@pytest.fixture(scope="module")
def applied(book: Book) -> str:
    """What `deploy apply` says at its end."""
    return book.run("deploy", "apply", *FILES, "--yes")


@pytest.fixture(scope="module")
def cluster(book: Book, applied: str) -> Book:
    """The cluster is there, and commands reach it."""
    assert "portal:" in applied
    book.run("cluster", "use", "pai")
    return book


def test_apply_says_what_runs_what_does_not_and_where_to_begin(book: Book, applied: str) -> None:
    lines = dict(line.split(": ", 1) for line in applied.splitlines() if re.match(r"[a-z-]+: ", line))
    assert {name for name, text in lines.items() if text == "started"} == OURS
    left = {name: text for name, text in lines.items() if "not started" in text}
    assert set(left) == FOREIGN
    assert "docker.io/grafana/grafana:" in left["grafana"]
    assert f"https://{book.box.lab.address(1)}:30286/" in applied
    assert "paictl cluster use pai" in applied


def test_kubelet_counts_the_gpus_and_the_services_are_ready(cluster: Book) -> None:
    nodes = json.loads(cluster.kubectl("get", "nodes", "-o", "json"))["items"]
    found = {node["metadata"]["name"]: node["status"]["capacity"].get("nvidia.com/gpu", "0") for node in nodes}
    assert found == {"master1": "0", "worker1": "1", "worker2": "1"}
    ready = {pod["metadata"]["labels"]["app.kubernetes.io/name"] for pod in cluster.items("pods", SYSTEM)}
    assert {"frameworkcontroller", "hivedscheduler", "hivedscheduler-extender", "rest-server"} <= ready
    assert json.loads(cluster.run("service", "status", "-n", *sorted(OURS), "-o", "json"))


def test_a_start_of_all_leaves_out_what_no_machine_has_an_image_of(cluster: Book) -> None:
    """It once waited five minutes for each of them."""
    shown = cluster.run("service", "start")
    left = {line.split(": ")[0] for line in shown.splitlines() if ": not started" in line}
    assert left == FOREIGN
    assert ": started" not in shown


def test_a_second_apply_changes_nothing(cluster: Book) -> None:
    before = lives(cluster.items("pods", SYSTEM))
    shown = cluster.run("deploy", "apply", *FILES, "--yes")
    assert "nothing changed: cluster pai is up to date" in shown
    assert ": started" not in shown
    assert lives(cluster.items("pods", SYSTEM)) == before
    assert _in_check(cluster) == {"worker1": [], "worker2": []}


# --- the first reconfiguration: one cluster becomes two virtual ones, while job 0 runs


@pytest.fixture(scope="module")
def divided(cluster: Book) -> Book:
    """vc1 has worker1, default has worker2; job 0 ran before, and has ended."""
    name = cluster.job(0, vc="default", training="env; sleep 900; echo epochs of")
    before = cluster.runs(name)
    assert before[0]["metadata"]["annotations"][ISOLATION] == "0"
    shown = cluster.reconfigure(DIVIDED)
    assert "virtual cluster vc1: new, 1 device" in shown
    assert lives(cluster.pods(name)) == lives(before)
    assert "NVIDIA_VISIBLE_DEVICES=0" in cluster.run("job", "logs", name)
    assert cluster.run("job", "exec", name, "--", "ls", "/dev/nvidia0").strip() == "/dev/nvidia0"
    cluster.stop(name)
    return cluster


# --- several people, each by a sign-in of his own: one in the portal, one by REST


@pytest.fixture
def page(cluster: Book) -> Iterator[Page]:
    """A browser on the dev box."""
    with browser(cluster.box.lab.network.inside(), "--ignore-certificate-errors") as made:
        made.size(1280, 900)
        yield made


def password_of(book: Book) -> str:
    """Of the first administrator: what `apply` has made up."""
    made = yaml.safe_load((book.box.home / "pai-deploy/cluster-cfg/services-configuration.yaml").read_text())
    return str(made["rest-server"]["default-pai-admin-password"])


def rest(book: Book, method: str, path: str, body: object = None, token: str = "") -> tuple[int, Any]:
    """Status and answer of a request that a program of somebody sends from the dev box."""
    words = ["curl", "-sk", "-X", method, "-w", r"\n%{http_code}", f"{portal(book)}/api/v2/{path}"]
    words += ["-H", "Content-Type: application/json", *(["-H", f"Authorization: Bearer {token}"] if token else [])]
    text = None if body is None else json.dumps(body)
    shown = book.box.lab.run([*words, *(["--data", "@-"] if text else [])], text=text, seconds=60).stdout
    answer, _, status = shown.rpartition("\n")
    return int(status), json.loads(answer) if answer else None


def portal(book: Book) -> str:
    """Where the master serves it."""
    return f"https://{book.box.lab.address(1)}:30286"


@pytest.mark.skipif(not CHROMIUM, reason="needs Chromium")
def test_each_of_several_people_submits_by_a_sign_in_of_his_own(divided: Book, page: Page) -> None:
    """The administrator makes eve in the portal, for vc1, and bob in the terminal, for default."""
    sign_in(page, portal(divided), "admin", password_of(divided))
    page.open(f"{portal(divided)}/admin/users")
    fill(page, name="eve", password=PASSWORD)
    click(page, "[name='vc.vc1']")()
    page.follow(click(page, "form.card button.main"))
    reads(page, "eve")
    page.follow(click(page, "form[action='/sign-out'] button"))
    divided.run("user", "add", "bob", "--vc", "default", "--generate-password", "bob.password")
    password = (divided.box.home / "bob.password").read_text().strip()
    sign_in(page, portal(divided), "eve", PASSWORD)
    page.open(f"{portal(divided)}/submit")
    assert page.run("[...document.querySelectorAll('[name=vc] option')].map(one => one.value)") == ["vc1"]
    fill(page, name="first", image=BUSYBOX, command="echo hello from $PAI_USER_NAME; sleep 900", cpu="1", memory="64")
    reads(page, "can run now")
    page.follow(click(page, "#submit"))
    login = "authn/basic/login"
    assert rest(divided, "POST", login, {"username": "bob", "password": PASSWORD})[0] == 400, "that is eve's"
    status, signed = rest(divided, "POST", login, {"username": "bob", "password": password})
    assert status == 200
    job = {**TALK, "name": "second", "taskRoles": {"client": {**CLIENT, "commands": ["sleep 900"]}}}
    assert rest(divided, "POST", "jobs", job)[0] == 401, "nobody is signed in"
    other = {**job, "defaults": {"virtualCluster": "vc1"}}
    assert rest(divided, "POST", "jobs", other, signed["token"])[0] == 403, "vc1 was not granted to bob"
    assert rest(divided, "POST", "jobs", job, signed["token"])[0] == 202
    reads(page, "Running")
    assert places(divided.runs("first")) == ["worker1"]
    assert places(divided.runs("second")) == ["worker2"]
    assert "hello from eve" in divided.run("job", "logs", "eve~first")
    assert rest(divided, "PUT", "jobs/eve~first/executionType", {"value": "STOP"}, signed["token"])[0] == 403
    page.open(f"{portal(divided)}/jobs")
    reads(page, "first")
    assert "second" not in page.run("document.body.innerText"), "a user sees own jobs only"
    assert page.complaints == []
    assert rest(divided, "PUT", "jobs/bob~second/executionType", {"value": "STOP"}, signed["token"])[0] == 202
    divided.stop("eve~first", "bob~second")


def test_priority_decides_within_a_virtual_cluster(divided: Book) -> None:
    first = divided.job(1)
    old = divided.runs(first)
    assert places(old) == ["worker1"]
    second = divided.runs(divided.job(2))
    assert places(second) == ["worker1"]
    again = divided.waits(first)  # its pod was made anew
    assert again[0]["metadata"]["uid"] != old[0]["metadata"]["uid"]


def test_a_virtual_cluster_gets_no_more_than_it_was_promised(divided: Book) -> None:
    pods = divided.waits(divided.job(3))
    assert places(pods) == ["-"]
    assert "not promised to VC vc1" in divided.run("job", "explain", "job-3")


def test_an_opportunistic_job_uses_what_others_leave(divided: Book) -> None:
    assert places(divided.runs(divided.job(4))) == ["worker2"]


def test_the_owner_gets_its_promise_at_any_time(divided: Book) -> None:
    assert places(divided.runs(divided.job(5))) == ["worker2"]
    assert places(divided.waits("job-4")) == ["-"]
    assert places(divided.runs("job-2")) == ["worker1"]


# --- the second: one virtual cluster with both workers, while job 5 runs


@pytest.fixture(scope="module")
def united(divided: Book) -> Book:
    """Only job 5 is left, and default has both workers."""
    divided.stop("job-1", "job-2", "job-3", "job-4")
    before = divided.runs("job-5")
    shown = divided.reconfigure(UNITED, features.TASKS)
    assert "virtual cluster default: 1 device now, 2 after" in shown
    assert lives(divided.pods("job-5")) == lives(before)
    return divided


def test_a_gang_starts_as_a_whole_or_not_at_all(united: Book) -> None:
    pods = united.waits(united.job(6, training="sleep 20; echo epochs of"), tasks=2)
    assert places(pods) == ["-", "-"]  # although worker1 is free
    united.stop("job-5")
    assert places(united.runs("job-6", tasks=2)) == ["worker1", "worker2"]


def test_without_gang_each_task_starts_when_it_can(united: Book) -> None:
    united.until(
        lambda: united.pods("job-6"), lambda pods: not any(phase(pod) == "Running" for pod in pods), "job-6 ends"
    )
    held = united.runs(united.job(5, name="job-5b"))
    united.job(7, training="sleep 600; echo epochs of")
    pods = united.until(
        lambda: united.pods("job-7"),
        lambda pods: sorted(map(phase, pods)) == ["Pending", "Running"],
        "one task of job-7 runs",
    )
    free = ({"worker1", "worker2"} - set(places(held))).pop()
    assert places(pods) == ["-", free]
    united.stop("job-5b")
    assert places(united.runs("job-7", tasks=2)) == ["worker1", "worker2"]
    united.stop("job-7")


# --- what is in a container


CLIENT = {
    "instances": 1,
    "dockerImage": "box",
    "completion": {"minSucceededInstances": -1},
    "resourcePerInstance": {"cpu": 1, "memoryMB": 64, "gpu": 1},
}
TALK = {
    "protocolVersion": 2,
    "name": "talk",
    "type": "job",
    "prerequisites": [{"name": "box", "type": "dockerimage", "uri": BUSYBOX}],
    "taskRoles": {
        "server": {
            "instances": 1,
            "dockerImage": "box",
            "completion": {"minSucceededInstances": -1},
            "resourcePerInstance": {"cpu": 1, "memoryMB": 64, "gpu": 1, "ports": {"http": 1}},
            "commands": [
                "env | grep PAI_",
                "echo served >/tmp/page",
                'httpd -p "$PAI_CONTAINER_HOST_PORT" -h /tmp',
                "sleep 900",
            ],
        },
        "client": {
            **CLIENT,
            "commands": [
                "echo task $PAI_TASK_INDEX of $PAI_CURRENT_TASK_ROLE_NAME",
                'until wget -q -O - "http://$PAI_HOST_IP_server_0:$PAI_PORT_LIST_server_0_http/page"; do sleep 1; done',
                "echo done",
            ],
        },
    },
    "defaults": {"virtualCluster": "default"},
    "extras": {"gangAllocation": True},
}
"""Two roles: one listens on a port that it is given, the other finds it by what the runtime says."""


@pytest.fixture(scope="module")
def talk(united: Book) -> Book:
    united.submit(TALK)
    return united


def test_tasks_find_each_other_by_address_and_port_and_logs_are_followed_to_the_end(talk: Book) -> None:
    said = talk.run("job", "logs", "talk", "--task", "client:0", "-f").splitlines()
    assert said[0] == "task 0 of client"
    assert said[-2:] == ["served", "done"]


def test_a_program_in_a_jobs_pod_cannot_speak_for_kube_scheduler(talk: Book) -> None:
    """Three such requests once had another tenant's jobs evicted; it is in the pod's network, with all of its names."""
    before = talk.pods("talk")
    server = next(pod for pod in before if "-server-" in pod["metadata"]["name"])  # the other ends by itself
    assert phase(server) == "Running"
    node, uid = server["spec"]["nodeName"], server["metadata"]["uid"]
    machine = talk.box.lab.machine(next(number for number, name in NAMES.items() if name == node))
    own = f"grep -lE 'pod({uid}|{uid.replace('-', '_')})' /proc/[0-9]*/cgroup"  # by either of kubelet's drivers
    inside = str(machine.execute(["sh", "-c", own], check=False).stdout).split()[0].split("/")[2]
    extender = ("service", "hivedscheduler-extender", "-n", SYSTEM)
    service = talk.kubectl("get", *extender, "-o", "jsonpath={.spec.clusterIP}")
    pods = [{"metadata": pod["metadata"], "spec": {"nodeName": pod["spec"].get("nodeName", "")}} for pod in before]
    machines = [talk.box.lab.address(number) for number in NAMES]
    words = ["nsenter", "-t", inside, "-n", "python3", "-", service, json.dumps(pods), *machines]
    said = json.loads(machine.execute(words, text=Path(intruder.__file__).read_text(), seconds=120).stdout)
    secure = {what: answer for what, answer in said.items() if what.startswith("https")}
    assert secure == dict.fromkeys(secure, 401), "nobody is answered without a certificate or a token"
    assert not [answer for answer in said.values() if answer == 200]
    ports = {what: answer for what, answer in said.items() if what.startswith("tcp")}
    assert ports == dict.fromkeys(ports, "ConnectionRefusedError"), "SSH, etcd and kubelets are closed to pods"
    assert len(ports) == len(machines) * len(intruder.PRIVATE)
    assert lives(talk.pods("talk")) == lives(before)


def test_what_is_handed_to_a_command_in_a_container_ends(talk: Book) -> None:
    words = ("job", "exec", "talk", "--task", "server:0", "-i", "--", "cat")
    assert talk.run(*words, text="one\ntwo\n") == "one\ntwo\n"
    failing = ("job", "exec", "talk", "--task", "server:0", "--", "sh", "-c", "exit 7")
    talk.run(*failing, codes=(7,))
    talk.stop("talk")


# --- what OpenPAI's jobs could do beside run: SSH, storage, TensorBoard, notebooks


@pytest.fixture(scope="module")
def work(united: Book) -> Book:
    """kim has a key, a storage and a job that runs."""
    features.furnish(united, "kim.password")
    united.submit(features.WORK, "--user", features.USER)
    united.runs("work")
    united.until(
        lambda: united.run("job", "logs", "kim~work"), lambda said: "TensorBoard starts" in said, "its servers start"
    )
    return united


def test_a_file_of_one_job_is_read_by_the_next_on_another_node(work: Book) -> None:
    """The storage is at the path that OpenPAI used; kubelet asks the host for what paictl was told."""
    work.submit(features.READ, "--user", features.USER)
    (read,) = work.until(
        lambda: work.pods("read"), lambda pods: [phase(pod) for pod in pods] == ["Succeeded"], "read ends"
    )
    (writer,) = work.pods("work")
    assert {read["spec"]["nodeName"], writer["spec"]["nodeName"]} == {"worker1", "worker2"}
    assert work.run("job", "logs", "kim~read").split() == ["written", "by", "kim~work", "first"]
    for number in (2, 3):
        asked = [line.split(" ", 2) for line in share.asked(work.box.lab.machine(number))]
        assert {(server, options) for server, _, options in asked} == {(share.EXPORT, "-o rw,nfsvers=4.1")}
        assert all(folder.endswith("/volumes/kubernetes.io~nfs/paictl-storage-shelf") for _, folder, _ in asked)


def test_the_key_of_the_account_gets_a_shell_in_a_task_and_no_other_does(work: Book) -> None:
    key = work.box.home / "kim-key"
    asks = "hostname; id -un; echo $PAI_JOB_NAME has $NVIDIA_VISIBLE_DEVICES; ls /mnt/shelf/note"
    (pod,) = work.pods("work")
    wanted = [pod["metadata"]["name"].rpartition("-")[0], "root", "kim~work has 0", "/mnt/shelf/note"]
    by_paictl = work.run("job", "ssh", "kim~work", "--task", "worker:0", "-i", str(key), "--", asks)
    assert by_paictl.splitlines() == wanted
    port = work.run("job", "ssh", "kim~work", "--print").split()[2]
    plain = ["ssh", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "BatchMode=yes"]
    for number in NAMES:  # a port of every node, as a user of OpenPAI has it
        words = [*plain, "-i", str(key), "-p", port, f"root@{work.box.lab.address(number)}", asks]
        assert work.box.lab.run(words, seconds=60).stdout.splitlines() == wanted
    other = features.new_key(work.box.home, "other-key")
    words = [
        *plain,
        "-i",
        str(other),
        "-o",
        "IdentitiesOnly=yes",
        "-p",
        port,
        f"root@{work.box.lab.address(2)}",
        "true",
    ]
    refused = work.box.lab.run(words, check=False, seconds=60)
    assert (refused.returncode, "Permission denied (publickey)" in refused.stderr) == (255, True)


def test_job_open_leads_to_tensorboard_and_to_a_notebook(work: Book) -> None:
    """Both are the real programs; the notebook is kept for the portal."""
    notebook = (
        "job",
        "run",
        "--notebook",
        DESK,
        "--user",
        features.USER,
        "--vc",
        "default",
        "--name",
        "desk",
        "--gpu",
        "1",
        "--cpu",
        "1",
        "--memory",
        "1024",
        "--keep",
    )
    commands = {
        "data/plugin/scalars/tags": ("job", "open", "kim~work", "--port", "tensorboard", "--listen", "0"),
        "api/status": notebook,
    }
    for path, words in commands.items():
        with features.opened(work, *words) as address:
            jar = str(work.box.home / f"{path[:3]}.jar")
            work.until(
                lambda: features.fetch(work, address, "-L", "-b", jar, "-c", jar)[0],  # noqa: B023
                lambda status: status == 200,
                f"{path} answers",
            )
            here = address.partition("?")[0] + path
            assert features.fetch(work, here)[0] == 403, "who was not shown the address"
            status, said = features.fetch(work, here, "-b", jar)
            assert status == 200
            assert "loss" in said if path.startswith("data") else json.loads(said)["kernels"] == 0


@pytest.fixture
def tasks_page(cluster: Book) -> Iterator[Page]:
    """A browser for which all names of tasks are the master, as a wildcard of DNS makes them."""
    to_master = f"--host-resolver-rules=MAP *.tasks.lab {cluster.box.lab.address(1)}"
    with browser(cluster.box.lab.network.inside(), "--ignore-certificate-errors", to_master) as made:
        made.size(1280, 900)
        yield made


@pytest.mark.skipif(not CHROMIUM, reason="needs Chromium")
def test_the_portal_leads_to_both_and_nobody_else_gets_there(work: Book, tasks_page: Page) -> None:
    page = tasks_page
    sign_in(page, portal(work), features.USER, (work.box.home / "kim.password").read_text().strip())
    page.open(f"{portal(work)}/jobs/kim/work")
    page.open(portal(work) + page.run("document.querySelector('#open-worker-0-tensorboard').getAttribute('href')"))
    assert page.run("document.title") == "TensorBoard"
    tags = page.run("fetch('/data/plugin/scalars/tags').then((answer) => answer.json())")
    assert list(tags["first"]) == ["loss"]
    page.open(f"{portal(work)}/jobs/kim/desk")
    link = page.run("document.querySelector('#open-notebook-0-http').getAttribute('href')")
    page.open(portal(work) + link)
    page.until("document.querySelector('.jp-Launcher')")
    assert page.run(features.KERNEL) == "42 kim~desk\n"
    host = page.run("location.host")
    assert host.endswith(".tasks.lab:30187")
    there = ("--resolve", f"{host}:{work.box.lab.address(1)}")
    assert features.fetch(work, f"https://{host}/api/status", *there)[0] == 401, "nobody is signed in"
    assert features.fetch(work, portal(work) + link)[0] == 303, "to the sign-in"
    jar = str(work.box.home / "bob.jar")
    password = (work.box.home / "bob.password").read_text().strip()
    signing = ("-c", jar, "--data-urlencode", "user=bob", "--data-urlencode", f"password={password}")
    assert features.fetch(work, f"{portal(work)}/sign-in", *signing)[0] == 303
    assert features.fetch(work, portal(work) + link, "-b", jar)[0] == 403, "it is not bob's"
    work.run("job", "stop", "kim~work", "kim~desk")
    work.until(
        lambda: [phase(pod) for name in ("work", "desk") for pod in work.pods(name)],
        lambda phases: "Running" not in phases,
        "their devices are free",
    )


# --- the ports' contract


def test_the_contract_of_a_cluster_holds(united: Book) -> None:
    """Of its tests those that need services which really run; last, for they push configurations of their own."""
    words = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-m", "together", "-k", "hosts", "-p", "no:cacheprovider"]
    done = united.box.lab.run(
        [*words, str(ROOT / "tests/contract/test_ports.py")],
        check=False,
        seconds=1500,
        folder=ROOT,
        environment={"PAICTL_CONTRACT_HOSTS": str(united.box.home / ".kube/config")},
    )
    assert done.returncode == 0, done.stdout[-6000:]
    assert "5 passed" in done.stdout
