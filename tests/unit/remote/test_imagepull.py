"""Images pulled from a registry of our own on this machine: tokens, indexes, redirects, damage, resumption."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from paictl.deploy.artifacts import images_in
from paictl.errors import PaictlError
from paictl.remote.imagepull import ImageManifest, ImagePuller, ImageSource, PullError, docker_login, pull
from paictl.remote.registry import token_for

LOGIN = base64.b64encode(b"ann:geheim-7").decode()
INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
NAME = "team/tool:v1"


def digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


class StandIn:
    """A registry with one image for two architectures; blobs are given away by another address than manifests."""

    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}
        self.manifests: dict[str, tuple[str, bytes]] = {}
        self.seen: list[tuple[str, str]] = []
        self.closed = False
        self.uses = self.tokens = 0
        self.most_uses = 1000
        self.storage_asks = ""
        rows = [self.image(arch) for arch in ("amd64", "arm64")]
        self.keep("v1", INDEX, json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": rows}).encode())
        self.servers = [ThreadingHTTPServer(("127.0.0.1", 0), self.handler(number)) for number in (0, 1)]
        for server in self.servers:
            threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()

    def image(self, arch: str) -> dict[str, Any]:
        config = json.dumps({"architecture": arch, "os": "linux"}).encode()
        layers = [f"{arch} layer {number}".encode() * 1000 for number in (0, 1)]
        self.blobs |= {digest(one): one for one in (config, *layers)}
        body = json.dumps(
            {
                "schemaVersion": 2,
                "mediaType": MANIFEST,
                "config": {"mediaType": "c", "digest": digest(config), "size": len(config)},
                "layers": [{"mediaType": "l", "digest": digest(one), "size": len(one)} for one in layers],
            }
        ).encode()
        self.keep(digest(body), MANIFEST, body)
        about = {"os": "linux", "architecture": arch}
        return {"mediaType": MANIFEST, "digest": digest(body), "size": len(body), "platform": about}

    def keep(self, name: str, kind: str, body: bytes) -> None:
        self.manifests[name] = (kind, body)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.servers[0].server_port}"

    def handler(self, number: int) -> type[BaseHTTPRequestHandler]:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                said = self.headers.get("Authorization", "")
                path, _, _ = self.path.partition("?")
                outer.seen.append((f"{number}{path}", said))
                if path == "/token":
                    right = said == f"Basic {LOGIN}"
                    outer.uses = 0
                    return self.say(200 if right else 401, outer.token() if right else b"")
                if number == 1 and outer.storage_asks:
                    realm = f'Bearer realm="http://127.0.0.1:{outer.servers[1].server_port}/token"'
                    return self.say(401, b"", {"WWW-Authenticate": outer.storage_asks.replace("REALM", realm)})
                outer.uses += number == 0
                if number == 0 and outer.closed and (said[:-1] != "Bearer t0ken" or outer.uses > outer.most_uses):
                    realm = f'Bearer realm="http://{outer.address}/token",service="lab"'
                    return self.say(401, b"", {"WWW-Authenticate": realm})
                *_, kind, name = path.split("/")
                if kind == "manifests" and name in outer.manifests:
                    media, body = outer.manifests[name]
                    return self.say(200, body, {"Content-Type": media})
                if kind == "blobs" and number == 0:
                    other = f"http://127.0.0.1:{outer.servers[1].server_port}{path}"
                    return self.say(307, b"", {"Location": other})
                if kind == "blobs" and name in outer.blobs:
                    return self.say(200, outer.blobs[name])
                return self.say(404)

            def say(self, status: int, body: bytes = b"", rows: dict[str, str] | None = None) -> None:
                self.send_response(status)
                for name, value in (rows or {}).items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None: ...

        return Handler

    def token(self) -> bytes:
        self.tokens += 1
        return json.dumps({"token": f"t0ken{self.tokens}"}).encode()

    def stop(self) -> None:
        for server in self.servers:
            server.shutdown()
            server.server_close()


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    made = StandIn()
    yield made
    made.stop()


def source(registry: StandIn, **more: str) -> ImageSource:
    return ImageSource(**{"reference": f"{registry.address}/{NAME}", "arch": "amd64", **more})


def pulled(registry: StandIn, target: Path, **more: str) -> ImageManifest:
    asked = ImagePuller(source(registry, **more))
    manifest = asked.manifest()
    pull(asked, manifest, target)
    return manifest


def test_an_image_becomes_an_archive_that_is_read_as_others_are(registry: StandIn, tmp_path: Path) -> None:
    manifest = pulled(registry, tmp_path / "a.tar")
    (image,) = images_in(tmp_path / "a.tar")
    assert image.reference == f"{registry.address}/{NAME}"
    assert image.id == json.loads(manifest.body)["config"]["digest"]
    assert json.loads(registry.blobs[image.id])["architecture"] == "amd64"
    pulled(registry, tmp_path / "b.tar")
    assert (tmp_path / "a.tar").read_bytes() == (tmp_path / "b.tar").read_bytes(), "the same, byte by byte"
    pulled(registry, tmp_path / "c.tar", arch="arm64")
    assert images_in(tmp_path / "c.tar")[0].id != image.id
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.tar", "b.tar", "c.tar"], "nothing beside them"


def test_a_mirror_is_asked_in_the_place_of_the_registry(registry: StandIn, tmp_path: Path) -> None:
    reference = f"quay.io/{NAME}"
    pulled(registry, tmp_path / "a.tar", reference=reference, mirror=f"http://{registry.address}")
    assert images_in(tmp_path / "a.tar")[0].reference == reference, "pods know it by this name"


def test_a_digest_is_asked_for_and_nothing_else_taken(registry: StandIn, tmp_path: Path) -> None:
    first = pulled(registry, tmp_path / "a.tar")
    registry.manifests.pop("v1")
    assert pulled(registry, tmp_path / "b.tar", digest=first.digest).digest == first.digest
    registry.keep(first.digest, MANIFEST, b'{"other": 1}')
    with pytest.raises(PullError, match="its manifest has the digest"):
        ImagePuller(source(registry, digest=first.digest)).manifest()


def test_a_login_of_docker_opens_and_goes_to_no_other_address(registry: StandIn, tmp_path: Path) -> None:
    registry.closed = True
    with pytest.raises(PullError, match="does not let anyone pull") as error:
        ImagePuller(source(registry)).manifest()
    assert error.value.hint == f"sign in where this runs: docker login {registry.address}"
    (tmp_path / "docker").mkdir()
    (tmp_path / "docker" / "config.json").write_text(json.dumps({"auths": {registry.address: {"auth": LOGIN}}}))
    registry.seen.clear()
    pulled(registry, tmp_path / "a.tar")
    assert {said for path, said in registry.seen if path == "0/token"} == {f"Basic {LOGIN}"}
    assert {said for path, said in registry.seen if path.startswith("1/")} == {""}, "where blobs are, nobody signs in"
    assert LOGIN not in {said for path, said in registry.seen if path != "0/token"}


def signed_in(registry: StandIn, folder: Path) -> None:
    registry.closed = True
    (folder / "docker").mkdir()
    (folder / "docker" / "config.json").write_text(json.dumps({"auths": {registry.address: {"auth": LOGIN}}}))


@pytest.mark.parametrize("challenge", ["REALM", "Basic realm=x"])
def test_where_blobs_are_nobody_can_ask_for_the_login(registry: StandIn, tmp_path: Path, challenge: str) -> None:
    signed_in(registry, tmp_path)
    registry.closed = False  # so there is no token yet when the other address asks for one
    registry.storage_asks = challenge
    with pytest.raises(PullError, match="without a valid login"):
        pulled(registry, tmp_path / "a.tar")
    assert {said for _, said in registry.seen} == {""}


def test_no_login_goes_to_another_machine_in_clear_text(
    registry: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    signed_in(registry, tmp_path)
    monkeypatch.setattr("paictl.remote.imagepull.is_here", lambda _: False)
    asked = ImagePuller(source(registry, mirror=f"http://{registry.address}", digest=digest(b"")))
    with pytest.raises(PullError) as error:
        asked.manifest()
    assert error.value.hint == "no login is sent over http: give an https:// address"
    assert {said for _, said in registry.seen} == {""}


@pytest.mark.parametrize(
    ("realm", "base", "login"),
    [
        ("https://auth.example/token", "https://r.example", True),
        ("https://auth.example/token", "http://r.example", True),
        ("http://r.example:81/token", "http://r.example:80", True),
        ("http://127.0.0.1:81/token", "http://localhost:80", True),
        ("http://auth.example/token", "http://r.example", False),
        ("http://r.example/token", "https://r.example", False),
        ("http://127.0.0.1/token", "https://r.example", False),
        ("httpx://r.example/token", "http://r.example", False),
    ],
)
def test_who_may_be_told_a_login(realm: str, base: str, login: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def answer(_: str, url: str, *__: object) -> tuple[int, dict[str, str], bytes]:
        asked.append(url)
        return 200, {}, b'{"token": "t"}'

    monkeypatch.setattr("paictl.remote.registry._answer", answer)
    assert token_for(f'Bearer realm="{realm}"', base, "Basic x", 1.0) == ("Bearer t" if login else "")
    assert bool(asked) is login


def test_a_token_that_expires_is_renewed(registry: StandIn, tmp_path: Path) -> None:
    signed_in(registry, tmp_path)
    registry.most_uses = 1
    pulled(registry, tmp_path / "a.tar")
    assert registry.tokens == 5, "for index, manifest, configuration and two layers"
    registry.most_uses = 0
    with pytest.raises(PullError, match="without a valid login"):
        pulled(registry, tmp_path / "b.tar")


def test_a_damaged_blob_is_refused_and_the_others_are_kept(registry: StandIn, tmp_path: Path) -> None:
    asked = ImagePuller(source(registry))
    manifest = asked.manifest()
    last = manifest.blobs[-1][0]
    right = registry.blobs[last]
    for wrong in (right[:-1], right + b"x", b"z" * len(right)):
        registry.blobs[last] = wrong
        with pytest.raises(PullError, match="is corrupt or incomplete"):
            pull(asked, manifest, tmp_path / "a.tar")
        assert not (tmp_path / "a.tar").exists()
    registry.blobs[last] = right
    registry.seen.clear()
    pull(asked, manifest, tmp_path / "a.tar")
    assert [path.rpartition("/")[2] for path, _ in registry.seen if path.startswith("1/")] == [last]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"arch": "s390x"}, "is not built for s390x"),
        ({"reference": "ADDRESS/team/none:1"}, "has no image"),
        ({"reference": "127.0.0.1:1/team/tool:v1"}, "cannot be pulled"),
    ],
)
def test_what_cannot_be_had_is_said(registry: StandIn, change: dict[str, str], message: str) -> None:
    more = {key: value.replace("ADDRESS", registry.address) for key, value in change.items()}
    with pytest.raises(PullError, match=message):
        ImagePuller(source(registry, **more)).manifest()


@pytest.mark.parametrize("body", [b"<html>", b"[]", b"[" * 100_000, b" " * (4 << 20) + b"{}", b'{"mediaType": ["x"]}'])
@pytest.mark.parametrize("kind", [INDEX, MANIFEST])
def test_a_manifest_that_is_none(registry: StandIn, body: bytes, kind: str) -> None:
    registry.keep("v1", kind, body)
    with pytest.raises(PullError, match=r"its manifest is damaged|is not built for|which is not an image"):
        ImagePuller(source(registry)).manifest()


@pytest.mark.parametrize("row", [b"{}", b'{"digest": "../x"}', b'{"digest": 1}', b'"x"'])
def test_an_index_whose_rows_are_none(registry: StandIn, row: bytes) -> None:
    row = row.replace(b"}", b', "platform": {"os": "linux", "architecture": "amd64"}}').replace(b"{,", b"{")
    registry.keep("v1", INDEX, b'{"manifests": [%s]}' % row)
    with pytest.raises(PullError, match="its manifest is damaged"):
        ImagePuller(source(registry)).manifest()


@pytest.mark.parametrize("size", ["-5", "1e999", '"x"', "true", "1.5", "null"])
def test_a_size_that_is_none(registry: StandIn, size: str) -> None:
    body = f'{{"config": {{"digest": "{digest(b"")}", "size": {size}}}, "layers": []}}'
    registry.keep("v1", MANIFEST, body.encode())
    with pytest.raises(PullError, match="its manifest is damaged"):
        ImagePuller(source(registry)).manifest()


def test_a_blob_that_is_shorter_than_its_manifest_says(registry: StandIn, tmp_path: Path) -> None:
    (config, size), *_ = ImagePuller(source(registry)).manifest().blobs
    body = json.dumps({"config": {"digest": config, "size": size + 1}, "layers": []})
    registry.keep("v1", MANIFEST, body.encode())
    with pytest.raises(PullError, match="is corrupt or incomplete"):
        pulled(registry, tmp_path / "a.tar")


@pytest.mark.parametrize(
    "body", [b"[]", b'{"config": {}, "layers": []}', b'{"config": {"digest": "../x", "size": 1}, "layers": []}']
)
def test_a_manifest_that_lacks_something(registry: StandIn, body: bytes) -> None:
    registry.keep("v1", MANIFEST, body)
    with pytest.raises(PullError, match="its manifest is damaged"):
        ImagePuller(source(registry)).manifest()


def test_a_login_that_cannot_be_read_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    assert docker_login("r.example") == ""
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(PaictlError, match="cannot be read"):
        docker_login("r.example")
    (tmp_path / "config.json").write_text(json.dumps({"auths": {"https://index.docker.io/v1/": {"auth": LOGIN}}}))
    assert docker_login("registry-1.docker.io") == f"Basic {LOGIN}"
    assert docker_login("quay.io") == ""
