"""Finished runs of an interrupted command, kept in the cache so that the same command resumes with the others."""

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
from paictl.sim.job import Trace
from paictl.sim.policies import external
from paictl.sim.run import RunResult

WORTH: Final = 1.0
"""Seconds: runs that took less are sooner played than read."""


@frozen
class RunRequest:
    """One run."""

    policy: str
    cluster: ClusterShape
    seed: int = 0
    inflate: float | None = None
    """See `simulate`."""


class KeptRuns:
    """The runs of one trace that are kept; nobody but the user can read or write the folder.

    A run is known by all that it depends on: the bytes of the trace, its format, the policy (of a file its bytes), the
    cluster, the seed, and the version of paictl. `resume=False`: write, but read nothing.
    """

    def __init__(self, trace: Trace, *, resume: bool, folder: Path | None = None) -> None:
        self._trace = f"{trace.sha256} {trace.format} {len(trace.jobs)}"
        self._resume = resume
        self._folder = folder if folder is not None else cache_folder() / "sim-runs"

    def get(self, request: RunRequest) -> RunResult | None:
        """The run if it is kept and can be read."""
        if not self._resume:
            return None
        try:
            found = pickle.loads(self._path(request).read_bytes())  # noqa: S301 - our own file, in the user's cache
        except Exception:
            return None
        return found if isinstance(found, RunResult) else None

    def put(self, request: RunRequest, run: RunResult) -> None:
        """Keep it, unless it is sooner played again; a cache that cannot be written keeps nothing."""
        if run.wall_seconds < WORTH:
            return
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            path = self._path(request)
            draft = path.with_suffix(f".{os.getpid()}")
            draft.write_bytes(pickle.dumps(run))
            draft.replace(path)
        except OSError:
            return

    def drop(self, request: RunRequest) -> None:
        """The command is finished: nothing is left to resume."""
        self._path(request).unlink(missing_ok=True)

    def _path(self, request: RunRequest) -> Path:
        path = request.policy.partition(":")[0].strip()
        code = Path(path).read_bytes() if external.is_file(path) and Path(path).is_file() else b""
        parts = (__version__, self._trace, request.policy, repr(request.cluster), request.seed, request.inflate)
        return self._folder / f"{hashlib.sha256(repr(parts).encode() + code).hexdigest()}.run"
