"""Some hundreds of mutants on every run; `make fuzz` runs many thousands."""

from __future__ import annotations

import pytest

from tools.fuzz_config import attempt, save, seeds


@pytest.mark.parametrize("seed", range(8))
def test_no_mutant_breaks_anything(seed: int) -> None:
    failures = [failure for number in range(50) if (failure := attempt(f"{seed}:{number}"))]
    assert not failures, failures[0].reason


def test_every_seed_is_fine_by_itself() -> None:
    from tools.fuzz_config import examine

    for files in seeds():
        examine(files)


def test_a_failure_is_found_and_saved(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    from pathlib import Path

    from tools import fuzz_config

    def fail(_files: fuzz_config.Files) -> None:
        raise RuntimeError("broken\x1b")

    monkeypatch.setattr(fuzz_config, "examine", fail)
    failure = attempt("1:1")
    assert failure is not None
    assert "RuntimeError: broken" in failure.reason
    place = save(failure, Path(str(tmp_path)))
    assert (place / "reason.txt").read_text().endswith("broken\x1b\n")
    assert len(list(place.iterdir())) == len(failure.files) + 1


def test_a_mutant_that_takes_too_long_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    from tools import fuzz_config

    def hang(_files: fuzz_config.Files) -> None:
        while True:
            pass

    monkeypatch.setattr(fuzz_config, "examine", hang)
    monkeypatch.setattr(fuzz_config, "SECONDS", 0.2)
    failure = attempt("1:1")
    assert failure is not None
    assert "more than 0.2 s" in failure.reason
