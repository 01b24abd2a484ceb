"""The network of a lab: a namespace of its own with a bridge, and a namespace with a cable for each host."""

from __future__ import annotations

import ctypes
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tools.hosts.shell import run

PREFIX = "10.77.0"
"""Of every lab: each is a network of its own, so that many live side by side."""

_BRIDGE = "br0"
_NEWNET = 0x40000000
"""CLONE_NEWNET, from linux/sched.h."""


@dataclass(frozen=True, slots=True)
class Network:
    """Names and cables of one lab; nothing of the machine's own network is touched."""

    namespace: str

    @property
    def gateway(self) -> str:
        """The address of the dev box, which is the namespace itself."""
        return f"{PREFIX}.1"

    @property
    def path(self) -> Path:
        """Of the dev box's namespace."""
        return Path("/run/netns") / self.namespace

    def address(self, number: int) -> str:
        """Of host 1, 2, …: 10.77.0.11, 10.77.0.12, …"""
        return f"{PREFIX}.{10 + number}"

    def path_of(self, number: int) -> Path:
        """Of a host's namespace."""
        return Path("/run/netns") / self._space(number)

    def inside(self) -> list[str]:
        """Words before a command that is to run on the dev box (`ip netns exec` would hide the control groups)."""
        return ["nsenter", f"--net={self.path}", "--"]

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Let this thread be on the dev box; a socket that it opens meanwhile stays there."""
        with Path("/proc/thread-self/ns/net").open("rb") as outside, self.path.open("rb") as inside:
            _enter(inside.fileno())
            try:
                yield
            finally:
                _enter(outside.fileno())

    def make(self) -> None:
        """The dev box and the bridge, if they are not there."""
        if self.path.exists():
            return
        run(["ip", "netns", "add", self.namespace])
        self._ip("link", "set", "lo", "up")
        self._ip("link", "add", _BRIDGE, "type", "bridge")
        self._ip("addr", "add", f"{self.gateway}/24", "dev", _BRIDGE)
        self._ip("link", "set", _BRIDGE, "up")

    def remove(self) -> None:
        """The namespace with all that is in it; ssh connections kept open in it end."""
        if self.path.exists():
            for pid in run(["ip", "netns", "pids", self.namespace], check=False).stdout.split():
                with suppress(OSError):
                    if Path(f"/proc/{pid}/comm").read_text() == "ssh\n":
                        run(["kill", pid], check=False)
        for path in Path("/run/netns").glob(f"{self.namespace}*"):
            if path.name == self.namespace or path.name.startswith(f"{self.namespace}-h"):
                run(["ip", "netns", "del", path.name], check=False)

    def plug(self, number: int) -> None:
        """A host's namespace and cable; its hardware address is fixed, so that none is stale after a reset."""
        space, cable = self._space(number), self._cable(number)
        if self.path_of(number).exists():
            return
        run(["ip", "netns", "add", space])
        self._ip("link", "del", cable, check=False)  # that of a namespace just deleted goes away a little later
        ends = ["type", "veth", "peer", "name", cable, "netns", self.namespace]
        run(["ip", "link", "add", "e0", "address", self._hardware(number), "netns", space, *ends])
        for words in (
            ["link", "set", "lo", "up"],
            ["addr", "add", f"{self.address(number)}/24", "dev", "e0"],
            ["link", "set", "e0", "up"],
            ["route", "add", "default", "via", self.gateway],
        ):
            run(["ip", "-n", space, *words])
        self._ip("link", "set", cable, "master", _BRIDGE, "up")

    def unplug(self, number: int) -> None:
        """End `plug`."""
        if self.path_of(number).exists():
            run(["ip", "netns", "del", self._space(number)], check=False)

    def cut(self, number: int) -> None:
        """Pull the cable: no route to host, after the kernel has looked for it."""
        self._ip("link", "set", self._cable(number), "down")

    def drop(self, number: int) -> None:
        """Lose every packet silently, so that whoever asks runs into its time limit."""
        neighbour = ["lladdr", self._hardware(number), "dev", _BRIDGE, "nud", "permanent"]
        self._ip("neigh", "replace", self.address(number), *neighbour)
        self._ip("link", "set", self._cable(number), "nomaster")

    def slow(self, number: int, rate: str) -> None:
        """Limit what it receives, as in ``256kbit``."""
        limit = ["rate", rate, "burst", "4kb", "latency", "2s"]
        run([*self.inside(), "tc", "qdisc", "replace", "dev", self._cable(number), "root", "tbf", *limit])

    @contextmanager
    def far(self, number: int, rate: int, delay: float) -> Iterator[None]:
        """Put a host at the end of a link: bits a second in either direction, and seconds that each way takes.

        All that it sends and receives goes over it.
        """
        cable, near, away = self._cable(number), f"n{number}", f"f{number}"
        self._ip("link", "add", near, "type", "veth", "peer", "name", away)
        words = [sys.executable, "-m", "tools.hosts.shaper", away, cable, str(rate), str(delay)]
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
        try:
            self._ip("link", "set", cable, "nomaster")
            self._ip("link", "set", away, "up")
            self._ip("link", "set", near, "master", _BRIDGE, "up")
            with subprocess.Popen([*self.inside(), *words], stdout=subprocess.PIPE, env=environment) as shaper:
                try:
                    if shaper.stdout is None or shaper.stdout.readline() != b"ready\n":
                        raise RuntimeError(f"no shaper for host {number}")
                    yield
                finally:
                    shaper.kill()
        finally:
            self._ip("link", "del", near, check=False)
            self.heal(number)

    def heal(self, number: int) -> None:
        """End `cut`, `drop` and `slow`."""
        cable = self._cable(number)
        run([*self.inside(), "tc", "qdisc", "del", "dev", cable, "root"], check=False)
        self._ip("link", "set", cable, "master", _BRIDGE, "up")
        self._ip("neigh", "del", self.address(number), "dev", _BRIDGE, check=False)

    def speaks(self, number: int, port: int, first: str) -> bool:
        """Whether a connection from the dev box is greeted with these letters."""
        script = f"exec 3<>/dev/tcp/{self.address(number)}/{port} && read -t 1 -r line <&3 && [[ $line == {first}* ]]"
        return run([*self.inside(), "timeout", "1", "bash", "-c", script], check=False).returncode == 0

    def _ip(self, *words: str, check: bool = True) -> None:
        run(["ip", "-n", self.namespace, *words], check=check)

    def _space(self, number: int) -> str:
        return f"{self.namespace}-h{number}"

    def _cable(self, number: int) -> str:
        return f"h{number}"

    def _hardware(self, number: int) -> str:
        return f"02:00:{socket.inet_aton(self.address(number)).hex(':')}"


def _enter(descriptor: int) -> None:
    """Move this thread into a network namespace (`os.setns` came with Python 3.12)."""
    library = ctypes.CDLL(None, use_errno=True)
    if library.setns(descriptor, _NEWNET):
        raise OSError(ctypes.get_errno(), "setns")
