"""`make demo`: paictl's main jobs, shown on the examples that come with the project, in under half a minute.

Each command is run as a user would; its exit code must be the expected one, so that the demo is a test too. The
cluster lives in a folder of its own and is gone at the end.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Step:
    """A sentence, the commands it announces, and how the last of them must end."""

    text: str
    commands: tuple[str, ...]
    code: int = 0


STEPS = (
    Step("A cluster configuration without mistakes, checked across its files:", ("config validate examples/cluster",)),
    Step(
        "Its broken twin: every mistake at once, each with its place:",
        ("config validate examples/broken-cluster --format concise",),
        1,
    ),
    Step(
        "One of them in full, and what its rule is about:",
        ("config validate examples/broken-cluster --select HVD525",),
        1,
    ),
    Step("What the good cluster promises to whom:", ("config capacity examples/cluster",)),
    Step(
        "A cluster on this machine, and a configuration with the virtual clusters default and research for it:",
        (
            "cluster up --preset lab --speed 0",
            "config push -p examples/lab -m service --yes",
            "service restart -n hivedscheduler rest-server",
        ),
    ),
    Step(
        "Three jobs: one in each virtual cluster, and an urgent one that preempts within its own:",
        (
            "job submit examples/lab/jobs/test.yaml --name first --vc research --user ann",
            "job submit examples/lab/jobs/test.yaml --name other --vc default --user ben",
            "job submit examples/lab/jobs/test.yaml --name urgent --vc research --priority prod --user ann",
            "job list",
        ),
    ),
    Step("Why the preempted one waits, and the smallest change that would help:", ("job explain ann~first",)),
    Step("Who uses what:", ("cluster view",)),
    Step("Five minutes later the urgent one has ended, and the other starts again:", ("cluster tick 5m", "job list")),
    Step("The cluster is not needed any more:", ("cluster down --yes",)),
    Step(
        "One of the guided labs, played for you and verified:",
        ("lab run 03 --fast --lang en",),
    ),
)


def main() -> int:
    """Run the steps; 0 if all ended as expected."""
    with tempfile.TemporaryDirectory() as folder:
        # Commands note things beside the files that they read: let them do so in a copy.
        shutil.copytree(ROOT / "examples", Path(folder, "examples"))
        environment = {**os.environ, "PAICTL_STATE": str(Path(folder, "state")), "PYTHONPATH": str(ROOT)}
        for number, step in enumerate(STEPS, 1):
            print(f"\n[{number}/{len(STEPS)}] {step.text}", flush=True)
            for command in step.commands:
                print(f"$ paictl {command}", flush=True)
                words = [sys.executable, "-m", "paictl", *shlex.split(command)]
                code = subprocess.run(words, cwd=folder, env=environment, check=False).returncode
                expected = step.code if command == step.commands[-1] else 0
                if code != expected:
                    print(f"demo: expected exit code {expected}, got {code}", file=sys.stderr)
                    return 1
    print(
        "\nNext: source .venv/bin/activate makes paictl a command of this shell; then paictl config validate FOLDER\n"
        "on your own files, or paictl lab start 01 for the first lab."
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
