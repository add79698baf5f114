"""Chromium without a screen, driven through chromedriver (the WebDriver protocol: JSON over HTTP), for pages that we write.

    with Browser() as browser:
        browser.open("file:///...")
        browser.run("return document.title")
"""

import base64
import json
import re
import shutil
import subprocess
import urllib.request

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
MISSING = None if CHROMIUM and DRIVER else "SKIPPED: no Chromium and chromedriver here to open pages with: tools/setup --peers"
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the key by which WebDriver marks an element


class Browser:
    def __init__(self, width=1400, height=1000):
        # Port 0: any that is free. The driver says which one it took.
        self.driver = subprocess.Popen([DRIVER, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        port = None
        while port is None:
            line = self.driver.stdout.readline()
            if line == "":
                raise RuntimeError(f"{DRIVER} ended before it served")
            found = re.search(r"started successfully on port (\d+)", line)
            port = found and found.group(1)
        self.address = f"http://127.0.0.1:{port}"
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--window-size={width},{height}"]
        options = {"goog:chromeOptions": {"binary": CHROMIUM, "args": flags}, "goog:loggingPrefs": {"browser": "ALL"}}
        self.session = ""
        self.session = "/session/" + self.call("POST", "/session", capabilities={"alwaysMatch": options})["sessionId"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.call("DELETE", "")
        finally:
            self.driver.terminate()
            self.driver.stdout.close()
            self.driver.wait()

    def call(self, method, path, **body):
        request = urllib.request.Request(
            self.address + self.session + path, method=method, data=json.dumps(body).encode() if method == "POST" else None,
            headers={"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(json.load(error)["value"]["message"]) from None

    def open(self, address):
        self.call("POST", "/url", url=address)

    def run(self, script, *arguments):
        """What the JavaScript function body returns."""
        return self.call("POST", "/execute/sync", script=script, args=arguments)

    def command(self, name, **parameters):
        """One of the DevTools protocol, as Emulation.setEmulatedMedia."""
        return self.call("POST", "/goog/cdp/execute", cmd=name, params=parameters)

    def complaints(self):
        """What the page wrote on its console."""
        return [entry["message"] for entry in self.call("POST", "/se/log", type="browser")]

    def type_into(self, selector, text):
        element = self.call("POST", "/element", using="css selector", value=selector)[ELEMENT]
        self.call("POST", f"/element/{element}/value", text=text)

    def click_at(self, x, y):
        """Presses and releases the mouse at a place of the window."""
        moves = [{"type": "pointerMove", "x": round(x), "y": round(y)}, {"type": "pointerDown", "button": 0}, {"type": "pointerUp", "button": 0}]
        self.call("POST", "/actions", actions=[{"type": "pointer", "id": "mouse", "actions": moves}])

    def screenshot(self):
        """A picture of the window, as the bytes of a PNG."""
        return base64.b64decode(self.call("GET", "/screenshot"))
