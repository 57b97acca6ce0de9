"""A headless Chromium that opens pages of files: steered over its DevTools pipe, without a driver or a network. Pictures
of maniple.replay are its screenshots, and tests look at pages with it."""

import base64
import io
import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")


class BrowserError(OSError):
    """Chromium is not installed or has ended, or a page does not respond as expected."""


class Browser:
    """Opens one page of a file; collects messages of its console and its network requests.

    `folder`: where Chromium keeps its log and its profile. BrowserError where none is installed, it ends, or a page fails.
    """

    def __init__(self, folder, width=1280, height=720):
        program = next(filter(None, map(shutil.which, PROGRAMS)), None)
        if program is None:
            raise BrowserError("pictures of a page need a browser; found none of " + ", ".join(PROGRAMS)
                            + "; Debian's packages chromium and chromium-headless-shell have one")
        to_browser, self.commands = os.pipe()
        self.answers, from_browser = os.pipe()

        # a shell puts the ends of the pipes where Chromium expects them, and lifts a limit on address space, of which
        # it reserves far more than it uses
        line = f'ulimit -S -v unlimited; exec "$0" "$@" 3<&{to_browser} 4>&{from_browser}'
        self.log = open(Path(folder) / "chromium.log", "w")
        self.process = subprocess.Popen(
            ["bash", "-c", line, program, "--headless", "--no-sandbox", "--remote-debugging-pipe", "--use-angle=swiftshader",
             "--enable-unsafe-swiftshader", "--hide-scrollbars", f"--window-size={width},{height}",
             f"--user-data-dir={folder}/chromium"],
            pass_fds=(to_browser, from_browser), stdout=self.log, stderr=subprocess.STDOUT, start_new_session=True)
        os.close(to_browser)
        os.close(from_browser)
        self.buffer, self.number, self.session = b"", 0, None
        self.problems, self.requests = [], []
        target = self.call("Target.createTarget", url="about:blank", width=width, height=height)["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.killpg(self.process.pid, signal.SIGKILL)  # its helpers, too
        self.process.wait()
        os.close(self.commands)
        os.close(self.answers)
        self.log.close()

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise BrowserError(f"{method}: {answer['error']}")
                return answer["result"]

    def _read(self):
        while b"\0" not in self.buffer:
            piece = os.read(self.answers, 1 << 20)
            if not piece:
                raise BrowserError("Chromium has ended: " + Path(self.log.name).read_text()[-2000:])
            self.buffer += piece
        text, self.buffer = self.buffer.split(b"\0", 1)
        message = json.loads(text)
        event, parameters = message.get("method"), message.get("params", {})
        if event == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning", "assert"):
            self.problems.append([argument.get("value", argument.get("description")) for argument in parameters["args"]])
        elif event == "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            self.problems.append(details.get("exception", {}).get("description", details["text"]))
        elif event == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            self.problems.append(parameters["entry"]["text"])
        elif event == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        return message

    def open(self, page):
        self.call("Page.navigate", url=Path(page).resolve().as_uri())

    def evaluate(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise BrowserError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def wait_for(self, expression, timeout=120):
        end = time.monotonic() + timeout
        while not self.evaluate(expression):
            if self.problems or time.monotonic() > end:
                raise BrowserError(f"not within {timeout} s: {expression}; the console says: {self.problems}")
            time.sleep(0.1)

    def screenshot(self):
        """A screenshot, as a PNG file in memory."""
        return io.BytesIO(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def picture(self, file=None):
        """A screenshot as an array, [height, width, 3] in 0 to 1."""
        import matplotlib.image

        png = self.screenshot()
        if file:
            Path(file).write_bytes(png.getvalue())
        return matplotlib.image.imread(png, format="png")[..., :3]
