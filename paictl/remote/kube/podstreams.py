"""What comes out of a container and goes into it: its log, and commands that are run in it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from paictl.remote.kube.client import KubeClient, KubeError, NoAnswerError
from paictl.remote.kube.pods import pod_path
from paictl.remote.pipes import Pipes

CONTAINER: Final = "main"
_QUIET: Final = 24 * 3600.0
"""Seconds without a byte of a log that is followed."""
_READ: Final = 30.0
_CAN_END: Final = "v5.channel.k8s.io"
"""The protocol in which a command can be told that no input follows; with older servers it waits for ever."""
_TURN: Final = 0.05
"""Seconds between two looks at what is to be sent to a command."""


def log(
    client: KubeClient, namespace: str, name: str, *, follow: bool = False, lines: int | None = None
) -> Iterator[bytes]:
    """What a container has written, in pieces as they come; with `follow` until it ends, `lines` only the last ones.

    Raises `KubeError` (400: it has not started; 404: the pod is gone) and `NoAnswerError`.
    """
    query: dict[str, object] = {"container": CONTAINER}
    if follow:
        query["follow"] = "true"
    if lines is not None:
        query["tailLines"] = lines
    yield from client.open(pod_path(namespace, name, "log"), query, _QUIET if follow else _READ).chunks()


def execute(client: KubeClient, namespace: str, name: str, command: Sequence[str], pipes: Pipes) -> int:
    """Run a command in a container until it ends; its exit code.

    Raises `KubeError` if the server refuses, `NoAnswerError` if the connection breaks.
    """
    session = _session(client, namespace, name, command, pipes)
    try:
        while session.is_open():
            session.update(timeout=_TURN)
            _drain(session, pipes)
            if session.is_open() and pipes.read is not None and (data := pipes.read()) is not None:
                _send(session, data)
        _drain(session, pipes)
        return _exit_code(session, client)
    finally:
        session.close()


def _session(client: KubeClient, namespace: str, name: str, command: Sequence[str], pipes: Pipes) -> Any:
    import kubernetes.client
    import kubernetes.stream

    api = kubernetes.client.CoreV1Api(client.library())
    with _refusals(client, f"exec in pod {namespace}/{name}"):
        return kubernetes.stream.stream(
            api.connect_get_namespaced_pod_exec, name, namespace, command=list(command), container=CONTAINER,
            stdin=pipes.read is not None, stdout=True, stderr=not pipes.terminal, tty=pipes.terminal,
            _preload_content=False, binary=True,
        )  # fmt: skip


@contextlib.contextmanager
def _refusals(client: KubeClient, what: str) -> Iterator[None]:
    """Errors of the library as ours."""
    import kubernetes.client.exceptions

    try:
        yield
    except kubernetes.client.exceptions.ApiException as error:
        status = int(error.status or 0)
        message = " ".join(str(error.reason or error).split())[:500]
        if not status:
            raise NoAnswerError(f"{what}: {message}", where=client.where) from None
        raise KubeError(f"{what}: {message}", status=status, where=client.where) from None
    except OSError as error:
        raise NoAnswerError(f"{what}: {error}", where=client.where) from None


def _drain(session: Any, pipes: Pipes) -> None:
    for channel, write in ((1, pipes.out), (2, pipes.err)):
        data = session.read_channel(channel, timeout=0)
        if data:
            write(data if isinstance(data, bytes) else data.encode())


def _send(session: Any, data: bytes) -> None:
    import kubernetes.stream.ws_client

    library: Any = kubernetes.stream.ws_client  # it has no types worth the name
    with contextlib.suppress(OSError, library.WebSocketConnectionClosedException):  # it has ended without reading all
        if data:
            session.write_channel(0, data)
        elif session.subprotocol == _CAN_END:
            session.close_channel(0)


def _exit_code(session: Any, client: KubeClient) -> int:
    """The exit code from the status that the server sends last."""
    text = session.read_channel(3, timeout=0)
    try:
        status: Mapping[str, Any] = json.loads(text) if text else {}
    except ValueError:
        status = {}
    if status.get("status") == "Success":
        return 0
    for cause in (status.get("details") or {}).get("causes") or ():
        if cause.get("reason") == "ExitCode":
            return int(cause["message"])
    raise NoAnswerError(str(status.get("message") or "the connection broke off"), where=client.where)
