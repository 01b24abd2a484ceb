#!/usr/bin/env python3
"""What is released, with checksums, signed by a key of OpenSSH, and checked as users check it (`docs/security.md`).

``dist.py build`` puts the wheel, both bills of materials and the image that `make images` built last into the folder,
and writes ``SHA256SUMS``. ``dist.py sign KEY`` signs that file, as ``ssh-keygen -Y sign`` does: KEY is
the path of a private key, or of a public one whose private half an agent has. ``dist.py verify SIGNERS`` checks the
signature and every file; SIGNERS is a file of allowed signers (ssh-keygen(1)). ``dist.py publish SIGNERS`` does so,
too, and then uploads the wheel to PyPI, or to the index that ``--index`` and ``--upload`` name; the token is read from
UV_PUBLISH_TOKEN. The folder is ``dist``, or ``--folder``.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
SUMS: Final = "SHA256SUMS"
SIGNATURE: Final = f"{SUMS}.sig"
NAMESPACE: Final = "paictl"
"""What the signature is for: one that was made for e-mail or git is not taken."""
SIGNER: Final = "paictl-release"
"""Who has signed, in the file of allowed signers."""
PYPI: Final = ("https://pypi.org/simple/", "https://upload.pypi.org/legacy/")
"""Where packages are looked up, and where they are sent to."""
_UV: Final = ROOT / ".venv-publish" / "bin" / "uv"
_ENDINGS: Final = (".whl", ".cdx.json", ".oci.tar", SUMS, SIGNATURE)
"""Of the files of a release."""
_LINE: Final = re.compile(r"([0-9a-f]{64}) [ *]([A-Za-z0-9][A-Za-z0-9._+-]*)")


class DistError(Exception):
    """Something is wrong with a release, or with what is to be signed."""


def build(folder: Path) -> None:
    """Make all files of a release, in place of those of an earlier one.

    Raises `DistError` without an image, or if the folder holds anything else.
    """
    archive = Path.home() / ".cache" / "paictl" / "images" / "current" / "paictl.tar"
    if not archive.is_file():
        raise DistError(f"{archive}: not found: make images builds it")
    folder.mkdir(parents=True, exist_ok=True)
    earlier = [path for path in folder.iterdir() if path.is_file() and path.name.endswith(_ENDINGS)]
    if strange := sorted(path.name for path in set(folder.iterdir()) - set(earlier)):
        raise DistError(f"{folder}: {strange[0]} is not part of a release: use another folder, or move it away")
    for path in earlier:
        path.unlink()
    options = ["-q", "--no-deps", "--no-build-isolation", f"--wheel-dir={folder}"]  # hatchling is one of our tools
    wheel = [sys.executable, "-m", "pip", "wheel", *options, str(ROOT)]
    subprocess.run(wheel, check=True)
    subprocess.run([sys.executable, ROOT / "tools" / "sbom.py", folder], check=True)
    (bill,) = folder.glob("*-image.cdx.json")
    shutil.copyfile(archive, folder / bill.name.replace(".cdx.json", ".oci.tar"))
    write_sums(folder)


def write_sums(folder: Path) -> None:
    """Write the checksums of all files of a folder; a signature of earlier ones is deleted."""
    (folder / SIGNATURE).unlink(missing_ok=True)
    lines = [f"{digest(folder / name)}  {name}\n" for name in sorted(names(folder))]
    (folder / SUMS).write_text("".join(lines), encoding="utf-8")


def names(folder: Path) -> set[str]:
    """The files of a release that checksums are for."""
    return {path.name for path in folder.iterdir()} - {SUMS, SIGNATURE}


def digest(path: Path) -> str:
    """The SHA-256 of a file, read piece by piece: an image has 50 MB and more."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sign(folder: Path, key: Path) -> None:
    """Sign the checksums. The key's own passphrase is asked for at the terminal. Raises `DistError`."""
    if problems := list(differing(folder)):
        raise DistError("; ".join(problems))
    if not key.is_file():
        raise DistError(f"{key}: there is no such key")
    if ROOT in key.resolve().parents:
        raise DistError(f"{key}: keep the key outside the source tree")
    if key.suffix != ".pub" and key.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise DistError(f"{key}: others can read it: chmod 600 {key}")
    (folder / SIGNATURE).unlink(missing_ok=True)
    command = ["ssh-keygen", "-q", "-Y", "sign", "-f", str(key), "-n", NAMESPACE, str(folder / SUMS)]
    if subprocess.run(command, check=False).returncode or not (folder / SIGNATURE).is_file():
        raise DistError(f"{key}: ssh-keygen did not sign")


def verify(folder: Path, signers: Path, *, partial: bool = False) -> int:
    """Check signature and files, and return how many; `partial`: some may not be there. Raises `DistError`."""
    for path in (folder / SUMS, folder / SIGNATURE, signers):
        if not path.is_file():
            raise DistError(f"{path}: not found")
    sums = (folder / SUMS).read_bytes()
    command = [
        "ssh-keygen",
        "-Y",
        "verify",
        "-f",
        str(signers),
        "-I",
        SIGNER,
        "-n",
        NAMESPACE,
        "-s",
        str(folder / SIGNATURE),
    ]
    done = subprocess.run(command, input=sums, capture_output=True, check=False)
    if done.returncode:
        said = (done.stderr + done.stdout).decode(errors="replace").strip().replace("\n", "; ")
        raise DistError(f"{folder / SUMS}: not signed by {SIGNER} of {signers}: {said}")
    if problems := list(differing(folder, partial=partial)):
        raise DistError("; ".join(problems))
    return len(names(folder))


def publish(folder: Path, signers: Path, index: str, upload: str) -> None:
    """Upload the wheel of a signed release to an index of packages, where it stays for ever. Raises `DistError`.

    Nothing is done if the index has the same file already; another one of the same version is an error.
    """
    verify(folder, signers)
    wheels = list(folder.glob("*.whl"))
    if len(wheels) != 1:
        raise DistError(f"{folder}: one wheel is expected, and there are {len(wheels)}")
    version = wheels[0].name.split("-")[1]
    if upload.rstrip("/") == PYPI[1].rstrip("/") and "dev" in version:
        raise DistError(f"{version} is no release: set the version in paictl/__init__.py, and run make dist again")
    where = ["--publish-url", upload, "--check-url", index]
    if subprocess.run([_UV, "publish", "-q", "--no-config", *where, wheels[0]], check=False).returncode:
        raise DistError(f"{wheels[0].name} was not uploaded to {upload}")


def differing(folder: Path, *, partial: bool = False) -> Iterator[str]:
    """In what the files of a folder differ from their checksums."""
    sums = folder / SUMS
    if not sums.is_file():
        yield f"{sums}: not found"
        return
    known: dict[str, str] = {}
    for number, line in enumerate(sums.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
        if (match := _LINE.fullmatch(line)) is None:
            yield f"{sums}:{number}: not a checksum and a name"
        else:
            known[match[2]] = match[1]
    there = names(folder)
    for name in sorted(there - known.keys()):
        yield f"{folder / name}: it has no checksum in {SUMS}"
    for name, expected in sorted(known.items()):
        if name not in there:
            if not partial:
                yield f"{folder / name}: not found"
        elif digest(folder / name) != expected:
            yield f"{folder / name}: its checksum differs: it is damaged or was changed"
    if not there:
        yield f"{folder}: no file to check"


def main(words: list[str] | None = None) -> None:
    """Do what the words say; exit code 1 if a release is not as it was signed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=ROOT / "dist")
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("build")
    verbs.add_parser("sign").add_argument("key", type=Path)
    checking = verbs.add_parser("verify")
    checking.add_argument("signers", type=Path)
    checking.add_argument("--partial", action="store_true", help="some of the files were not downloaded")
    uploading = verbs.add_parser("publish")
    uploading.add_argument("signers", type=Path)
    uploading.add_argument("--index", default=PYPI[0], help="where packages are looked up")
    uploading.add_argument("--upload", default=PYPI[1], help="where they are sent to")
    args = parser.parse_args(words)
    try:
        match args.verb:
            case "build":
                build(args.folder)
            case "sign":
                sign(args.folder, args.key)
            case "verify":
                count = verify(args.folder, args.signers, partial=args.partial)
                print(f"{args.folder}: {count} files, as {SIGNER} signed them")
            case "publish":
                publish(args.folder, args.signers, args.index, args.upload)
                print(f"the wheel is at {args.index.rstrip('/')}/paictl/")
    except DistError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
