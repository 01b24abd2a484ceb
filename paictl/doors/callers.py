"""Who may ask what over HTTP: kube-scheduler by its certificate, others by a token that the API server knows."""

from __future__ import annotations

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from starlette.concurrency import run_in_threadpool
from starlette.types import Scope

from paictl.errors import PaictlError
from paictl.remote.kube.client import KubeClient
from paictl.serving.bodies import HttpError
from paictl.serving.connections import CLIENT

ALLOWED_FOR: Final = 60.0
REFUSED_FOR: Final = 10.0
"""Seconds for which an answer about a token holds."""
REMEMBERED: Final = 1000
"""Answers that are cached at most: anyone can send invalid tokens."""
_AUTHENTICATION: Final = "/apis/authentication.k8s.io/v1"
_AUTHORIZATION: Final = "/apis/authorization.k8s.io/v1"


class Guard:
    """Access control: verbs need kube-scheduler's certificate, reading needs that or the token of an account with the
    right."""

    def __init__(self, refusal: Callable[[str, str], str]) -> None:
        self._refusal = refusal
        """Why a token must not GET a path, empty if it may; may block on the network."""

    @staticmethod
    def check_verb(scope: Scope) -> None:
        """Raise `HttpError` unless the caller has shown kube-scheduler's certificate."""
        if CLIENT not in scope.get("extensions", {}):
            raise HttpError(401, f"{scope['path']} needs the client certificate of kube-scheduler (tlsConfig)")

    async def check_look(self, scope: Scope) -> None:
        """Raise `HttpError` unless the caller may read the path."""
        if CLIENT in scope.get("extensions", {}):
            return
        header = next((value for name, value in scope["headers"] if name == b"authorization"), b"").decode("latin-1")
        kind, _, token = header.partition(" ")
        if kind.lower() != "bearer" or not token.strip():
            raise HttpError(
                401,
                f"{scope['path']} needs `Authorization: Bearer TOKEN` of an account that may get this non-resource URL",
            )
        try:
            refusal = await run_in_threadpool(self._refusal, token.strip(), scope["path"])
        except PaictlError as error:
            raise HttpError(503, f"whether the token is good is not known now: {error.message}") from None
        if refusal:
            raise HttpError(403, refusal)


class Reviewer:
    """Asks the API server who owns a token and whether the owner may get a path; caches the answers."""

    def __init__(self, client: KubeClient, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        self._lock = threading.Lock()
        self._answers: OrderedDict[bytes, tuple[float, str]] = OrderedDict()
        """By hash of token and path: until when the answer holds, and the refusal; tokens are not stored."""

    def refusal(self, token: str, path: str) -> str:
        """Why a token must not GET a path; empty if it may. Raises `PaictlError` if the API server does not answer."""
        key, now = hashlib.sha256(f"{token}\n{path}".encode()).digest(), self._clock()
        with self._lock:
            until, why = self._answers.get(key, (0.0, ""))
        if now < until:
            return why
        why = self._review(token, path)
        with self._lock:
            self._answers[key] = now + (REFUSED_FOR if why else ALLOWED_FOR), why
            while len(self._answers) > REMEMBERED:
                self._answers.popitem(last=False)
        return why

    def _review(self, token: str, path: str) -> str:
        review = self._client.request("POST", f"{_AUTHENTICATION}/tokenreviews", {"spec": {"token": token}})
        status = review.get("status") or {}
        user = status.get("user") or {}
        if not status.get("authenticated"):
            return "the token is not valid at the API server, or has expired"
        spec = {
            "user": user.get("username"),
            "uid": user.get("uid"),
            "groups": user.get("groups"),
            "extra": user.get("extra"),
            "nonResourceAttributes": {"path": path, "verb": "get"},
        }
        answer = self._client.request("POST", f"{_AUTHORIZATION}/subjectaccessreviews", {"spec": spec})
        if (answer.get("status") or {}).get("allowed"):
            return ""
        return (
            f"{user.get('username')} may not get the non-resource URL {path}: "
            "bind the ClusterRole hivedscheduler-extender-reader"
        )
