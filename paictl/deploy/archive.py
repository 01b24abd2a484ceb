"""A backup in one file, and the program on masters that saves and restores etcd.

The manifest is the first member, so that it can be read without the rest. Whoever has the file has the cluster: only
its owner may read it.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import shlex
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, fields, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from paictl.deploy.site import DeployError
from paictl.errors import ExitCode, PaictlError
from paictl.frozen import frozen
from paictl.i18n import text
from paictl.remote.inventory import Host
from paictl.remote.ssh.fleet import CommandOptions, Fleet
from paictl.remote.ssh.results import HostResult, exit_code
from paictl.resources import resource_folder

SNAPSHOT: Final = "etcd/snapshot.db"
PKI: Final = "pki.tar"
CONFIGURATION: Final = "configuration/"
_MANIFEST: Final = "manifest.json"
_SCHEMA: Final = 1
_LEAST: Final = 1 << 20
_BLOCK: Final = 1 << 20


class ArchiveError(PaictlError):
    """A file that is no backup, or not what it was when it was made."""

    exit_code = ExitCode.NEGATIVE


@frozen
class BackupManifest:
    """What a backup is of.

    `authority` is the SHA-256 of the certificate of the cluster's authority: it tells one cluster from another of the
    same name. `revision` and `keys` are etcd's, `configuration` is the number of the version that was in use (0: none).
    """

    cluster: str
    created: str
    kubernetes: str
    etcd: str
    master: str
    authority: str
    revision: int
    keys: int
    configuration: int
    paictl: str


@frozen
class Backup:
    """A backup that was looked at; `id` is the SHA-256 of its manifest, which names those of all files in it.

    `size` are the bytes of its snapshot.
    """

    path: Path
    id: str
    manifest: BackupManifest
    files: Mapping[str, str]
    size: int = 0


def file_name(cluster: str, now: datetime) -> str:
    """How a backup is called where only a folder was named."""
    return f"paictl-{cluster}-{now:%Y%m%dT%H%M%SZ}.tar.gz"


def write_backup(target: Path, manifest: BackupManifest, files: Mapping[str, Path]) -> Backup:
    """Pack files by the names they have in the archive; it is there as a whole or not at all, and its owner's alone.

    Raises `PaictlError` if it cannot be written.
    """
    sums = {name: _sha256(path) for name, path in sorted(files.items())}
    body = json.dumps({"schemaVersion": _SCHEMA, **asdict(manifest), "files": sums}, indent=1).encode() + b"\n"
    handle, part = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:80]}.")  # mode 0600
    try:
        with os.fdopen(handle, "wb") as raw:
            with tarfile.open(fileobj=raw, mode="w:gz", compresslevel=3) as packed:
                _add(packed, _MANIFEST, len(body), io.BytesIO(body))
                for name, path in sorted(files.items()):
                    with path.open("rb") as file:
                        _add(packed, name, path.stat().st_size, file)
            raw.flush()
            os.fsync(raw.fileno())
        Path(part).replace(target)
    finally:
        Path(part).unlink(missing_ok=True)
    return Backup(target, hashlib.sha256(body).hexdigest(), manifest, sums, files[SNAPSHOT].stat().st_size)


def _add(packed: tarfile.TarFile, name: str, size: int, content: Any) -> None:
    about = tarfile.TarInfo(name)
    about.size, about.mode = size, 0o600
    packed.addfile(about, content)


def read_backup(path: Path) -> Backup:
    """Look at a backup and verify every byte of it; raises `ArchiveError` naming what is wrong, `PaictlError` if it
    cannot be read.
    """
    with _opened(path) as packed:
        backup = _manifest_of(path, packed)
        unread, size = dict(backup.files), 0
        while (member := packed.next()) is not None:  # an iterator would begin with the manifest again
            expected = unread.pop(member.name, None)
            if expected is None or not member.isreg():
                raise _spoiled(path, text("{name} is not in its manifest", name=member.name))
            content = packed.extractfile(member)
            if content is None or _digest(content) != expected:
                raise _spoiled(path, text("{name} has been modified", name=member.name))
            size = member.size if member.name == SNAPSHOT else size
        if unread:
            raise _spoiled(path, text("it lacks {name}", name=min(unread)))
    return replace(backup, size=size)


def unpack(backup: Backup, name: str, target: Path) -> None:
    """Write one file of a backup, of mode 0600; raises `ArchiveError` if the file was modified."""
    digest = hashlib.sha256()
    with _opened(backup.path) as packed:
        member = next((entry for entry in packed if entry.name == name), None)
        content = packed.extractfile(member) if member is not None else None
        if content is None:
            raise _spoiled(backup.path, text("it lacks {name}", name=name))
        handle = os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "wb") as file:
            while block := content.read(_BLOCK):
                digest.update(block)
                file.write(block)
    if digest.hexdigest() != backup.files[name]:
        raise _spoiled(backup.path, text("{name} has been modified", name=name))


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[tarfile.TarFile]:
    """An archive to read from beginning to end; raises `ArchiveError` for a malformed one."""
    try:
        with tarfile.open(path, "r|gz") as packed:
            yield packed
    except (tarfile.TarError, EOFError, ValueError, KeyError, TypeError, zlib.error) as error:
        raise _spoiled(path, str(error) or type(error).__name__) from None
    except OSError as error:
        if error.errno is None:  # gzip's own, of bad data
            raise _spoiled(path, str(error)) from None
        raise PaictlError(text("cannot be read: {strerror}", strerror=error.strerror), where=str(path)) from None


def _manifest_of(path: Path, packed: tarfile.TarFile) -> Backup:
    member = packed.next()
    content = packed.extractfile(member) if member is not None and member.name == _MANIFEST else None
    if member is None or content is None or member.size > _LEAST:
        raise _spoiled(path, text("it has no manifest"))
    body = content.read()
    data = json.loads(body)
    if data.pop("schemaVersion") != _SCHEMA:
        raise ArchiveError(text("was written by another version of paictl"), where=str(path), hint=text("use that one"))
    files = data.pop("files")
    kinds = {field.name: int if field.type == "int" else str for field in fields(BackupManifest)}
    if set(data) != set(kinds) or not all(isinstance(data[name], kind) for name, kind in kinds.items()):
        raise _spoiled(path, text("its manifest is incomplete"))
    if SNAPSHOT not in files or not all(isinstance(file, str) for file in files.values()):
        raise _spoiled(path, text("it lacks {name}", name=SNAPSHOT))
    return Backup(path, hashlib.sha256(body).hexdigest(), BackupManifest(**data), files)


def _spoiled(path: Path, why: str) -> ArchiveError:
    hint = text("take another backup; nothing was changed")
    return ArchiveError(text("not a backup, or modified: {why}", why=why), where=str(path), hint=hint)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _digest(content: Any) -> str:
    digest = hashlib.sha256()
    while block := content.read(_BLOCK):
        digest.update(block)
    return digest.hexdigest()


TRANSFER: Final = 3600.0
"""Seconds that a snapshot may be under way; etcd keeps at most 8 GiB."""
_VERB: Final = 600.0

JsonObject = Mapping[str, Any]
"""The request to a master's script, or its answer."""


class Masters:
    """The masters behind open connections."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self._program = (resource_folder("playbooks") / "files" / "paictl_etcd.py").read_bytes()

    def ask(
        self, verb: str, request: JsonObject | None = None, hosts: Iterable[Host] | None = None
    ) -> tuple[dict[str, JsonObject], dict[str, HostResult]]:
        """Each master's answer by name, and the results of those that failed."""
        line = f"python3 -B - {verb} {shlex.quote(json.dumps(request or {}))}"
        results = self.fleet.run(
            line, stdin=self._program, manner=CommandOptions(sudo=True, timeout=_VERB), hosts=hosts
        )
        answers = {name: json.loads(result.stdout) for name, result in results.items() if result.ok}
        return answers, {name: result for name, result in results.items() if not result.ok}

    def all(self, verb: str, request: JsonObject | None = None) -> dict[str, JsonObject]:
        """All masters' answers by name; raises `DeployError` naming the masters that failed, with reasons."""
        answers, bad = self.ask(verb, request)
        raise_for(bad, len(answers) + len(bad))
        return answers

    def upload(self, source: Path, target: Callable[[str], str]) -> None:
        """Put a file on all masters, where each wants it; raises `DeployError` where that did not work."""
        places: dict[str, list[Host]] = {}
        for host in self.fleet.inventory:
            places.setdefault(target(host.name), []).append(host)
        for place, hosts in places.items():
            results = self.fleet.upload(
                source, place, mode=0o600, manner=CommandOptions(sudo=True, timeout=TRANSFER), hosts=hosts
            )
            raise_for({name: result for name, result in results.items() if not result.ok}, len(results))


def raise_for(bad: Mapping[str, HostResult], of: int) -> None:
    """Raise `DeployError` naming the masters that failed, if any did."""
    if not bad:
        return
    message = "; ".join(f"{name}: {why(result)}" for name, result in list(bad.items())[:3])
    code = exit_code(bad)
    if code is not ExitCode.NEGATIVE and len(bad) < of:
        code = ExitCode.PARTIAL
    hint = next((result.hint for result in bad.values() if result.hint), "") or text(
        "run the same command again to resume"
    )
    raise DeployError(message, exit_code=code, hint=hint)


def why(result: HostResult) -> str:
    """Why a master did not do it, in a line."""
    lines = result.stderr.strip().splitlines()
    return result.message or (lines[-1] if lines else text("ended with code {code}", code=result.code))
