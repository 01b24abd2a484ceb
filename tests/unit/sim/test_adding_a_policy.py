"""docs/adding-a-policy.md: its file and its line work exactly as printed."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from paictl.sim.actions import PolicyError
from paictl.sim.cluster import homogeneous
from paictl.sim.job import Job
from paictl.sim.parallel import RunRequest, play
from paictl.sim.policies import table
from paictl.sim.policies.parameters import ParameterError, as_data, described
from paictl.sim.simulate import simulate
from paictl.units import Millis
from tests.conftest import ROOT


def test_the_policy_of_the_page_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs/adding-a-policy.md").read_text(encoding="utf-8"), re.S)
    module = ModuleType("paictl.sim.policies.longest")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(blocks[0], module.__dict__)  # noqa: S102 the page's own example
    name, entry = re.findall(r'"(\w+)": "(\w+:\w+)"', blocks[1])[0]
    monkeypatch.setattr(table, "POLICIES", {**table.POLICIES, name: entry})

    jobs = [Job(str(i), Millis(0), 1, Millis(1000 * (i + 1))) for i in range(3)]
    result = simulate(jobs, homogeneous(1, 1), "longest:most=1")

    assert [outcome.first_start for outcome in result.outcomes] == [5000, 3000, 0]
    assert result.parameters["most"] == 1
    assert "most" in [parameter.name for parameter in described(table.policy_class("longest").Parameters)]
    with pytest.raises(ParameterError, match="no parameter 'mots'") as caught:
        simulate(jobs, homogeneous(1, 1), "longest:mots=1")
    assert caught.value.hint == "did you mean 'most'?"


@pytest.fixture
def page_policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The page's policy as a file of its own."""
    monkeypatch.setattr(table, "_LOADED", {})
    source = re.search(r"```python\n(.*?)```", (ROOT / "docs/adding-a-policy.md").read_text(encoding="utf-8"), re.S)
    assert source is not None
    path = tmp_path / "mine.py"
    path.write_text(source[1], encoding="utf-8")
    return path


JOBS = [Job(str(i), Millis(0), 1, Millis(1000 * (i + 1))) for i in range(3)]


@pytest.mark.parametrize("more", ["", ":Longest", ":most=1", ":Longest:most=1"])
def test_a_file_of_ones_own_is_a_policy(page_policy: Path, more: str) -> None:
    result = simulate(JOBS, homogeneous(1, 1), f"{page_policy}{more}")
    assert [outcome.first_start for outcome in result.outcomes] == [5000, 3000, 0]
    assert (result.policy, result.parameters["most"]) == ("longest", 1 if "most" in more else 0)


def test_a_file_plays_the_same_in_processes_of_its_own(page_policy: Path) -> None:
    requests = [RunRequest(f"{page_policy}:most={most}", homogeneous(1, 1)) for most in (1, 2)]
    alone, together = play(JOBS, requests, processes=1), play(JOBS, requests, processes=2)
    assert [run.outcomes for run in alone] == [run.outcomes for run in together]


@pytest.mark.parametrize(
    ("source", "policy", "place", "says", "hint"),
    [
        ("x = 1", "{path}", "policy {path}", "the file defines no policy", "docs/adding-a-policy.md"),
        ("a = 1\nb = a / 0", "{path}", "{path}:2", "does not load: ZeroDivisionError", "correct the file"),
        ("a = 1\n\ndef f(:", "{path}", "{path}:3", "does not load: SyntaxError", "shows the whole traceback"),
        ("import no_such.thing", "{path}", "{path}:1", "No module named 'no_such'", "install no_such for "),
        ("import sys\nsys.exit(3)", "{path}", "{path}:2", "does not load: SystemExit", "correct the file"),
        ("PAGE", "{path}:Longst", "policy {path}", "no policy 'Longst'", "did you mean 'Longest'?"),
        ("PAGE", "{path}:mots=1", "policy {path}", "it has no parameter 'mots'", "did you mean 'most'?"),
        ("PAGE\nclass Other(Longest):\n    id = 'other'", "{path}", "policy {path}", "several policies", ":Longest"),
        ("PAGE\nLongest.id = 'fifo'", "{path}", "policy {path}", "'fifo' is taken", "give class Longest another id"),
        ("PAGE\ndel Longest.paper", "{path}", "policy {path}", "does not set paper", "in the class body"),
        (None, "{path}", "policy {path}", "No such file", "check the path"),
    ],
)
def test_a_file_that_cannot_be_a_policy_is_refused_before_any_run(
    page_policy: Path, source: str | None, policy: str, place: str, says: str, hint: str
) -> None:
    path = page_policy.with_name("other.py")
    if source is not None:
        path.write_text(source.replace("PAGE", page_policy.read_text(encoding="utf-8")), encoding="utf-8")
    with pytest.raises(ParameterError) as caught:
        table.parse(policy.format(path=path))
    assert says in caught.value.message
    assert caught.value.where == place.format(path=path)
    assert hint in (caught.value.hint or "")


def test_a_policy_of_a_file_that_fails_while_it_decides_names_its_line(page_policy: Path) -> None:
    text = page_policy.read_text(encoding="utf-8").replace("self.line += moment.arrived", "self.line += 1 / 0")
    page_policy.write_text(text, encoding="utf-8")
    line = text.splitlines().index("        self.line += 1 / 0") + 1
    with pytest.raises(PolicyError, match="policy longest failed: ZeroDivisionError") as caught:
        simulate(JOBS, homogeneous(1, 1), str(page_policy))
    assert caught.value.where == f"{page_policy}:{line}"


def test_an_installed_package_adds_a_policy_by_its_entry_point(
    page_policy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = page_policy.parent / "mine-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n", encoding="utf-8")
    (about / "entry_points.txt").write_text(
        "[paictl.policies]\nlongest = mine:Longest\nbroken = mine:Nothing\n", encoding="utf-8"
    )
    monkeypatch.syspath_prepend(str(page_policy.parent))
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    assert {"longest", "broken"} <= set(table.known_policies())
    result = simulate(JOBS, homogeneous(1, 1), "longest:most=1")
    assert [outcome.first_start for outcome in result.outcomes] == [5000, 3000, 0]
    with pytest.raises(ParameterError, match="cannot be loaded") as caught:
        table.parse("broken")
    assert caught.value.where == "policy broken"


def test_thresholds_are_told_as_they_are_typed() -> None:
    kind, parameters = table.parse("las:queues=300/7200.5")
    assert as_data(parameters)["queues"] == [300, 7200.5]
    assert next(parameter.default for parameter in described(kind.Parameters) if parameter.name == "queues") == "3200"


def test_what_cannot_be_is_said_with_what_can() -> None:
    for text, hint in (
        ("fifo,edf", "one policy each: --policy fifo --policy …"),
        ("fifu", "did you mean 'fifo'?"),
        ("chronus:padding=abc", "allowed: number, 0.1 to 100"),
        ("las:queues=3ms", "allowed: seconds, or with a unit, at least 0.001"),
        ("gavel:aware=no", "allowed: true | false"),
    ):
        with pytest.raises(ParameterError) as caught:
            table.parse(text)
        assert caught.value.hint == hint
