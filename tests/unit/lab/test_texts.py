"""Texts: what they show is found, compared and renewed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from paictl.lab.manifest import Lab, all_labs, find_lab
from paictl.lab.selftest import Bench, problems
from paictl.lab.texts import Mark, ShownCommand, headings, parts, play_text
from tests.conftest import ROOT

TEXT = """# One

Some words.

```console
$ paictl job list
JOB
…
last
$ paictl job show a
```

<!-- step: find -->

## Two

```yaml
# no heading
```
"""


def test_commands_marks_and_headings_are_found() -> None:
    found = list(parts(TEXT))
    assert found == [
        ShownCommand(6, "paictl job list", ("JOB", "…", "last")),
        ShownCommand(10, "paictl job show a", ()),
        Mark(13, "find"),
    ]
    assert headings(TEXT) == [1, 2]


def test_output_is_compared_and_renewed() -> None:
    outputs = {"paictl job list": "JOB\nx\ny\nlast\nlab: ✓ noted\n", "paictl job show a": "a\nb\n"}
    left: list[str] = []
    wrong, right = play_text(TEXT, outputs.__getitem__, left.append)
    assert left == ["find"]
    assert len(wrong) == 1
    assert "line 10" in wrong[0]
    assert "$ paictl job show a\na\nb\n```" in right
    assert play_text(right, outputs.__getitem__, left.append) == ([], right)
    outputs["paictl job list"] = "JOB\nx\n"
    wrong, right = play_text(TEXT, outputs.__getitem__, left.append)
    assert len(wrong) == 2
    assert "$ paictl job list\nJOB\nx\n$ paictl" in right


# --- the self-test itself: every kind of hollow lab is caught


def broken(tmp_path: Path, file: str, old: str, new: str) -> Lab:
    """Lab 02 with a change."""
    import shutil

    folder = tmp_path / "labs" / "02_vc_safety"
    shutil.copytree(ROOT / "labs" / folder.name, folder)
    text = (folder / file).read_text(encoding="utf-8")
    assert old in text
    (folder / file).write_text(text.replace(old, new, 1), encoding="utf-8")
    return find_lab("02", tmp_path / "labs")


MISTAKES = [
    ("lab.yaml", "- job: {name: job-2, state: Running, vc: vc1}", "- cluster: {nodes: 3}", "passes before any step"),
    (
        "lab.yaml",
        "state: Running, vc: vc1}",
        "state: Stopped, vc: vc1}",
        "first-runs does not pass after its step fill",
    ),
    ("lab.yaml", "after: overfill", "after: owner", "passes in step overfill, not in owner"),
    (
        "lab.yaml",
        "  - job: {name: job-2, state: Running, vc: vc1}",
        "  - job: {name: job-2}\n  - cluster: {jobs: 1}",
        "first-runs passes under the mistake first-elsewhere",
    ),
    ("lab.yaml", "  - job: {name: job-2, vc: default}", "  - job: {name: job-2, vc: vc1}", "although it was not made"),
    ("lab.yaml", "  - job: {name: job-3, vc: default}", "  - job: {name: job-3, priority: crit}", "is not recognised"),
    ("lab.yaml", "  - paictl node list\n", "  - paictl node show worker9\n", "no node"),
    ("lab.zh.md", "### GPU 的主人来了\n", "", "headings differ"),
    ("lab.zh.md", "$ paictl node list", "$ paictl node show worker1", "Chinese 'paictl node show worker1'"),
    ("lab.en.md", "$ paictl cluster tick 5m", "$ paictl cluster tick 6m", "does not show 'paictl cluster tick 5m'"),
    ("lab.en.md", "student~job-2  Running", "student~job-2  Waiting", "paictl job submit job-2.yaml prints"),
]


@pytest.mark.parametrize(("file", "old", "new", "said"), MISTAKES)
def test_the_self_test_finds_what_an_author_did_wrong(tmp_path: Path, file: str, old: str, new: str, said: str) -> None:
    from paictl.cli.lab.inprocess import called, printed, silent_runner, speaking

    lab = broken(tmp_path, file, old, new)
    with called("student"):
        found = list(
            problems(
                lab, Bench(tmp_path, silent_runner, lambda session: lambda command: printed(session, command), speaking)
            )
        )
    assert any(said in problem for problem in found), found


def test_the_page_lists_every_lab_by_its_titles() -> None:
    page = (ROOT / "labs/README.md").read_text(encoding="utf-8")
    told = re.findall(r"^\| (\d\d) \| (.+) \| (.+) \|$", page, re.M)
    assert told == [(lab.number, lab.title.en, lab.title.zh) for lab in all_labs()]
