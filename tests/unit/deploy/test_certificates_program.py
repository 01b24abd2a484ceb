"""Requests of kubelets for certificates: what is approved, and what nobody gets by taking another one's name."""

from __future__ import annotations

import base64
import io
import ipaddress
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.deploy.loading import load

program: Any = load("files/paictl_certificates.py")
host: Any = load("module_utils/paictl_host.py")
KEY = ec.generate_private_key(ec.SECP256R1())
NODES = [
    {
        "metadata": {"name": name},
        "status": {"addresses": [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name}]},
    }
    for name, address in (("m1", "10.0.0.1"), ("w1", "10.0.0.2"))
]
USAGES = ["digital signature", "server auth"]


def pem(common: str, organization: str | None, names: list[str], addresses: list[str], *more: Any) -> str:
    """A request as a kubelet makes it."""
    subject = [x509.NameAttribute(NameOID.COMMON_NAME, common)]
    subject += [x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization)] if organization else []
    made = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(subject))
    others = [*map(x509.DNSName, names), *(x509.IPAddress(ipaddress.ip_address(one)) for one in addresses), *more]
    if others:
        made = made.add_extension(x509.SubjectAlternativeName(others), critical=False)
    return made.sign(KEY, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()


def request(text: str, user: str = "system:node:w1", **more: Any) -> dict[str, Any]:
    encoded = base64.b64encode(text.encode()).decode()
    spec = {"username": user, "groups": ["system:nodes", "system:authenticated"], "usages": USAGES, "request": encoded}
    return {"metadata": {"name": "csr-1"}, "spec": {**spec, **more}}


def own(**changes: Any) -> str:
    words: dict[str, Any] = {
        "common": "system:node:w1",
        "organization": "system:nodes",
        "names": ["w1"],
        "addresses": ["10.0.0.2"],
        **changes,
    }
    return pem(words["common"], words["organization"], words["names"], words["addresses"], *words.get("more", ()))


def test_a_node_that_asks_for_its_own_name_and_address_is_approved() -> None:
    assert program.objection(request(own()), NODES) == ""
    assert program.objection(request(own(names=[])), NODES) == ""


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (request(own(), "system:node:m1"), "another name"),
        (request(own(), "alice"), "not asked by a node"),
        (request(own(), groups=["system:authenticated"]), "not asked by a node"),
        (request(own(), usages=[*USAGES, "client auth"]), "usages"),
        (request(own(common="system:node:m1")), "another name"),
        (request(own(organization="system:masters")), "another name"),
        (request(own(organization=None)), "another name"),
        (request(own(addresses=["10.0.0.1"])), "names that the node does not have"),
        (request(own(addresses=["10.0.0.2", "10.0.0.9"])), "names that the node does not have"),
        (request(own(names=["kubernetes.default"])), "names that the node does not have"),
        (request(own(more=[x509.UniformResourceIdentifier("spiffe://x")])), "names that the node does not have"),
        (request(own(names=[], addresses=[])), "no names"),
        (request(own(common="system:node:w9"), "system:node:w9"), "no such node"),
        (request("no request"), "malformed: no request"),
    ],
)
def test_what_is_not_approved(made: dict[str, Any], why: str) -> None:
    assert program.objection(made, NODES) == why


def test_a_node_that_claims_the_address_of_another_one_gets_nothing() -> None:
    """Nodes say themselves which addresses they have."""
    claimed = [{"type": "InternalIP", "address": "10.0.0.1"}, {"type": "Hostname", "address": "m1"}]
    nodes = [NODES[0], {"metadata": {"name": "w1"}, "status": {"addresses": claimed}}]
    for changes in ({"names": [], "addresses": ["10.0.0.1"]}, {"names": ["m1"], "addresses": []}):
        assert program.objection(request(own(**changes)), nodes) == "names of another node"


DNS = st.from_regex(r"[a-z][a-z0-9-]{0,20}(\.[a-z]{1,8}){0,2}", fullmatch=True)


@given(DNS, st.lists(DNS, max_size=4), st.lists(st.ip_addresses(), max_size=4))
def test_names_are_read_as_cryptography_writes_them(common: str, names: list[str], addresses: list[Any]) -> None:
    found = program.request_names(pem(common, "system:nodes", names, [str(one) for one in addresses]))
    assert found == (common, ["system:nodes"], names, [str(one) for one in addresses])


@given(st.integers(0, 400), st.integers(0, 255), st.booleans())
def test_a_spoiled_request_is_malformed_and_nothing_else(at: int, value: int, cut: bool) -> None:
    body = bytearray(base64.b64decode("".join(own().splitlines()[1:-1])))
    if cut:
        body = body[: at % len(body)]
    else:
        body[at % len(body)] = value
    text = base64.b64encode(bytes(body)).decode()
    why = program.objection(
        request(f"-----BEGIN CERTIFICATE REQUEST-----\n{text}\n-----END CERTIFICATE REQUEST-----\n"), NODES
    )
    assert isinstance(why, str)  # whatever it says, it does not fail: requests behind it are looked at


def test_what_ends_within_a_month_is_renewed() -> None:
    now = program.seconds_of("2027-01-01T00:00:00Z")
    rows = [
        ("apiserver", "2027-01-30T00:00:00Z"),
        ("admin.conf", "2027-02-01T00:00:00Z"),
        ("old", "2026-01-01T00:00:00Z"),
    ]
    said = {"certificates": [{"name": name, "expirationDate": ends} for name, ends in rows]}
    said["certificates"].append({"name": "gone", "expirationDate": "0001-01-01T00:00:00Z", "missing": True})  # type: ignore[dict-item]
    assert program.ending(json.dumps(said), now) == ["apiserver", "old"]


class Api:
    """An API server with one Lease."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.version = 0

    def ask(self, path: str, method: str = "GET", body: Any = None) -> Any:
        import urllib.error

        if method == "GET":
            if self.lease is None:
                raise urllib.error.HTTPError(path, 404, "", None, io.BytesIO())  # type: ignore[arg-type]
            return json.loads(json.dumps(self.lease))
        stale = method == "PUT" and body["metadata"].get("resourceVersion") != str(self.version)
        if stale or (method == "POST" and self.lease is not None):
            raise urllib.error.HTTPError(path, 409, "", None, io.BytesIO())  # type: ignore[arg-type]
        self.version += 1
        self.lease = {**body, "metadata": {**body["metadata"], "resourceVersion": str(self.version)}}
        return self.lease


def test_one_master_renews_at_a_time() -> None:
    api = Api()
    assert program.take(api, "m1", 1000.0)
    assert not program.take(api, "m2", 1000.0 + program.HELD - 1)
    assert program.take(api, "m1", 1001.0)
    program.release(api, "m1")
    assert program.take(api, "m2", 1002.0)
    assert program.take(api, "m3", 1002.0 + program.HELD + 1)  # m2 was lost with it


def certificate(ends: datetime) -> str:
    """A certificate of anybody, as PEM."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "system:node:m1")])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(KEY.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(ends - timedelta(days=365))
        .not_valid_after(ends)
    )
    return made.sign(KEY, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()


INSTANTS = st.datetimes(datetime(1975, 1, 1), datetime(2200, 1, 1))


@given(INSTANTS)
def test_the_end_of_a_certificate_is_read_as_cryptography_writes_it(ends: datetime) -> None:
    """From 2050 on, years have four digits."""
    ends = ends.replace(microsecond=0, tzinfo=UTC)
    assert program.end_of(f"something before\n{certificate(ends)}") == ends.timestamp()


@given(st.integers(0, 400), st.integers(0, 255), st.booleans())
def test_the_end_of_a_spoiled_certificate_is_a_time_or_malformed(at: int, value: int, cut: bool) -> None:
    body = bytearray(base64.b64decode("".join(certificate(datetime(2030, 1, 1, tzinfo=UTC)).splitlines()[1:-1])))
    if cut:
        body = body[: at % len(body)]
    else:
        body[at % len(body)] = value
    text = f"-----BEGIN CERTIFICATE-----\n{base64.b64encode(bytes(body)).decode()}\n-----END CERTIFICATE-----\n"
    try:
        end = program.end_of(text)
    except program.MalformedError:  # and no other error, which would end the program
        return
    assert isinstance(end, float)


NOW = datetime(2027, 6, 1, tzinfo=UTC)


def test_certificates_that_have_ended_are_listed_but_no_authority(tmp_path: Path) -> None:
    for name, days in (("apiserver.crt", -1), ("front-proxy-client.crt", 1), ("ca.crt", -1), ("etcd-ca.crt", -1)):
        (tmp_path / name).write_text(certificate(NOW + timedelta(days=days)))
    (tmp_path / "broken.crt").write_text("no certificate")
    found = host.ended_certificates(NOW.timestamp(), [str(tmp_path / "*.crt"), str(tmp_path / "absent.pem")])
    assert found == [str(tmp_path / "apiserver.crt")]


class Kubeadm:
    """Stands for the programs of a master; `code` is kubeadm's answer when it shall sign."""

    def __init__(self, code: int = 0) -> None:
        self.code = code
        self.ran: list[tuple[str, ...]] = []

    def __call__(self, *command: str) -> tuple[int, str]:
        self.ran.append(command)
        if command[:3] == ("kubeadm", "kubeconfig", "user"):
            pair = {"client-certificate-data": certificate(NOW + timedelta(days=365)), "client-key-data": "KEY\n"}
            rows = [f"    {name}: {base64.b64encode(text.encode()).decode()}" for name, text in pair.items()]
            return self.code, "I0601 a warning\n" + "\n".join(rows) if not self.code else "no CA key"
        return 0, "v1.37.1\n"


@pytest.fixture
def kubelet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The certificate of a kubelet that has ended."""
    old = tmp_path / "kubelet-client-2026-01-01-00-00-00.pem"
    old.write_text(certificate(NOW - timedelta(days=30)))
    link = tmp_path / "kubelet-client-current.pem"
    link.symlink_to(old)
    monkeypatch.setattr(program, "KUBELET", str(link))
    monkeypatch.setattr(program, "RUN", str(tmp_path / "run"))
    return link


def test_a_kubelet_whose_certificate_has_ended_gets_one_from_its_master(
    kubelet: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kubeadm = Kubeadm()
    monkeypatch.setattr(program, "run", kubeadm)
    program.revive_kubelet("m1", NOW.timestamp())
    assert program.kubelet_end() == (NOW + timedelta(days=365)).timestamp()
    assert kubelet.is_symlink()
    assert kubelet.read_text().endswith("-----END CERTIFICATE-----\nKEY\n")
    assert kubelet.resolve().stat().st_mode & 0o777 == 0o600
    assert list((kubelet.parent / "run").iterdir()) == []
    assert kubeadm.ran[1][-4:] == ("--org", "system:nodes", "--client-name", "system:node:m1")
    assert kubeadm.ran[-1] == ("systemctl", "restart", "kubelet")
    program.revive_kubelet("m1", NOW.timestamp())
    assert len(kubeadm.ran) == 3  # it is good now: nothing is done again


def test_a_kubelet_that_nobody_signs_for_keeps_what_it_has(kubelet: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = kubelet.read_text()
    kubeadm = Kubeadm(code=1)
    monkeypatch.setattr(program, "run", kubeadm)
    with pytest.raises(program.RefusedError, match="no CA key"):
        program.revive_kubelet("m1", NOW.timestamp())
    assert kubelet.read_text() == before
    assert kubeadm.ran[-1][0] == "kubeadm"


def test_an_invitation_has_a_token_and_is_used_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    admin = tmp_path / "admin.conf"
    admin.write_text("    server: https://10.0.0.9:6443\n    certificate-authority-data: Q0E=\n")
    monkeypatch.setattr(program, "KUBECONFIG", str(admin))
    monkeypatch.setattr(program, "run", lambda *_: (0, "W0601 a warning\nabcdef.0123456789abcdef\n"))
    made = program.invite()
    assert made["users"][0]["user"] == {"token": "abcdef.0123456789abcdef"}
    assert made["clusters"][0]["cluster"] == {"server": "https://10.0.0.9:6443", "certificate-authority-data": "Q0E="}
    bootstrap = tmp_path / "bootstrap-kubelet.conf"
    bootstrap.write_text(json.dumps(made))
    monkeypatch.setattr(program, "BOOTSTRAP", str(bootstrap))
    monkeypatch.setattr(program, "KUBELET", str(tmp_path / "absent.pem"))
    monkeypatch.setattr(program, "START", -1)
    with pytest.raises(program.RefusedError, match="the kubelet got no certificate"):
        program.rejoin()
    assert not bootstrap.exists()
    monkeypatch.setattr(program, "run", lambda *_: (1, "no answer"))
    with pytest.raises(program.RefusedError, match="no answer"):
        program.invite()
