"""What masters say of their certificates, and a renewal that stops."""

from __future__ import annotations

import json
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from paictl.deploy import certs
from paictl.deploy.inventory import Deployment
from paictl.deploy.verifying import clock_findings, expired_problem
from paictl.errors import ExitCode
from paictl.remote.ssh.link import SshOptions
from paictl.remote.ssh.results import CommandStatus, HostResult
from tests.unit.deploy.preflight.test_checking import deployment

NOW = datetime(2026, 11, 22, tzinfo=UTC)
SAID = json.dumps(
    {
        "kind": "CertificateExpirationInfo",
        "certificates": [
            {"name": "apiserver", "expirationDate": "2027-11-22T08:00:00Z", "missing": False},
            {"name": "admin.conf", "expirationDate": "2026-12-01T00:00:00Z"},
            {"name": "etcd-server", "expirationDate": "0001-01-01T00:00:00Z", "missing": True},
        ],
        "certificateAuthorities": [{"name": "ca", "expirationDate": "2036-11-19T08:00:00Z"}],
    }
)


def test_when_certificates_end() -> None:
    found = certs.certificates_of({"m1": HostResult("m1", CommandStatus.DONE, 0, SAID)})
    assert [(one.name, one.left(NOW).days, one.authority) for one in found.found] == [
        ("apiserver", 365, False),
        ("admin.conf", 9, False),
        ("ca", 3650, True),
    ]
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


def test_of_kubelets_only_those_count_that_have_not_renewed_theirs() -> None:
    ends = {"m1": "2026-11-01T00:00:00Z", "w1": "2027-11-01T00:00:00Z", "w2": "2026-12-01T00:00:00Z"}
    results = {
        name: HostResult(name, CommandStatus.DONE, 0, json.dumps({"kubelet": datetime.fromisoformat(at).timestamp()}))
        for name, at in ends.items()
    }
    results["w3"] = HostResult("w3", CommandStatus.DONE, 0, '{"kubelet": null}')
    results["w4"] = HostResult("w4", CommandStatus.UNREACHABLE, message="silent")
    results["w5"] = HostResult("w5", CommandStatus.DONE, 0, "no JSON")
    found = certs.kubelets_of(results, NOW)
    assert [(one.host, one.name, one.left(NOW).days) for one in found] == [("m1", "kubelet", -21), ("w2", "kubelet", 9)]
    both = certs.Certificates(tuple(found), (), ExitCode.OK)
    assert [one.host for one in both.ended(NOW)] == ["m1"]


@pytest.mark.parametrize(
    ("clock", "ahead", "said"),
    [
        (1000.0, 0.0, ""),
        (1009.9, 0.0, ""),
        (1010.5, 0.5, ""),
        (8210.0, 7200.0, "7200 s ahead; on the machine: "),
        (-6200.0, -7200.0, "7200 s behind; on the machine: timedatectl set-ntp true"),
    ],
)
def test_a_clock_that_is_off_is_a_finding(clock: float, ahead: float, said: str) -> None:
    """What a command took is no error of the clock: it was asked at 1000 and had answered at 1010."""
    answer = HostResult("w1", CommandStatus.DONE, 0, json.dumps({"clock": clock}), sent=1000.0, ended=1010.0)
    clocks = certs.clocks_of({"w1": answer, "w2": HostResult("w2", CommandStatus.UNREACHABLE, message="silent")})
    assert clocks == {"w1": ahead}
    (found,) = clock_findings(certs.Certificates((), (), ExitCode.OK, clocks))
    assert (found.verdict.value, found.message.startswith(said)) == ("failed" if said else "ok", True)


def test_what_verify_says_where_certificates_have_ended() -> None:
    late = NOW - timedelta(hours=1)
    ended = [certs.Certificate("m1", f"c{number}", late) for number in range(6)] + [
        certs.Certificate("w1", "kubelet", late)
    ]
    good = certs.Certificate("m2", "apiserver", NOW + timedelta(days=3))
    error = expired_problem(certs.Certificates((*ended, good), (), ExitCode.OK), NOW)
    assert error is not None
    assert str(error) == "certificates have expired on m1: c0, c1, c2, c3; w1: kubelet"
    assert "paictl deploy certs renew" in str(error.hint)
    assert error.exit_code is ExitCode.NEGATIVE
    assert expired_problem(certs.Certificates((good,), (), ExitCode.OK), NOW) is None


class Machines:
    """Stands for a fleet: what its machines were asked in which order; `bad` are (verb, host) that do not work.

    `ended` are the machines whose kubelet's certificate has ended, and with them all certificates of masters.
    """

    asked: list[tuple[str, tuple[str, ...]]]
    bad: set[tuple[str, str]]
    ended: set[str]
    uploads: list[tuple[str, int, str]]

    def __init__(self, inventory: Any, _: Any) -> None:
        self.inventory = inventory

    def __enter__(self) -> Machines:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def run(self, _line: str, *, manner: Any, hosts: Any) -> dict[str, HostResult]:
        assert manner.sudo
        ends = "2020-01-01T00:00:00Z" if self.ended else "2099-01-01T00:00:00Z"
        said = json.dumps(
            {"certificates": [{"name": "apiserver", "expirationDate": ends}], "certificateAuthorities": []}
        )
        return {host.name: HostResult(host.name, CommandStatus.DONE, 0, said) for host in hosts}

    def run_each(self, commands: dict[str, str], *, stdin: bytes, manner: Any) -> dict[str, HostResult]:
        assert manner.sudo
        assert b"def revive_kubelet" in stdin
        verbs = {line.split()[-1] for line in commands.values()}
        assert {name: line.split()[-2] for name, line in commands.items()} == {name: name for name in commands}
        (verb,) = verbs
        self.asked.append((verb, tuple(commands)))
        return {name: self._answer(verb, name) for name in commands}

    def _answer(self, verb: str, name: str) -> HostResult:
        if (verb, name) in self.bad:
            return HostResult(name, CommandStatus.DONE, 1, "", "the API does not answer again")
        said = {"end": json.dumps({"kubelet": 1.0 if name in self.ended else 9e9}), "invite": "INVITATION"}.get(
            verb, ""
        )
        return HostResult(name, CommandStatus.DONE, 0, said)

    def upload(self, source: Path, target: str, *, mode: int, manner: Any, hosts: Any) -> dict[str, HostResult]:
        assert manner.sudo
        self.uploads.append((target, mode, source.read_text()))
        return {host.name: HostResult(host.name, CommandStatus.DONE, 0) for host in hosts}


@pytest.fixture
def machines(monkeypatch: pytest.MonkeyPatch) -> type[Machines]:
    monkeypatch.setattr(certs, "Fleet", Machines)
    monkeypatch.setattr(certs, "locked", lambda *_, **__: nullcontext())
    Machines.asked, Machines.bad, Machines.ended, Machines.uploads = [], set(), set(), []
    return Machines


def renewed(tmp_path: Path) -> list[tuple[str, str]]:
    """Renew on three masters and two workers; what was heard."""
    wished: Deployment = deployment(tmp_path, masters=3)
    heard: list[tuple[str, str]] = []
    certs.renew(wished, SshOptions(tmp_path / "k"), lambda said, host: heard.append((host, said)), tmp_path)
    return heard


ALL = ("m1", "m2", "m3", "w1", "w2")


def test_masters_renew_one_by_one_while_their_certificates_are_good(machines: type[Machines], tmp_path: Path) -> None:
    renewed(tmp_path)
    steps = [(verb, (name,)) for name in ("m1", "m2", "m3") for verb in ("renew", "ready")]
    assert machines.asked == [*steps, ("end", ALL)]
    assert machines.uploads == []


def test_masters_whose_certificates_have_ended_renew_together_and_workers_are_let_in_again(
    machines: type[Machines], tmp_path: Path
) -> None:
    machines.ended = {"w1", "w2"}
    renewed(tmp_path)
    assert machines.asked == [
        ("renew", ("m1", "m2", "m3")),
        ("ready", ("m1",)),
        ("ready", ("m2",)),
        ("ready", ("m3",)),
        ("end", ALL),
        ("invite", ("m1",)),
        ("rejoin", ("w1", "w2")),
    ]
    assert machines.uploads == [("/etc/kubernetes/bootstrap-kubelet.conf", 0o600, "INVITATION")]


def test_a_renewal_stops_at_the_first_master_where_it_does_not_work(machines: type[Machines], tmp_path: Path) -> None:
    machines.bad = {("ready", "m2")}
    with pytest.raises(certs.RenewError, match="does not answer again \\(done before: m1\\)") as raised:
        renewed(tmp_path)
    assert [name for _, names in machines.asked for name in names] == ["m1", "m1", "m2", "m2"]
    assert (raised.value.where, raised.value.exit_code) == ("m2", ExitCode.PARTIAL)


def test_a_worker_that_gets_no_certificate_is_named(machines: type[Machines], tmp_path: Path) -> None:
    machines.ended, machines.bad = {"w1", "w2"}, {("rejoin", "w1")}
    with pytest.raises(certs.RenewError, match="done before: m1, m2, m3, w2") as raised:
        renewed(tmp_path)
    assert raised.value.where == "w1"
