# Part of paictl; runs on every machine, as root, with Python 3.8 or newer, nft and nothing else.
"""Closes ports of all machines, SSH, etcd and kubelet say, to the pods of this one.

What a pod sends is seen here first: what is for this machine (hook input), and what is for another one before it gets
this machine's address (hook forward). Pods of some namespaces may go on, those that watch kubelets say, and are known
by their addresses, from what the API server says of this node's pods. A pod that nobody has told of yet is kept out.
"""

import ipaddress
import os
import subprocess
import sys
import threading
import time

import paictl_network as network

TABLE = "paictl"
PAUSE = 5
"""Seconds between two looks at the rules, which others may flush."""
OVER = ("Succeeded", "Failed")


def addresses_of(item):
    """name, all addresses of a node."""
    found = (one.get("address", "") for one in item.get("status", {}).get("addresses") or ())
    return item["metadata"]["name"], sorted(filter(is_ipv4, found))


def pod_of(item):
    """uid, (namespace, addresses) of a pod; no addresses where it has none of its own, or has ended."""
    about, status = item["metadata"], item.get("status", {})
    own = not item.get("spec", {}).get("hostNetwork") and status.get("phase") not in OVER
    found = [one.get("ip", "") for one in status.get("podIPs") or ()] if own else []
    return about["uid"], (about["namespace"], sorted(filter(is_ipv4, found)))


def is_ipv4(text):
    """Whether a text is an IPv4 address; names of machines are not."""
    try:
        ipaddress.IPv4Address(text)
    except ValueError:
        return False
    return True


def ruleset(ports, machines, exempt):
    """What `nft -f` takes: the table as it shall be, put in place in one step; none without ports."""
    gone = "add table inet %s\ndelete table inet %s\n" % (TABLE, TABLE)
    if not ports:
        return gone
    return (
        gone
        + """table inet %s {
  set machines { type ipv4_addr; %s }
  set exempt { type ipv4_addr; %s }
  chain closed {
    ct state established,related return
    ip saddr @exempt return
    tcp dport { %s } counter reject with tcp reset
  }
  chain input { type filter hook input priority filter; policy accept; iifname "%s" jump closed; }
  chain forward {
    type filter hook forward priority filter; policy accept;
    iifname "%s" ip daddr @machines jump closed
  }
}
"""
        % (
            TABLE,
            elements(machines),
            elements(exempt),
            ", ".join(map(str, sorted(ports))),
            network.BRIDGE,
            network.BRIDGE,
        )
    )


def elements(addresses):
    """The elements of a set; nothing for an empty one, which nft writes so."""
    return "elements = { %s };" % ", ".join(sorted(addresses)) if addresses else ""


def nft(words, text=None):
    """Run `nft`; what it says against it, empty if it went well."""
    try:
        done = subprocess.run(
            ["nft", *words], input=text, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, universal_newlines=True
        )
    except OSError as error:
        return str(error)
    return "" if not done.returncode else done.stderr.strip() or "exit code %d" % done.returncode


class Firewall(threading.Thread):
    """The rules of this machine, put back where somebody flushes them."""

    def __init__(self, ports, namespaces, shared=""):
        """`shared` is an address that moves between masters, if there is one."""
        super().__init__(daemon=True)
        self.ports, self.namespaces, self.shared = ports, namespaces, shared
        self.machines, self.pods, self.written = {}, {}, None
        self.said = ""
        self.lock = threading.Lock()

    def take_machines(self, found):
        """The addresses of all machines, by name."""
        with self.lock:
            self.machines = found
            self.settle()

    def take_pods(self, found):
        """(namespace, addresses) of all pods of this machine, by uid."""
        with self.lock:
            self.pods = found
            self.settle()

    def settle(self):
        """Write the rules if others are wanted than were written last."""
        machines = {address for found in (*self.machines.values(), self.shared.split()) for address in found}
        exempt = {one for space, found in self.pods.values() if space in self.namespaces for one in found}
        wanted = ruleset(self.ports, machines, exempt)
        if wanted == self.written:
            return
        problem = nft(["-f", "-"], wanted)
        self.written = None if problem else wanted
        if problem != self.said:  # once, although it is tried again and again
            self.said = problem
            print("nft: %s" % (problem or "works again"), file=sys.stderr, flush=True)

    def run(self):
        """Look after the rules for ever."""
        while True:
            with self.lock:
                if self.ports and nft(["list", "chain", "inet", TABLE, "closed"]):
                    self.written = None
                self.settle()
            time.sleep(PAUSE)


def main():
    """Follow the nodes, and the pods of this one."""
    ports = {int(one) for one in os.environ["PORTS"].split()}
    firewall = Firewall(ports, set(os.environ["NAMESPACES"].split()), os.environ["SHARED"])
    firewall.start()
    pods = "/api/v1/pods?fieldSelector=spec.nodeName%3D" + os.environ["NODE"]
    threading.Thread(target=network.for_ever, args=(pods, pod_of, firewall.take_pods), daemon=True).start()
    network.for_ever("/api/v1/nodes", addresses_of, firewall.take_machines)


if __name__ == "__main__":
    main()
