"""Requests of kubelets for certificates: what is approved, and what nobody gets by taking another one's name."""

from __future__ import annotations

import base64
import ipaddress
import json
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
KEY = ec.generate_private_key(ec.SECP256R1())
NODES = [
    {"metadata": {"name": name}, "status": {"addresses": [
        {"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name}]}}
    for name, address in (("m1", "10.0.0.1"), ("w1", "10.0.0.2"))
]  # fmt: skip
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
    words: dict[str, Any] = {"common": "system:node:w1", "organization": "system:nodes", "names": ["w1"],
                             "addresses": ["10.0.0.2"], **changes}  # fmt: skip
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
)  # fmt: skip
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
                raise urllib.error.HTTPError(path, 404, "", None, None)  # type: ignore[arg-type]
            return json.loads(json.dumps(self.lease))
        stale = method == "PUT" and body["metadata"].get("resourceVersion") != str(self.version)
        if stale or (method == "POST" and self.lease is not None):
            raise urllib.error.HTTPError(path, 409, "", None, None)  # type: ignore[arg-type]
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
