"""What masters say of their certificates, and a renewal that stops."""

from __future__ import annotations

import json
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from paictl.deploy import certs
from paictl.deploy.inventory import Deployment
from paictl.errors import ExitCode
from paictl.remote.ssh.link import SshOptions
from paictl.remote.ssh.results import CommandStatus, HostResult
from tests.unit.deploy.preflight.test_checking import deployment

NOW = datetime(2026, 11, 22, tzinfo=UTC)
SAID = json.dumps({
    "kind": "CertificateExpirationInfo",
    "certificates": [
        {"name": "apiserver", "expirationDate": "2027-11-22T08:00:00Z", "missing": False},
        {"name": "admin.conf", "expirationDate": "2026-12-01T00:00:00Z"},
        {"name": "etcd-server", "expirationDate": "0001-01-01T00:00:00Z", "missing": True},
    ],
    "certificateAuthorities": [{"name": "ca", "expirationDate": "2036-11-19T08:00:00Z"}],
})  # fmt: skip


def test_when_certificates_end() -> None:
    found = certs.certificates_of({"m1": HostResult("m1", CommandStatus.DONE, 0, SAID)})
    assert [(one.name, one.left(NOW).days, one.authority) for one in found.found] == [
        ("apiserver", 365, False), ("admin.conf", 9, False), ("ca", 3650, True),
    ]  # fmt: skip
    assert [one.name for one in found.ending(NOW)] == ["admin.conf"]
    assert (found.code, found.errors) == (ExitCode.OK, ())


@pytest.mark.parametrize(
    ("result", "code"),
    [
        (HostResult("m1", CommandStatus.DONE, 0, "no JSON"), ExitCode.NEGATIVE),
        (HostResult("m1", CommandStatus.DONE, 127, "", "kubeadm: not found"), ExitCode.NEGATIVE),
        (HostResult("m1", CommandStatus.UNREACHABLE, message="silent"), ExitCode.UNREACHABLE),
    ],
)
def test_a_master_that_says_something_else_is_an_error(result: HostResult, code: ExitCode) -> None:
    found = certs.certificates_of({"m1": result})
    assert (found.found, found.errors, found.code) == ((), (result,), code)


class Masters:
    """Stands for a fleet; m2 does not get its certificates."""

    asked: list[str]

    def __init__(self, *_: Any) -> None:
        pass

    def __enter__(self) -> Masters:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def run(self, _line: str, *, manner: Any, hosts: Any) -> dict[str, HostResult]:
        assert manner.sudo
        (host,) = hosts
        self.asked.append(host.name)
        bad = HostResult(host.name, CommandStatus.DONE, 1, "", "the API does not answer again")
        return {host.name: bad if host.name == "m2" else HostResult(host.name, CommandStatus.DONE, 0)}


def test_a_renewal_stops_at_the_first_master_where_it_does_not_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(certs, "Fleet", Masters)
    monkeypatch.setattr(certs, "locked", lambda *_, **__: nullcontext())
    Masters.asked = []
    wished: Deployment = deployment(tmp_path, masters=3)
    heard: list[tuple[str, str]] = []
    with pytest.raises(certs.RenewError, match="does not answer again \\(done before: m1\\)") as raised:
        certs.renew(wished, SshOptions(tmp_path / "k"), lambda said, host: heard.append((host, said)), tmp_path)
    assert Masters.asked == ["m1", "m2"]
    assert (raised.value.where, raised.value.exit_code) == ("m2", ExitCode.PARTIAL)
    assert [host for host, _ in heard] == ["m1", "m1", "m2"]
