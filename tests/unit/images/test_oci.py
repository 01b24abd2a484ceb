"""Layers and archives: same entries, same digest; what an archive names is in it."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from pathlib import Path

import pytest

from tools.images import oci
from tools.images.oci import Entry, Image, Tree

TREE: Tree = {
    "usr/bin/tool": oci.file("#!/bin/sh\n", 0o755),
    "bin": oci.link("usr/bin"),
    "tmp": Entry(0o41777),
    "etc/name with ä": oci.file(b"\x00" * 3000),
}


def image(tree: Tree, name: str = "localhost/x:1") -> Image:
    return Image(name, "amd64", {"User": "65532"}, (("all", oci.pack(tree)),))


def test_the_order_of_entries_does_not_matter() -> None:
    assert oci.pack(TREE).digest == oci.pack(dict(reversed(TREE.items()))).digest


def test_every_change_gives_another_digest() -> None:
    other = [
        TREE | {"usr/bin/tool": oci.file("#!/bin/sh\n", 0o644)},
        TREE | {"usr/bin/tool": oci.file("#!/bin/sh \n", 0o755)},
        TREE | {"bin": oci.link("usr/lib")},
        TREE | {"opt": oci.folder()},
    ]
    assert len({oci.digest(image(one)) for one in [TREE, *other]}) == 5


def test_a_layer_has_no_dates_and_belongs_to_root() -> None:
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(oci.pack(TREE).blob))) as layer:
        members = layer.getmembers()
    assert {(one.mtime, one.uid, one.gid, one.uname) for one in members} == {(0, 0, 0, "")}
    assert [one.name for one in members] == ["bin", "etc", "etc/name with ä", "tmp", "usr", "usr/bin", "usr/bin/tool"]
    assert {one.name: one.mode for one in members}["tmp"] == 0o1777


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "a/../../x", "a//b", "./a"])
def test_a_path_that_leaves_the_image_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="no path inside"):
        oci.pack({path: oci.file("x")})


def test_an_archive_is_an_oci_layout_and_what_docker_saves() -> None:
    data = oci.archive(image(TREE, "registry.example/x/y:1.2"))
    with tarfile.open(fileobj=io.BytesIO(data)) as packed:
        files = {one.name: (packed.extractfile(one) or io.BytesIO()).read() for one in packed.getmembers()}
    assert json.loads(files["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    (named,) = json.loads(files["index.json"])["manifests"]
    assert named["annotations"] == {
        "io.containerd.image.name": "registry.example/x/y:1.2",
        "org.opencontainers.image.ref.name": "1.2",
    }
    assert named["digest"] == oci.digest(image(TREE))
    (docker,) = json.loads(files["manifest.json"])
    assert docker["RepoTags"] == ["registry.example/x/y:1.2"]
    assert all(one in files for one in [docker["Config"], *docker["Layers"]])
    assert {path.removeprefix("blobs/sha256/") for path in files if path.startswith("blobs/")} == {
        oci.digest_of(data).removeprefix("sha256:") for path, data in files.items() if path.startswith("blobs/")
    }
    assert data == oci.archive(image(TREE, "registry.example/x/y:1.2"))


def test_unpack_gives_the_tree_back_and_the_settings(tmp_path: Path) -> None:
    path = tmp_path / "x.tar"
    path.write_bytes(oci.archive(image(TREE)))
    config = oci.unpack(path, tmp_path / "root")
    assert config["config"] == {"User": "65532"}
    assert (tmp_path / "root/bin/tool").read_text() == "#!/bin/sh\n"
    assert (tmp_path / "root/usr/bin/tool").stat().st_mode & 0o777 == 0o755


def test_unpack_refuses_a_changed_blob(tmp_path: Path) -> None:
    data = oci.archive(image(TREE))
    path = tmp_path / "x.tar"
    path.write_bytes(data.replace(b'"os":"linux"', b'"os":"winux"'))
    with pytest.raises(ValueError, match="another content"):
        oci.unpack(path, tmp_path / "root")
