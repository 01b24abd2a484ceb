"""Repairs of host lists, cluster settings and layouts: what `--fix` makes of them."""

from __future__ import annotations

import pytest

from paictl.config.linting.fix import fix
from paictl.config.reading.load import load_memory


def after(name: str, data: bytes) -> bytes:
    (file,) = fix(load_memory({name: data})).files
    return file.after


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        (b"hostname,ip\ngpu-1,10.0.3.1\n", b"gpu-1,10.0.3.1\n"),
        (b"gpu-1,10.0.3.1\n\n\n \ngpu-2,10.0.3.2\n\n", b"gpu-1,10.0.3.1\ngpu-2,10.0.3.2\n"),
        (b"gpu-1,10.0.3.1\r\n\r\ngpu-2,10.0.3.2", b"gpu-1,10.0.3.1\r\ngpu-2,10.0.3.2"),
        (b"\ngpu-1,10.0.3.1", b"gpu-1,10.0.3.1"),
        (b'GPU-1 , "10.0.3.1"\n', b"gpu-1,10.0.3.1\n"),
        (b"10.0.3.1,gpu-1\ngpu-2;10.0.3.2\n", b"gpu-1,10.0.3.1\ngpu-2,10.0.3.2\n"),
        (b"gpu-1,10.0.3.1\ngpu-2,10.0.3.2\ngpu-1,10.0.3.1\n", b"gpu-1,10.0.3.1\ngpu-2,10.0.3.2\n"),
        (b"gpu-1,10.0.3.1,V100\n", b"gpu-1,10.0.3.1\n"),
        (b"\xef\xbb\xbfhost,ip\n gpu-1,10.0.3.1\n", b"gpu-1,10.0.3.1\n"),
        (b"gpu-1,10.0.3.400\n", b"gpu-1,10.0.3.400\n"),
    ],
)
def test_a_host_list_is_repaired(before: bytes, expected: bytes) -> None:
    assert after("worker.csv", before) == expected


def test_one_repair_among_thousands_that_is_refused_costs_little() -> None:
    rows = [b"gpu-%d ,10.0.%d.%d" % (n, n // 250, n % 250 + 1) for n in range(3000)]
    rows.insert(1500, b"")
    assert after("worker.csv", b"\n".join(rows)) == b"\n".join(row.replace(b" ", b"") for row in rows if row)


def test_switches_of_config_are_repaired() -> None:
    good = b"user: a\npassword: nine-Lanterns-77\ndocker_image_tag: v1\n"
    before = good + b"qos-switch: yes # on\nenable_hived_scheduler: 'true'\n"
    expected = before.replace(b"yes", b'"true"').replace(b"'true'", b"true")
    assert after("config.yaml", before) == expected
