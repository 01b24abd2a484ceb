"""What a container runs, tried in the shells and in a process namespace of this machine."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from paictl.controller.runtime import FOLDER, MOST_ADDRESSES, environment, options_of, runtime_script
from paictl.workload.job import Job

JOB: dict[str, Any] = {
    "protocolVersion": 2,
    "name": "one",
    "type": "job",
    "prerequisites": [{"name": "image", "type": "dockerimage", "uri": "busybox"}],
    "taskRoles": {
        "train": {
            "instances": MOST_ADDRESSES + 1,
            "dockerImage": "image",
            "commands": ["true"],
            "resourcePerInstance": {"cpu": 1, "memoryMB": 100, "gpu": 0},
        }
    },
}
"""With so many tasks that it looks up no addresses."""
ALONE = ("unshare", "--pid", "--fork", "--kill-child")
SAVES = """\
import signal, sys, time

def save(*_):
    time.sleep(0.3)  # longer than its shell needs to end
    sys.exit(print("saved"))

signal.signal(signal.SIGTERM, save)
print("begun", flush=True)
while True:
    time.sleep(0.05)  # not `pause`, which would wait for ever if the signal came just before it
"""

pytestmark = [
    pytest.mark.parametrize("shell", ["dash", "bash"]),
    pytest.mark.skipif(not (shutil.which("dash") and shutil.which("bash")), reason="needs dash and bash"),
]


@pytest.fixture
def runtime(tmp_path: Path) -> Path:
    """The script in a folder where its commands are beside it."""
    text = runtime_script("one", Job.from_mapping(JOB), 0, {"train": options_of(JOB, "train")})
    path = tmp_path / "runtime.sh"
    path.write_text(text.replace(FOLDER, str(tmp_path)))
    return path


@pytest.mark.parametrize(("commands", "code"), [("exit 7", 7), ("true", 0), ("kill -9 $$", 137)])
def test_the_exit_code_is_that_of_the_commands(shell: str, runtime: Path, commands: str, code: int) -> None:
    (runtime.parent / "user.sh").write_text(commands)
    assert subprocess.run([shell, str(runtime)], check=False, stderr=subprocess.DEVNULL).returncode == code


@pytest.mark.parametrize("commands", ["{python} -c '{saves}'", "trap '' TERM; {python} -c '{saves}'; exit 3"])
def test_all_processes_hear_that_they_are_to_end_and_may_save(shell: str, runtime: Path, commands: str) -> None:
    """Preempted jobs have the time of grace for a checkpoint, and do not hold their devices to its end."""
    if subprocess.run([*ALONE, "true"], check=False, capture_output=True).returncode:
        pytest.skip("this machine lets nobody make a process namespace")
    (runtime.parent / "user.sh").write_text(commands.format(python=sys.executable, saves=SAVES))
    with subprocess.Popen(
        [*ALONE, shell, str(runtime)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "begun\n"
            first = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            os.kill(int(first[0]), signal.SIGTERM)
            said, _ = process.communicate(timeout=120)
        finally:
            process.kill()  # and with it all that it has started
    assert said == "saved\n"
    assert process.returncode == (3 if "exit 3" in commands else 143)


GETENT = """\
#!/bin/sh
echo "$1 $2" >>{folder}/asked
[ "$1" = {knows} ] || exit 2
case $2 in one-train-0-1.*) echo "10.0.0.8 STREAM $2" ;; *) exit 2 ;; esac
"""
"""It knows the name of the second task, and one database."""


def addresses(shell: str, folder: Path, tasks: int, knows: str) -> tuple[str, list[str]]:
    """What the first task of a gang is told of addresses, and what it has looked up."""
    given = {**JOB, "taskRoles": {"train": {**JOB["taskRoles"]["train"], "instances": tasks}}}
    job = Job.from_mapping(given)
    text = runtime_script("one", job, 0, {"train": options_of(given, "train")})
    (folder / "runtime.sh").write_text(text.replace(FOLDER, str(folder)))
    (folder / "user.sh").write_text('echo "$PAI_HOST_IP_train_0 $PAI_HOST_IP_train_1"')
    (folder / "getent").write_text(GETENT.format(folder=folder, knows=knows))
    (folder / "getent").chmod(0o755)
    own = {
        "PAI_CURRENT_TASK_ROLE_NAME": "train",
        "PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX": "0",
        "PAI_CURRENT_CONTAINER_IP": "10.0.0.7",
        "PAI_JOB_OBJECT": "one",
    }
    done = subprocess.run(
        [shell, str(folder / "runtime.sh")],
        env={**os.environ, **own, "PATH": f"{folder}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    asked = folder / "asked"
    return done.stdout.strip(), asked.read_text().splitlines() if asked.exists() else []


def test_a_task_looks_up_the_others_only(shell: str, tmp_path: Path) -> None:
    """A job of one task has no Service: it once looked for its own name for ten minutes before it started."""
    assert addresses(shell, tmp_path, 1, "ahosts") == ("10.0.0.7", [])


@pytest.mark.parametrize("knows", ["ahosts", "hosts"])
def test_addresses_are_looked_up_in_the_database_that_an_image_has(shell: str, tmp_path: Path, knows: str) -> None:
    """hosts, which takes seconds where the machines' name servers do not answer, only in an image without ahosts."""
    name = "one-train-0-1.one.paictl-jobs.svc"
    tried = ["ahosts"] if knows == "ahosts" else ["ahosts", "hosts"]
    assert addresses(shell, tmp_path, 2, knows) == ("10.0.0.7 10.0.0.8", [f"{database} {name}" for database in tried])


@pytest.mark.parametrize("gpu", [0, 1])
def test_a_task_without_gpus_is_handed_no_device(shell: str, gpu: int) -> None:
    """Its cells are numbered, too: it once had the device of the number of a core."""
    del shell
    asked = {"cpu": 1, "memoryMB": 100, "gpu": gpu}
    given = {**JOB, "taskRoles": {"train": {**JOB["taskRoles"]["train"], "resourcePerInstance": asked}}}
    job = Job.from_mapping(given)
    variables = environment("one", "ann", job, job.roles[0], {"train": options_of(given, "train")})
    devices = next(variable for variable in variables if variable["name"] == "NVIDIA_VISIBLE_DEVICES")
    assert (devices.get("value") == "void") is (gpu == 0)
    assert ("valueFrom" in devices) is (gpu == 1)
