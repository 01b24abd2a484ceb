"""In the network of a job's pod, ask the extender as if one were kube-scheduler: ``intruder.py HOST PODS MACHINES``.

PODS is JSON: pods of its own and of others. MACHINES are addresses, whose ports it tries. Printed is, as JSON, what
came of each request: an HTTP status, or the name of the error where there was no answer. Needs nothing but Python: it
runs on a test host.
"""

from __future__ import annotations

import json
import socket
import ssl
import sys
import urllib.error
import urllib.request
from typing import Any

PORT = 30096
PRIVATE = (22, 2379, 10250)
"""SSH, etcd and kubelet of machines."""
SPEC = "hivedscheduler.microsoft.com/pod-scheduling-spec"


def asked(url: str, body: object = None) -> int | str:
    """The status of an answer; the name of the error if there is none."""
    careless = ssl.create_default_context()
    careless.check_hostname, careless.verify_mode = False, ssl.CERT_NONE
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})  # noqa: S310 - http or https
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=careless))
    try:
        with opener.open(request, timeout=10) as reply:
            return int(reply.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError as error:
        return type(getattr(error, "reason", error)).__name__


def connected(address: str, port: int) -> str:
    """What comes of a connection: open, or the name of the error."""
    try:
        socket.create_connection((address, port), 5).close()
    except OSError as error:
        return type(error).__name__
    return "open"


def claimed(pod: dict[str, Any]) -> dict[str, Any]:
    """A pod as it would like to be: of the strongest priority."""
    about = pod["metadata"]
    spec = {"virtualCluster": "default", "priority": 1000, "leafCellNumber": 1, "ignoreK8sSuggestedNodes": True}
    names = {key: about[key] for key in ("name", "namespace", "uid")}
    return {**pod, "metadata": {**names, "annotations": {SPEC: json.dumps(spec)}}}


def main(host: str, pods: list[dict[str, Any]], machines: list[str]) -> None:
    """Filter and preempt for each pod with a request of ones own, bind it, look at who has what, try the machines."""
    said: dict[str, int | str] = {}
    for scheme in ("https", "http"):
        base = f"{scheme}://{host}:{PORT}/v1"
        for pod in pods:
            about, node = pod["metadata"], pod["spec"].get("nodeName", "worker1")
            victims = {node: {"Pods": [{"UID": one["metadata"]["uid"]} for one in pods]}}
            calls = {
                "filter": {"Pod": claimed(pod), "NodeNames": ["worker1", "worker2"]},
                "preempt": {"Pod": claimed(pod), "NodeNameToMetaVictims": victims},
                "bind": {"Node": node, **{f"Pod{key}": about[key.lower()] for key in ("Name", "Namespace", "UID")}},
            }
            for verb, body in calls.items():
                said[f"{scheme} {verb} {about['name']}"] = asked(f"{base}/extender/{verb}", body)
        for view in ("inspect/affinitygroups/", "inspect/clusterstatus", "picture"):
            said[f"{scheme} {view}"] = asked(f"{base}/{view}")
    for address in machines:
        said.update({f"tcp {address} {port}": connected(address, port) for port in PRIVATE})
    print(json.dumps(said))  # noqa: T201 - what the test reads


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]), sys.argv[3:])
