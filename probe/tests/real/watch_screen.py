"""Runs `ebb top` in a pseudo-terminal, presses keys, and prints what it drew as JSON.

Arguments: program, socket, a text that must appear, and `quit` or `term`."""

import fcntl
import json
import os
import pty
import select
import signal
import struct
import sys
import termios
import time

program, socket, text, end = sys.argv[1:]
main, terminal = pty.openpty()
fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 120, 0, 0))
before = termios.tcgetattr(terminal)
pid = os.fork()
if pid == 0:
    os.setsid()
    fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
    for number in (0, 1, 2):
        os.dup2(terminal, number)
    os.environ.update(TERM="xterm-256color", NO_COLOR="1")
    os.execv(program, [program, "top", "--socket", socket, "--interval", "1"])


def read(until, seconds=30):
    """Reads until the condition holds for what was read."""
    drawn, limit = b"", time.monotonic() + seconds
    while not until(drawn) and time.monotonic() < limit:
        if select.select([main], [], [], 0.2)[0]:
            drawn += os.read(main, 65536)
    return drawn.decode(errors="replace")


wanted = text.encode()
table = read(lambda drawn: wanted in drawn)
table += read(lambda _: False, 3)
os.write(main, b"/" + wanted + b"\r")
read(lambda _: False, 1)
os.write(main, b"\r")
task = read(lambda drawn: b"TOOL" in drawn, 10) + read(lambda _: False, 3)
is_raw = not termios.tcgetattr(terminal)[3] & termios.ICANON
if end == "quit":
    os.write(main, b"qqq\x1b")
    os.write(main, b"q")
else:
    os.kill(pid, signal.SIGTERM)
last = read(lambda drawn: b"\x1b[?1049l" in drawn, 10)
limit = time.monotonic() + 10
status = None
while status is None and time.monotonic() < limit:
    done, waited = os.waitpid(pid, os.WNOHANG)
    status = os.waitstatus_to_exitcode(waited) if done else None
    time.sleep(0.05)
if status is None:
    os.kill(pid, signal.SIGKILL)
is_restored = termios.tcgetattr(terminal) == before
print(json.dumps({"table": table, "task": task, "last": last, "status": status, "raw": is_raw, "restored": is_restored}))
