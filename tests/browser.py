"""A headless Chromium for tests of pages: steered over its DevTools pipe, without a driver or a network."""

import base64
import io
import json
import os
import shutil
import subprocess
import time
from pathlib import Path

import matplotlib.image


class Browser:
    """Opens one page of a file; collects what its console says and what it asks the network for."""

    def __init__(self, folder, width=1280, height=720):
        program = shutil.which("chromium-headless-shell") or shutil.which("chromium")
        assert program, "chromium-headless-shell is not installed (tools/packages-tests.txt)"
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
        self.process.kill()
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
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]

    def _read(self):
        while b"\0" not in self.buffer:
            piece = os.read(self.answers, 1 << 20)
            assert piece, "Chromium has ended: " + Path(self.log.name).read_text()[-2000:]
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
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def wait_for(self, expression, timeout=120):
        end = time.monotonic() + timeout
        while not self.evaluate(expression):
            assert not self.problems, self.problems
            assert time.monotonic() < end, f"not within {timeout} s: {expression}; {self.problems}"
            time.sleep(0.1)

    def picture(self, file=None):
        """What is to be seen, [height, width, 3] in 0 to 1."""
        png = base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])
        if file:
            Path(file).write_bytes(png)
        return matplotlib.image.imread(io.BytesIO(png), format="png")[..., :3]
