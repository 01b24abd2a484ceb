"""Somebody at a server: a browser at the portal, or a program at the REST API, with a sign-in of its own.

It does what a page or `curl` does, request by request, so that what a lab asks of people can be proved without one.
"""

from __future__ import annotations

import http.client
import json
import re
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from paictl import i18n
from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.lab.messages import LabError

_CSRF: Final = re.compile(r'<meta name="csrf" content="(\w*)">')
_FORM: Final = "application/x-www-form-urlencoded"
PATIENCE: Final = 60.0
"""Seconds for one answer, and for all tries of a request that a busy server puts off."""


@frozen
class Reply:
    """What the server answers."""

    status: int
    body: bytes
    headers: Mapping[str, str]

    @property
    def text(self) -> str:
        """The body as text."""
        return self.body.decode("utf-8", errors="replace")

    @property
    def data(self) -> Mapping[str, Any]:
        """The body as a JSON object; empty if it is none."""
        try:
            content = json.loads(self.body)
        except ValueError:
            return {}
        return content if isinstance(content, dict) else {"items": content}


@dataclass(slots=True)
class Visitor:
    """`user` at the server with the address `base`, who reads `language`.

    `authority` is a file with the certificate that signed the server's, empty for those that the system trusts.
    """

    base: str
    user: str
    password: str = field(repr=False)
    authority: str = ""
    language: str = "en"
    _cookie: str = field(default="", repr=False)
    _token: str = field(default="", repr=False)

    # --- at the portal

    def sign_in(self) -> None:
        """Sign in on the page. Raises `LabError` if the server does not take user and password."""
        reply = self._send("POST", "/sign-in", urlencode({"user": self.user, "password": self.password}), _FORM)
        self._cookie = reply.headers.get("set-cookie", "").partition(";")[0]
        if reply.status != 303 or not self._cookie:
            raise LabError("not-signed-in", user=self.user, status=reply.status)

    def page(self, path: str) -> Reply:
        """Open a page."""
        return self._send("GET", path)

    def submit_on_page(self, written: str) -> Reply:
        """Submit a job in the form of the portal: 303 leads to the job, everything else shows why not."""
        csrf = _CSRF.search(self.page("/submit").text)
        form = {"wish": "submit", "yaml": written, "csrf": csrf[1] if csrf else ""}
        return self._send("POST", "/submit", urlencode(form), _FORM)

    # --- by REST

    def ask_for_token(self) -> None:
        """Sign in as a program does. Raises `LabError` as `sign_in` does."""
        form = urlencode({"username": self.user, "password": self.password})
        reply = self._send("POST", "/api/v2/authn/basic/login", form, _FORM)
        self._token = str(reply.data.get("token", ""))
        if not self._token:
            raise LabError("not-signed-in", user=self.user, status=reply.status)

    def submit_by_rest(self, written: str) -> Reply:
        """Submit a job: 202 if it was taken."""
        return self.rest("POST", "/jobs", written, "text/yaml")

    def rest(self, method: str, path: str, body: str = "", media: str = "") -> Reply:
        """Ask for something below ``/api/v2``."""
        return self._send(method, f"/api/v2{path}", body, media, token=self._token)

    # --- HTTP

    def _send(self, method: str, path: str, body: str = "", media: str = "", *, token: str = "") -> Reply:
        """Ask once; again where the server says that it is busy, as long as patience lasts."""
        headers = {"Accept-Language": self.language, **({"Content-Type": media} if media else {})}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        elif self._cookie and not path.startswith("/api/"):  # a program has no cookies
            headers["Cookie"] = self._cookie
        until = time.monotonic() + PATIENCE
        while True:
            reply = self._once(method, path, body.encode(), headers)
            if reply.status != 503 or time.monotonic() > until:
                return reply
            time.sleep(min(float(reply.headers.get("retry-after", "1")), 5.0))

    def _once(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> Reply:
        connection = self._connection()
        try:
            connection.request(method, path, body or None, dict(headers))
            answer = connection.getresponse()
            return Reply(answer.status, answer.read(), {key.lower(): value for key, value in answer.getheaders()})
        except (OSError, http.client.HTTPException) as error:
            raise LabError("no-server", where=self.base, reason=str(error) or type(error).__name__) from None
        finally:
            connection.close()

    def _connection(self) -> http.client.HTTPConnection:
        address = urlsplit(self.base)
        if address.scheme not in ("http", "https") or not address.hostname:
            raise PaictlError(
                i18n.text("{base!r} is not the address of a server", base=self.base),
                hint="for instance http://127.0.0.1:9186",
            )
        if address.scheme == "http":
            return http.client.HTTPConnection(address.hostname, address.port, timeout=PATIENCE)
        try:
            context = ssl.create_default_context(cafile=self.authority or None)
        except OSError as error:
            raise PaictlError(
                i18n.text("cannot be read: {reason}", reason=error.strerror or error), where=self.authority
            ) from None
        return http.client.HTTPSConnection(address.hostname, address.port, timeout=PATIENCE, context=context)
