"""A headless Chromium, spoken to in its DevTools protocol through a pipe.

Only the standard library is needed: with --remote-debugging-pipe the browser reads commands
from file descriptor 3 and writes answers and events to 4, each a JSON text that ends with a
zero byte.
"""

import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
OPTIONS = (
    "--headless",
    "--no-sandbox",  # as root, in containers
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",  # /dev/shm is small in containers
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
# Gives the pipe's ends the numbers that the browser expects, then becomes the browser. The
# ends go out of the way first: they may have each other's numbers.
STARTER = """
import fcntl, os, sys
away = [fcntl.fcntl(int(end), fcntl.F_DUPFD, 10) for end in sys.argv[1:3]]
os.dup2(away[0], 3); os.dup2(away[1], 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
PATIENCE = 300.0  # seconds for one answer


def find_browser() -> str | None:
    """Chromium's or Chrome's program; None if there is none on the path."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One page in one browser; use it in a `with` statement."""

    def __init__(self, program: str):
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        commands, self._write = os.pipe()
        self._read, answers = os.pipe()
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-S", "-c", STARTER, str(commands), str(answers)),
                *(
                    program,
                    *OPTIONS,
                    f"--user-data-dir={self._profile.name}",
                    "about:blank",
                ),
            ],
            pass_fds=(commands, answers),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(commands)
        os.close(answers)
        self._buffer = b""
        self._number = 0
        self._session: str | None = None
        self._events: list[dict] = []
        try:
            self._attach()
        except BaseException:
            self.close()
            raise

    def _attach(self) -> None:
        target = self._first_page()
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> "Browser":
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def close(self) -> None:
        self._session = None
        try:
            self.call("Browser.close")
            self._process.wait(10)
        except (OSError, TimeoutError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        os.close(self._write)
        os.close(self._read)
        self._profile.cleanup()

    def call(self, method: str, **parameters: Any) -> dict:
        """Sends one command and waits for its answer; events are kept."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") != self._number:
                self._events.append(answer)
            elif "error" in answer:
                raise RuntimeError(f"{method}: {answer['error']}")
            else:
                return answer["result"]

    def open(self, path: Path) -> None:
        """Loads a file and waits until it has been loaded."""
        self._events.clear()
        self.call("Page.navigate", url=path.resolve().as_uri())
        while not any(one.get("method") == "Page.loadEventFired" for one in self._events):
            self._events.append(self._receive())

    def run(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page."""
        answer = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise RuntimeError(json.dumps(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def press(self, key: str) -> None:
        for kind in ("keyDown", "keyUp"):
            text = {"text": "\r"} if key == "Enter" and kind == "keyDown" else {}
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, **text)

    def click(self, selector: str) -> None:
        """Presses the mouse where the element is, as a person would."""
        x, y = self.run(
            f"(() => {{ const one = document.querySelector({json.dumps(selector)});"
            "one.scrollIntoView({block: 'center', behavior: 'instant'});"
            "const box = one.getBoundingClientRect();"
            "return [box.x + box.width / 2, box.y + box.height / 2] })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.call(
                "Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1
            )

    def resize(self, width: int, height: int = 900, *, dark: bool = False) -> None:
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        still = {"name": "prefers-reduced-motion", "value": "reduce"}  # clicks hit at once
        self.call("Emulation.setEmulatedMedia", features=[scheme, still])
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 500,
        )

    def complaints(self) -> list[str]:
        """What the page has logged or thrown since it was opened, and what it asked for."""
        self.run("0")  # whatever was on its way has arrived before this answer
        found = []
        for event in self._events:
            method, details = event.get("method"), event.get("params", {})
            if method in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown"):
                found.append(json.dumps(details))
            elif method == "Log.entryAdded":
                found.append(details["entry"]["text"])
            elif method == "Network.requestWillBeSent":
                address = details["request"]["url"]
                if not address.startswith(("file:", "data:")):
                    found.append(f"asked for {address}")
        return found

    def _first_page(self) -> str:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            targets = self.call("Target.getTargets")["targetInfos"]
            pages = [one["targetId"] for one in targets if one["type"] == "page"]
            if pages:
                return pages[0]
            time.sleep(0.05)
        raise TimeoutError("the browser opened no page")

    def _receive(self) -> dict:
        deadline = time.monotonic() + PATIENCE
        while b"\0" not in self._buffer:
            left = max(0.0, deadline - time.monotonic())
            ready, _, _ = select.select([self._read], [], [], left)
            piece = os.read(self._read, 1 << 20) if ready else b""
            if not piece:
                raise TimeoutError("the browser does not answer")
            self._buffer += piece
        text, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(text)
