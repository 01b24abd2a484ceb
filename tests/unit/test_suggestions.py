"""Which name somebody meant, and that strangers cannot make that cost much."""

from __future__ import annotations

import difflib

import pytest

from paictl.config.linting import validate as linting
from paictl.operate.jobfiles import findings
from paictl.suggestions import LONGEST, limited, nearest


def job(command: str, parameters: int) -> bytes:
    values = ", ".join(f"p{number}: 1" for number in range(parameters))
    return f"""protocolVersion: 2
name: one
type: job
parameters: {{{values}}}
prerequisites:
- {{name: image, type: dockerimage, uri: x}}
taskRoles:
  t:
    dockerImage: image
    resourcePerInstance: {{cpu: 1, memoryMB: 1, gpu: 1}}
    commands: ["{command}"]
""".encode()


def test_no_more_is_compared_than_is_allowed() -> None:
    assert nearest("worker12", ["worker1", "master"]) == "worker1"
    with limited(45):
        assert nearest("worker12", ["worker1", "master"]) == "worker1"  # 29 characters
        assert nearest("worker12", ["worker1", "master"]) is None
        assert nearest("worker1", ["worker1"]) is None, "nothing is left"
        with limited(100):
            assert nearest("worker12", ["worker1", "master"]) == "worker1"
    assert nearest("worker12", ["worker1", "master"]) == "worker1"


@pytest.mark.parametrize(("length", "known"), [(LONGEST, True), (LONGEST + 1, False)])
def test_very_long_words_are_no_mistyped_names(length: int, known: bool) -> None:
    word = "x" * length
    assert (nearest(word, [word]) == word) is known
    assert (nearest(word[:-1] + "y", [word]) == word) is known


def test_thousands_of_names_that_are_not_there_do_not_hold_up_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    compared, close = [0], difflib.get_close_matches

    def counted(word: str, known: dict[str, str], most: int, cutoff: float) -> list[str]:
        compared[0] += len(known)
        assert compared[0] <= 1_000_000, "too much is compared"
        return close(word, known, most, cutoff)

    monkeypatch.setattr(difflib, "get_close_matches", counted)
    wrong = " ".join(f"<% $parameters.q{number} %>" for number in range(2_000))
    problems = [problem for problem in findings(job(wrong, 20_000)) if problem.rule == "JOB606"]
    assert len(problems) == linting.MOST_OF_A_RULE
    assert compared[0] > 0
    [problem] = findings(job("<% $parameters.epoch %>", 0).replace(b"{}", b"{epochs: 1}"))
    assert problem.hint is not None
    assert "epochs" in problem.hint
