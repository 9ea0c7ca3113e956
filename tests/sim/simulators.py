"""Starts and stops the two simulators for tests, on free ports."""

import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

HERE = Path(__file__).parent
_START_S = 120


def free_port() -> int:
    """A loopback port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Simulators:
    """moto and MiniStack as child processes; `close` ends both."""

    def __init__(self) -> None:
        moto, ministack = free_port(), free_port()
        self.moto_url = f"http://127.0.0.1:{moto}"
        self.ministack_url = f"http://127.0.0.1:{ministack}"
        self._children = [
            _start("moto_server.py", "--port", str(moto)),
            _start("ministack_server.py", "--port", str(ministack), "--moto", self.moto_url),
        ]
        try:
            self._wait(f"{self.moto_url}/moto-api/data.json", self._children[0])
            self._wait(f"{self.ministack_url}/_ministack/health", self._children[1])
        except BaseException:
            self.close()
            raise

    @staticmethod
    def _wait(url: str, child: subprocess.Popen[bytes]) -> None:
        until = time.monotonic() + _START_S
        while time.monotonic() < until:
            if child.poll() is not None:
                raise RuntimeError(f"{child.args} ended with {child.returncode}")
            try:
                urllib.request.urlopen(url, timeout=5).close()
                return
            except OSError:
                time.sleep(0.1)
        raise RuntimeError(f"{url} did not answer within {_START_S} s")

    def close(self) -> None:
        """Ends the servers that this object started."""
        for child in self._children:
            child.terminate()
        for child in self._children:
            try:
                child.wait(timeout=10)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()


def _start(script: str, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, str(HERE / script), *arguments])
