"""Pages of jobs: what the embedded cluster finds by itself is what one finds who looks at all jobs."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from paictl.cluster.embedded import views
from paictl.cluster.embedded.cluster import EmbeddedCluster
from paictl.cluster.interface import JobState
from paictl.cluster.jobpages import JobOrder, JobQuery, page_among, page_of
from paictl.units import Millis
from tests.contract.conftest import Contract, embedded


@pytest.fixture(scope="module")
def contract(tmp_path_factory: pytest.TempPathFactory) -> Contract:
    """Ended, running, waiting and stopped jobs of two users, one of whose names begins as the other's does."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("paictl.config.secrets.sealing.COST", (4, 1, 1))
        found = embedded(tmp_path_factory.mktemp("pages"))
    for number, (user, vc) in enumerate(itertools.product(("ann", "ann-b"), ("default", "vc1"))):
        found.submit(f"short{number}", user=user, vc=vc, seconds=1 + number)
        found.pass_time(5)
    for name, vc in (("long", "vc1"), ("waits", "vc1"), ("stopped", "default")):
        found.submit(name, vc=vc)
    found.cluster.stop_job("ann~stopped")
    for name, tag in (("ann~short0", "paper"), ("ann-b~short2", "sweep"), ("ann~long", "sweep"), ("ann~stopped", "x")):
        found.cluster.tag_job(name, add=[tag])
    return found


QUERIES = [
    JobQuery(),
    JobQuery(users=frozenset({"ann"})),
    JobQuery(users=frozenset({"ann", "ann-b"}), vcs=frozenset({"vc1"})),
    JobQuery(states=frozenset({JobState.SUCCEEDED, JobState.WAITING})),
    JobQuery(keyword="short"),
    JobQuery(keyword="n-b~"),
    JobQuery(tags=frozenset({"sweep", "paper"})),
    JobQuery(not_tags=frozenset({"sweep"}), tags=frozenset({"sweep", "x"})),
    JobQuery(offset=2, limit=2),
    JobQuery(offset=99),
    JobQuery(users=frozenset({"nobody"})),
    *(JobQuery(order=order, descending=down, offset=1, limit=4) for order in JobOrder for down in (True, False)),
]


@pytest.mark.parametrize("number", range(len(QUERIES)))
def test_a_page_is_what_one_finds_who_looks_at_all(contract: Contract, number: int) -> None:
    query = QUERIES[number]
    everything = contract.cluster.jobs()
    assert {job.state for job in everything} == set(JobState) - {JobState.FAILED}
    assert page_of(contract.cluster, query) == page_among(everything, query)


def test_the_newest_come_first_and_all_pages_are_all_jobs(contract: Contract) -> None:
    pages = [page_of(contract.cluster, JobQuery(offset=at, limit=3)) for at in (0, 3, 6)]
    numbers = [job.number for page in pages for job in page.jobs]
    assert numbers == list(range(7, 0, -1))
    assert {page.total for page in pages} == {7}


def test_a_page_makes_no_more_views_than_it_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paictl.config.secrets.sealing.COST", (4, 1, 1))
    contract = embedded(tmp_path)
    contract.cluster.submit([contract.request(f"j{n}", seconds=1) for n in range(40)])
    assert isinstance(contract.cluster, EmbeddedCluster)
    contract.cluster.tick(Millis(3_600_000))
    made: list[object] = []

    def counting(old: Callable[..., object]) -> Callable[..., object]:
        def counted(*given: object, **named: object) -> object:
            made.append(given)
            return old(*given, **named)

        return counted

    for name in ("view_of", "view_from"):
        monkeypatch.setattr(views, name, counting(getattr(views, name)))
    assert len(page_of(contract.cluster, JobQuery(limit=5)).jobs) == len(made) == 5
