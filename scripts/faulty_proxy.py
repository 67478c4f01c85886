"""A proxy between a client and an S3 server that answers as bad networks and servers do.

It forwards requests unchanged, with their header Host, so that their signatures stay right. Faults are queued
by a test; each is used for one request, in order, and the rest is forwarded.
"""

from __future__ import annotations

import http.client
import socket
import ssl
import struct
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# The error of S3 for temporary credentials that have ended (Amazon S3 API Reference, "Error responses").
ERROR = '<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{code}</Code><Message>{message}</Message></Error>'
HOP_BY_HOP = {"connection", "transfer-encoding", "keep-alive", "server", "date"}


class Proxy:
    """Listens on a free port of this machine, with TLS if it has a context; `port` is the server's."""

    def __init__(self, port: int, tls: ssl.SSLContext | None = None) -> None:
        self.server_port = port
        self.faults: list[tuple[str, object]] = []
        self.seen: list[tuple[str, str, dict[str, str]]] = []
        self.lock = threading.Lock()
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: object) -> None:
                pass

            def serve(self) -> None:
                proxy.serve(self)

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = serve

        class Server(ThreadingHTTPServer):
            def handle_error(self, *_: object) -> None:
                """A client that was ended by its time limit is no error."""

        self.server = Server(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        if tls is not None:
            self.server.socket = tls.wrap_socket(self.server.socket, server_side=True)
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def queue(self, *faults: tuple[str, object]) -> None:
        with self.lock:
            self.faults[:] = faults
            self.seen.clear()

    def serve(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers.get("Content-Length", 0)))
        with self.lock:
            self.seen.append((handler.command, handler.path, dict(handler.headers)))
            fault, value = self.faults.pop(0) if self.faults else ("", None)
        if fault == "reset":
            # The client gets RST, not the end of a connection.
            handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            handler.connection.close()
            handler.close_connection = True
            return
        if fault == "hang":
            time.sleep(float(value))
            handler.close_connection = True
            return
        if fault == "status":
            status, code = value
            text = ERROR.format(code=code, message="made by the test").encode()
            handler.send_response(status)
            handler.send_header("Content-Length", str(len(text)))
            handler.end_headers()
            handler.wfile.write(text)
            return
        upstream = http.client.HTTPConnection("127.0.0.1", self.server_port, timeout=60)
        upstream.putrequest(handler.command, handler.path, skip_host=True, skip_accept_encoding=True)
        for name, text in handler.headers.items():
            if name.lower() not in HOP_BY_HOP and not (fault == "whole" and name.lower() == "range"):
                upstream.putheader(name, text)
        upstream.endheaders(body)
        answer = upstream.getresponse()
        content = answer.read()
        if fault == "lost":
            # The server did it, and the client does not hear of it.
            handler.connection.close()
            handler.close_connection = True
            return
        handler.send_response(answer.status)
        for name, text in answer.getheaders():
            if name.lower() == "etag" and fault == "etag":
                text = '"another"'
            if name.lower() not in HOP_BY_HOP:
                handler.send_header(name, text)
        if answer.getheader("Content-Length") is None:
            # It came in chunks.
            handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        if handler.command == "HEAD":
            return
        if fault == "cut":
            handler.wfile.write(content[: len(content) // 2])
            handler.wfile.flush()
            handler.connection.shutdown(socket.SHUT_RDWR)
            handler.close_connection = True
        elif fault == "slow":
            for start in range(0, len(content), 16384):
                handler.wfile.write(content[start : start + 16384])
                time.sleep(float(value))
        else:
            handler.wfile.write(content)
