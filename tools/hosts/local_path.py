"""The image of local-path-provisioner, from what build.sh has built; not among what test hosts always get."""

from __future__ import annotations

from pathlib import Path

from paictl.deploy.storage_class import IMAGE
from tools.hosts.archive import write_image
from tools.hosts.artifacts import built
from tools.hosts.debs import busybox
from tools.hosts.places import hosts, kept, key_of

_APPLETS = ("sh", "mkdir", "rm")
"""What the scripts of its helpers call."""


def local_path() -> Path:
    """The archive, under the name of its makers' image.

    Raises:
        LabError: it has not been built: tools/kube/build.sh localpath.
    """
    program = built("localpath", "local-path-provisioner")

    def fill(at: Path) -> None:
        files = {"/usr/bin/local-path-provisioner": program, "/bin/busybox": busybox()}
        links = {f"/bin/{name}": "busybox" for name in _APPLETS}
        write_image(at / "local-path-provisioner.tar", IMAGE, files, links=links)

    key = key_of([program.parent.name, IMAGE, Path(__file__).read_bytes()])
    return kept(hosts() / "local-path" / key, fill) / "local-path-provisioner.tar"
