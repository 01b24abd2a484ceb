"""The contract of job templates."""

from __future__ import annotations

import pytest

from paictl.cluster.interface import ClusterError, ConflictError
from paictl.cluster.templates import JobTemplate, TemplateLibrary
from tests.contract.conftest import Contract

FIRST = TemplateLibrary("vision", ("vc1",), (JobTemplate("a/b.yaml", "name: 实验\n", "b", "what", 1, 2),), "abc")
SECOND = TemplateLibrary("audio", ("*",), (JobTemplate("c.yml", "x"),))


def test_libraries_are_added_replaced_seen_by_others_and_removed(contract: Contract) -> None:
    cluster = contract.cluster
    assert list(cluster.template_libraries()) == []
    with pytest.raises(ClusterError, match="no template library 'vision'"):
        cluster.put_template_library(FIRST, new=False)
    cluster.put_template_library(FIRST, new=True)
    try:
        with pytest.raises(ConflictError):
            contract.again().put_template_library(FIRST, new=True)
        contract.again().put_template_library(SECOND, new=True)
        assert list(contract.again().template_libraries()) == [SECOND, FIRST]
        changed = TemplateLibrary("vision", ("default",), SECOND.templates)
        cluster.put_template_library(changed, new=False)
        assert list(contract.again().template_libraries()) == [SECOND, changed]
        with pytest.raises(ClusterError):
            cluster.put_template_library(TemplateLibrary("V", ("*",)), new=True)
    finally:
        for name in ("vision", "audio"):
            cluster.remove_template_library(name)
    with pytest.raises(ClusterError):
        cluster.remove_template_library("vision")
    assert list(contract.again().template_libraries()) == []
