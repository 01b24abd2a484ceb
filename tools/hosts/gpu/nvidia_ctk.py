#!/usr/bin/python3
"""A stand-in for nvidia-ctk: its version, and the description of the host's devices for containers (CDI)."""

import json
import sys
from pathlib import Path

words = sys.argv[1:]
if words == ["--version"]:
    print("NVIDIA Container Toolkit CLI version 1.18.1 (stand-in)")
elif words[:2] == ["cdi", "generate"]:
    target = Path(next(word.partition("=")[2] for word in words if word.startswith("--output=")))
    devices = [
        {"name": path.name.removeprefix("nvidia"), "containerEdits": {"deviceNodes": [{"path": str(path)}]}}
        for path in sorted(Path("/dev").glob("nvidia[0-9]*"))
    ]
    target.parent.mkdir(parents=True, exist_ok=True)
    specification = {"cdiVersion": "0.6.0", "kind": "nvidia.com/gpu", "devices": devices}
    target.write_text(json.dumps(specification))  # JSON is YAML
else:
    sys.exit(f"nvidia-ctk (stand-in): unknown: {' '.join(words)}")
