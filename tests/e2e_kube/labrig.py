"""A cluster on which labs run: the services of paictl are pods that kwok imagines, and processes do their work.

The extender is a process, too, and does what the Deployment of the service hivedscheduler would: it runs while that is
there, with the configuration of its ConfigMap, and starts anew when that is another one.
"""

from __future__ import annotations

import contextlib
import http.client
import threading
from collections.abc import Iterator

from tests.e2e_kube.accounts import EXTENDER, SCHEDULER, SPACE
from tests.e2e_kube.jobrig import JobRig
from tests.e2e_kube.kubeapi import ApiError, Json, KubeApi

_LOOKS = 0.2
"""Seconds between two looks at the service."""
_DEPLOYMENT = f"/apis/apps/v1/namespaces/{SPACE}/deployments/{EXTENDER}"
_SETTINGS = f"/api/v1/namespaces/{SPACE}/configmaps/{SCHEDULER}"


class Extender(threading.Thread):
    """Keeps the process as the service is."""

    def __init__(self, rig: JobRig) -> None:
        super().__init__(daemon=True)
        self._rig = rig
        self._api = KubeApi(rig.plane)
        self._over = threading.Event()

    def run(self) -> None:
        """Look again and again."""
        while not self._over.wait(_LOOKS):
            with contextlib.suppress(ApiError, OSError, http.client.HTTPException):  # the next look may be answered
                self._follow()

    def stop(self) -> None:
        self._over.set()
        self.join()

    def _follow(self) -> None:
        program, wanted = self._rig.plane.programs["extender"], self._wanted()
        written = self._rig.rig.config
        if wanted is None:
            program.kill()
        elif not program.running or wanted != written.read_text():
            program.kill()
            written.write_text(wanted)
            program.start()

    def _wanted(self) -> str | None:
        """The configuration with which it is to run, None if it is not to."""
        if self._found(_DEPLOYMENT) is None:
            return None
        settings = self._found(_SETTINGS)
        return None if settings is None else str(settings["data"]["hivedscheduler.yaml"])

    def _found(self, path: str) -> Json | None:
        try:
            found: Json = self._api.get(path)
        except ApiError as error:
            if error.status != 404:
                raise
            return None
        return found


@contextlib.contextmanager
def following(rig: JobRig) -> Iterator[None]:
    """Inside the block the extender is as its service is."""
    extender = Extender(rig)
    extender.start()
    try:
        yield
    finally:
        extender.stop()
