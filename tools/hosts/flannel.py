"""flannel for an artifact folder: its makers' manifest, and images under their names with what build.sh has built.

Not among what test hosts always get: ``tools/kube/build.sh flannel`` takes minutes, and one test needs it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Final

from tools.hosts.archive import write_image
from tools.hosts.artifacts import LOCK, built, proxy_files, row
from tools.hosts.base import base
from tools.hosts.debs import busybox
from tools.hosts.places import hosts, kept, key_of, versions
from tools.hosts.shell import LabError

_SPEAKS: Final = "0.4.0"
"""The newest form of CNI's configuration that the plugin understands which can be built (see build.sh)."""
_IMAGE = re.compile(r"^\s*image: (\S+)$", re.MULTILINE)


def with_flannel(core: Path) -> Path:
    """An artifact folder that has what another one has, and flannel; made if it is not in the cache.

    Raises:
        LabError: flannel has not been built, or its manifest is of another form.
    """
    parts = [core.parent.name, versions()["FLANNEL_VERSION"], versions()["FLANNEL_CNI_VERSION"], base().name]

    def fill(at: Path) -> None:
        shutil.copytree(core, at / "artifacts", copy_function=os.link)
        _add(at / "artifacts")

    return kept(hosts() / "packed" / key_of([*parts, Path(__file__).read_bytes()]), fill) / "artifacts"


def _add(at: Path) -> None:
    text = built("flannel", "kube-flannel.yml").read_text()
    manifest = re.sub(r'"cniVersion": "[^"]*"', f'"cniVersion": "{_SPEAKS}"', text)
    (at / "kube-flannel.yml").write_text(manifest)
    rows = json.loads((at / LOCK).read_text())["artifacts"]
    rows.append(asdict(row(at, "flannel", "manifest", versions()["FLANNEL_VERSION"], "kube-flannel.yml")))
    for reference in sorted(set(_IMAGE.findall(text))):
        name, _, tag = reference.rpartition("/")[2].partition(":")
        path = f"images/{name}_{tag}.tar"
        _image(at / path, name, reference)
        rows.append(asdict(row(at, f"{name}_{tag}", "image", tag, path)))
    (at / LOCK).unlink()  # a hard link still
    (at / LOCK).write_text(json.dumps({"schemaVersion": 1, "artifacts": rows}, indent=2) + "\n")


def _image(target: Path, name: str, reference: str) -> None:
    """One of the images of the manifest."""
    match name:
        case "flannel":
            programs = {f"/opt/bin/{each}": built("flannel", each) for each in ("flanneld", "install-conf")}
            merged = {f"/{each}": f"usr/{each}" for each in ("bin", "sbin", "lib", "lib64")}
            files = {**proxy_files(base()), **programs}
            write_image(target, reference, files, links=merged, entrypoint=["/opt/bin/flanneld"])
        case "flannel-cni-plugin":
            files = {"/bin/busybox": busybox(), "/flannel": built("flannel", "flannel")}
            write_image(target, reference, files, links={"/bin/cp": "busybox"})
        case _:
            raise LabError(f"flannel's manifest names an image that nobody makes here: {reference}")
