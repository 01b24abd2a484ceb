"""Debian's packages and wheels as trees, the lock file of the image, the Dockerfile."""

from __future__ import annotations

import hashlib
import io
import os
import re
import shutil
import stat
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tools.images import build, debian, recipe, wheels
from tools.images.debian import FetchError, Package
from tools.images.oci import Entry, Tree, file, link

LOCK = ROOT / "requirements" / "image.lock"


def deb(path: Path, members: dict[str, Entry]) -> Path:
    """A Debian package: an ``ar`` archive of version, control and data."""

    def packed(entries: dict[str, Entry]) -> bytes:
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w:xz") as archive:
            for name, entry in entries.items():
                info = tarfile.TarInfo(name)
                info.mode = stat.S_IMODE(entry.mode)
                if stat.S_ISDIR(entry.mode):
                    info.type = tarfile.DIRTYPE
                elif stat.S_ISLNK(entry.mode):
                    info.type, info.linkname = tarfile.SYMTYPE, entry.data.decode()
                else:
                    info.size = len(entry.data)
                archive.addfile(info, io.BytesIO(entry.data))
        return out.getvalue()

    control = packed({"./control": file("Package: x\nVersion: 1\nArchitecture: all\nMaintainer: x\nDescription: x\n")})
    with path.open("wb") as out:
        out.write(b"!<arch>\n")
        for name, data in (("debian-binary", b"2.0\n"), ("control.tar.xz", control), ("data.tar.xz", packed(members))):
            out.write(
                f"{name:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(data):<10}`\n".encode() + data + b"\n" * (len(data) % 2)
            )
    return path


@pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="dpkg-deb is not here: not a Debian")
def test_a_package_is_read_with_merged_usr_and_without_set_user_id(tmp_path: Path) -> None:
    path = deb(
        tmp_path / "x.deb",
        {
            "./": Entry(0o40755),
            "./lib/": Entry(0o40755),
            "./lib/libx.so.1": file(b"x"),
            "./usr/lib/libx.so": link("libx.so.1"),
            "./usr/bin/su": Entry(0o104755, b"su"),
        },
    )
    assert debian.read(Package("x", "1", "", path)) == {
        "usr/lib/libx.so.1": file(b"x"),
        "usr/lib/libx.so": link("libx.so.1"),
        "usr/bin/su": file(b"su", 0o755),
    }


def test_the_base_has_users_certificates_and_versions_and_no_shell() -> None:
    tree: Tree = {
        "usr/share/ca-certificates/mozilla/B.crt": file("BBB\n"),
        "usr/share/ca-certificates/mozilla/A.crt": file("AAA"),
        "usr/share/doc/x/copyright": file("free"),
        "usr/share/doc/x/changelog.gz": file("long"),
        "usr/share/man/man1/x.1": file("man"),
        "usr/lib/x86_64-linux-gnu/gconv/BIG5.so": file("big"),
        "usr/lib/x86_64-linux-gnu/libx.so.1": file("lib"),
    }
    found = recipe.base([(Package("x", "1:2-3", "", Path()), tree)])
    assert found["etc/ssl/certs/ca-certificates.crt"].data == b"AAA\nBBB\n"
    assert b"65532:65532" in found["etc/passwd"].data
    assert found["usr/share/paictl/debian.json"].data == b'{\n "x": "1:2-3"\n}\n'
    assert {path for path in tree if path in found} == {
        "usr/share/doc/x/copyright",
        "usr/lib/x86_64-linux-gnu/libx.so.1",
    }
    assert found["tmp"].mode == 0o41777
    assert not {"bash", "dash", "dpkg", "apt", "coreutils"} & set(recipe.PACKAGES)


def wheel(path: Path, files: dict[str, str]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return path


def test_a_wheel_is_read_without_programs(tmp_path: Path) -> None:
    path = wheel(
        tmp_path / "x-1-py3-none-any.whl",
        {"x/__init__.py": "a", "x-1.data/purelib/y.py": "b", "x-1.data/scripts/x": "c", "x-1.dist-info/METADATA": "d"},
    )
    assert set(wheels.read(path)) == {
        f"{wheels.SITE}/{one}" for one in ("x/__init__.py", "y.py", "x-1.dist-info/METADATA")
    }


def test_a_wheel_that_wants_files_elsewhere_is_refused(tmp_path: Path) -> None:
    path = wheel(tmp_path / "x-1-py3-none-any.whl", {"x-1.data/data/etc/x": "a"})
    with pytest.raises(ValueError, match=r"x-1\.data/data/etc/x belongs outside"):
        wheels.read(path)


def test_wheels_that_are_there_are_not_asked_for_again_unless_they_are_others(tmp_path: Path) -> None:
    path = wheel(tmp_path / "x-1-py3-none-any.whl", {"x.py": "a"})
    lock = tmp_path / "lock"
    lock.write_text(f"x==1 \\\n    --hash=sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}\n")
    assert wheels.download(lock, tmp_path, "3.13", "amd64") == [path]
    wheel(path, {"x.py": "b"})
    assert wheels._of(lock, tmp_path) == []


def test_the_image_has_the_versions_that_the_tests_run_with() -> None:
    tested, shipped = wheels.locked(ROOT / "requirements" / "dev.lock"), wheels.locked(LOCK)
    assert shipped
    assert {name: version for name, version in shipped.items() if tested.get(name) != version} == {}


def test_the_image_has_all_that_the_extras_of_programs_in_a_cluster_need() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = project["dependencies"] + [
        one for extra in ("k8s", "server") for one in project["optional-dependencies"][extra]
    ]
    names = {wheels.normal(re.split(r"[<>=!~ \[;]", one)[0]) for one in wanted}
    assert names - {wheels.normal(name) for name in wheels.locked(LOCK)} == set()


def test_where_apt_is_not_the_message_says_what_else_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(FetchError, match="Dockerfile"):
        debian.Apt(tmp_path / "apt", "amd64").fetch(("libc6",))


def test_sets_that_nobody_asked_for_lately_go(tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / f"{number}").mkdir()
        (tmp_path / f"{number}" / "images.json").write_text("{}")
        os.utime(tmp_path / f"{number}" / "images.json", (number, number))
        os.utime(tmp_path / f"{number}", (number, number))
    (tmp_path / "current").symlink_to("0")
    build._forget(tmp_path, tmp_path / "0")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["0", "3", "4", "current"]


def test_byte_code_is_the_same_again_and_never_looks_at_the_source(tmp_path: Path) -> None:
    """With this Python in place of the image's: `recipe.byte_code` runs the same command there."""
    (tmp_path / "m.py").write_text("x = {'b', 'a'}\n")
    command = [
        sys.executable,
        "-B",
        "-m",
        "compileall",
        "-f",
        "-q",
        "-s",
        str(tmp_path),
        "-p",
        "/",
        "--invalidation-mode",
        "unchecked-hash",
        str(tmp_path / "m.py"),
    ]
    found = []
    for _ in range(2):
        subprocess.run(command, check=True, env={"PYTHONHASHSEED": "0"})
        (compiled,) = (tmp_path / "__pycache__").iterdir()
        found.append(compiled.read_bytes())
        compiled.unlink()
    assert found[0] == found[1]
    assert found[0][4] == 1


KNOWN = frozenset(["ARG", "FROM", "RUN", "COPY", "ENV", "WORKDIR", "USER", "ENTRYPOINT"])


def dockerfile() -> list[tuple[str, str]]:
    """Instructions and their arguments; comments and continued lines as docker reads them."""
    text = re.sub(r"(?m)^#.*\n", "", (ROOT / "Dockerfile").read_text()).replace("\\\n", " ")
    return [(line.split(maxsplit=1)[0], line.split(maxsplit=1)[1]) for line in text.splitlines() if line.strip()]


def test_the_dockerfile_names_files_that_are_there_and_its_context_lets_them_in() -> None:
    instructions = dockerfile()
    assert {name for name, _ in instructions} <= KNOWN
    let_in = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    for source in [one for name, rest in instructions if name == "COPY" for one in rest.split()[:-1]]:
        if not source.startswith(("--from=", "/opt/")):
            assert (ROOT / source).exists()
            assert source in let_in
    built = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    copied = " ".join(rest for name, rest in instructions if name == "COPY").split()
    assert {*built["packages"], *built["force-include"]} <= set(copied)


def test_the_dockerfile_ends_as_our_own_image_does() -> None:
    instructions = dockerfile()
    last = max(number for number, (name, _) in enumerate(instructions) if name == "FROM")
    final = dict(instructions[last:])
    ours = recipe.settings("paictl", "paictl", "1", "MIT")
    assert final["USER"] == ours["User"]
    assert final["ENTRYPOINT"] == '["paictl"]'
    assert set(ours["Env"]) - set(final["ENV"].split()) == {"PATH=/usr/local/bin:/usr/bin"}
    bases = {rest.split()[0] for name, rest in instructions if name == "FROM"}
    assert bases == {"${BASE}"}
    assert instructions[0] == ("ARG", f"BASE=docker.io/library/debian:{debian.SUITE}-slim")
