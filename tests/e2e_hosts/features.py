"""What OpenPAI's jobs could do beside run: jobs with SSH, TensorBoard and a storage, and who reaches them how."""

from __future__ import annotations

import os
import select
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from tests.e2e_hosts.book import Book
from tools.hosts import share
from tools.hosts.desk import DESK, desk
from tools.hosts.machine import Machine

USER: Final = "kim"
SHELF: Final = "shelf"
"""The storage."""
TASKS: Final = {"tasks-url": "https://*.tasks.lab:30187", "tasks-node-port": 30187}
"""Where the portal shows what tasks serve."""
WRITES: Final = """\
from tensorboard.summary import Writer
writer = Writer("/mnt/shelf/board/first")
writer.add_scalar("loss", 0.25, 1)
writer.close()
"""


def job(name: str, commands: Sequence[str], *plugins: dict[str, Any]) -> dict[str, Any]:
    """A job of one task that mounts the storage with OpenPAI's plugin."""
    storage = {"plugin": "teamwise_storage", "parameters": {"storageConfigNames": [SHELF]}}
    return {
        "protocolVersion": 2,
        "name": name,
        "type": "job",
        "prerequisites": [{"name": "desk", "type": "dockerimage", "uri": DESK}],
        "taskRoles": {
            "worker": {
                "instances": 1,
                "dockerImage": "desk",
                "commands": list(commands),
                "resourcePerInstance": {"cpu": 1, "memoryMB": 512, "gpu": 1},
            },
        },
        "defaults": {"virtualCluster": "default"},
        "extras": {"com.microsoft.pai.runtimeplugin": [storage, *plugins]},
    }


WORK: Final = job(
    "work",
    [f"python3 - <<'END'\n{WRITES}END", "echo written by $PAI_JOB_NAME >/mnt/shelf/note", "sleep 600"],
    {"plugin": "ssh", "parameters": {"userssh": {"type": "custom"}}},
    {"plugin": "tensorboard", "parameters": {"port": 6006, "logdir": {"first": "/mnt/shelf/board"}}},
)
READ: Final = job(
    "read", ["until [ -s /mnt/shelf/note ]; do sleep 1; done", "cat /mnt/shelf/note; ls /mnt/shelf/board"]
)


def import_desk(machines: Sequence[Machine]) -> None:
    """Give containerd of the hosts the image, all at once; no registry is in reach."""
    words = ["ctr", "-n", "k8s.io", "images", "import", "-"]
    running = []
    for machine in machines:
        with desk().open("rb") as archive:
            running.append(
                subprocess.Popen(
                    machine.entering(words), stdin=archive, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
                )
            )
    for process in running:
        said, _ = process.communicate(timeout=600)
        assert process.returncode == 0, said


KERNEL: Final = """(async () => {
  const token = document.cookie.match(/_xsrf=([^;]*)/)?.[1] ?? '';
  const made = await (await fetch('/api/kernels', {method: 'POST', headers: {'X-XSRFToken': token}})).json();
  const channel = new WebSocket(`wss://${location.host}/api/kernels/${made.id}/channels`);
  const header = {msg_id: 'a', session: 'b', username: '', version: '5.3', msg_type: 'execute_request'};
  const content = {code: "import os; print(6 * 7, os.environ['PAI_JOB_NAME'])", silent: false};
  const request = {channel: 'shell', header, content, parent_header: {}, metadata: {}, buffers: []};
  return await new Promise((done) => {
    channel.onerror = () => done('no WebSocket');
    channel.onopen = () => channel.send(JSON.stringify(request));
    channel.onmessage = (event) => {
      const said = JSON.parse(event.data);
      if (said.msg_type === 'stream') done(said.content.text);
    };
    setTimeout(() => done('the kernel says nothing'), 60000);
  });
})()"""
"""In JupyterLab's page: start a kernel and run a line in it by its WebSocket; what it prints."""


def new_key(folder: Path, name: str) -> Path:
    """A key pair without a passphrase; the private one."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", folder / name], check=True)
    return folder / name


@contextmanager
def opened(book: Book, *words: str) -> Iterator[str]:
    """The address that a command prints which runs until Ctrl-C, as its first line."""
    with subprocess.Popen(
        book.box.inside(*words),
        env=book.box.environment,
        cwd=book.box.home,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    ) as process:
        assert process.stdout is not None
        try:
            ready, _, _ = select.select([process.stdout], [], [], 300)
            yield process.stdout.readline().strip() if ready else ""
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGINT)
            _, said = process.communicate(timeout=180)
        assert process.returncode == 130, said


def furnish(book: Book, password_file: str) -> Path:
    """The image on both workers, an account with a key, the storage; the private key."""
    workers = [book.box.lab.machine(number) for number in (2, 3)]
    import_desk(workers)
    share.plug_in(workers)
    key = new_key(book.box.home, "kim-key")
    book.run("user", "add", USER, "--vc", "default", "--generate-password", password_file)
    book.run("user", "key", "add", USER, f"{key}.pub")
    book.run("storage", "add", SHELF, "--nfs", share.EXPORT, "--vc", "default", "--option", "nfsvers=4.1")
    return key


def fetch(book: Book, address: str, *options: str) -> tuple[int, str]:
    """Status and text of what an address gives to curl on the dev box."""
    words = ["curl", "-sk", "--max-time", "30", "-w", r"\n%{http_code}", *options, address]
    text, _, status = book.box.lab.run(words, check=False, seconds=60).stdout.rpartition("\n")
    return int(status), text
