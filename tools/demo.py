"""`make demo`: paictl's main job, shown on the examples that come with the project.

Each command is run as a user would; the exit code must be the expected one, so that the demo is a test too.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Step:
    """A sentence, the command it announces, and how that must end."""

    text: str
    command: str
    code: int = 0


STEPS = (
    Step("A cluster configuration without mistakes, checked across its files:", "config validate examples/cluster"),
    Step("Its broken twin: every mistake at once, each with its place:", "config validate examples/broken-cluster", 1),
    Step("What one of the rules is about:", "config explain quota-exceeds-cluster"),
    Step("What the good cluster promises to whom:", "config capacity examples/cluster"),
)


def main() -> int:
    """Run the steps; 0 if all ended as expected."""
    for number, step in enumerate(STEPS, 1):
        print(f"\n[{number}/{len(STEPS)}] {step.text}\n$ paictl {step.command}", flush=True)
        done = subprocess.run([sys.executable, "-m", "paictl", *shlex.split(step.command)], cwd=ROOT, check=False)
        if done.returncode != step.code:
            print(f"demo: expected exit code {step.code}, got {done.returncode}", file=sys.stderr)
            return 1
    print("\nNext: try it on your own files: .venv/bin/paictl config validate FOLDER")
    return 0


if __name__ == "__main__":
    sys.exit(main())
