"""OpenPAI's commands, typed by an administrator who knows no others: docs/from-openpai.md."""

from __future__ import annotations

import re

import pytest

from tests.conftest import ROOT
from tests.unit.cli.conftest import Paictl

ROWS = re.findall(
    r"^\| `paictl\.py (.*?)` \| `paictl (.*?)` \|$", (ROOT / "docs/from-openpai.md").read_text("utf-8"), re.MULTILINE
)


def test_the_page_lists_commands() -> None:
    assert ("config push", "config push") in ROWS
    assert ("cluster k8s-bootup", "deploy apply") in ROWS


@pytest.mark.parametrize(("old", "new"), ROWS)
def test_a_command_of_openpai_exists_or_says_what_to_use(old: str, new: str, paictl: Paictl) -> None:
    assert paictl(*new.split(), "--help").code == 0
    answer = paictl(*old.split(), *(["--help"] if old == new else []))
    if old == new:
        assert answer.code == 0
    else:
        assert answer.code == 2
        assert re.search(rf"hint: use: .*paictl {new}\b", " ".join(answer.err.split())), answer.err


@pytest.mark.parametrize("option", ["-c", "--kube-config-path"])
def test_the_kubeconfig_of_openpai_is_the_name_of_a_cluster(option: str, paictl: Paictl) -> None:
    answer = paictl("config", "push", "-p", "cluster", option, "admin.conf")
    assert answer.code == 2
    assert "did you mean '--cluster'?" in answer.err
