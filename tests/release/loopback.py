#!/usr/bin/env python3
"""Servers on loopback for tests of the installer: a release by http, the same release by https under a name that only the
proxy knows, and this stand-in for a proxy, which records each request.

    tests/release/loopback.py RELEASE FOLDER    runs until its input ends

It prints the URL of the server by http and that of the proxy. FOLDER gets ca.pem, the certificate of the server by
https, and a file `passed` with a line for each request to the proxy.
"""

import functools
import http.server
import socket
import ssl
import subprocess
import sys
import threading
from pathlib import Path

NAME = "ebb.example"


class FilesHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


def serve(handler, context: ssl.SSLContext | None = None) -> http.server.ThreadingHTTPServer:
    """A server on a free port of loopback. The caller ends it."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    if context:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def url(server: http.server.ThreadingHTTPServer) -> str:
    return f"http://127.0.0.1:{server.server_port}"


def files(folder: Path):
    """A handler that serves a folder."""
    return functools.partial(FilesHandler, directory=str(folder))


def certificate(folder: Path) -> ssl.SSLContext:
    """A key and a certificate for NAME, which is also its own authority, in folder/ca.pem."""
    key, ca = folder / "key.pem", folder / "ca.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-keyout", key, "-out", ca,
                    "-subj", f"/CN={NAME}", "-addext", f"subjectAltName=DNS:{NAME}"], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(ca, key)
    return context


def proxy_of(port: int, passed: Path):
    """A handler of a proxy that reaches one server only, on this port, as https://NAME."""

    class Proxy(FilesHandler):
        def record(self) -> None:
            with passed.open("a") as out:
                out.write(f"{self.command} {self.path}\n")

        def do_CONNECT(self):
            self.record()
            if self.path != f"{NAME}:443":
                self.send_error(502)
                return
            with socket.create_connection(("127.0.0.1", port)) as server:
                self.send_response(200)
                self.end_headers()
                back = threading.Thread(target=copy, args=(server, self.connection), daemon=True)
                back.start()
                copy(self.connection, server)
                back.join(timeout=10)
            self.close_connection = True

        def do_GET(self):
            self.record()
            self.send_error(502)

    return Proxy


def copy(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(1 << 16):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def proxied(release: Path, folder: Path) -> tuple[http.server.ThreadingHTTPServer, http.server.ThreadingHTTPServer]:
    """The server by https and the proxy that reaches it."""
    secure = serve(files(release), certificate(folder))
    return secure, serve(proxy_of(secure.server_port, folder / "passed"))


def main() -> int:
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    release, folder = (Path(argument) for argument in sys.argv[1:])
    plain = serve(files(release))
    _, proxy = proxied(release, folder)
    print(url(plain), url(proxy), flush=True)
    sys.stdin.read()
    return 0


if __name__ == "__main__":
    sys.exit(main())
