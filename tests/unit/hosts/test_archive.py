"""Image archives: what containerd reads of them."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path

from tools.hosts.archive import write_image


def _image(folder: Path) -> Path:
    program = folder / "program"
    program.write_bytes(b"\x7fELF")
    program.chmod(0o755)
    (folder / "link").symlink_to("program")
    target = folder / "image.tar"
    files = {"/opt/bin/program": program, "/opt/bin/link": folder / "link"}
    write_image(target, "example.org/a:1", files, links={"/bin": "usr/bin"}, entrypoint=["/opt/bin/program"])
    return target


def test_the_digests_are_those_of_what_is_inside(tmp_path: Path) -> None:
    with tarfile.open(_image(tmp_path)) as archive:
        data = {name: file.read() for name in archive.getnames() if (file := archive.extractfile(name))}
    (manifest,) = json.loads(data["manifest.json"])
    assert manifest["RepoTags"] == ["example.org/a:1"]
    assert manifest["Config"] == hashlib.sha256(data[manifest["Config"]]).hexdigest() + ".json"
    config = json.loads(data[manifest["Config"]])
    assert config["config"]["Entrypoint"] == ["/opt/bin/program"]
    (layer,) = manifest["Layers"]
    assert config["rootfs"]["diff_ids"] == ["sha256:" + hashlib.sha256(data[layer]).hexdigest()]


def test_the_layer_has_files_of_root_with_their_mode_their_folders_once_and_links(tmp_path: Path) -> None:
    with tarfile.open(_image(tmp_path)) as archive:
        name = next(name for name in archive.getnames() if name.endswith("layer.tar"))
        file = archive.extractfile(name)
        assert file is not None
        layer = tarfile.open(fileobj=io.BytesIO(file.read()))  # noqa: SIM115  # closed below
    with layer:
        names = layer.getnames()
        assert len(names) == len(set(names))
        assert names.index("opt") < names.index("opt/bin") < names.index("opt/bin/program")
        program = layer.getmember("opt/bin/program")
        assert (program.mode, program.uid, program.size) == (0o755, 0, 4)
        assert layer.getmember("opt/bin/link").linkname == "program"
        assert layer.getmember("bin").linkname == "usr/bin"
        assert layer.getmember("tmp").mode == 0o1777


def test_the_same_content_gives_the_same_bytes(tmp_path: Path) -> None:
    first = _image(tmp_path).read_bytes()
    (tmp_path / "link").unlink()
    assert _image(tmp_path).read_bytes() == first
