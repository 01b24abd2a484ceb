"""Runs of an interrupted command, kept in the cache so that the same command resumes: finished runs, and snapshots of
those in progress."""

from __future__ import annotations

import hashlib
import os
import pickle
from pathlib import Path
from typing import Final

from paictl import __version__
from paictl.frozen import frozen
from paictl.places import cache_folder
from paictl.sim.cluster import ClusterShape
from paictl.sim.failures import FailureModel
from paictl.sim.job import Trace
from paictl.sim.policies import external
from paictl.sim.run import RunResult

PART: Final = ".part"
WORTH: Final = 1.0
"""Seconds: shorter runs are faster to repeat than to read."""


@frozen
class RunRequest:
    """One run."""

    policy: str
    cluster: ClusterShape
    seed: int = 0
    inflate: float | None = None
    """See `simulate`."""
    log: bool = False
    """Keep every event."""
    failures: FailureModel | None = None
    """What fails; None: nothing."""


class KeptRuns:
    """The kept runs of one trace; only the user can read or write the folder.

    A run is identified by everything that it depends on: the bytes of the trace, its format, the policy (for a file,
    its bytes, and those of files that its parameters name), the cluster, the seed, and the version of paictl.
    `resume=False`: write, but read nothing.
    """

    def __init__(self, trace: Trace, *, resume: bool, folder: Path | None = None) -> None:
        self._trace = f"{trace.sha256} {trace.format} {len(trace.jobs)}"
        self._resume = resume
        self.number = 0
        """Number of runs and snapshots written."""
        self._folder = folder if folder is not None else cache_folder() / "sim-runs"

    def get(self, request: RunRequest) -> RunResult | None:
        """The run if it is kept and can be read."""
        if not self._resume:
            return None
        try:
            run = pickle.loads(self._path(request).read_bytes())  # noqa: S301 - our own file, in the user's cache
        except Exception:
            return None
        return run if isinstance(run, RunResult) else None

    def put(self, request: RunRequest, run: RunResult) -> None:
        """Keep a run, unless it is faster to repeat; a cache that cannot be written keeps nothing."""
        if run.wall_seconds < WORTH:
            return
        self._write(self._path(request), pickle.dumps(run))
        self._path(request).with_suffix(PART).unlink(missing_ok=True)

    def snapshot(self, request: RunRequest) -> bytes | None:
        """The snapshot of an interrupted run, None if there is none."""
        if not self._resume:
            return None
        try:
            return self._path(request).with_suffix(PART).read_bytes()
        except OSError:
            return None

    def pause(self, request: RunRequest, snapshot: bytes) -> None:
        """Keep a snapshot of a run."""
        self._write(self._path(request).with_suffix(PART), snapshot)

    def drop(self, request: RunRequest) -> None:
        """The command is finished: nothing is left to resume."""
        for path in (self._path(request), self._path(request).with_suffix(PART)):
            path.unlink(missing_ok=True)

    def _write(self, path: Path, data: bytes) -> None:
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            draft = path.with_suffix(f".{os.getpid()}")
            draft.write_bytes(data)
            draft.replace(path)
        except OSError:
            return
        self.number += 1

    def _path(self, request: RunRequest) -> Path:
        path = request.policy.partition(":")[0].strip()
        code = Path(path).read_bytes() if external.is_file(path) and Path(path).is_file() else b""
        code += _files(request.policy)
        parts = (
            __version__,
            self._trace,
            request.policy,
            repr(request.cluster),
            request.seed,
            request.inflate,
            request.log,
            request.failures,
        )
        return self._folder / f"{hashlib.sha256(repr(parts).encode() + code).hexdigest()}.run"


def _files(policy: str) -> bytes:
    """The bytes of the files that a policy's parameters name: other contents make it another run."""
    return b"".join(_content(part.partition("=")[2].strip()) for part in policy.partition(":")[2].split(","))


def _content(value: str) -> bytes:
    try:
        return Path(value).read_bytes() if value and Path(value).is_file() else b""
    except OSError:  # too long for a path
        return b""
