"""The Go release that `make kube` fetches where there is none: it is the one that is meant, or nothing is unpacked."""

from __future__ import annotations

import platform
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tools.kube import get_go

PREFIX = f"golang.org/toolchain@v0.0.1-{get_go.RELEASE}.linux-amd64/"
FILES = {"bin/go": "program", "pkg/tool/linux_amd64/link": "tool", "src/_go.mod": "module std", "VERSION": "1"}


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[str]:
    """A module proxy that serves another Go than the one that is meant."""
    machine = get_go.MACHINES.get(platform.machine(), "amd64")
    path = tmp_path / "served" / "golang.org" / "toolchain" / "@v" / f"v0.0.1-{get_go.RELEASE}.linux-{machine}.zip"
    path.parent.mkdir(parents=True)
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in FILES.items():
            archive.writestr(PREFIX + name, text)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=tmp_path / "served"))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


@pytest.mark.skipif(sys.platform != "linux", reason="releases for Linux only")
def test_another_release_than_the_one_that_is_meant_is_refused(proxy: str, tmp_path: Path) -> None:
    words = [sys.executable, str(ROOT / "tools" / "kube" / "get_go.py"), str(tmp_path / "go")]
    for source, said in ((proxy, "is not what it should be"), (f"{proxy}/nowhere", "cannot be had")):
        done = subprocess.run(words, env={"GOPROXY": f"{source},direct"}, capture_output=True, text=True, check=False)
        assert done.returncode == 1
        assert said in done.stderr
        assert "Traceback" not in done.stderr
    assert [one.name for one in tmp_path.iterdir()] == ["served"]


def test_a_release_is_unpacked_as_go_does_it(tmp_path: Path) -> None:
    """Programs can be executed, and the standard library has its go.mod, which no module may carry."""
    with zipfile.ZipFile(tmp_path / "zip", "w") as archive:
        for name, text in FILES.items():
            archive.writestr(PREFIX + name, text)
    with zipfile.ZipFile(tmp_path / "zip") as archive:
        get_go.unpack(archive, tmp_path / "go")
        # by hand, by the rule of golang.org/x/mod/sumdb/dirhash: sha256sum of the lines of sha256sum, sorted by name
        assert get_go.sum_of(archive) == "h1:VEo9LB3NPdpYHkRJwTEYnOU0mpqo/hfXnM9xPAjlGDg="
    modes = {name: (tmp_path / "go" / name).stat().st_mode & 0o111 for name in ("bin/go", "VERSION")}
    assert modes["bin/go"]
    assert not modes["VERSION"]
    assert (tmp_path / "go" / "pkg" / "tool" / "linux_amd64" / "link").stat().st_mode & 0o111
    assert (tmp_path / "go" / "src" / "go.mod").read_text() == "module std"
