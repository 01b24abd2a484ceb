"""The plugin `image_checker`: jobs are submitted when their registry, which speaks API v2, has the images."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from paictl.operate import images
from paictl.remote.registry import ImageName, ImageState, image_name, image_state
from tests.unit.cli.conftest import Paictl

LOGIN = "Basic " + base64.b64encode(b"ann:geheim-7").decode()
JOB = """\
protocolVersion: 2
name: NAME
type: job
secrets: {word: geheim-7}
prerequisites:
  - {name: image, type: dockerimage, uri: "HOST/IMAGE", auth: {AUTH}}
  - {name: other, type: dockerimage, uri: "HOST/team/none:1"}
taskRoles:
  train:
    dockerImage: image
    resourcePerInstance: {cpu: 2, memoryMB: 4096, gpu: 1}
    commands: [sleep 5m]
extras:
  com.microsoft.pai.runtimeplugin:
  - plugin: image_checker
"""


class Registry(BaseHTTPRequestHandler):
    """Has team/open:1 for anybody, and team/closed:1 for ann by a token of its own; team/basic:1 by Basic."""

    seen: list[tuple[str, str]] = []  # noqa: RUF012 - emptied by the fixture

    def do_HEAD(self) -> None:
        said = self.headers.get("Authorization", "")
        self.seen.append((self.path, said))
        here = f"http://{self.headers['Host']}"
        challenge = f'Bearer realm="{here}/token",service="lab",scope="repository:team/closed:pull"'
        match self.path.removeprefix("/v2/team/").split("/manifests/"):
            case ["open", "1"]:
                self._say(200)
            case ["closed", "1"]:
                self._say(200) if said == "Bearer t0ken" else self._say(401, {"WWW-Authenticate": challenge})
            case ["basic", "1"]:
                self._say(200) if said == LOGIN else self._say(401, {"WWW-Authenticate": 'Basic realm="x"'})
            case ["moved", "1"]:
                self._say(302, {"Location": f"{here}/v2/team/open/manifests/1"})
            case ["broken", "1"]:
                self._say(500)
            case ["stolen", "1"]:
                self._say(401, {"WWW-Authenticate": 'Bearer realm="file:///etc/passwd"'})
            case _:
                self._say(404)

    def do_GET(self) -> None:
        said = self.headers.get("Authorization", "")
        self.seen.append((self.path, said))
        assert self.path == "/token?service=lab&scope=repository%3Ateam%2Fclosed%3Apull"
        self._say(200, body=json.dumps({"token": "t0ken"}).encode()) if said == LOGIN else self._say(401)

    def _say(self, status: int, rows: dict[str, str] | None = None, body: bytes = b"") -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(rows or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def host() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Registry) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.mark.parametrize(
    ("word", "host", "repository", "reference"),
    [
        ("ubuntu", "registry-1.docker.io", "library/ubuntu", "latest"),
        ("openpai/standard:py3", "registry-1.docker.io", "openpai/standard", "py3"),
        ("docker.io/ubuntu:24.04", "registry-1.docker.io", "library/ubuntu", "24.04"),
        ("a/b/c", "registry-1.docker.io", "a/b/c", "latest"),
        ("zoo/b", "registry-1.docker.io", "zoo/b", "latest"),
        ("localhost/a/b", "localhost", "a/b", "latest"),
        ("reg.lab:5000/a", "reg.lab:5000", "a", "latest"),
        ("reg.lab:5000/a/b:1@sha256:aa", "reg.lab:5000", "a/b", "sha256:aa"),
        ("quay.io/a/b@sha256:aa", "quay.io", "a/b", "sha256:aa"),
    ],
)
def test_an_image_is_read_as_docker_reads_it(word: str, host: str, repository: str, reference: str) -> None:
    assert image_name(word) == ImageName(host, repository, reference)


@pytest.mark.parametrize(
    ("image", "user", "state"),
    [
        ("open:1", "", ImageState.THERE),
        ("open:2", "", ImageState.MISSING),
        ("none:1", "", ImageState.MISSING),
        ("closed:1", "", ImageState.DENIED),
        ("closed:1", "ann", ImageState.THERE),
        ("closed:1", "bob", ImageState.DENIED),
        ("basic:1", "ann", ImageState.THERE),
        ("basic:1", "bob", ImageState.DENIED),
        ("moved:1", "ann", ImageState.UNKNOWN),
        ("broken:1", "", ImageState.UNKNOWN),
        ("stolen:1", "ann", ImageState.DENIED),
    ],
)
def test_what_a_registry_says(host: str, image: str, user: str, state: ImageState) -> None:
    found, _ = image_state(f"{host}/team/{image}", user=user, password="geheim-7" if user else "")
    assert found is state


def test_a_login_does_not_follow_a_registry_that_sends_elsewhere(host: str) -> None:
    Registry.seen.clear()
    image_state(f"{host}/team/moved:1", user="ann", password="geheim-7")  # noqa: S106
    assert [path for path, _ in Registry.seen] == ["/v2/team/moved/manifests/1"]


def test_a_registry_elsewhere_and_one_that_does_not_answer(host: str) -> None:
    assert image_state("team/open:1", service=f"http://{host}/v2/")[0] is ImageState.THERE
    state, reason = image_state("127.0.0.1:1/team/open:1")
    assert state is ImageState.UNKNOWN
    assert "127.0.0.1:1: " in reason


def test_no_login_goes_to_a_token_server_in_clear_that_an_encrypted_registry_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    def answer(method: str, url: str, *_: object) -> tuple[int, dict[str, str], bytes]:
        asked.append(f"{method} {url}")
        return 401, {"www-authenticate": 'Bearer realm="http://evil.example/token",service="lab"'}, b""

    monkeypatch.setattr("paictl.remote.registry._answer", answer)
    state, _ = image_state("reg.lab/team/closed:1", user="ann", password="geheim-7")  # noqa: S106
    assert state is ImageState.DENIED
    assert asked == ["HEAD https://reg.lab/v2/team/closed/manifests/1"]


def submitted(paictl: Paictl, home: Path, host: str, image: str, auth: str = "", more: str = "") -> tuple[int, str]:
    file = home / "job.yaml"
    text = JOB.replace("AUTH", auth).replace("HOST", host).replace("IMAGE", image).replace("NAME", "one")
    file.write_text(text + more)
    done = paictl("job", "submit", str(file))
    return done.code, done.err.replace(str(file), "job.yaml")


def test_a_job_is_submitted_only_with_images_that_are_there(home: Path, paictl: Paictl, host: str) -> None:
    assert paictl("cluster", "up").code == 0
    code, err = submitted(paictl, home, host, "team/open:2")
    assert code == 2
    assert f"error: job.yaml:6:43: prerequisites[0].uri: its registry has no image {host}/team/open:2" in err
    code, err = submitted(paictl, home, host, "team/closed:1")
    assert code == 2
    assert "a private image needs auth" in err
    auth = "username: ann, password: <% $secrets.word %>, registryuri: HOST"
    code, err = submitted(paictl, home, host, "team/closed:1", auth.replace("geheim-7", "wrong"))
    assert code == 0, err
    assert "geheim-7" not in err
    assert "ann~one" in paictl("job", "list").out


def test_what_cannot_be_checked_is_said_and_submitted(
    home: Path, paictl: Paictl, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(images, "LIMIT", 1.0)
    assert paictl("cluster", "up").code == 0
    code, err = submitted(paictl, home, host, "team/broken:1")
    assert code == 0
    assert f"image {host}/team/broken:1 could not be checked: {host}: HTTP status 500" in err


def test_only_images_of_the_roles_that_the_plugin_is_for_are_asked_for(home: Path, paictl: Paictl, host: str) -> None:
    assert paictl("cluster", "up").code == 0
    Registry.seen.clear()
    code, err = submitted(paictl, home, host, "team/none:7", more="    taskRoles: [nobody]\n")
    assert code == 0, err
    assert Registry.seen == []
    more = "    parameters: {docker_registry_service_url: registry.lab}\n"
    code, err = submitted(paictl, home, host, "team/open:1", more=more)
    assert code == 2
    assert "JOB635" in err
