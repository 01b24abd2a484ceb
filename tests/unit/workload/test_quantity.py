from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paictl.cells.spec import ClusterSpec, SpecError
from paictl.units import exact_quantity
from paictl.workload.job import Resources
from paictl.workload.sku import Sku, lacking, leaf_number, read_skus, smallest
from paictl.workload.supply import Supply
from tests.unit.workload.cases import FOLDER, load


@pytest.mark.parametrize(
    ("text", "number"),
    [
        (4, 4),
        ("4", 4),
        ("64Gi", 64 * 2**30),
        ("64G", 64 * 10**9),
        ("8192Mi", 2**33),
        ("500M", 5 * 10**8),
        ("1.5Gi", 3 * 2**29),
        (".5Ti", 2**39),
        ("3.Ki", 3072),
        ("2K", 2000),
        ("2k", 2000),
        ("500m", Fraction(1, 2)),
        ("0.1", Fraction(1, 10)),
        ("1e3", 1000),
        ("12E", 12 * 10**18),
        ("1E-1", Fraction(1, 10)),
        (" 1Gi ", 2**30),
    ],
)
def test_quantities_are_exact(text: int | str, number: int | Fraction) -> None:
    assert exact_quantity(text) == number


@pytest.mark.parametrize("text", ["", "lots", "64 Gi", "64GB", "64gi", "-1", "1.2.3Gi", -1, "1e999999", "٣"])
def test_other_texts_are_refused(text: int | str) -> None:
    with pytest.raises(ValueError, match=r"^[^\n]+$"):
        exact_quantity(text)


@given(st.integers(0, 10**6), st.sampled_from(["", "k", "M", "G", "T", "P"]), st.sampled_from(["", "i"]))
def test_prefixes_are_powers(number: int, prefix: str, binary: str) -> None:
    suffix = (prefix.upper() + "i") if prefix and binary else prefix
    base = 1024 if suffix.endswith("i") else 1000
    assert exact_quantity(f"{number}{suffix}") == number * base ** ["", "k", "M", "G", "T", "P"].index(prefix)


AMOUNTS = st.fractions(min_value=Fraction(1, 100), max_value=100)
NEEDS = st.builds(Resources, st.integers(0, 500), st.integers(0, 500), st.integers(0, 500))


@given(st.builds(Sku, AMOUNTS, AMOUNTS, AMOUNTS), NEEDS)
def test_leaf_cells_cover_every_resource_and_one_less_would_not(sku: Sku, wanted: Resources) -> None:
    number = leaf_number(sku, wanted)
    for name in ("gpu", "cpu", "memory"):
        assert getattr(sku, name) * number >= getattr(wanted, name)
    assert number == 1 or any(
        getattr(sku, name) * (number - 1) < getattr(wanted, name) for name in ("gpu", "cpu", "memory")
    )


@given(st.lists(st.builds(Sku, AMOUNTS, AMOUNTS, AMOUNTS), min_size=1, max_size=4), NEEDS)
def test_what_is_enough_of_the_smallest_is_enough_of_each(skus: list[Sku], wanted: Resources) -> None:
    assert leaf_number(smallest(skus), wanted) >= max(leaf_number(sku, wanted) for sku in skus)


def test_what_is_not_declared_does_not_count() -> None:
    sku = Sku(Fraction(1), None, None)
    assert leaf_number(sku, Resources(2, 999, 999)) == 2
    assert lacking(sku, Resources(2, 999, 999)) == ()
    assert lacking(Sku(Fraction(0), Fraction(1), Fraction(0)), Resources(1, 1, 1)) == ("gpu", "memory")
    assert smallest([sku, Sku(Fraction(2), Fraction(3), None)]) == Sku(Fraction(1), Fraction(3), None)


def test_an_amount_that_cannot_be_read_is_named() -> None:
    data = load(FOLDER / "clusters" / "lab.yaml")
    data["physicalCluster"]["skuTypes"]["GPU"]["memory"] = "lots"
    with pytest.raises(SpecError, match="is not a quantity") as caught:
        Supply.from_spec(ClusterSpec.from_mapping(data))
    assert caught.value.path == "physicalCluster.skuTypes.GPU.memory"


def test_memory_is_in_mib() -> None:
    spec = ClusterSpec.from_mapping(load(FOLDER / "clusters" / "lab.yaml"))
    assert read_skus(spec, []) == {"GPU": Sku(Fraction(1), Fraction(4), Fraction(8192))}
