"""What the global options say, for the one process that runs a command."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass


@dataclass(slots=True)
class GlobalOptions:
    """The global options; set while a command line is read, looked at by `console` and by prompts."""

    verbosity: int = 0
    """-1 quiet (errors only), 0 normal, 1 and more verbose."""
    debug: bool = False
    color: bool | None = None
    """None: where the stream is a terminal and NO_COLOR is not set."""
    interactive: bool = True
    output: str = "table"
    """The form that was asked for: errors are said in it as well where it is JSON."""
    wide: bool = False
    """Whether tables show all their columns, however wide the terminal is."""

    cluster: str | None = None
    """What ``--cluster`` says; what it means is `targets.chosen_name`'s to say."""
    state_given: bool = False
    """Whether ``--state`` stands on the command line, and not only in a file of defaults."""

    language: str | None = None
    """Of messages, from the configuration file; PAICTL_LANG comes before it."""

    def reset(self) -> None:
        """Forget what an earlier command line of this process said."""
        self.verbosity, self.debug, self.color, self.interactive, self.output = 0, False, None, True, "table"
        self.language, self.cluster, self.state_given, self.wide = None, None, False, False

    @property
    def may_ask(self) -> bool:
        """Whether a question can be put: a person at a terminal, and not --no-input."""
        return self.interactive and sys.stdin is not None and sys.stdin.isatty()

    def wants_color(self, terminal: bool) -> bool:
        """Whether a stream gets colours: --no-color and NO_COLOR win, then FORCE_COLOR, then what the terminal can."""
        if self.color is False or os.environ.get("NO_COLOR"):
            return False
        forced = os.environ.get("FORCE_COLOR")
        if forced is not None:
            return forced not in ("", "0", "false")
        return self.color is True or (terminal and os.environ.get("TERM") != "dumb")


settings = GlobalOptions()
