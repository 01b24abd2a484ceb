"""One API server, pinned: the context is chosen once, and every error says which cluster it was."""

from __future__ import annotations

import base64
import hashlib
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

import orjson
import urllib3

from paictl import i18n
from paictl.errors import ExitCode, PaictlError

Json = dict[str, Any]

CONNECT: Final = 5.0
"""Seconds to reach the server."""
IN_CLUSTER: Final = "in cluster"
"""The context of a pod that talks to its own cluster."""
READ: Final = 15.0
"""Seconds between two bytes of an ordinary answer."""
PAGE: Final = 500
"""Objects a page of a list: a page of nodes is a few megabytes."""
CONNECTIONS: Final = 32
"""Kept open for threads that ask at the same time; more are opened where needed and closed afterwards."""

MERGE: Final = "application/merge-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"
"""Merges lists of conditions by type, and only works for kinds of Kubernetes' own."""
JSON: Final = "application/json"


_ROUTES: Final[dict[str, Callable[[], str]]] = {}
"""Servers that this process reaches in another way, and what opens it: host:port to connect to instead."""


def route(server: str, opener: Callable[[], str]) -> None:
    """Let all later clients of a server (``https://host:port``) connect to another place; `opener` says where.

    The certificate still has to be the server's. The opener may raise `PaictlError`.
    """
    _ROUTES[server.rstrip("/")] = opener


class KubeError(PaictlError):
    """The API server said no. `status` is the HTTP status, `reason` the server's word for it (``NotFound``)."""

    def __init__(self, message: str, *, status: int, reason: str = "", where: str | None = None) -> None:
        super().__init__(message, where=where)
        self.status = status
        self.reason = reason
        self.body: Json = {}
        """The server's `Status` object."""


class NoAnswerError(PaictlError):
    """The API server did not answer, or not in time: it is unknown whether the request took effect."""

    exit_code = ExitCode.UNREACHABLE


class KubeClient:
    """Requests to one API server. Safe to use from many threads."""

    def __init__(self, api: Any, context: str) -> None:
        self._api = api
        self._auth = threading.Lock()
        self.server: str = api.configuration.host.rstrip("/")
        self._urlopen, self._prefix = _pool_of(api.rest_client.pool_manager, self.server)
        self.context = context
        """Name of the context, ``in cluster`` inside a pod."""
        self.authority = authority_of(api.configuration)
        """Whose certificate the server has to show."""
        self.sent: Counter[str] = Counter()
        """Requests by method, watches among them."""
        self.date: datetime | None = None
        """What the server's clock showed at its last ordinary answer, in whole seconds."""

    @property
    def where(self) -> str:
        """The cluster, for messages."""
        return f"{self.server} ({self.context})"

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        query: Mapping[str, object] | None = None,
        kind: str = JSON,
        timeout: float = READ,
    ) -> Json:
        """The answer. Raises `KubeError` outside 2xx and `NoAnswerError`; nothing is ever sent twice."""
        reply = self._send(method, path, body, query, kind, urllib3.Timeout(connect=CONNECT, read=timeout))
        data: bytes = reply.data
        self.date = _date(reply.headers.get("Date", "")) or self.date
        if reply.status >= 300:
            raise self._refused(reply.status, data, f"{method} {path}")
        try:
            answer: Json = orjson.loads(data) if data else {}
        except orjson.JSONDecodeError as error:
            raise NoAnswerError(
                i18n.text("{method} {path}: the answer is not JSON", method=method, path=path), where=self.where
            ) from error
        return answer

    def get(self, path: str, *, query: Mapping[str, object] | None = None, timeout: float = READ) -> Json:
        """One object, or one page."""
        return self.request("GET", path, query=query, timeout=timeout)

    def text(self, path: str, query: Mapping[str, object] | None = None, timeout: float = READ) -> str:
        """An answer that is no JSON, as a log."""
        reply = self._send("GET", path, None, query, JSON, urllib3.Timeout(connect=CONNECT, read=timeout))
        data: bytes = reply.data
        if reply.status >= 300:
            raise self._refused(reply.status, data, f"GET {path}")
        return data.decode(errors="replace")

    def list(self, path: str, query: Mapping[str, object] | None = None) -> Iterator[tuple[str, list[Json]]]:
        """A list page by page: the resource version of the whole list, and the objects of the page."""
        asked: dict[str, object] = {**(query or {}), "limit": PAGE}
        while True:
            page = self.get(path, query=asked)
            about = page.get("metadata") or {}
            yield str(about.get("resourceVersion", "")), page.get("items") or []
            token = about.get("continue") or ""
            if not token:
                return
            for first_only in ("resourceVersion", "resourceVersionMatch"):  # the token says it, and both are refused
                asked.pop(first_only, None)
            asked["continue"] = token

    def open(self, path: str, query: Mapping[str, object], read: float) -> Stream:
        """A watch: lines for as long as the server sends some at least every `read` seconds."""
        timeout = urllib3.Timeout(connect=CONNECT, read=read)
        reply = self._send("GET", path, None, query, JSON, timeout, stream=True)
        if reply.status >= 300:
            raise self._refused(reply.status, reply.data, f"GET {path}")
        return Stream(reply, self.where)

    def library(self) -> Any:
        """The library's own client of this server, for what has a protocol of its own (WebSocket)."""
        return self._api

    def cluster_entry(self) -> Json:
        """The server as a `cluster` of a kubeconfig: its address and authority, and how it is reached; no credentials.

        Raises `PaictlError` if its certificate is not checked: whoever gets such an entry would trust anybody.
        """
        settings = self._api.configuration
        if not settings.verify_ssl:
            raise PaictlError(
                i18n.text("the certificate of the API server is not checked"),
                where=self.where,
                hint=i18n.text("put its authority into your kubeconfig (certificate-authority-data)"),
            )
        entry: Json = {"server": self.server}
        if settings.ssl_ca_cert:
            try:
                data = Path(settings.ssl_ca_cert).read_bytes()
            except OSError as error:
                raise PaictlError(
                    i18n.text("cannot read the authority: {reason}", reason=error.strerror), where=settings.ssl_ca_cert
                ) from None
            entry["certificate-authority-data"] = base64.b64encode(data).decode()
        if settings.tls_server_name and settings.tls_server_name != urlsplit(self.server).hostname:
            entry["tls-server-name"] = settings.tls_server_name
        if settings.proxy and settings.proxy not in _proxies() and not urlsplit(settings.proxy).password:
            entry["proxy-url"] = settings.proxy
        return entry

    def _send(
        self,
        method: str,
        path: str,
        body: object,
        query: Mapping[str, object] | None,
        kind: str,
        timeout: urllib3.Timeout,
        *,
        stream: bool = False,
    ) -> urllib3.BaseHTTPResponse:
        headers = {"Accept": f"{JSON}, */*", "Content-Type": kind, "User-Agent": "paictl"}
        self.sent[method] += 1
        with self._auth:  # a token is read again when it has expired
            token = self._api.configuration.auth_settings().get("BearerToken")
        if token:
            headers[token["key"]] = token["value"]
        url = f"{self._prefix}{path}{'?' + urlencode(query) if query else ''}"
        data = None if body is None else orjson.dumps(body)
        try:
            return self._urlopen(
                method,
                url,
                body=data,
                headers=headers,
                timeout=timeout,
                retries=False,
                redirect=False,
                preload_content=not stream,
            )
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise NoAnswerError(_plain(error), where=self.where) from error

    def _refused(self, status: int, data: bytes, action: str) -> KubeError:
        try:
            answer = orjson.loads(data)
        except orjson.JSONDecodeError:
            answer = {}
        answer = answer if isinstance(answer, dict) else {}
        message = str(answer.get("message") or data[:200].decode(errors="replace") or f"HTTP status {status}")
        error = KubeError(f"{action}: {message}", status=status, reason=str(answer.get("reason", "")), where=self.where)
        error.body = answer
        return error


class Stream:
    """An answer as it comes: the lines of a watch, or pieces of text."""

    def __init__(self, reply: urllib3.BaseHTTPResponse, where: str) -> None:
        self._reply = reply
        self._where = where

    def chunks(self) -> Iterator[bytes]:
        """Until the server ends the answer, as `lines`."""
        try:
            yield from self._reply.stream(1 << 16)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise NoAnswerError(_plain(error), where=self._where) from error
        finally:
            self._reply.close()

    def lines(self) -> Iterator[bytes]:
        """Until the server ends the answer. Raises `NoAnswerError` if it breaks off or falls silent."""
        rest = b""
        try:
            for chunk in self._reply.stream(1 << 16):
                *whole, rest = (rest + chunk).split(b"\n")
                yield from filter(None, whole)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise NoAnswerError(_plain(error), where=self._where) from error
        finally:
            self._reply.close()


def connect(kubeconfig: Path | str | None = None, context: str | None = None) -> KubeClient:
    """The API server of a kubeconfig's context; in a pod without a kubeconfig, that of the pod's own cluster.

    Raises `PaictlError` naming the file if there is none, it cannot be read, or it has no such context.
    """
    try:
        import kubernetes.config  # brings kubernetes.client
    except ModuleNotFoundError as error:
        hint = "install it: pip install 'paictl[k8s]'"
        raise PaictlError(
            i18n.text("the library for Kubernetes is not installed ({name})", name=error.name), hint=hint
        ) from None

    client: Any = kubernetes.client  # neither has types worth the name
    config: Any = kubernetes.config
    settings = client.Configuration()
    settings.connection_pool_maxsize = CONNECTIONS
    settings.keep_alive = True  # so that the kernel notices a peer that vanished without closing
    if kubeconfig is None and context is None and _in_cluster():
        try:
            config.load_incluster_config(client_configuration=settings)
        except config.ConfigException as error:
            raise PaictlError(i18n.text("the pod's own credentials cannot be used: {error}", error=error)) from None
        return KubeClient(client.ApiClient(configuration=settings), IN_CLUSTER)
    name = str(kubeconfig) if kubeconfig else None
    where = name or "KUBECONFIG or ~/.kube/config"
    try:
        _, current = config.list_kube_config_contexts(config_file=name)
        chosen = context or str(current["name"])
        config.load_kube_config(config_file=name, context=chosen, client_configuration=settings, persist_config=False)
    except config.ConfigException as error:
        missing = name is not None and not Path(name).expanduser().exists()
        raise PaictlError(
            "no such file or folder" if missing else i18n.text("no cluster to talk to: {reason}", reason=_plain(error)),
            where=where,
            hint="give --kubeconfig and --context",
        ) from None
    except (OSError, ValueError) as error:
        raise PaictlError(
            i18n.text("the kubeconfig cannot be used: {reason}", reason=_plain(error)), where=where
        ) from None
    except Exception as error:  # the library's YAML parser, or its reading of a file that is no kubeconfig
        detail = f": {' '.join(str(error).split())}" if hasattr(error, "problem_mark") else ""
        hint = "it has clusters, users and contexts: kubectl config view"
        raise PaictlError(i18n.text("this is not a kubeconfig{said}", said=detail), where=where, hint=hint) from None
    server = settings.host.rstrip("/")
    if server in _ROUTES:
        settings.tls_server_name = settings.tls_server_name or urlsplit(server).hostname
        settings.host = f"https://{_ROUTES[server]()}"
    connected = KubeClient(client.ApiClient(configuration=settings), chosen)
    connected.server = server  # what the user knows it by
    return connected


def authority_of(settings: Any) -> str:
    """Whose certificate a server has to show, as one word: the hash of the authorities, ``system`` or ``nobody``."""
    if not settings.verify_ssl:
        return "nobody"
    if not settings.ssl_ca_cert:
        return "system"
    try:
        data = Path(settings.ssl_ca_cert).read_bytes()
    except OSError as error:
        raise PaictlError(
            i18n.text("cannot read the authority: {reason}", reason=error.strerror), where=settings.ssl_ca_cert
        ) from None
    return f"sha256:{hashlib.sha256(b''.join(data.split())).hexdigest()}"


def _pool_of(pools: urllib3.PoolManager, server: str) -> tuple[Callable[..., urllib3.BaseHTTPResponse], str]:
    """What sends a request, and what it wants before each path.

    The pool of the one server is looked up once: doing so for each request is a quarter of its processor time. Behind a
    proxy the library knows whether a request names the whole address. Raises `PaictlError` if it is no address.
    """
    try:
        parsed = urllib3.util.parse_url(server)
        pool = pools.connection_from_url(server)
    except urllib3.exceptions.HTTPError as error:
        hint = "it has to be http(s)://HOST:PORT, in the kubeconfig's `clusters`"
        raise PaictlError(
            i18n.text("the server's address cannot be used: {error}", error=error), where=server, hint=hint
        ) from None
    if isinstance(pools, urllib3.ProxyManager):
        return pools.urlopen, server
    return pool.urlopen, (parsed.path or "").rstrip("/")


def _date(text: str) -> datetime | None:
    try:
        date = parsedate_to_datetime(text)
    except ValueError:
        return None
    return date if date.tzinfo else date.replace(tzinfo=UTC)


def _proxies() -> set[str]:
    """Proxies of this shell: the library takes them for a server of the kubeconfig, too."""
    return {
        value for name in ("HTTPS_PROXY", "HTTP_PROXY") for value in (os.getenv(name), os.getenv(name.lower())) if value
    }


def _in_cluster() -> bool:
    return Path("/var/run/secrets/kubernetes.io/serviceaccount/token").is_file()


def _plain(error: BaseException) -> str:
    """An error of a library in one line, without addresses of Python objects."""
    text = " ".join(str(error).split())
    _, separator, rest = text.rpartition("object at 0x")
    return rest.partition(">: ")[2] or text if separator else text or type(error).__name__
