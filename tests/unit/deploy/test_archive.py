"""A backup as a file: its owner's alone, verified to the last byte, and refused where a byte is another one."""

from __future__ import annotations

import io
import json
import stat
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from paictl.deploy.archive import PKI, SNAPSHOT, ArchiveError, Backup, BackupManifest, read_backup, unpack, write_backup
from paictl.errors import ExitCode, PaictlError

MANIFEST = BackupManifest("prod", "2026-09-01T12:00:00Z", "v1.37.1", "e:3.7", "m1", "ab" * 32, 1234, 56, 7, "0.1")


def made(folder: Path, manifest: BackupManifest = MANIFEST) -> Backup:
    """A backup of three small files."""
    files = {SNAPSHOT: b"etcd" * 1000, PKI: b"keys", "configuration/layout.yaml": b"machine-list: []\n"}
    paths = {}
    for name, body in files.items():
        paths[name] = folder / name.replace("/", "-")
        paths[name].write_bytes(body)
    return write_backup(folder / "backup.tar.gz", manifest, paths)


def test_what_was_written_is_read_and_is_its_owners_alone(tmp_path: Path) -> None:
    backup = made(tmp_path)
    assert read_backup(backup.path) == backup
    assert (backup.manifest, backup.size) == (MANIFEST, 4000)
    assert stat.S_IMODE(backup.path.stat().st_mode) == 0o600
    unpack(backup, SNAPSHOT, tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == b"etcd" * 1000
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o600


def rewrite(path: Path, change: Callable[[dict[str, bytes]], object]) -> None:
    """Pack it again with other members."""
    with tarfile.open(path) as packed:
        files = {one.name: packed.extractfile(one).read() for one in packed}  # type: ignore[union-attr]
    change(files)
    with tarfile.open(path, "w:gz") as packed:
        for name, body in files.items():
            about = tarfile.TarInfo(name)
            about.size = len(body)
            packed.addfile(about, io.BytesIO(body))


def manifest_with(**values: object) -> Callable[[dict[str, bytes]], None]:
    def change(files: dict[str, bytes]) -> None:
        files["manifest.json"] = json.dumps({**json.loads(files["manifest.json"]), **values}).encode()

    return change


CHANGES: dict[str, tuple[Callable[[dict[str, bytes]], object], str]] = {
    "a file that was changed": (lambda files: files.update({PKI: b"other"}), "pki.tar has been modified"),
    "a file that is missing": (lambda files: files.pop(PKI), "it lacks pki.tar"),
    "a file too many": (lambda files: files.update({"../evil": b"x"}), r"\.\./evil is not in its manifest"),
    "no manifest": (lambda files: files.pop("manifest.json"), "it has no manifest"),
    "a manifest that is no JSON": (lambda files: files.update({"manifest.json": b"{"}), "not a backup"),
    "a manifest that is a list": (lambda files: files.update({"manifest.json": b"[]"}), "not a backup"),
    "another form": (manifest_with(schemaVersion=2), "was written by another version of paictl"),
    "a field of another kind": (manifest_with(revision="1"), "its manifest is incomplete"),
    "no snapshot": (manifest_with(files={}), "it lacks etcd/snapshot.db"),
}


@pytest.mark.parametrize("about", CHANGES)
def test_what_was_changed_is_refused_with_the_reason(tmp_path: Path, about: str) -> None:
    path = made(tmp_path).path
    change, said = CHANGES[about]
    rewrite(path, change)
    with pytest.raises(ArchiveError, match=said) as caught:
        read_backup(path)
    assert caught.value.exit_code is ExitCode.NEGATIVE
    assert caught.value.where == str(path)


@pytest.mark.parametrize("cut", [0, 1, 20, 200, 300])
def test_half_of_one_is_refused(tmp_path: Path, cut: int) -> None:
    path = made(tmp_path).path
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(ArchiveError):
        read_backup(path)


def test_a_byte_that_fell_over_is_found_wherever_it_is(tmp_path: Path) -> None:
    path = made(tmp_path).path
    good = path.read_bytes()
    for place in range(10, len(good), max(1, len(good) // 40)):
        path.write_bytes(good[:place] + bytes([good[place] ^ 0x10]) + good[place + 1 :])
        try:
            backup = read_backup(path)
        except ArchiveError:
            continue
        unpack(backup, SNAPSHOT, tmp_path / f"out-{place}")  # what means nothing may differ: the content does not
        assert (tmp_path / f"out-{place}").read_bytes() == b"etcd" * 1000


def test_other_files_are_no_backup(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_text("hello\n" * 1000)
    with pytest.raises(ArchiveError, match="not a backup"):
        read_backup(path)
    with pytest.raises(PaictlError, match="cannot be read: No such file"):
        read_backup(tmp_path / "absent")


def test_one_that_is_spoiled_between_looking_and_unpacking_is_not_used(tmp_path: Path) -> None:
    backup = made(tmp_path)
    rewrite(backup.path, lambda files: files.update({SNAPSHOT: b"other"}))
    with pytest.raises(ArchiveError, match="has been modified"):
        unpack(backup, SNAPSHOT, tmp_path / "out")
