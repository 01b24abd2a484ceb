"""Host names, addresses, quantities and placeholders, one by one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paictl.config.models.hosts import address_fault, address_of, malformed_address_hint, name_fault
from paictl.config.models.inventory import misspelt_host
from paictl.config.models.placeholders import is_placeholder
from paictl.units import likely_quantity, parse_quantity, shown_bytes


@pytest.mark.parametrize("name", ["a", "9", "gpu-01", "a.b.c", "a" * 63, ".".join(["b" * 62] * 4)])
def test_good_host_names(name: str) -> None:
    assert name_fault(name) is None


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("", "empty"),
        ("10.0.0.1", "address"),
        ("::1", "address"),
        ("a" * 64, "64 characters"),
        (".".join(["b" * 62] * 5), "longer than 253"),
        ("a..b", "empty part"),
        ("a.", "empty part"),
        ("-a", "'-'"),
        ("a-.b", "'-'"),
        ("A", "upper-case"),
        ("a_b", "'_'"),
        ("a b", "' '"),
        ("a\n", "U+000A"),
    ],
)
def test_bad_host_names(name: str, fault: str) -> None:
    assert fault in (name_fault(name) or "")


@pytest.mark.parametrize("text", ["10.0.0.1", "223.255.255.254", "fd00::1"])
def test_usable_addresses(text: str) -> None:
    address = address_of(text)
    assert address is not None
    assert address_fault(address) is None


@pytest.mark.parametrize("text", ["", "10.0.0", "10.0.0.256", "010.0.0.1", "10.0.0.1/24", "a.b.c.d", "١٠.0.0.1"])
def test_what_is_no_address_gets_a_hint(text: str) -> None:
    assert address_of(text) is None
    assert malformed_address_hint(text)


@given(st.text(max_size=30))
def test_no_text_breaks_the_checks_of_values(text: str) -> None:
    name_fault(text)
    malformed_address_hint(text)
    is_placeholder(text)
    parse_quantity(text)
    likely_quantity(text)


@pytest.mark.parametrize(
    ("text", "amount"),
    [("64Gi", 64 * 1024**3), ("64G", 64 * 1000**3), ("1.5Ti", 3 * 1024**4 // 2), ("5", 5), ("2k", 2000), ("1Ki", 1024)],
)
def test_quantities_in_bytes(text: str, amount: int) -> None:
    quantity = parse_quantity(text)
    assert quantity is not None
    assert quantity.bytes == amount


@pytest.mark.parametrize("text", ["", "lots", "64 Gi", "64gi", "64GB", "-1Gi", "1e3", "Gi", "1.Gi", "9" * 40])
def test_no_quantities(text: str) -> None:
    assert parse_quantity(text) is None


@pytest.mark.parametrize(("text", "likely"), [("64 GB", "64Gi"), ("64gib", "64Gi"), ("1.5t", "1.5Ti"), ("64", None)])
def test_what_a_quantity_was_meant_to_be(text: str, likely: str | None) -> None:
    assert likely_quantity(text) == likely


def test_sizes_are_shown_in_the_largest_unit() -> None:
    assert [shown_bytes(n) for n in (0, 1023, 1024, 1536 * 1024**2)] == ["0", "1023", "1Ki", "1.5Gi"]


@pytest.mark.parametrize(
    "text",
    ["<% latest-release %>", "forexample", "IP", "hostname (echo `hostname`)", "<your name>", "/path/to/key"],
)
def test_placeholders(text: str) -> None:
    assert is_placeholder(text)


@pytest.mark.parametrize(
    "text",
    ["", "ip-10-0-0-1", "hostname1", "{{ kube_version }}", "yourself", "example.org", "1 < 2 > 0", "reports"],
)
def test_no_placeholders(text: str) -> None:
    assert not is_placeholder(text)


@pytest.mark.parametrize(("name", "meant"), [("gpu1", "gpu-1"), ("gpu-01", "gpu-1"), ("gpu-3", None), ("tpu", None)])
def test_a_misspelt_host_has_the_same_numbers(name: str, meant: str | None) -> None:
    assert misspelt_host(name, ["gpu-1", "gpu-2"]) == meant
