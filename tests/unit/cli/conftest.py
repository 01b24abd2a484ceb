"""Running the command line in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from paictl.cli.main import run
from paictl.cli.settings import Settings, settings


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str


Paictl = Callable[..., Done]


@pytest.fixture
def paictl(capsys: pytest.CaptureFixture[str]) -> Iterator[Paictl]:
    """Run `paictl WORDS…` and give exit code, stdout and stderr."""

    def call(*words: str) -> Done:
        code = run(list(words))
        captured = capsys.readouterr()
        return Done(int(code), captured.out, captured.err)

    yield call
    fresh = Settings()
    for name in Settings.__slots__:
        setattr(settings, name, getattr(fresh, name))
