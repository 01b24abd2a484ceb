"""What the global options say, for the one process that runs a command."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass


@dataclass(slots=True)
class Settings:
    """The global options; set once by the root command, read by `console` and by prompts."""

    verbosity: int = 0
    """-1 quiet (errors only), 0 normal, 1 and more verbose."""
    debug: bool = False
    color: bool | None = None
    """None: where the stream is a terminal and NO_COLOR is not set."""
    interactive: bool = True

    @property
    def may_ask(self) -> bool:
        """Whether a question can be put: a person at a terminal, and not --no-input."""
        return self.interactive and sys.stdin is not None and sys.stdin.isatty()

    def wants_color(self, terminal: bool) -> bool:
        """Whether a stream gets colours; NO_COLOR (any value) and --no-color win."""
        if self.color is False or os.environ.get("NO_COLOR"):
            return False
        return terminal and os.environ.get("TERM") != "dumb"


settings = Settings()
