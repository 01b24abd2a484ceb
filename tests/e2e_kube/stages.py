"""What kwok does with the pods of jobs: they run as long as their annotation says, and fail when they are told to.

As a kubelet does, it first lets a pod that is deleted fail, and only then takes it away.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import yaml

from tests.e2e_kube.controlplane import binary

OURS = '.metadata.annotations["paictl.io/job-uid"]'
END = "test.paictl.io/end"
"""Annotation that makes a pod end at once: 0, or one of `CODES`."""
CODES = ("1", "3", "5", "7", "9")
STAYS = "test.paictl.io/stays"
"""Annotation of a batch Job's pod that runs until it is deleted; without it, kwok lets it end at once."""
_END = f'.metadata.annotations["{END}"]'
_STAYS = f'.metadata.annotations["{STAYS}"]'
_DURATION = '.metadata.annotations["paictl.io/duration"]'
_EXITED = """\
{{ $now := Now }}
{{ $root := . }}
containerStatuses:
{{ range $index, $item := .spec.containers }}
- image: {{ $item.image | Quote }}
  name: {{ $item.name | Quote }}
  ready: false
  restartCount: 0
  started: false
  state:
    terminated:
      exitCode: CODE
      finishedAt: {{ $now | Quote }}
      reason: REASON
      startedAt: {{ or $root.status.startTime $now | Quote }}
{{ end }}
phase: PHASE
"""


DOOR = "door-port"
"""File with the port of this machine that stands for port 30096 of all pods: where their door's process really is."""
_RELAY = """
import os, socket, sys, threading
door = socket.create_connection(("127.0.0.1", int(open(sys.argv[1]).read())))
def sends():
    while data := os.read(0, 65536):
        door.sendall(data)
threading.Thread(target=sends, daemon=True).start()
while data := door.recv(65536):
    while data:
        data = data[os.write(1, data):]
"""
_BOARD = (
    'while IFS= read -r line && [ "${#line}" -gt 1 ]; do echo "$line"; done >/dev/null; '
    'printf "HTTP/1.1 200 OK\\r\\nContent-Length: 5\\r\\nConnection: close\\r\\n\\r\\nboard"'
)


def stages(folder: Path) -> Path:
    """The stages that `make kube` has fetched with those for the pods of jobs, as a file.

    All containers have written ``container.log``, and commands run in `folder`: kwok stands in for kubelets there, too.
    On port 6006 they answer as a TensorBoard, on 7007 with what they are sent, on 30096 as the process of a door.
    """
    found = list(yaml.safe_load_all(binary("kwok-stages.yaml").read_text()))
    for stage in found:
        if stage["metadata"]["name"] in ("pod-complete", "pod-delete"):
            stage["spec"]["selector"]["matchExpressions"].append(_is(OURS, "DoesNotExist"))
        if stage["metadata"]["name"] == "pod-complete":
            stage["spec"]["selector"]["matchExpressions"].append(_is(_STAYS, "DoesNotExist"))
    running = [
        _is(OURS, "Exists"),
        _is(".metadata.deletionTimestamp", "DoesNotExist"),
        _is(".status.phase", "In", "Running"),
    ]
    timed = [*running, _is(_DURATION, "Exists"), _is(_END, "DoesNotExist")]
    deleted = [_is(OURS, "Exists"), _is(".metadata.deletionTimestamp", "Exists")]
    over = _is(".status.phase", "In", "Succeeded", "Failed")
    lasting = {"durationFrom": {"expressionFrom": _DURATION}}
    found += [
        _stage("job-pod-ends", timed, _exited("0", "Completed", "Succeeded"), lasting),
        _stage("job-pod-succeeds", [*running, _is(_END, "In", "0")], _exited("0", "Completed", "Succeeded")),
        *(
            _stage(f"job-pod-fails-{code}", [*running, _is(_END, "In", code)], _exited(code, "Error", "Failed"))
            for code in CODES
        ),
        _stage(
            "job-pod-killed",
            [*deleted, _is(".status.phase", "NotIn", "Succeeded", "Failed")],
            _exited("143", "Error", "Failed"),
        ),
        _stage("job-pod-gone", [*deleted, over], None),
    ]
    written = folder / "container.log"
    written.write_text("".join(f"2026-11-22T05:00:00.0Z stdout F {word}\n" for word in ("first", "second")))
    found += [
        {
            "apiVersion": "kwok.x-k8s.io/v1alpha1",
            "kind": "ClusterLogs",
            "metadata": {"name": "logs"},
            "spec": {"logs": [{"logsFile": str(written), "follow": True}]},
        },
        {
            "apiVersion": "kwok.x-k8s.io/v1alpha1",
            "kind": "ClusterExec",
            "metadata": {"name": "exec"},
            "spec": {"execs": [{"local": {"workDir": str(folder)}}]},
        },
        {
            "apiVersion": "kwok.x-k8s.io/v1alpha1",
            "kind": "ClusterPortForward",
            "metadata": {"name": "ports"},
            "spec": {
                "forwards": [
                    {"ports": [6006], "command": ["sh", "-c", _BOARD]},
                    {"ports": [7007], "command": ["cat"]},
                    {"ports": [30096], "command": [sys.executable, "-c", _RELAY, str(folder / DOOR)]},
                ]
            },
        },
    ]
    path = folder / "stages.yaml"
    path.write_text(yaml.safe_dump_all(found, sort_keys=False))
    return path


def _is(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


def _exited(code: str, reason: str, phase: str) -> dict[str, Any]:
    return {"statusTemplate": _EXITED.replace("CODE", code).replace("REASON", reason).replace("PHASE", phase)}


def _stage(
    name: str, matches: list[dict[str, Any]], following: dict[str, Any] | None, delay: dict[str, Any] | None = None
) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "resourceRef": {"apiGroup": "v1", "kind": "Pod"},
        "selector": {"matchExpressions": matches},
        "next": {"delete": True} if following is None else following,
    }
    if delay is not None:
        spec["delay"] = delay
    return {"apiVersion": "kwok.x-k8s.io/v1alpha1", "kind": "Stage", "metadata": {"name": name}, "spec": spec}
