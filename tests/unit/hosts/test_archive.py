"""Image archives: what containerd reads of them."""

from __future__ import annotations

from pathlib import Path

from tools.hosts.archive import write_image
from tools.images import oci


def _image(folder: Path) -> Path:
    program = folder / "program"
    program.write_bytes(b"\x7fELF")
    program.chmod(0o755)
    (folder / "link").unlink(missing_ok=True)
    (folder / "link").symlink_to("program")
    target = folder / "image.tar"
    files = {"/opt/bin/program": program, "/opt/bin/link": folder / "link"}
    write_image(target, "example.org/a:1", files, links={"/bin": "usr/bin"}, entrypoint=["/opt/bin/program"])
    return target


def test_an_image_has_the_files_with_their_mode_and_where_links_lead(tmp_path: Path) -> None:
    settings = oci.unpack(_image(tmp_path), tmp_path / "root")["config"]
    assert settings["Entrypoint"] == ["/opt/bin/program"]
    program = tmp_path / "root/opt/bin/program"
    assert program.read_bytes() == b"\x7fELF"
    assert program.stat().st_mode & 0o777 == 0o755
    assert str((tmp_path / "root/opt/bin/link").readlink()) == "program"
    assert str((tmp_path / "root/bin").readlink()) == "usr/bin"


def test_the_same_content_gives_the_same_bytes(tmp_path: Path) -> None:
    assert _image(tmp_path).read_bytes() == _image(tmp_path).read_bytes()
