"""An engine for tests of the process life cycle: does exactly what its one JSON argument says.

It and every process that it starts leave a file named after their pid in the folder `pids`.
"""

import http.server
import json
import os
import signal
import sys
import time
from pathlib import Path


class Health(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/health" else 404)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def child(kind, orders):
    """One more process: `plain`, or `daemon` (its parent is gone), or `stubborn` (deaf to SIGTERM too)."""
    if os.fork() != 0:
        return
    if kind != "plain":
        os.setsid()
        if os.fork() != 0:
            os._exit(0)
    if kind == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    leave_pid(orders)
    while True:
        time.sleep(60)


def leave_pid(orders):
    (Path(orders["pids"]) / str(os.getpid())).touch()


def busy(seconds):
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass


def main():
    orders = json.loads(sys.argv[1])
    leave_pid(orders)
    if orders.get("deaf"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for kind in orders.get("children", ()):
        child(kind, orders)
    wanted = len(orders.get("children", ())) + 1
    while len(list(Path(orders["pids"]).iterdir())) < wanted:
        time.sleep(0.005)
    busy(orders.get("busy_s", 0))
    sys.stdout.flush()
    for _ in range(orders.get("garbage_mib", 0)):
        os.write(1, b"\xff\x00\x81" * 349525)
    for line in orders.get("lines", ()):
        os.write(1, line.encode())
    time.sleep(orders.get("think_s", 0))
    if "exit" in orders:
        sys.exit(orders["exit"])
    if "signal" in orders:
        os.kill(os.getpid(), orders["signal"])
    if orders.get("serves", True):
        server = http.server.HTTPServer(("127.0.0.1", orders["port"]), Health)
        os.write(1, b"\x1b[32mserver is listening\x1b[0m\n")
        server.serve_forever()
    while True:
        time.sleep(60)


if __name__ == "__main__":
    main()
