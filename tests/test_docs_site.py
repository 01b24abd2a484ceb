"""The documentation site's sources: everything that the code defines has its place in the reference."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from paictl.config.linting.rules import all_rules
from tests.conftest import ROOT


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    subprocess.run([sys.executable, ROOT / "tools" / "docs_site.py", folder], check=True, cwd=ROOT, timeout=120)
    return folder


def test_every_rule_has_its_section(site: Path) -> None:
    text = (site / "docs/reference/rules.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^## (\w+) ", text, re.MULTILINE)) == {rule.id for rule in all_rules()}


def test_every_key_of_a_schema_has_its_row(site: Path) -> None:
    for schema in (ROOT / "schemas").glob("*.schema.json"):
        keys = json.loads(schema.read_text(encoding="utf-8")).get("properties", {})
        name = schema.name.removesuffix(".schema.json")
        page = (site / f"docs/reference/configuration/{name}.md").read_text(encoding="utf-8")
        assert not {key for key in keys if f"| `{key}`" not in page}, name


@pytest.mark.parametrize(("language", "words"), [("", "Submit jobs"), (".zh", "\u63d0\u4ea4\u4f5c\u4e1a")])
def test_commands_are_described_in_both_languages(site: Path, language: str, words: str) -> None:
    page = (site / f"docs/reference/commands/job{language}.md").read_text(encoding="utf-8")
    assert "## paictl job submit\n" in page
    assert words in page
    assert "`--priority TEXT`" in page


def test_every_page_is_in_the_menu(site: Path) -> None:
    menu = (site / "mkdocs.yml").read_text(encoding="utf-8")
    assert yaml.safe_load(menu)["docs_dir"] == "docs"
    pages = {path.relative_to(site / "docs").as_posix() for path in (site / "docs").rglob("*.md")}
    assert not {page for page in pages if not page.endswith(".zh.md") and page not in menu} - {"index.md"}
