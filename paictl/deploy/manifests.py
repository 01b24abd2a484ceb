"""The manifests of flannel and Calico, fitted to a cluster: the network of its pods, the addresses of its machines."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from paictl.errors import PaictlError
from paictl.i18n import text

FOREIGN: Final = ("flannel", "calico")
"""Networks whose manifest is an artifact."""
_ADDRESS: Final = "PAICTL_NODE_ADDRESS"
_DAEMON: Final = "/opt/bin/flanneld"
_SETTINGS: Final = "net-conf.json"
_POOL: Final = re.compile(r'^( *)# - name: CALICO_IPV4POOL_CIDR\n +#   value: "[^"]*"$', re.MULTILINE)
_IMAGE: Final = re.compile(r"^[ -]*image: *[\"']?([^\s\"']+)", re.MULTILINE)


def manifest_for(network: str, path: Path, pods: str) -> str:
    """The manifest of flannel or Calico with the network of the pods in it.

    Raises:
        PaictlError: the file has another form than the makers', so that nobody knows where the network belongs.
    """
    written = path.read_text(encoding="utf-8")
    fitted = _flannel(written, pods) if network == "flannel" else _calico(written, pods)
    if not fitted:
        hint = text("use the original: paictl deploy bundle create --with {network}", network=network)
        raise PaictlError(text("is not a known {network} manifest", network=network), where=str(path), hint=hint)
    return fitted


def images_named(path: Path) -> tuple[str, ...]:
    """The images that a manifest runs, each once."""
    return tuple(sorted(set(_IMAGE.findall(path.read_text(encoding="utf-8")))))


def _flannel(written: str, pods: str) -> str:
    """flannel's settings get the network, and each daemon gets the address of its node in the cluster.

    By itself it takes the link of the default route, which a machine without one, or with two links, has not or has
    elsewhere. Empty if there is no place for either.
    """
    documents = [document for document in yaml.safe_load_all(written) if isinstance(document, dict)]
    settings = [
        document
        for document in documents
        if document.get("kind") == "ConfigMap" and _SETTINGS in (document.get("data") or {})
    ]
    daemons = [
        container
        for document in documents
        if document.get("kind") == "DaemonSet"
        for container in document["spec"]["template"]["spec"]["containers"]
        if _DAEMON in container.get("command", ())
    ]
    if not settings or not daemons:
        return ""
    for config_map in settings:
        network = {**json.loads(config_map["data"][_SETTINGS]), "Network": pods}
        config_map["data"][_SETTINGS] = json.dumps(network, indent=2) + "\n"
    for container in daemons:
        _tell_address(container)
    return yaml.safe_dump_all(documents, sort_keys=False)


def _tell_address(container: dict[str, Any]) -> None:
    """Tell the daemon its node's address, unless the manifest names an interface."""
    arguments: Sequence[str] = container.get("args", ())
    if any(word.lstrip("-").startswith("iface") for word in arguments):
        return
    container["args"] = [*arguments, f"--iface=$({_ADDRESS})"]
    own = {"name": _ADDRESS, "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}}
    container["env"] = [*container.get("env", ()), own]


def _calico(written: str, pods: str) -> str:
    """Calico names its pool in two lines that are commented out; the rest, thousands of lines, stays to the letter."""
    fitted, count = _POOL.subn(rf'\g<1>- name: CALICO_IPV4POOL_CIDR\n\g<1>  value: "{pods}"', written)
    return fitted if count == 1 else ""
