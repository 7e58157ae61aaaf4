"""Pages in a headless Chromium, for tests: a probe page shows another one in a frame and writes down what it met."""

from __future__ import annotations

import functools
import html
import http.server
import json
import re
import shutil
import subprocess
import threading
import time

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--enable-logging=stderr",
    "--window-size=1400,1000",
]

# of a laptop, two screens and a phone
SIZES = [[1366, 768], [1536, 864], [1920, 1080], [390, 844]]


class Quiet(http.server.SimpleHTTPRequestHandler):
    def do_GET(self):
        if self.path != "/pause":
            super().do_GET()
            return
        time.sleep(0.2)
        self.send_response(204)
        self.end_headers()

    def log_message(self, *arguments):
        pass


def visit(folder, probe, profile, attempts=3):
    """What `probe`, the text of a page, wrote as JSON into its element `found`, and the console's lines of errors.

    The browser's virtual clock may run out before a loaded machine has read the page: then the visit starts over with
    four times as much (milliseconds).
    """
    (folder / "probe.html").write_text(probe)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        for attempt in range(attempts):
            run, text = _once(server.server_port, f"{profile}-{attempt}", 60000 * 4**attempt)
            if text:
                break
    finally:
        server.shutdown()
        server.server_close()
    spoken = [line for line in run.stderr.splitlines() if "CONSOLE" in line]
    assert text, "the probe did not finish: " + "\n".join(spoken)
    return json.loads(html.unescape(text)), [line for line in spoken if "rror" in line]


def _once(port, profile, budget):
    """One run of the browser and the text that the probe left, empty if it did not finish."""
    run = subprocess.run(
        [
            str(CHROMIUM),
            *FLAGS,
            f"--virtual-time-budget={budget}",
            f"--user-data-dir={profile}",
            "--dump-dom",
            f"http://127.0.0.1:{port}/probe.html",
        ],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    found = re.search(r'<pre id="found">(.*?)</pre>', run.stdout, flags=re.DOTALL)
    return run, found.group(1) if found else ""
