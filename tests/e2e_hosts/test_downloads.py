"""containerd on a host pulls from registries that ask for a password, through a proxy, with the files of `deploy`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, unquote

import pytest

from paictl.config.making.generate import read_inputs
from paictl.deploy.apply import prepare
from paictl.deploy.downloads import PROXY_UNITS, PROXY_VALUES, REGISTRIES
from paictl.deploy.inventory import Deployment, deployment_of
from tests.conftest import ROOT
from tests.e2e_hosts.registry import PROXY_PORT, Registry, proxy, registry
from tools.hosts.artifacts import built
from tools.hosts.lab import Lab
from tools.hosts.shell import wait_until

PASSWORDS = {"puller": 'kelp "41" {{ x }}', "hub": "tundra-42"}
IN_ADDRESS = quote("fjord 7")
"""The proxy's password, as it is written in its address."""
IMAGES = ("registry.lab:5000/team/tool:1", "docker.io/library/tool:1")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("downloads")


@pytest.fixture(scope="module", autouse=True)
def store(lab: Lab, folder: Path, artifacts: Path) -> Iterator[Registry]:
    """The registry on the dev box's loopback with an image for each name, and a host that knows neither name."""
    lab.up(1)
    with registry(lab, folder / "registry", PASSWORDS) as made:
        assert made.ask("GET", "/v2/", known=False)[0] == 401
        for name in ("team/tool", "library/tool"):
            made.push(artifacts / "images/busybox_1.tar", name)
        for component, program in (("containerd", "containerd"), ("crictl", "crictl")):
            target = lab.machine(1).root / f"usr/local/bin/{program}"
            target.write_bytes(built(component, program).read_bytes())
            target.chmod(0o755)
        yield made


def deployment(lab: Lab, folder: Path, artifacts: Path, token: str) -> Deployment:
    """What config.yaml says of mirrors, accounts and proxies."""
    (folder / "token").write_text(token)
    (folder / "token").chmod(0o600)
    (folder / "master.csv").write_text(f"h1,{lab.address(1)}\n")
    (folder / "worker.csv").write_text(f"h2,{lab.address(2)}\n")
    server = f"http://deploy:{IN_ADDRESS}@{lab.network.gateway}:{PROXY_PORT}"
    section = {
        "artifacts": str(artifacts),
        "registry_credentials": {"registry.lab:5000": {"username": "puller", "password_file": "token"}},
        "registry_mirrors": {"docker.io": [f"http://hub:{PASSWORDS['hub']}@mirror.lab:5000"]},
        "proxy": {"http": server, "https": server},
    }
    settings = {
        "user": "deploy",
        "ssh_key_file_path": str(lab.key),
        "docker_image_tag": "v1.8.1",
        "openpai_docker_insecure_registries": ["registry.lab:5000"],
        "deploy": section,
    }
    (folder / "config.yaml").write_text(json.dumps(settings))
    inputs = read_inputs(*(str(folder / name) for name in ("master.csv", "worker.csv", "config.yaml")))
    assert inputs.usable, inputs.report.problems
    return deployment_of(inputs)


def install(lab: Lab, made: Deployment) -> None:
    """Write the host's files as Ansible does, and start containerd."""
    for file in prepare(made).files(made.first):
        content = file["content"]
        for name, value in made.hidden.items():
            content = content.replace(f"{{{{ {name} }}}}", value)
        path = lab.machine(1).root / file["path"].lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        path.chmod(int(file["mode"], 8))
    lab.machine(1).execute(["sh", "-c", "systemctl daemon-reload && systemctl restart containerd"])
    ready = ["crictl", "--timeout", "5s", "info"]
    wait_until(lambda: lab.machine(1).execute(ready, check=False).returncode == 0, "containerd", seconds=60)


def accounts(lab: Lab, passwords: dict[str, str]) -> list[list[str]]:
    """What the program of `deploy verify` says on the host."""
    names = {"registry.lab": "puller", "mirror.lab": "hub"}
    wish = json.dumps(
        [
            {"url": f"http://{host}:5000/v2/", "username": name, "password": passwords[name]}
            for host, name in names.items()
        ]
    )
    program = (ROOT / "playbooks/files/paictl_registries.py").read_text() + f"\nmain(json.loads({wish!r}))\n"
    return list(json.loads(lab.machine(1).execute(["python3", "-"], text=program).stdout))


def test_images_come_from_registries_that_ask_for_a_password_through_a_proxy(
    lab: Lab, folder: Path, artifacts: Path
) -> None:
    host = lab.machine(1)
    install(lab, deployment(lab, folder, artifacts, PASSWORDS["puller"]))
    with proxy(lab, "deploy", unquote(IN_ADDRESS)) as asked:
        for image in IMAGES:
            host.execute(["crictl", "pull", image])
        assert asked == {"registry.lab:5000", "mirror.lab:5000"}
        assert accounts(lab, PASSWORDS) == [["ok", ""], ["ok", ""]]
        assert accounts(lab, {**PASSWORDS, "hub": "other"}) == [["ok", ""], ["refused", "401"]]
    for path in (REGISTRIES, PROXY_VALUES):
        assert (host.root / path.lstrip("/")).stat().st_mode & 0o777 == 0o600
    shown = host.execute(["sh", "-c", "systemctl show containerd; systemctl cat containerd; ps -eo args"]).stdout
    assert PROXY_UNITS[0] in shown
    assert [word for word in (*PASSWORDS.values(), IN_ADDRESS) if word in shown] == []


def test_a_wrong_password_pulls_nothing(lab: Lab, folder: Path, artifacts: Path) -> None:
    host = lab.machine(1)
    install(lab, deployment(lab, folder, artifacts, "other"))
    host.execute(["crictl", "rmi", *IMAGES], check=False)
    with proxy(lab, "deploy", unquote(IN_ADDRESS)):
        done = host.execute(["crictl", "pull", IMAGES[0]], check=False)
        assert done.returncode != 0
        assert "401" in done.stderr or "authorization" in done.stderr.lower()
        host.execute(["crictl", "pull", IMAGES[1]])
