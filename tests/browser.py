"""Chromium without a window, driven over its debugging pipe: JSON messages, each ended by a zero byte.

Written out here because it is little, and because a browser driver from a package index brings a browser of its own.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), ""
)

_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--force-color-profile=srgb",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
_PATIENCE = 30.0
"""Seconds until an answer must be there."""


class Page:
    """A page and what it complained about."""

    def __init__(self, commands: int, answers: int) -> None:
        self._commands, self._answers = commands, answers
        self._number, self._buffer, self._session = 0, b"", ""
        self.complaints: list[str] = []
        """Console errors, exceptions, blocked and failed requests."""
        self.requests: list[str] = []
        """Addresses of everything that was loaded."""
        self._loaded = False
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **parameters: Any) -> Any:
        """Call a method of the protocol and wait for its answer."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            poll = select.poll()
            poll.register(self._answers, select.POLLIN)
            ready = poll.poll(_PATIENCE * 1000)
            assert ready, "the browser does not answer"
            chunk = os.read(self._answers, 1 << 20)
            assert chunk, "the browser went away"
            self._buffer += chunk
        text, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        self._note(message.get("method", ""), message.get("params", {}))
        return message

    def _note(self, method: str, given: dict[str, Any]) -> None:
        if method == "Runtime.exceptionThrown":
            self.complaints.append(str(given["exceptionDetails"].get("exception", {}).get("description")))
        elif method == "Runtime.consoleAPICalled" and given["type"] in ("error", "warning", "assert"):
            self.complaints.append(str([each.get("value") for each in given["args"]]))
        elif method == "Log.entryAdded" and given["entry"]["level"] in ("error", "warning"):
            self.complaints.append(given["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(given["request"]["url"])
        elif method == "Page.loadEventFired":
            self._loaded = True

    def size(self, width: int, height: int, *, dark: bool = False) -> None:
        """The window's size in pixels, and which colour scheme the reader prefers."""
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, where: Path | str) -> float:
        """Open a file or an address and wait until it is loaded and drawn; returns how many seconds that took."""
        start = time.monotonic()
        self._loaded = False
        self.ask("Page.navigate", url=where if isinstance(where, str) else where.resolve().as_uri())
        self.settle()
        return time.monotonic() - start

    def settle(self) -> None:
        """Wait until the page that is being loaded is there and drawn."""
        while not self._loaded:
            self._next()
        self.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")

    def follow(self, act: Callable[[], object]) -> None:
        """Do what loads another page, and wait for that."""
        self._loaded = False
        act()
        self.settle()

    def until(self, expression: str) -> Any:
        """Wait until a JavaScript expression is true; its value."""
        end = time.monotonic() + _PATIENCE
        while not (
            found := self.run(
                f"(() => {{ const found = {expression}; return found instanceof Node ? true : found; }})()"
            )
        ):
            assert time.monotonic() < end, f"still not: {expression}"
            time.sleep(0.05)
        return found

    def run(self, expression: str) -> Any:
        """The value of a JavaScript expression (awaited if it is a promise)."""
        answer = self.ask("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def move(self, x: float, y: float) -> None:
        """Move the mouse."""
        self.ask("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def click(self, x: float, y: float) -> None:
        """Click."""
        self.move(x, y)
        for kind in ("mousePressed", "mouseReleased"):
            self.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def middle(self, expression: str) -> tuple[float, float]:
        """The middle of an element, after scrolling it into view."""
        x, y = self.run(
            f"(() => {{ const e = {expression}; e.scrollIntoView({{block: 'center', inline: 'center'}});"
            "const b = e.getBoundingClientRect(); return [b.x + b.width / 2, b.y + b.height / 2]; })()"
        )
        return float(x), float(y)

    def press(self, key: str) -> None:
        """Press a key; a single character is typed."""
        text = {"text": key} if len(key) == 1 else {}
        self.ask("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        self.ask("Input.dispatchKeyEvent", type="keyUp", key=key)

    def picture(self, *, whole: bool = False) -> bytes:
        """A screenshot as PNG, of the window or of the whole page."""
        return base64.b64decode(self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"])

    def pdf(self) -> bytes:
        """The page as it is printed."""
        return base64.b64decode(self.ask("Page.printToPDF", printBackground=True)["data"])


@contextlib.contextmanager
def browser(before: Sequence[str | Path] = (), *flags: str) -> Iterator[Page]:
    """A browser with one empty page, ended when the block is left; `before` are words before its command line."""
    read_commands, commands = os.pipe()
    answers, write_answers = os.pipe()
    with tempfile.TemporaryDirectory(prefix="paictl-chromium-", ignore_cleanup_errors=True) as profile:
        # The browser wants its pipe at descriptors 3 and 4, which Python cannot promise but a shell can.
        line = f'exec "$@" 3<&{read_commands} 4>&{write_answers}'
        process = subprocess.Popen(
            ["bash", "-c", line, "bash", *before, CHROMIUM, *_FLAGS, *flags, f"--user-data-dir={profile}"],
            pass_fds=(read_commands, write_answers),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for descriptor in (read_commands, write_answers):
            os.close(descriptor)
        try:
            yield Page(commands, answers)
        finally:
            for descriptor in (commands, answers):
                os.close(descriptor)
            process.terminate()
            process.wait(timeout=_PATIENCE)


def fill(page: Page, **fields: str) -> None:
    """Type into fields by name, as far as scripts can tell."""
    for name, value in fields.items():
        page.run(
            f"(() => {{ const e = document.querySelector('[name={name}]'); e.value = {json.dumps(value)};"
            "e.dispatchEvent(new Event('input', {bubbles: true})); })()"
        )


def click(page: Page, selector: str) -> Callable[[], object]:
    """What clicks on an element, for `Page.follow` or at once."""
    return lambda: page.run(f"document.querySelector({json.dumps(selector)}).click()")


def reads(page: Page, words: str) -> None:
    """Wait until the page says something."""
    page.until(f"document.body?.innerText.includes({json.dumps(words)})")


def sign_in(page: Page, address: str, user: str, password: str) -> None:
    """Sign in to the portal."""
    page.open(address)
    fill(page, user=user, password=password)
    page.follow(click(page, "button.main"))
    reads(page, user)
