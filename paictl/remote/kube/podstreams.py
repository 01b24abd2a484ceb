"""What goes into a container and comes out of it: commands that are run in it, connections to its ports.

Few commands load this module: it needs what the library for Kubernetes has for sockets.
"""

from __future__ import annotations

import contextlib
import json
import select
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import kubernetes.client
import kubernetes.client.exceptions
import kubernetes.stream
import kubernetes.stream.ws_client
import websocket

from paictl.remote import Pipes
from paictl.remote.kube.client import KubeClient, KubeError, NoAnswerError
from paictl.remote.kube.pods import CONTAINER, pod_path

_SOCKETS: Any = kubernetes.stream.ws_client  # it has no types worth the name
_CAN_END: Final = "v5.channel.k8s.io"
"""The protocol in which a command can be told that no input follows; with older servers it waits for ever."""
_TURN: Final = 0.05
"""Seconds between two looks at what is to be sent to a command."""


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
    api = kubernetes.client.CoreV1Api(client.library())
    with _refusals(client, f"exec in pod {namespace}/{name}"):
        return kubernetes.stream.stream(
            api.connect_get_namespaced_pod_exec,
            name,
            namespace,
            command=list(command),
            container=CONTAINER,
            stdin=pipes.read is not None,
            stdout=True,
            stderr=not pipes.terminal,
            tty=pipes.terminal,
            _preload_content=False,
            binary=True,
        )


@contextlib.contextmanager
def _refusals(client: KubeClient, action: str) -> Iterator[None]:
    """Errors of the library as ours."""
    try:
        yield
    except kubernetes.client.exceptions.ApiException as error:
        status = int(error.status or 0)
        message = " ".join(str(error.reason or error).split())[:500]
        if not status:
            raise NoAnswerError(f"{action}: {message}", where=client.where) from None
        raise KubeError(f"{action}: {message}", status=status, where=client.where) from None
    except OSError as error:
        raise NoAnswerError(f"{action}: {error}", where=client.where) from None


def _drain(session: Any, pipes: Pipes) -> None:
    for channel, write in ((1, pipes.out), (2, pipes.err)):
        data = session.read_channel(channel, timeout=0)
        if data:
            write(data if isinstance(data, bytes) else data.encode())


def _send(session: Any, data: bytes) -> None:
    with contextlib.suppress(OSError, _SOCKETS.WebSocketConnectionClosedException):  # it has ended without reading all
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
    raise NoAnswerError(str(status.get("message") or "the connection was interrupted"), where=client.where)


CONNECTING: Final = 5.0
"""Seconds in which the server has to take a connection to a port, and each step of the handshake."""
_CHUNK: Final = 1 << 16
_SENDING: Final = 60.0
"""Seconds for which the server may take nothing of what is sent."""
_FIRST: Final = 2
"""Bytes of the first message of each channel: the port's number, which says nothing new."""
_BROKEN: Final = select.POLLERR | select.POLLHUP | select.POLLNVAL
"""What `poll` reports even if it was not asked, and again at once."""


def dial(client: KubeClient, namespace: str, name: str, port: int) -> socket.socket:
    """A connection to a port of a pod, as ``kubectl port-forward`` makes it: it reaches what listens on localhost, too.

    It ends when either side ends it, and at once where nothing listens on the port. Raises `KubeError` if the server
    refuses, `NoAnswerError` if it does not answer. The library's own sockets are not used: they keep all that comes
    in memory, however slowly it is read, and know no descriptors above 1023.
    """
    settings = client.library().configuration
    token = settings.auth_settings().get("BearerToken")
    headers = {"authorization": token["value"]} if token else {}
    target = f"port {port} of pod {namespace}/{name}"
    address = f"{client.server}{pod_path(namespace, name, 'portforward')}"
    try:
        remote = _connected(settings, _SOCKETS.get_websocket_url(address, [("ports", str(port))]), headers)
    except websocket.WebSocketBadStatusException as error:
        status = int(error.status_code or 0)
        raise KubeError(f"{target}: HTTP status {status}", status=status, where=client.where) from None
    except (websocket.WebSocketException, OSError) as error:
        raise NoAnswerError(f"{target}: {error}", where=client.where) from None
    remote.settimeout(_SENDING)
    ours, theirs = socket.socketpair()
    threading.Thread(target=_carry, args=(remote, theirs), name=target, daemon=True).start()
    return ours


def _connected(settings: Any, url: str, headers: Mapping[str, str]) -> Any:
    """What the library's ``create_websocket`` does, which would wait for ever for a server that does not answer."""
    encryption: dict[str, Any] = {"cert_reqs": ssl.CERT_NONE}
    if url.startswith("wss://") and settings.verify_ssl:
        encryption = {"cert_reqs": ssl.CERT_REQUIRED, "ca_certs": settings.ssl_ca_cert or _SOCKETS.certifi.where()}
        if settings.assert_hostname is not None:
            encryption["check_hostname"] = settings.assert_hostname
    files = {"certfile": settings.cert_file, "keyfile": settings.key_file, "server_hostname": settings.tls_server_name}
    encryption |= {name: value for name, value in files.items() if value}
    rows = [f"{name}: {value}" for name, value in headers.items()]
    rows.append(f"sec-websocket-protocol: {_SOCKETS.V5_CHANNEL_PROTOCOL},{_SOCKETS.V4_CHANNEL_PROTOCOL}")
    options: dict[str, Any] = {"header": rows, "timeout": CONNECTING, "http_proxy_timeout": CONNECTING}
    if settings.proxy or settings.proxy_headers:
        options = _SOCKETS.websocket_proxycare(options, settings, url, headers)
    connection: Any = websocket.WebSocket(sslopt=encryption, skip_utf8_validation=False)
    connection.connect(url, **options)
    return connection


def _carry(remote: Any, local: socket.socket) -> None:
    """Hand on what comes from either side until one of them ends; nothing is read that the other has no room for."""
    local.setblocking(False)
    unsent, first, broken = b"", True, False
    poll = select.poll()
    poll.register(remote.sock, select.POLLIN)
    poll.register(local, select.POLLIN)
    try:
        while True:
            buffered = not unsent and (broken or _has_more(remote))
            ready = dict(poll.poll(0 if buffered else None))
            if unsent:
                unsent = unsent[_sent(local, unsent) :]
                if not broken and ready.get(remote.sock.fileno(), 0) & _BROKEN:
                    poll.unregister(remote.sock)  # from now on only what has come is handed on
                    broken = True
            elif buffered or ready.get(remote.sock.fileno()):
                opcode, data = remote.recv_data()
                if opcode != websocket.ABNF.OPCODE_BINARY or (data[:1] == b"\x01" and len(data) > 1 + _FIRST):
                    return  # the end, or why the port cannot be reached
                if data[:1] == b"\x00":
                    unsent, first = data[1 + _FIRST :] if first else data[1:], False
            if ready.get(local.fileno(), 0) & ~select.POLLOUT:
                data = local.recv(_CHUNK)
                if not data:
                    return
                remote.send_binary(b"\x00" + data)
            if not broken:
                poll.modify(remote.sock, 0 if unsent else select.POLLIN)
            poll.modify(local, (0 if broken else select.POLLIN) | (select.POLLOUT if unsent else 0))
    except (websocket.WebSocketException, OSError):
        return  # whoever reads sees the end
    finally:
        local.close()
        with contextlib.suppress(websocket.WebSocketException, OSError):
            remote.close(timeout=1)


def _has_more(remote: Any) -> bool:
    """Whether bytes have been read and deciphered that `poll` does not know of."""
    return isinstance(remote.sock, ssl.SSLSocket) and remote.sock.pending() > 0


def _sent(local: socket.socket, data: bytes) -> int:
    try:
        return local.send(data)
    except BlockingIOError:
        return 0
