"""Bills of materials: everything that the lock files name, nothing twice, and every edge leads somewhere."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT


@pytest.fixture(scope="module")
def bills(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("sbom")
    subprocess.run([sys.executable, ROOT / "tools" / "sbom.py", folder], check=True, timeout=60)
    return {path.name.split("-")[-1].split(".")[0]: json.loads(path.read_text()) for path in folder.iterdir()}


@pytest.mark.parametrize("subject", ["wheel", "image"])
def test_a_bill_is_whole(subject: str, bills: dict[str, Any]) -> None:
    bill = bills[subject]
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    own = bill["metadata"]["component"]["bom-ref"]
    refs = [one["bom-ref"] for one in bill["components"]]
    assert len(refs) == len(set(refs))
    edges = {one["ref"]: set(one["dependsOn"]) for one in bill["dependencies"]}
    assert edges.keys() == {own, *refs}
    assert set().union(*edges.values()) <= set(refs)
    reached: set[str] = set()
    waiting = [own]
    while waiting:
        for ref in edges[waiting.pop()] - reached:
            reached.add(ref)
            waiting.append(ref)
    assert reached == set(refs), "everything is there because something needs it"
    for one in bill["components"]:
        if one["purl"].startswith("pkg:pypi/"):
            (where,) = one["externalReferences"]
            assert where["hashes"]
            assert all(re.fullmatch(r"[0-9a-f]{64}", entry["content"]) for entry in where["hashes"])


def test_they_list_what_the_lock_files_name(bills: dict[str, Any]) -> None:
    lock = (ROOT / "requirements" / "image.lock").read_text(encoding="utf-8")
    named = set(re.findall(r"^([a-z0-9._-]+)==(\S+)", lock, re.MULTILINE))
    found = {(one["name"], one["version"]) for one in bills["image"]["components"] if "pypi" in one["purl"]}
    assert found == named
    wheel = {one["name"] for one in bills["wheel"]["components"]}
    assert {"typer", "jsonschema", "kubernetes", "scipy", "fabric", "cryptography"} <= wheel
    assert not {"pytest", "mypy", "ruff", "hypothesis"} & wheel


def test_the_same_tree_gives_the_same_bytes(bills: dict[str, Any], tmp_path: Path) -> None:
    subprocess.run([sys.executable, ROOT / "tools" / "sbom.py", tmp_path], check=True, timeout=60)
    again = {path.name.split("-")[-1].split(".")[0]: json.loads(path.read_text()) for path in tmp_path.iterdir()}
    assert again == bills
