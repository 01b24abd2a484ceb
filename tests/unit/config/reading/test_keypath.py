from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paictl.config.reading.nodes import dotted, parse_dotted
from paictl.errors import PaictlError


@given(st.lists(st.text(), min_size=1))
def test_every_path_survives_being_written(path: list[str]) -> None:
    assert parse_dotted(dotted(tuple(path))) == tuple(path)


def test_plain_keys_stay_plain() -> None:
    assert dotted(("rest-server", "server-port")) == "rest-server.server-port"
    assert dotted(("a", "b.c")) == 'a."b.c"'
    assert dotted(("hosts", 2, "password")) == "hosts[2].password"


@pytest.mark.parametrize("text", ["", "a.", ".a", "a..b", "a[1]", '"a', 'a"b"'])
def test_text_that_means_no_path_is_refused(text: str) -> None:
    with pytest.raises(PaictlError, match="is not a key path"):
        parse_dotted(text)
