"""A user who submits jobs one after the other and asks again where nobody answered: ``submitting.py CLUSTER NUMBER``.

Prints a line for each job that was taken: its number, for how many milliseconds nobody had answered before, and why.
"""

from __future__ import annotations

import sys
import time

from paictl.cluster.interface import JobRequest
from paictl.cluster.targets import open_target
from paictl.cluster.values import ConflictError, UnreachableError


def request(number: int) -> JobRequest:
    """A job of one task."""
    role = {
        "instances": 1,
        "dockerImage": "i",
        "commands": ["sleep 1h"],
        "resourcePerInstance": {"gpu": 1, "cpu": 1, "memoryMB": 64},
    }
    data = {
        "protocolVersion": 2,
        "name": f"job{number}",
        "type": "job",
        "taskRoles": {"worker": role},
        "prerequisites": [{"name": "i", "type": "dockerimage", "uri": "image"}],
        "defaults": {"virtualCluster": "default"},
    }
    return JobRequest("ann", data)


def main(cluster: str, jobs: int) -> None:
    """Submit them."""
    opened = open_target(cluster)
    for number in range(jobs):
        began, reasons = time.monotonic(), set[str]()
        while True:
            try:
                opened.submit([request(number)])
            except UnreachableError as error:
                reasons.add(error.message)
                time.sleep(0.1)
                continue
            except ConflictError:  # it was taken by the master that could not say so any more
                if not reasons:
                    raise
            break
        silence = round((time.monotonic() - began) * 1000) if reasons else 0
        print(number, silence, *sorted(reasons), flush=True)  # noqa: T201 - what the test reads


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
