"""Many hosts at once: commands and files, each host in a thread of its own, results in the order of the inventory.

Files, too, go through one command: checked by SHA-256, renamed into place in one step, with sudo too. Only `sh` and
coreutils are needed there, no SFTP. A link that is cut leaves nothing behind: the shell sees the end of its input,
finds another checksum and removes what it wrote.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.i18n import text
from paictl.remote.inventory import Host, Inventory
from paictl.remote.ssh.command import Ended, RemoteCommand, execute
from paictl.remote.ssh.link import NotReachedError, SshOptions, local_file
from paictl.remote.ssh.results import CommandStatus, HostResult

if TYPE_CHECKING:
    from paictl.remote.ssh.connection import Link
    from paictl.remote.ssh.forwarding import Bastion

UNCHANGED: Final = "unchanged"
"""What an upload says of a file that is there already."""

_OTHER_SUM: Final = 65
_PUT: Final = """
umask 077
dst=$1 name=$2 mode=$3 sum=$4
[ -d "$dst" ] && dst=${dst%/}/$name
if [ -f "$dst" ]; then
  now=$(sha256sum < "$dst"); [ "${now%% *}" = "$sum" ] && { echo unchanged; exit 0; }
fi
tmp=$(mktemp -- "$(dirname -- "$dst")/.paictl.XXXXXXXX") || exit 1
trap 'rm -f -- "$tmp"' EXIT
trap 'exit 1' HUP INT TERM PIPE
cat > "$tmp" || exit 1
now=$(sha256sum < "$tmp")
[ "${now%% *}" = "$sum" ] || exit 65
if [ -n "$mode" ]; then chmod "$mode" "$tmp"
elif [ -f "$dst" ]; then chmod --reference="$dst" "$tmp" && chown --reference="$dst" "$tmp"
else chmod 644 "$tmp"; fi || exit 1
sync "$tmp" 2>/dev/null
mv -fT -- "$tmp" "$dst"
"""
_GET: Final = 'sha256sum < "$1" >&2 && cat -- "$1"'


def upload(link: Link, source: Path, target: str, *, mode: int | None, settings: RemoteCommand) -> Ended:
    """Put a local file there as `target` (a file, or a folder that is there); its mode stays where `mode` is None.

    `stdout` is `UNCHANGED` if the file had that content already. Raises `NotReachedError`, and `OSError` for the local
    file.
    """
    with source.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        file.seek(0)
        arguments = (target, source.name, "" if mode is None else f"{mode:o}", digest)
        ended = execute(link, replace(settings, line=_script(_PUT, *arguments), stdin=file))
    if ended.code == _OTHER_SUM:
        raise NotReachedError(
            CommandStatus.FAILED,
            text("the received file differs from the one that was sent"),
            text("nothing was changed; try again"),
        )
    if ended.code:
        raise NotReachedError(CommandStatus.FAILED, _last_line(ended.stderr) or text("it could not be written"))
    return Ended(0, UNCHANGED if ended.stdout.strip() == UNCHANGED else "", "")


def download(link: Link, source: str, target: Path, *, settings: RemoteCommand) -> Ended:
    """Fetch a file from there as the local file `target`, in one step; raises `NotReachedError`, `OSError`."""
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:100]}.", suffix=".paictl")
    digest = hashlib.sha256()
    try:
        with os.fdopen(handle, "wb") as file:

            def take(data: bytes) -> None:
                digest.update(data)
                file.write(data)

            ended = execute(link, replace(settings, line=_script(_GET, source), take=take))
        if ended.code:
            raise NotReachedError(CommandStatus.FAILED, _last_line(ended.stderr) or text("it could not be read"))
        if ended.stderr.split()[:1] != [digest.hexdigest()]:
            raise NotReachedError(CommandStatus.FAILED, text("the file changed while it was read"), text("try again"))
        Path(name).replace(target)
    finally:
        Path(name).unlink(missing_ok=True)
    return Ended(0, "", "")


def _script(script: str, *arguments: str) -> str:
    return " ".join(["sh", "-c", shlex.quote(script), "paictl", *map(shlex.quote, arguments)])


def _last_line(output: str) -> str:
    lines = [line for line in output.strip().splitlines() if line.strip()]
    return lines[-1].split("paictl: ")[-1] if lines else ""


Output = Callable[[str, str, str], object]
"""Takes host, stream (`stdout` or `stderr`) and a line; called by one thread at a time."""
Work = Callable[["Link"], Ended]


@frozen
class Listener:
    """Who hears of output as it comes, and of each host's result when it is there."""

    output: Output = lambda _host, _stream, _line: None
    result: Callable[[HostResult], object] = lambda _: None


@frozen
class CommandOptions:
    """How a command runs: as root by `sudo`, at most `timeout` seconds."""

    sudo: bool = False
    timeout: float | None = None


@dataclass(slots=True)
class _Links:
    """The open connections by host name, shared by the threads."""

    open: dict[str, Link] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    bastion: Bastion | None = None
    new_key: str = ""
    """The bastion's, until a host's result has told of it."""
    opening: threading.Lock = field(default_factory=threading.Lock)
    """Held while the bastion is connected to: once for all hosts."""


class Fleet:
    """The hosts of an inventory; connections are kept until it is closed, and made again where they are gone."""

    def __init__(self, inventory: Inventory, options: SshOptions | None = None, listen: Listener | None = None) -> None:
        key = inventory.login.key_file
        if key is not None and not key.is_file():
            raise PaictlError(text("key file not found"), where=str(key), hint="name the private key for SSH")
        self.inventory, self._options = inventory, options or SshOptions()
        self._listen, self._links, self._saying = listen or Listener(), _Links(), threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End all connections."""
        with self._links.lock:
            links, self._links.open = self._links.open, {}
        for link in links.values():
            link.close()
        bastion, self._links.bastion = self._links.bastion, None
        if bastion is not None:
            bastion.close()

    def run(
        self,
        command: str,
        *,
        stdin: bytes = b"",
        manner: CommandOptions = CommandOptions(),
        hosts: Iterable[Host] | None = None,
    ) -> dict[str, HostResult]:
        """Run a command on all hosts (or those given), in the shell of the user there; never raises for a host."""
        return self._each(hosts, lambda link: execute(link, self._command(link, manner, command, stdin)))

    def run_each(
        self, commands: Mapping[str, str], *, stdin: bytes = b"", manner: CommandOptions = CommandOptions()
    ) -> dict[str, HostResult]:
        """Run another command on each host, by host name."""
        hosts = [host for host in self.inventory if host.name in commands]
        return self._each(
            hosts, lambda link: execute(link, self._command(link, manner, commands[link.host.name], stdin))
        )

    def upload(
        self,
        source: Path,
        target: str,
        *,
        mode: int | None = None,
        manner: CommandOptions = CommandOptions(),
        hosts: Iterable[Host] | None = None,
    ) -> dict[str, HostResult]:
        """Put a local file on all hosts; `stdout` of a result is `unchanged` where it was there already.

        Raises `PaictlError` if the local file cannot be read.
        """
        _readable(source)
        return self._each(
            hosts, lambda link: upload(link, source, target, mode=mode, settings=self._settings(link, manner))
        )

    def download(
        self,
        source: str,
        folder: Path,
        *,
        manner: CommandOptions = CommandOptions(),
        hosts: Iterable[Host] | None = None,
    ) -> dict[str, HostResult]:
        """Fetch a file from all hosts, as ``folder/HOST/NAME``."""
        name = source.rstrip("/").rpartition("/")[2]
        return self._each(
            hosts,
            lambda link: download(link, source, folder / link.host.name / name, settings=self._settings(link, manner)),
        )

    def _settings(self, link: Link, manner: CommandOptions) -> RemoteCommand:
        """How a transfer runs; what its script says is for us alone."""
        return replace(self._command(link, manner), lines=lambda _stream, _line: None)

    def _command(self, link: Link, manner: CommandOptions, line: str = "", stdin: bytes = b"") -> RemoteCommand:
        def say(stream: str, output: str) -> None:
            with self._saying:
                self._listen.output(link.host.name, stream, output)

        password = self.inventory.login.for_sudo
        return RemoteCommand(line, stdin, manner.sudo, password, manner.timeout, say)

    def _each(self, hosts: Iterable[Host] | None, work: Work) -> dict[str, HostResult]:
        chosen = tuple(self.inventory if hosts is None else hosts)
        pool = ThreadPoolExecutor(max_workers=max(1, min(len(chosen), self._options.parallel)))
        try:
            futures: dict[str, Future[HostResult]] = {
                host.name: pool.submit(self._run_on, host, work) for host in chosen
            }
            wait(futures.values())
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            self.close()  # what is in the middle of something ends at once
            raise
        pool.shutdown()
        return {name: future.result() for name, future in futures.items()}

    def _run_on(self, host: Host, work: Work) -> HostResult:
        sent, new_key = time.time(), ""
        try:
            link = self._link(host)
            new_key, link.new_key = self._new_keys(link.new_key), ""
            sent = time.time()
            with local_file():
                done = work(link)
            result = HostResult(host.name, CommandStatus.DONE, done.code, done.stdout, done.stderr, new_key=new_key)
        except NotReachedError as error:
            result = HostResult(host.name, error.reach, message=error.message, hint=error.hint, new_key=new_key)
        result = replace(result, sent=sent, ended=time.time())
        with self._saying:
            self._listen.result(result)
        return result

    def _link(self, host: Host) -> Link:
        from paictl.remote.ssh.connection import (
            open_link,  # late: it needs the extra deploy, and help must work without
        )

        with self._links.lock:
            present = self._links.open.get(host.name)
        if present is not None and present.alive:
            return present
        link = open_link(host, self.inventory.login, self._options, self._bastion())
        with self._links.lock:
            self._links.open[host.name] = link
        return link

    def _bastion(self) -> Bastion | None:
        """The connection to the bastion, opened on first use; None if hosts are reached directly."""
        from paictl.remote.ssh.connection import open_bastion  # late, as in `_link`

        login, links = self.inventory.login, self._links
        if login.bastion is None:
            return None
        with links.opening:
            if links.bastion is None or not links.bastion.alive:
                links.bastion, links.new_key = open_bastion(login.bastion, login, self._options)
            return links.bastion

    def _new_keys(self, new_key: str) -> str:
        """Newly trusted keys: a host's, and the bastion's unless another host has reported it."""
        with self._links.lock:
            of_bastion, self._links.new_key = self._links.new_key, ""
        if not of_bastion:
            return new_key
        place = self.inventory.login.bastion.place if self.inventory.login.bastion else ""
        return ", ".join(filter(None, (new_key, text("{key} (bastion {bastion})", key=of_bastion, bastion=place))))


def _readable(source: Path) -> None:
    if source.is_dir():
        raise PaictlError(text("is a folder"), where=str(source), hint="pack it first: tar -czf FILE FOLDER")
    try:
        source.open("rb").close()
    except OSError as error:
        raise PaictlError(text("cannot be read: {strerror}", strerror=error.strerror), where=str(source)) from None
