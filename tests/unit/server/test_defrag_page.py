"""Fragmentation in the portal: what is free as a whole, and for administrators the plan that makes more of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from paictl.cluster.interface import JobRequest
from tests.unit.server.conftest import Server, serving
from tests.unit.server.test_portal import Browser, text_of

PAGE = "/cluster/defragmentation"


def job(name: str, gpu: int) -> JobRequest:
    data: dict[str, Any] = {
        "protocolVersion": 2,
        "name": name,
        "type": "job",
        "defaults": {"virtualCluster": "tenanta"},
        "prerequisites": [{"name": "image", "type": "dockerimage", "uri": "pai/standard"}],
        "taskRoles": {
            "t": {
                "instances": 1,
                "dockerImage": "image",
                "commands": ["sleep 99h"],
                "resourcePerInstance": {"gpu": gpu, "cpu": 1, "memoryMB": 100},
            }
        },
        "extras": {"hivedScheduler": {"jobPriorityClass": "oppo"}},
    }
    return JobRequest("root", data)


@pytest.fixture
def holes(tmp_path: Path) -> Iterator[Server]:
    """Four nodes of eight devices, one job on a few devices of each of two."""
    with serving(tmp_path, "three-tenants") as server:
        for name, gpu in (("one", 1), ("fill1", 7), ("two", 2), ("fill2", 6)):
            server.cluster.submit([job(name, gpu)])
        for name in ("fill1", "fill2"):
            server.cluster.stop_job(f"root~{name}")
        yield server


def test_the_cluster_page_counts_whole_cells_and_leads_administrators_to_a_plan(holes: Server) -> None:
    root, ann = (Browser(holes, holes.session(user)) for user in ("root", "ann"))
    seen = root.get("/cluster")
    assert "V100-NODE 2 3 4 Plan moves" in text_of(seen)
    assert f'href="{PAGE}?for=3xV100-NODE"' in seen
    assert "碎片" in root.get("/cluster", language="zh")
    mine = ann.get("/cluster")
    assert "V100-NODE 2 3 4" in text_of(mine)
    assert PAGE not in mine, "only administrators plan in the portal"
    ann.get(f"{PAGE}?for=3xV100-NODE", 403)


def test_the_plan_names_who_moves_and_who_pays_and_changes_nothing(holes: Server) -> None:
    root = Browser(holes, holes.session("root"))
    before = [(one.key, one.pods) for one in holes.cluster.gangs()]
    page = root.get(f"{PAGE}?for=3xV100-NODE")
    said = text_of(page)
    assert "3xV100-NODE: free after 1 move" in said
    assert "root~one tenanta opportunistic 1" in said
    assert "root~two" not in said
    assert "work lost by restarts, in device hours: tenanta" in said
    assert "paictl cluster defrag apply --for 3xV100-NODE" in said
    assert [(one.key, one.pods) for one in holes.cluster.gangs()] == before
    assert "迁移" in root.get(f"{PAGE}?for=3xV100-NODE", language="zh")
    assert "already free" in text_of(root.get(f"{PAGE}?for=2xV100-NODE"))


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("for=0xV100-NODE", "is not a number of cells"),
        ("for=1xNODES", "no cell type"),
        ("for=9xV100-NODE", "has 4 cells"),
        ("for=1xV100-NODE&vc=none", "no virtual cluster"),
        ("for=%3Cb%3E", "no cell type"),
    ],
)
def test_a_plan_that_cannot_be_is_refused_on_the_page(holes: Server, query: str, said: str) -> None:
    page = Browser(holes, holes.session("root")).get(f"{PAGE}?{query}", 400)
    assert said in text_of(page)
    assert "<b>" not in page
    assert 'id="plan"' not in page


def test_without_cells_the_page_is_a_form(holes: Server) -> None:
    page = Browser(holes, holes.session("root")).get(PAGE)
    assert 'name="for"' in page
    assert 'id="plan"' not in page
