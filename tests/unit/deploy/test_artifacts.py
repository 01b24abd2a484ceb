from __future__ import annotations

import hashlib
import http.server
import io
import json
import tarfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from paictl.deploy.artifacts import (
    LOCK,
    Artifact,
    ArtifactError,
    ArtifactKind,
    Artifacts,
    Image,
    faults_of,
    images_in,
    local_folder,
    read_lock,
    verify,
    write_lock,
)
from paictl.deploy.gather import Download, DownloadError, catalogue, gather
from paictl.errors import PaictlError


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def folder_with(path: Path, **files: bytes) -> Artifacts:
    rows = []
    path.mkdir(exist_ok=True)
    for name, data in files.items():
        (path / name).write_bytes(data)
        rows.append(Artifact(name, ArtifactKind.BINARY, "v1.37.1", "amd64", "", digest(data), name))
    write_lock(path, rows)
    return read_lock(path)


def test_a_folder_that_is_as_its_lock_says(tmp_path: Path) -> None:
    made = folder_with(tmp_path, kubeadm=b"a", kubelet=b"b", kubectl=b"c")
    verify(made)
    assert made.version() == "v1.37.1"
    assert made.need("kubelet").sha256 == digest(b"b")


def test_every_missing_or_wrong_file_is_named(tmp_path: Path) -> None:
    made = folder_with(tmp_path, kubeadm=b"a", kubelet=b"b", runc=b"c")
    (tmp_path / "kubelet").write_bytes(b"other")
    (tmp_path / "runc").unlink()
    found = {fault.artifact: fault.message for fault in faults_of(made)}
    assert found == {
        "kubelet": f"is another file: SHA-256 {digest(b'other')[:12]}…, expected {digest(b'b')[:12]}…",
        "runc": "is missing",
    }
    with pytest.raises(ArtifactError, match=r"kubelet: is another file.* and 1 more"):
        verify(made)
    verify(made, [made.need("kubeadm")])


def test_versions_that_do_not_go_together(tmp_path: Path) -> None:
    made = folder_with(tmp_path, kubeadm=b"a", kubelet=b"b", kubectl=b"c")
    with pytest.raises(PaictlError, match=r"v1\.36\.0 is required, but this is v1\.37\.1"):
        made.version("v1.36.0")
    mixed = Artifacts(tmp_path, (replace(made.all[0], version="v1.36.0"), *made.all[1:]))
    with pytest.raises(PaictlError, match="must have the same version"):
        mixed.version()


@pytest.mark.parametrize("path", ["/etc/passwd", "../outside"])
def test_a_path_out_of_the_folder_is_refused(tmp_path: Path, path: str) -> None:
    write_lock(tmp_path, [Artifact("kubeadm", ArtifactKind.BINARY, "v1", "amd64", "", "0" * 64, path)])
    with pytest.raises(PaictlError, match="is outside the folder"):
        read_lock(tmp_path)


@pytest.mark.parametrize(
    "text", ["", "[]", '{"schemaVersion": 1}', '{"schemaVersion": 1, "artifacts": [{"name": "x"}]}']
)
def test_a_lock_that_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / LOCK).write_text(text)
    with pytest.raises(PaictlError, match="is not an artifact lock file"):
        read_lock(tmp_path)


def test_sources_by_scheme(tmp_path: Path) -> None:
    assert local_folder("file:///srv/a%20b") == Path("/srv/a b")
    assert local_folder("https://mirror.example/{file}") is None
    assert local_folder(str(tmp_path)) == tmp_path
    with pytest.raises(PaictlError, match="not a supported source of artifacts"):
        local_folder("ftp://mirror.example/")


def archive(path: Path, **files: object) -> Path:
    with tarfile.open(path, "w") as tar:
        for name, content in files.items():
            data = json.dumps(content).encode()
            info = tarfile.TarInfo(name.replace("__", "/"))
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


def test_images_of_docker_s_and_of_oci_s_archives(tmp_path: Path) -> None:
    manifest = [{"Config": "ab12.json", "RepoTags": ["local.test/pause:3.10"]}]
    docker = archive(tmp_path / "docker.tar", **{"manifest.json": manifest})
    assert images_in(docker) == (Image("local.test/pause:3.10", "sha256:ab12"),)
    index = {"manifests": [{"digest": "sha256:cd", "annotations": {"io.containerd.image.name": "local.test/x:1"}}]}
    blob = {"config": {"digest": "sha256:ef"}}
    oci = archive(tmp_path / "oci.tar", **{"index.json": index, "blobs/sha256/cd": blob})
    assert images_in(oci) == (Image("local.test/x:1", "sha256:ef"),)
    (tmp_path / "none.tar").write_bytes(b"nothing")
    with pytest.raises(PaictlError, match="not an archive of container images"):
        images_in(tmp_path / "none.tar")


def test_the_catalogue_has_what_every_cluster_takes() -> None:
    found = {one.artifact.name: one for one in catalogue("v1.37.0")}
    assert {"kubeadm", "kubelet", "kubectl", "containerd", "runc", "cni-plugins", "crictl"} == found.keys()
    assert found["kubelet"].artifact.url == "https://dl.k8s.io/release/v1.37.0/bin/linux/amd64/kubelet"
    assert found["containerd"].file == "containerd-2.4.2-linux-amd64.tar.gz"
    extra = {one.artifact.name for one in catalogue(extras=["flannel", "gpu"])} - found.keys()
    assert extra == {"flannel", "nvidia-container-toolkit"}


@pytest.fixture
def site(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A mirror on loopback: its folder and its URL."""
    root = tmp_path / "site"
    root.mkdir()

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args: object, **kwargs: object) -> None:
            super().__init__(*args, directory=str(root), **kwargs)  # type: ignore[arg-type]

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield root, f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


def wanted(name: str, version: str = "v1.37.1") -> Download:
    url = f"https://makers.example/{name}"
    return Download(Artifact(name, ArtifactKind.BINARY, version, "amd64", url, "", f"amd64/{name}"), f"{url}.sha256")


def test_a_mirror_with_a_lock(tmp_path: Path, site: tuple[Path, str]) -> None:
    root, url = site
    folder_with(tmp_path / "locked", kubeadm=b"program")
    (root / "kubeadm").write_bytes(b"program")
    said: list[str] = []
    lock = tmp_path / "locked" / LOCK
    made = gather([wanted("kubeadm")], url + "/{file}", tmp_path / "new", lock, said.append)
    assert (tmp_path / "new/amd64/kubeadm").read_bytes() == b"program"
    verify(made)
    (root / "kubeadm").write_bytes(b"wrong")  # nobody asks for what already exists
    gather([wanted("kubeadm")], url + "/{file}", tmp_path / "new", lock, said.append)
    assert said[1] == "kubeadm v1.37.1 already downloaded"
    with pytest.raises(PaictlError, match="is another file"):
        gather([wanted("kubeadm")], url + "/{file}", tmp_path / "third", lock, said.append)
    assert not (tmp_path / "third/amd64/kubeadm").exists()


def test_over_plain_http_nothing_comes_without_a_lock(tmp_path: Path, site: tuple[Path, str]) -> None:
    with pytest.raises(PaictlError, match="cannot be verified over http"):
        gather([wanted("kubeadm")], site[1], tmp_path / "new", None, str)


def test_what_the_mirror_does_not_have_is_named(tmp_path: Path, site: tuple[Path, str]) -> None:
    folder_with(tmp_path / "locked", kubeadm=b"program")
    with pytest.raises(DownloadError, match="kubeadm: the server answered 404"):
        gather([wanted("kubeadm")], site[1], tmp_path / "new", tmp_path / "locked" / LOCK, str)


def test_a_loose_folder_with_sums_beside_the_files(tmp_path: Path) -> None:
    loose = tmp_path / "loose"
    (loose / "images").mkdir(parents=True)
    (loose / "kubeadm").write_bytes(b"program")
    (loose / "kubeadm.sha256").write_text(digest(b"program") + "\n")
    (loose / "images/pause.tar").write_bytes(b"image")
    made = gather([wanted("kubeadm")], str(loose), tmp_path / "new", None, str)
    verify(made)
    assert [(one.name, one.kind) for one in made.all] == [("kubeadm", "binary"), ("pause", "image")]
    (loose / "kubeadm.sha256").write_text(digest(b"other") + "  kubeadm\n")
    with pytest.raises(PaictlError, match="is another file"):
        gather([wanted("kubeadm")], str(loose), tmp_path / "other", None, str)


def test_a_folder_with_a_lock_is_copied_whole_or_refused(tmp_path: Path) -> None:
    folder_with(tmp_path / "old", kubeadm=b"a", own=b"b")
    made = gather([], f"file://{tmp_path}/old", tmp_path / "new", None, str)
    assert [one.name for one in read_lock(made.folder).all] == ["kubeadm", "own"]
    (tmp_path / "old/own").unlink()
    with pytest.raises(ArtifactError, match="own: is missing"):
        gather([], str(tmp_path / "old"), tmp_path / "third", None, str)
