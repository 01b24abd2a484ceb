"""`--sku`: what is accepted, what is refused and how, and which host gets which SKU."""

from __future__ import annotations

import pytest

from paictl.config.making.skus import assign, parse_sku
from paictl.errors import PaictlError

V100 = "V100=gpu:8,cpu:96,memory:900Gi"


def test_a_sku_says_what_a_machine_has() -> None:
    sku = parse_sku("V100@gpu-[01-03],Big-*=gpu:8, cpu:96, memory:1.5Ti, type:amd.com/gpu, model:MI 50")
    assert (sku.name, sku.devices, sku.cpus, sku.device_type, sku.model) == ("V100", 8, 96, "amd.com/gpu", "MI 50")
    assert sku.memory.mebibytes == 1536 * 1024
    assert sku.hosts == ("gpu-[01-03]", "big-*")


def test_defaults_are_no_devices_and_the_name_as_model() -> None:
    sku = parse_sku("box=cpu:4,memory:16Gi")
    assert (sku.devices, sku.device_type, sku.model, sku.hosts) == (0, "nvidia.com/gpu", "box", ())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("V100", "has no '='"),
        ("V 100=cpu:1,memory:1Gi", "cannot be called"),
        ("a.b=cpu:1,memory:1Gi", "cannot be called"),
        ("V100@=cpu:1,memory:1Gi", "names no hosts"),
        ("V100@gpu_1=cpu:1,memory:1Gi", "host pattern"),
        ("V100@gpu-[9-1]=cpu:1,memory:1Gi", "host pattern"),
        ("V100@gpu-[0-999999]=cpu:1,memory:1Gi", "host pattern"),
        ("V100=", "KEY:VALUE"),
        ("V100=cpu:1", "has no memory"),
        ("V100=memory:1Gi", "has no cpu"),
        ("V100=cpus:1,memory:1Gi", "unknown"),
        ("V100=cpu:1,cpu:2,memory:1Gi", "twice"),
        ("V100=cpu:0,memory:1Gi", "cpu:0"),
        ("V100=gpu:-1,cpu:1,memory:1Gi", "gpu:-1"),
        ("V100=gpu:1.5,cpu:1,memory:1Gi", "gpu:1.5"),
        ("V100=cpu:1,memory:900", "memory:900"),
        ("V100=cpu:1,memory:lots", "memory:lots"),
        ("V100=cpu:1,memory:1Gi,type:nvidia", "device type"),
        ('V100=cpu:1,memory:1Gi,model:"x', "model"),
    ],
)
def test_a_bad_sku_is_refused_with_a_reason(text: str, message: str) -> None:
    with pytest.raises(PaictlError) as caught:
        parse_sku(text)
    assert message in caught.value.message
    assert caught.value.hint
    assert caught.value.where == "--sku"


def test_a_memory_without_unit_gets_a_suggestion() -> None:
    with pytest.raises(PaictlError) as caught:
        parse_sku("V100=cpu:1,memory:900 GB")
    assert caught.value.hint == "did you mean 900Gi?"


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("gpu-1", ["gpu-1"], ["gpu-10", "xgpu-1"]),
        ("gpu-*", ["gpu-", "gpu-10.lab"], ["cpu-1"]),
        ("gpu-?", ["gpu-1"], ["gpu-10", "gpu-"]),
        ("gpu-[08-11]", ["gpu-08", "gpu-09", "gpu-11"], ["gpu-8", "gpu-12", "gpu-7"]),
        ("r[1-2]-n[1-2]", ["r1-n2", "r2-n1"], ["r3-n1", "r1-n3"]),
        ("gpu.lab", ["gpu.lab"], ["gpuxlab"]),
    ],
)
def test_patterns_mean_whole_names(pattern: str, yes: list[str], no: list[str]) -> None:
    sku = parse_sku(f"S@{pattern}=cpu:1,memory:1Gi")
    assert [name for name in yes + no if sku.names(name)] == yes


def test_the_first_sku_that_names_a_host_has_it_and_the_nameless_one_the_rest() -> None:
    first, second, rest = (parse_sku(f"{head}=cpu:1,memory:1Gi") for head in ("a@gpu-1,head", "b@gpu-*", "c"))
    found = assign(["gpu-1", "gpu-2", "box"], ["head"], [rest, second, first])
    assert {host: sku.name for host, sku in found.items()} == {"head": "a", "gpu-1": "b", "gpu-2": "b", "box": "c"}


@pytest.mark.parametrize(
    ("skus", "message"),
    [
        (["a=cpu:1,memory:1Gi", "a@w1=cpu:1,memory:1Gi"], "given twice"),
        (["a=cpu:1,memory:1Gi", "b=cpu:1,memory:1Gi"], "'a' and 'b' would both apply to all workers"),
        (["a@w1=cpu:1,memory:1Gi"], "no SKU covers the workers w2, w3"),
        (["a@w*=cpu:1,memory:1Gi", "b=cpu:1,memory:1Gi"], "no machine has the SKU 'b'"),
        (["a=cpu:1,memory:1Gi", "b@w9=cpu:1,memory:1Gi"], "no machine has the SKU 'b'"),
    ],
)
def test_skus_that_do_not_fit_the_workers_are_refused(skus: list[str], message: str) -> None:
    with pytest.raises(PaictlError, match=message):
        assign(["w1", "w2", "w3"], ["head"], [parse_sku(text) for text in skus])
