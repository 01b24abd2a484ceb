# Part of paictl: runs on hosts with Python 3.8 or newer and nothing else.
"""How far the DNS cache of the nodes is, by what this machine has noted, and which pods still use one that shall go."""

import calendar
import os
import time

from ansible.module_utils.paictl_host import STATE, read, run

NOTED = STATE + "/node-dns"
"""On the first master: the mark of the manifest that is applied, or `leaving` and since when (seconds)."""
UNIT = "/etc/systemd/system/paictl-node-dns.service"
LEAVING = "leaving"
COLUMNS = (
    "metadata.namespace",
    "metadata.name",
    "metadata.creationTimestamp",
    "spec.dnsPolicy",
    "spec.hostNetwork",
    "status.phase",
)
OVER = ("Succeeded", "Failed")


def state():
    """{state, unit, users}: `users` are pods as namespace/name, None where they cannot be told."""
    noted = read(NOTED).split()
    leaves = noted[:1] == [LEAVING] and len(noted) == 2
    return {
        "state": noted[0] if noted else "",
        "unit": os.path.exists(UNIT),
        "users": users(int(noted[1])) if leaves else [],
    }


def users(since):
    """The pods that began before a time with the cache as their resolver: it is written into each once, for good."""
    columns = "custom-columns=" + ",".join("%s:.%s" % (path.upper(), path) for path in COLUMNS)
    command = ["kubectl", "--kubeconfig=/etc/kubernetes/admin.conf", "get", "pods", "-A", "--no-headers", "-o", columns]
    code, out, _ = run(command)
    if code:
        return None
    rows = [line.split() for line in out.splitlines()]
    return sorted("%s/%s" % (row[0], row[1]) for row in rows if len(row) == len(COLUMNS) and uses(row[2:], since))


def uses(row, since):
    """Whether a pod does, by its time of creation, policy, network and phase."""
    created, policy, host, phase = row
    asks = policy == "ClusterFirstWithHostNet" or (policy == "ClusterFirst" and host != "true")
    return asks and phase not in OVER and calendar.timegm(time.strptime(created, "%Y-%m-%dT%H:%M:%SZ")) < since
