"""A slow and long link to a host, made by a process: the kernel here has no netem.

All frames between two network devices pass through it, each delayed, and as many bits a second as the link carries in
either direction. It ends with whoever started it, and the link with it.

    python -m tools.hosts.shaper DEVICE DEVICE BITS-A-SECOND SECONDS
"""

from __future__ import annotations

import selectors
import signal
import socket
import struct
import sys
import time
from collections import deque
from dataclasses import dataclass, field

_ALL, _OUTGOING = 3, 4
"""ETH_P_ALL and PACKET_OUTGOING, from linux/if_ether.h and linux/if_packet.h."""
_SOL_PACKET, _VNET_HDR = 263, 15
"""SOL_PACKET and PACKET_VNET_HDR: what the devices leave to be done, checksums and cutting, is said with each frame."""
_HEADER = 10
_LARGEST = 1 << 17
QUEUE = 2.0
"""Seconds of traffic that wait at most; what comes then is lost, as at any full router."""
_DIE_WITH_PARENT = 1
"""PR_SET_PDEATHSIG"""


@dataclass
class Way:
    """One direction: `free` is when the link has sent what was given to it."""

    source: socket.socket
    target: socket.socket
    rate: float
    delay: float
    free: float = 0.0
    waiting: deque[tuple[float, bytes]] = field(default_factory=deque)

    def take(self, now: float) -> None:
        """A frame has come."""
        frame, about = self.source.recvfrom(_LARGEST)
        if about[2] == _OUTGOING or max(self.free - now, 0.0) > QUEUE:
            return
        self.free = max(self.free, now) + 8 * (len(frame) - _HEADER) / self.rate
        self.waiting.append((self.free + self.delay, frame))

    def give(self, now: float) -> None:
        """Send what is due."""
        while self.waiting and self.waiting[0][0] <= now:
            try:
                self.target.send(self.waiting.popleft()[1])
            except OSError:  # the device is down, or full: the frame is lost
                continue


def opened(device: str) -> socket.socket:
    """All frames that come to a device, and a way to send some."""
    made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    made.setsockopt(_SOL_PACKET, _VNET_HDR, struct.pack("i", 1))
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 << 20)
    made.bind((device, _ALL))
    made.setblocking(False)
    return made


def carry(first: socket.socket, second: socket.socket, rate: float, delay: float) -> None:
    """Carry frames in both directions, for ever."""
    ways = [Way(first, second, rate, delay), Way(second, first, rate, delay)]
    with selectors.DefaultSelector() as looking:
        for way in ways:
            looking.register(way.source, selectors.EVENT_READ, way)
        while True:
            due = min((way.waiting[0][0] for way in ways if way.waiting), default=None)
            ready = looking.select(None if due is None else max(0.0, due - time.monotonic()))
            now = time.monotonic()
            for key, _ in ready:
                key.data.take(now)
            for way in ways:
                way.give(time.monotonic())


def main(words: list[str]) -> None:
    """Carry on until ended."""
    import ctypes

    ctypes.CDLL(None, use_errno=True).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    one, other, rate, delay = words
    ends = opened(one), opened(other)
    print("ready", flush=True)
    carry(*ends, float(rate), float(delay))


if __name__ == "__main__":
    main(sys.argv[1:])
