"""Sends labels to the probe from a thread of its own, so that no job waits long for the probe."""

import json
import logging
import queue
import socket
import threading
import time
from typing import Dict, Optional, Tuple

#: Labels that may wait; further ones are dropped.
MAX_WAITING = 1_000

#: Time limit of each part of a request, in seconds. The probe answers at once, or at its next scan.
PATIENCE_SECONDS = 1.0

#: How long a job waits at its start for the answer, in seconds. Until then nobody waits for its
#: process, so the probe does not report the end of the task before the labels arrive.
START_SECONDS = 0.1

#: How often a request is repeated while the probe has too many of them.
MAX_TRIES = 10

Item = Tuple[int, Dict[str, str], threading.Event]


class Sender:
    """Sends labels until it is closed. A failure is logged once and stops no job."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._items: "queue.Queue[Optional[Item]]" = queue.Queue(MAX_WAITING)
        self._is_open = True
        self._warned = False
        self._thread = threading.Thread(target=self._run, name="ebb-labels", daemon=True)
        self._thread.start()

    def send(self, pid: int, labels: Dict[str, str]) -> None:
        """Sends the labels of the task that began with process `pid`."""
        tried = threading.Event()
        try:
            self._items.put_nowait((pid, labels, tried))
        except queue.Full:
            return self._warn(f"more than {MAX_WAITING} jobs wait to be named")
        tried.wait(START_SECONDS)

    def close(self) -> None:
        """Sends what waits, for at most two seconds."""
        self._is_open = False
        try:
            self._items.put_nowait(None)
        except queue.Full:
            pass
        self._thread.join(timeout=2)

    def _run(self) -> None:
        while True:
            try:
                item = self._items.get(timeout=None if self._is_open else 0)
            except queue.Empty:
                return
            if item is not None:
                self._send(item)

    def _send(self, item: Item) -> None:
        for _ in range(MAX_TRIES):
            try:
                answer = self._request(item[0], item[1])
            except TimeoutError:
                # The probe has the request and needs longer to find the process.
                return
            except OSError as error:
                return self._warn(f"failed to connect to the probe at {self._path}: {error}")
            finally:
                item[2].set()
            if answer == "ok":
                return
            # An empty answer means that too many clients are connected.
            if answer and "too many requests" not in answer:
                return self._warn(f"the probe {answer}")
            time.sleep(PATIENCE_SECONDS)
        self._warn("the probe has too many requests")

    def _request(self, pid: int, labels: Dict[str, str]) -> str:
        with socket.socket(socket.AF_UNIX) as stream:
            stream.settimeout(PATIENCE_SECONDS)
            stream.connect(self._path)
            stream.sendall(json.dumps({"pid": pid, "labels": labels}).encode() + b"\n")
            return stream.recv(1_024).decode(errors="replace").strip()

    def _warn(self, text: str) -> None:
        if not self._warned:
            self._warned = True
            logging.getLogger(__name__).warning("Ebb does not get the names of some jobs: %s", text)
