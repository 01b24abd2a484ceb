# Part of paictl; runs on every machine, as root, with Python 3.8 or newer and nothing else.
"""Routes to the pods of all other machines of one segment, and the CNI configuration of this one.

Each machine has a /24 of the pods' network (kube-controller-manager gives them). Whoever has joined is seen in the
list of nodes, which kubelet's own certificate may read: no image, no controller, no change on other machines when
one comes or goes. Routes are marked with a protocol number of their own, so that only ours are taken away. The network
of this machine's own pods belongs to the kernel: no route of ours covers it, and it is put back where it is missing.
"""

import base64
import ipaddress
import json
import os
import re
import ssl
import subprocess
import sys
import threading
import time
import urllib.request

KUBECONFIG = "/etc/kubernetes/kubelet.conf"
CONFLIST = "/etc/cni/net.d/10-paictl.conflist"
PROTOCOL = "77"
BRIDGE = "cni0"
WATCH = 300
PAUSE = 5
"""Seconds between two looks at the routes, which others may take away."""


def field(text, name):
    """The value of a field of kubelet's kubeconfig; kubeadm writes it, one field a line."""
    found = re.search(r"^\s*%s:\s*(\S+)\s*$" % re.escape(name), text, re.MULTILINE)
    return found.group(1) if found else ""


class Api:
    """The API server, asked as kubelet."""

    def __init__(self, text):
        self.server = field(text, "server")
        authority = base64.b64decode(field(text, "certificate-authority-data")).decode()
        self.context = ssl.create_default_context(cadata=authority)
        certificate = field(text, "client-certificate") or "/var/lib/kubelet/pki/kubelet-client-current.pem"
        self.context.load_cert_chain(certificate)

    def open(self, path, timeout):
        """An answer to read from."""
        return urllib.request.urlopen(self.server + path, timeout=timeout, context=self.context)


def node_of(item):
    """name, (address, network of its pods) of a node; None for what it does not have yet."""
    addresses = item.get("status", {}).get("addresses", [])
    address = next((one["address"] for one in addresses if one["type"] == "InternalIP"), None)
    return item["metadata"]["name"], (address, item.get("spec", {}).get("podCIDR"))


def wanted_routes(nodes, own, connected=()):
    """{network: gateway} to all others that have both; never to a network that pods of this machine are in.

    A node that has this machine's network in the list is one that took its name: a route to it would cut off the pods
    here.
    """
    mine = {*connected, nodes.get(own, (None, None))[1]}
    return {
        network: address
        for name, (address, network) in nodes.items()
        if name != own and address and network and network not in mine
    }


def connected_networks(addresses):
    """{network: address} of the bridge of the pods, from what `ip -o -4 addr show` says of it."""
    found = re.findall(r"\sinet (\S+)", addresses)
    return {str(ipaddress.ip_interface(one).network): one.partition("/")[0] for one in found}


def missing_routes(connected, routes):
    """Commands for `ip` that put back routes to connected networks; `routes` are those that the kernel has."""
    there = {line.split()[0] for line in routes.splitlines() if line.strip()}
    for network, address in sorted(connected.items()):
        if network not in there:
            yield ["route", "replace", network, "dev", BRIDGE, "proto", "kernel", "scope", "link", "src", address]


def present_routes(text):
    """{network: gateway} of our routes, from what `ip route show` says."""
    return {words[0]: words[2] for words in map(str.split, text.splitlines()) if len(words) > 2 and words[1] == "via"}


def changes(wanted, present):
    """Commands for `ip` that make present routes the wanted ones."""
    for network in sorted(set(present) - set(wanted)):
        yield ["route", "del", network, "proto", PROTOCOL]
    for network, gateway in sorted(wanted.items()):
        if present.get(network) != gateway:
            yield ["route", "replace", network, "via", gateway, "proto", PROTOCOL]


def conflist(network, mtu):
    """The CNI configuration of a machine whose pods have this network."""
    addresses = {"type": "host-local", "ranges": [[{"subnet": network}]], "routes": [{"dst": "0.0.0.0/0"}]}
    bridge = {"type": "bridge", "bridge": "cni0", "isGateway": True, "ipMasq": True, "hairpinMode": True, "mtu": mtu}
    ports = {"type": "portmap", "capabilities": {"portMappings": True}}
    return {"cniVersion": "1.0.0", "name": "paictl", "plugins": [{**bridge, "ipam": addresses}, ports]}


def ip(words):
    """Run `ip`; its output."""
    done = subprocess.run(["ip", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
    if done.returncode:
        print("ip %s: %s" % (" ".join(words), done.stderr.strip()), file=sys.stderr, flush=True)
    return done.stdout


def link_mtu(address):
    """The MTU of the link that has an address; 1500 where it is not found."""
    for line in ip(["-o", "-4", "addr", "show"]).splitlines():
        words = line.split()
        if len(words) > 3 and words[3].split("/")[0] == address:
            try:
                with open("/sys/class/net/%s/mtu" % words[1].split("@")[0], encoding="ascii") as file:
                    return int(file.read())
            except (OSError, ValueError):
                break
    return 1500


def write_once(path, text):
    """Write a file in one step, if it is another one."""
    try:
        with open(path, encoding="utf-8") as file:
            if file.read() == text:
                return
    except OSError:
        os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path + ".new", "w", encoding="utf-8") as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(text)
    os.replace(path + ".new", path)


def settle(nodes, own):
    """Make this machine fit the nodes."""
    address, network = nodes.get(own, (None, None))
    if network:
        write_once(CONFLIST, json.dumps(conflist(network, link_mtu(address)), indent=1) + "\n")
    connected = connected_networks(ip(["-o", "-4", "addr", "show", "dev", BRIDGE])) if is_up(BRIDGE) else {}
    wanted = wanted_routes(nodes, own, connected)
    for command in changes(wanted, present_routes(ip(["route", "show", "proto", PROTOCOL]))):
        ip(command)
    if connected:
        for command in missing_routes(connected, ip(["route", "show", "dev", BRIDGE, "proto", "kernel"])):
            ip(command)


class Keeper(threading.Thread):
    """Settles again and again: routes go when a link goes down, or when somebody deletes them."""

    def __init__(self, own):
        super().__init__(daemon=True)
        self.own = own
        self.nodes = {}
        self.lock = threading.Lock()

    def take(self, nodes):
        """Settle for these nodes, now and from now on."""
        with self.lock:
            self.nodes = dict(nodes)
            settle(self.nodes, self.own)

    def run(self):
        """Settle for ever."""
        while True:
            time.sleep(PAUSE)
            with self.lock:
                try:
                    if self.nodes:
                        settle(self.nodes, self.own)
                except (OSError, ValueError) as error:
                    print(error, file=sys.stderr, flush=True)


def is_up(link):
    """Whether a link is there and switched on."""
    try:
        with open("/sys/class/net/%s/flags" % link, encoding="ascii") as file:
            return bool(int(file.read(), 16) & 1)
    except (OSError, ValueError):
        return False


def follow(api, path, digest, take):
    """List what a path names, then watch it; returns when the server ends it.

    `digest` gives a name and what counts of an item; `take` gets all of it by name, again after each change.
    """
    with api.open(path, 30) as answer:
        found = json.load(answer)
    table = dict(map(digest, found["items"]))
    take(dict(table))
    asked = "watch=1&allowWatchBookmarks=true&timeoutSeconds=%d" % WATCH
    version = found["metadata"]["resourceVersion"]
    watched = "%s%s%s&resourceVersion=%s" % (path, "&" if "?" in path else "?", asked, version)
    with api.open(watched, WATCH + 30) as answer:
        for line in answer:
            event = json.loads(line)
            if event["type"] not in ("ADDED", "MODIFIED", "DELETED"):
                if event["type"] == "ERROR":
                    return
                continue
            name, value = digest(event["object"])
            before = dict(table)
            if event["type"] == "DELETED":
                table.pop(name, None)
            else:
                table[name] = value
            if table != before:
                take(dict(table))


def for_ever(path, digest, take):
    """Follow a path without end; trouble is said and tried again."""
    said = ""
    while True:
        try:
            with open(KUBECONFIG, encoding="utf-8") as file:
                text = file.read()
            follow(Api(text), path, digest, take)
            said = ""
        except (OSError, ValueError, KeyError) as error:
            if str(error) != said:
                said = str(error)
                print(said, file=sys.stderr, flush=True)
            time.sleep(0.5)


def main():
    """Follow the nodes."""
    keeper = Keeper(os.environ["NODE"])
    keeper.start()
    for_ever("/api/v1/nodes", node_of, keeper.take)


if __name__ == "__main__":
    main()
