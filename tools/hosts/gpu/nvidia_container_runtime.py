#!/usr/bin/python3
"""A stand-in for nvidia-container-runtime: runc, but a container gets the devices of its NVIDIA_VISIBLE_DEVICES."""

import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path

RUNC = "/usr/local/sbin/runc"
EVERYBODY = 0o666


def visible(environment: Iterable[str]) -> list[str]:
    """Names of devices, as the last setting says; none where there is no setting."""
    said = [one.partition("=")[2] for one in environment if one.startswith("NVIDIA_VISIBLE_DEVICES=")]
    return [] if not said or said[-1] in ("", "void", "none") else said[-1].split(",")


def add_devices(path: Path) -> None:
    """Write the wished devices into the specification of a container."""
    spec = json.loads(path.read_text())
    names = visible(spec["process"].get("env") or [])
    if not names:
        return
    rows = json.loads(Path("/etc/cdi/nvidia.yaml").read_text())["devices"]
    known = {row["name"]: row["containerEdits"]["deviceNodes"] for row in rows}
    for name in known if names == ["all"] else names:
        if name not in known:
            sys.exit(f"unresolvable CDI devices nvidia.com/gpu={name}")
        for node in known[name]:
            number = Path(node["path"]).stat().st_rdev
            kind = {"type": "c", "major": os.major(number), "minor": os.minor(number)}
            spec["linux"].setdefault("devices", []).append({"path": node["path"], "fileMode": EVERYBODY, **kind})
            rules = spec["linux"].setdefault("resources", {}).setdefault("devices", [])
            rules.append({"allow": True, "access": "rwm", **kind})
    path.write_text(json.dumps(spec))


if __name__ == "__main__":
    if "create" in sys.argv:
        bundle = sys.argv[sys.argv.index("--bundle") + 1] if "--bundle" in sys.argv else "."
        add_devices(Path(bundle) / "config.json")
    os.execv(RUNC, [RUNC, *sys.argv[1:]])  # noqa: S606 - to become runc is its purpose
