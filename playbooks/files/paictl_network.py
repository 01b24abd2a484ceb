# Part of paictl; runs on every machine, as root, with Python 3.8 or newer and nothing else.
"""Routes to the pods of all other machines of one segment, and the CNI configuration of this one.

Each machine has a /24 of the pods' network (kube-controller-manager gives them). Whoever has joined is seen in the
list of nodes, which kubelet's own certificate may read: no image, no controller, no change on other machines when
one comes or goes. Routes are marked with a protocol number of their own, so that only ours are taken away.
"""

import base64
import json
import os
import re
import ssl
import subprocess
import sys
import time
import urllib.request

KUBECONFIG = "/etc/kubernetes/kubelet.conf"
CONFLIST = "/etc/cni/net.d/10-paictl.conflist"
PROTOCOL = "77"
WATCH = 300


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
    """(name, address, network of its pods) of a node; None for what it does not have yet."""
    addresses = item.get("status", {}).get("addresses", [])
    address = next((one["address"] for one in addresses if one["type"] == "InternalIP"), None)
    return item["metadata"]["name"], address, item.get("spec", {}).get("podCIDR")


def wanted_routes(nodes, own):
    """{network: gateway} to all others that have both."""
    return {network: address for name, (address, network) in nodes.items() if name != own and address and network}


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
        file.write(text)
    os.replace(path + ".new", path)


def settle(nodes, own):
    """Make this machine fit the nodes."""
    address, network = nodes.get(own, (None, None))
    if network:
        write_once(CONFLIST, json.dumps(conflist(network, link_mtu(address)), indent=1) + "\n")
    for command in changes(wanted_routes(nodes, own), present_routes(ip(["route", "show", "proto", PROTOCOL]))):
        ip(command)


def follow(api, own):
    """List the nodes, then watch them; returns when the server ends it."""
    with api.open("/api/v1/nodes", 30) as answer:
        found = json.load(answer)
    nodes = {name: (address, network) for name, address, network in map(node_of, found["items"])}
    settle(nodes, own)
    version = found["metadata"]["resourceVersion"]
    path = "/api/v1/nodes?watch=1&allowWatchBookmarks=true&timeoutSeconds=%d&resourceVersion=%s" % (WATCH, version)
    with api.open(path, WATCH + 30) as answer:
        for line in answer:
            event = json.loads(line)
            if event["type"] not in ("ADDED", "MODIFIED", "DELETED"):
                if event["type"] == "ERROR":
                    return
                continue
            name, address, network = node_of(event["object"])
            before = dict(nodes)
            if event["type"] == "DELETED":
                nodes.pop(name, None)
            else:
                nodes[name] = (address, network)
            if nodes != before:
                settle(nodes, own)


def main():
    """Follow the nodes for ever; trouble is said and tried again."""
    said = ""
    while True:
        try:
            with open(KUBECONFIG, encoding="utf-8") as file:
                text = file.read()
            follow(Api(text), os.environ["NODE"])
            said = ""
        except (OSError, ValueError, KeyError) as error:
            if str(error) != said:
                said = str(error)
                print(said, file=sys.stderr, flush=True)
            time.sleep(0.5)


if __name__ == "__main__":
    main()
