"""What our images hold: which packages, what is left out of them and why, users, byte code, settings."""

from __future__ import annotations

import json
import re
import stat
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from tools.images.debian import Package
from tools.images.oci import Entry, Json, Tree, file, folder, link, with_folders

PYTHON: Final = "3.13"
USER: Final = 65532
"""The number that distroless images use for ``nonroot``; a number, since the kubelet cannot check a name."""

PACKAGES: Final = (
    "base-files",  # os-release, licences
    "netbase",  # /etc/services, /etc/protocols
    "media-types",  # types of files that the portal serves
    "ca-certificates",
    "openssl",  # makes the REST server's certificate where none is given
    "libc6",
    "libgcc-s1",  # ends of threads; wheels made by Rust
    "zlib1g",
    "libbz2-1.0",
    "liblzma5",
    "libzstd1",  # of libcrypto
    "libssl3t64",
    "libexpat1",
    "libffi8",
    "libsqlite3-0",
    "libuuid1",
    f"libpython{PYTHON}-minimal",
    f"python{PYTHON}-minimal",
    f"libpython{PYTHON}-stdlib",
)
"""Debian's packages of the base: a Python and the libraries that it needs. No shell, no package manager."""

_DROPPED: Final = re.compile(
    r"usr/share/(man|info|lintian|locale|pixmaps|applications|bug|menu|binfmts|base-files|gcc|gdb|ca-certificates)(/|$)"
    r"|usr/share/doc/[^/]+/(?!copyright$)"  # licences stay
    r"|usr/lib/[^/]+/gconv(/|$)"  # Python has codecs of its own
    r"|usr/lib/[^/]+/(audit|perl5|libmvec)"
    r"|usr/lib/(binfmt\.d|systemd)(/|$)|usr/sbin(/|$)|usr/(games|include|src)(/|$)"
    r"|usr/lib/python3/dist-packages/kubernetes/aio(/|$)"  # the client again, for asyncio: 65 MB, never loaded
    r"|usr/lib/python3\.\d+/(pydoc_data|idlelib|ensurepip|tkinter|turtledemo|curses|test)(/|$)"
    r"|usr/lib/python3\.\d+/(turtle|antigravity|this)\.py$"
    r"|usr/lib/python3\.\d+/lib-dynload/(_test|_xxtest|xxlimited|_ctypes_test|_curses|readline|_tkinter)[^/]*$"
    r"|etc/(default|update-motd.d|motd|issue|issue.net|ca-certificates|dpkg|profile.d|host.conf)(/|$|\.)"
    r"|(var/lib|var/cache|var/backups|var/spool|var/local|root|home|srv|opt|mnt|media|boot)(/|$)"
)
"""What nothing in the image reads."""


def base(packages: Iterable[tuple[Package, Mapping[str, Entry]]]) -> Tree:
    """A root file system with Python from packages and what is in each; with certificates, users and /tmp."""
    found: Tree = {}
    certificates: list[bytes] = []
    versions: dict[str, str] = {}
    for package, tree in packages:
        versions[package.name] = package.version
        certificates += [
            entry.data.strip() + b"\n"
            for path, entry in sorted(tree.items())
            if path.startswith("usr/share/ca-certificates/") and path.endswith(".crt")
        ]
        found |= kept(tree)
    return (
        found
        | {name: link(f"usr/{name}") for name in ("bin", "lib", "lib64", "sbin")}
        | {"usr/sbin": folder(), "usr/bin/python3": link(f"python{PYTHON}")}
        | {
            "etc/ssl/certs/ca-certificates.crt": file(b"".join(certificates)),
            "usr/lib/ssl/cert.pem": link("/etc/ssl/certs/ca-certificates.crt"),
            "usr/share/paictl/debian.json": file(json.dumps(versions, indent=1, sort_keys=True) + "\n"),
        }
        | accounts()
    )


def accounts() -> Tree:
    """Users, names of hosts, and the folders that a container runtime mounts over."""
    return {
        "etc/passwd": file(
            f"root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:{USER}:{USER}:nonroot:/tmp:/sbin/nologin\n"
        ),
        "etc/group": file(f"root:x:0:\nnonroot:x:{USER}:\n"),
        "etc/nsswitch.conf": file("passwd: files\ngroup: files\nhosts: files dns\n"),
        "tmp": Entry(stat.S_IFDIR | 0o1777),
        "var/tmp": Entry(stat.S_IFDIR | 0o1777),
        **{name: folder() for name in ("proc", "sys", "dev", "run", "var")},
    }


def kept(tree: Mapping[str, Entry]) -> Tree:
    """A tree without what nothing in the image reads."""
    return {path: entry for path, entry in tree.items() if not _DROPPED.match(path)}


def byte_code(whole: Mapping[str, Entry], of: Mapping[str, Entry]) -> Tree:
    """Byte code of all modules of a part of a root file system, made by the Python in it.

    Without it every start would compile anew, as the root file system is read-only. It names the source by its hash
    and is never compared with it: the image does not change. Raises `subprocess.CalledProcessError` for a module
    with an error.
    """
    with tempfile.TemporaryDirectory(prefix="paictl-image-") as name:
        root = Path(name)
        write(with_folders(whole), root)
        list_of_files = root / "list"
        sources = sorted(path for path, entry in of.items() if path.endswith(".py") and stat.S_ISREG(entry.mode))
        list_of_files.write_text("".join(f"{root}/{path}\n" for path in sources))
        loader = next(one for one in (root / "usr/lib").glob("*/ld-linux-*.so.*"))
        subprocess.run(
            [
                str(loader),
                "--library-path",
                str(loader.parent),
                str(root / f"usr/bin/python{PYTHON}"),
                "-sSP",
                "-B",
                "-m",
                "compileall",
                "-f",
                "-q",
                "-i",
                str(list_of_files),
                "-s",
                str(root),
                "-p",
                "/",
                "--invalidation-mode",
                "unchecked-hash",
            ],
            check=True,
            stdout=subprocess.DEVNULL,
            env={"PYTHONHOME": f"{root}/usr", "PYTHONHASHSEED": "0", "LC_ALL": "C.UTF-8"},
        )
        found: Tree = {}
        for path in sources:
            source = root / path
            compiled = source.parent / "__pycache__" / f"{source.stem}.cpython-{PYTHON.replace('.', '')}.pyc"
            found[str(compiled.relative_to(root))] = file(compiled.read_bytes())
        return found


def write(tree: Mapping[str, Entry], root: Path) -> None:
    """Write a tree below a folder, as whoever runs this."""
    for path, entry in sorted(tree.items()):
        target = root / path
        if stat.S_ISDIR(entry.mode):
            target.mkdir(exist_ok=True)
        elif stat.S_ISLNK(entry.mode):
            target.symlink_to(entry.data.decode())
        else:
            target.write_bytes(entry.data)
            target.chmod(stat.S_IMODE(entry.mode))


def settings(program: str, title: str, version: str, licence: str) -> Json:
    """How a container of an image runs when nobody says otherwise."""
    return {
        "User": f"{USER}:{USER}",
        "Entrypoint": [program],
        "Env": [
            "PATH=/usr/local/bin:/usr/bin",
            "HOME=/tmp",
            "LANG=C.UTF-8",
            "PYTHONUNBUFFERED=1",
            "PYTHONDONTWRITEBYTECODE=1",
        ],
        "WorkingDir": "/",
        "Labels": {
            "org.opencontainers.image.title": title,
            "org.opencontainers.image.version": version,
            "org.opencontainers.image.licenses": licence,
        },
    }
