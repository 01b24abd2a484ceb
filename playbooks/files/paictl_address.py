# Part of paictl; runs on every master, as root, with Python 3.8 or newer and nothing else.
"""One address for the cluster's API that is always on a master whose API server works.

Each master tells the others twice a second, by a datagram with a keyed hash, whether its API server is ready. The
first in the list that is ready has the address; while nobody is, whoever had it keeps it, and at the very beginning the
first master takes it (kubeadm wants to reach the API there before it is ready). A master that is cut off loses etcd's
majority, so its API server is not ready any more and it lets the address go. Who takes it says so by ARP, and again
every few seconds.
"""

import hashlib
import hmac
import json
import os
import socket
import ssl
import struct
import subprocess
import sys
import time
import urllib.request

AUTHORITY = "/etc/kubernetes/pki/ca.key"
PORT = 16443
BEAT = 0.5
SILENCE = 3.0
ANNOUNCE = 5.0
SETTLE = 3.0


def owner(order, ready, holder):
    """Who shall have the address: the first that is ready; without any, who has it, else the first of the list."""
    able = [name for name in order if name in ready]
    if able:
        return able[0]
    return holder if holder in order else order[0]


def sealed(key, name, ready, holding):
    """A datagram."""
    body = json.dumps([name, ready, holding, int(time.time())]).encode()
    return hmac.new(key, body, hashlib.sha256).digest() + body


def opened(key, data, now):
    """(name, ready, holding) of a datagram that was made with our key within half a minute; None for any other."""
    if not hmac.compare_digest(hmac.new(key, data[32:], hashlib.sha256).digest(), data[:32]):
        return None
    name, ready, holding, at = json.loads(data[32:])
    return (name, ready, holding) if abs(now - at) < 30 else None


def link_of(address):
    """The link that has an address, and the length of its prefix."""
    out = subprocess.run(["ip", "-o", "addr", "show"], stdout=subprocess.PIPE, universal_newlines=True).stdout
    for words in map(str.split, out.splitlines()):
        if len(words) > 3 and words[3].split("/")[0] == address:
            return words[1].split("@")[0]
    raise OSError("no link has the address %s" % address)


def ip(*words):
    """Run `ip`; failures are of no interest: the address was there, or was gone."""
    subprocess.run(["ip", *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def announcement(mac, address):
    """A gratuitous ARP request (RFC 5227): everybody in the segment learns where the address is now."""
    raw = socket.inet_aton(address)
    ethernet = b"\xff" * 6 + mac + b"\x08\x06"
    return ethernet + struct.pack("!HHBBH", 1, 0x0800, 6, 4, 1) + mac + raw + b"\0" * 6 + raw


class Address:
    """The address on this machine's link."""

    def __init__(self, address, own):
        self.address, self.link = address, link_of(own)
        self.announced = 0.0

    def held(self):
        """Whether it is here."""
        out = subprocess.run(
            ["ip", "-o", "addr", "show", "dev", self.link], stdout=subprocess.PIPE, universal_newlines=True
        ).stdout
        return any(
            words[3].split("/")[0] == self.address for words in map(str.split, out.splitlines()) if len(words) > 3
        )

    def take(self, now):
        """Have it, and say so now and then."""
        if not self.held():
            ip("addr", "add", self.address + "/32", "dev", self.link)
            self.announced = 0.0
            print("has %s" % self.address, flush=True)
        if now - self.announced > ANNOUNCE or now < self.announced:
            self.announced = now
            self.announce()

    def announce(self):
        """Tell the segment."""
        with open("/sys/class/net/%s/address" % self.link, encoding="ascii") as file:
            mac = bytes.fromhex(file.read().strip().replace(":", ""))
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as out:
            out.bind((self.link, 0))
            out.send(announcement(mac, self.address))

    def leave(self):
        """Not have it."""
        if self.held():
            ip("addr", "del", self.address + "/32", "dev", self.link)
            print("leaves %s" % self.address, flush=True)


def shared_key():
    """What only masters of this cluster know: made of the key of its authority; before there is one, of nothing."""
    try:
        with open(AUTHORITY, "rb") as file:
            return hashlib.sha256(b"paictl-address" + file.read()).digest()
    except OSError:
        return b"no cluster yet"


def api_ready(own):
    """Whether this master's API server is ready, with etcd behind it. The certificate is not ours to judge here."""
    context = ssl._create_unverified_context()
    try:
        with urllib.request.urlopen("https://%s:6443/readyz" % own, timeout=1.0, context=context) as answer:
            return answer.status == 200
    except OSError:
        return False


class Keeper:
    """Decides, beat by beat, from what was heard."""

    def __init__(self, settings):
        self.order, self.own = [one["name"] for one in settings["masters"]], settings["name"]
        self.heard = {}
        self.since = None

    def hear(self, name, ready, holding, now):
        """Another master has spoken."""
        if name in self.order and name != self.own:
            self.heard[name] = (now, ready, holding)

    def ready(self, works, now):
        """Whether this master counts as ready: its API server has worked for a while, so that nothing flaps."""
        self.since = (self.since or now) if works else None
        return self.since is not None and now - self.since >= (SETTLE if self.others(now) else 0)

    def others(self, now):
        """{name: holds the address} of masters that are ready and were heard lately."""
        return {name: holds for name, (at, ready, holds) in self.heard.items() if ready and now - at < SILENCE}

    def mine(self, ready, held, now):
        """Whether the address shall be here."""
        others = self.others(now)
        alive = {name: holds for name, (at, _, holds) in self.heard.items() if now - at < SILENCE}
        holder = self.own if held else next((name for name, holds in alive.items() if holds), None)
        able = set(others) | ({self.own} if ready else set())
        if held and ready:  # no change without need: one that comes back does not take it away
            return not any(
                holds and self.order.index(name) < self.order.index(self.own) for name, holds in others.items()
            )
        if any(others.values()):
            return False
        return owner(self.order, able, holder) == self.own


def main(path):
    """Keep the address, for ever."""
    with open(path, encoding="utf-8") as file:
        settings = json.load(file)
    own = next(one["address"] for one in settings["masters"] if one["name"] == settings["name"])
    peers = [one["address"] for one in settings["masters"] if one["name"] != settings["name"]]
    keeper, address = Keeper(settings), Address(settings["address"], own)
    heard = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    heard.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    heard.bind((own, PORT))
    heard.setblocking(False)
    began = time.monotonic()
    while True:
        now = time.monotonic()
        key = shared_key()
        ready = keeper.ready(api_ready(own), now)
        held = address.held()
        for peer in peers:
            try:
                heard.sendto(sealed(key, settings["name"], ready, held), (peer, PORT))
            except OSError:
                pass
        listen(keeper, heard, key, now)
        if now - began > SILENCE or held:  # first find out who is there
            (address.take(now) if keeper.mine(ready, held, now) else address.leave())
        time.sleep(BEAT)


def listen(keeper, heard, key, now):
    """Take in what has arrived; what is not from a master is passed over."""
    while True:
        try:
            data, _ = heard.recvfrom(2048)
        except OSError:
            return
        try:
            said = opened(key, data, time.time())
        except (ValueError, TypeError):
            continue
        if said:
            keeper.hear(*said, now)


if __name__ == "__main__":
    os.environ["PATH"] = "/usr/sbin:/sbin:/usr/bin:/bin"
    main(sys.argv[1])
