"""The page: one file that needs nothing else, and in which nothing from the cluster is markup."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from paictl.cluster.interface import NodeChange
from paictl.cluster.page import page, page_data
from paictl.cluster.picture import Picture
from paictl.resources import resource_folder
from tests.conftest import ROOT
from tests.unit.cluster.conftest import MINUTE, MakeBench

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>/*SCRIPT*/<!--&amp;\u2028\u202e'\""
VOID = frozenset({"meta", "link", "input", "img", "br"})


class Reader(HTMLParser):
    """Elements in order, and whether they nest."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.setdefault(self.open[-1] if self.open else "", []).append(data)


def read(text: str) -> Reader:
    reader = Reader()
    reader.feed(text)
    reader.close()
    assert reader.open == []
    return reader


@pytest.fixture
def picture(bench: MakeBench) -> Picture:
    lab = bench("dgx2")
    lab.submit("low", "vc1", "test", gpu=8, instances=2)
    lab.pass_time(MINUTE)
    lab.submit("high", "vc1", "prod", gpu=8)
    lab.cluster.set_node("worker1", NodeChange.CORDON)
    return lab.cluster.picture(history=True)


def hostile(picture: Picture) -> Picture:
    job, vc, node = picture.jobs[0], picture.vcs[0], picture.nodes[0]
    return replace(
        picture,
        cluster=HOSTILE,
        note=HOSTILE,
        jobs=(replace(job, key=HOSTILE, vc=HOSTILE, reason=HOSTILE), *picture.jobs[1:]),
        vcs=(replace(vc, name=HOSTILE), *picture.vcs[1:]),
        nodes=(replace(node, machine=replace(node.machine, name=HOSTILE)), *picture.nodes[1:]),
    )


def data_of(reader: Reader) -> object:
    return json.loads(reader.texts["script"][0])


def test_the_page_parses_and_holds_the_data(picture: Picture) -> None:
    reader = read(page(picture))
    assert data_of(reader) == page_data(picture)
    assert reader.texts["title"] == ["pai – cluster view"]


def test_nothing_from_the_cluster_becomes_markup(picture: Picture) -> None:
    plain, evil = read(page(picture)), read(page(hostile(picture)))
    assert [tag for tag, _ in evil.seen] == [tag for tag, _ in plain.seen]
    assert data_of(evil) == page_data(hostile(picture))
    assert evil.texts["script"][1:] == plain.texts["script"][1:]
    assert evil.texts["title"] == [f"{HOSTILE} – cluster view"]


def test_the_page_loads_nothing_and_allows_only_its_own_script(picture: Picture) -> None:
    text = page(picture)
    reader = read(text)
    for tag, attributes in reader.seen:
        assert "src" not in attributes, tag
        assert not (attributes.get("href") or "#").startswith(("http", "/")), tag
    policy = next(a["content"] for t, a in reader.seen if a.get("http-equiv") == "Content-Security-Policy") or ""
    script = reader.texts["script"][-1]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy
    assert "@import" not in text
    assert re.findall(r"url\((?!#)", text) == []


def test_the_script_never_writes_markup() -> None:
    files = sorted((resource_folder("templates") / "pages").glob("view*.js"))
    script = "".join(path.read_text(encoding="utf-8") for path in files)
    assert len(files) == 3
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "fetch(", "XMLHttp"):
        assert word not in script


def test_everything_that_can_be_used_has_a_name(picture: Picture) -> None:
    reader = read(page(picture))
    ids = [attributes["id"] for _, attributes in reader.seen if "id" in attributes]
    assert len(ids) == len(set(ids))
    for _, attributes in reader.seen:
        for key in ("aria-labelledby", "aria-describedby"):
            assert attributes.get(key) is None or attributes[key] in ids
    assert dict(reader.seen)["html"]["lang"] == "en"


def test_jobs_that_the_cluster_does_not_know_are_shown_by_their_group(picture: Picture) -> None:
    data = page_data(replace(picture, jobs=(), timeline=None))
    assert [row[0] for row in data["jobs"]] == sorted({leaf.job for leaf in picture.leaves() if leaf.job})
    assert data["history"] is False


def test_the_wheel_takes_the_page_along() -> None:
    assert 'templates = "paictl/data/templates"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")
