"""A program as a container runtime runs it: alone on a read-only root, as nobody, with what its pod would mount."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

NOBODY = 65534
_LAUNCH = f"""
import ctypes, os, sys
prctl = ctypes.CDLL(None).prctl
root, *words = sys.argv[1:]
os.chroot(root)
os.chdir("/")
os.setgroups([])
os.setgid({NOBODY})
os.setuid({NOBODY})
prctl(1, 9)  # PR_SET_PDEATHSIG, which another user has lost: a test run that is killed leaves nothing behind
os.execve(words[0], words, {{name: value for name, value in os.environ.items() if name.startswith("KUBERNETES_")}})
"""
_MOUNT = """
set -e
root=$1 data=$2 host=$3 python=$4 launch=$5; shift 5
mount --bind "$root" "$root"
[ -z "$host" ] || { mount --rbind / "$root$host"; mount -o remount,ro,bind "$root$host"; }
[ -z "$data" ] || mount -t tmpfs -o mode=777 tmpfs "$root$data"
mount -o remount,ro,bind "$root"
exec "$python" -c "$launch" "$root" "$@"
"""


def why_not() -> str:
    """Why no program can be run so here; empty if it can."""
    if os.geteuid() != 0:
        return "only root may chroot"
    return "" if shutil.which("unshare") else "no unshare here (util-linux)"


def contained(
    program: Path, words: Sequence[str], root: Path, files: Mapping[str, str | bytes], *, data: str = "", host: str = ""
) -> list[str]:
    """The command line that runs a static program in `root`, which is made here.

    `files` are by their paths in the container; `data` is a folder that it may write to, `host` one that shows the
    host's root. Of the environment it gets what Kubernetes tells pods. The program itself is `/bin/NAME`.
    """
    inside = f"/bin/{program.name}"
    for place in filter(None, (data, host)):
        (root / place.lstrip("/")).mkdir(parents=True)
    for path, content in files.items():
        at = root / path.lstrip("/")
        at.parent.mkdir(parents=True, exist_ok=True)
        at.write_bytes(content.encode() if isinstance(content, str) else content)
    (root / "bin").mkdir(parents=True)
    shutil.copy(program, root / inside.lstrip("/"))
    root.chmod(0o755)
    around = ["unshare", "--mount", "bash", "-c", _MOUNT, "bash", str(root), data, host, sys.executable, _LAUNCH]
    return [*around, inside, *words]
