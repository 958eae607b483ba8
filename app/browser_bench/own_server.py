"""The app in a process of its own with a fresh cache; its resident memory, and whether it answers while others use it."""

import os
import socket
import subprocess
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from app.serve import AppCommand, command, environment
from odevit.errors import UserError

HEALTH = "_stcore/health"
START = 60  # seconds that a server may take to answer first
POLL = 0.1  # seconds between two questions whether it is well


class Server:
    """A running app.   address: http://...   log: file of what it said."""

    def __init__(self, process: subprocess.Popen, port: int, log: Path):
        self.process, self.address, self.log = process, f"http://127.0.0.1:{port}", log

    @property
    def resident(self) -> int:
        """Bytes of the resident set (Linux)."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def answers(self) -> bool:
        """Whether it says that it is well."""
        with suppress(OSError), urllib.request.urlopen(f"{self.address}/{HEALTH}", timeout=START) as answer:
            return answer.read() == b"ok"
        return False


@contextmanager
def serving(folder: Path, threads: int) -> Iterator[Server]:
    """The app on a folder of models, from when it answers, with a cache that is empty and goes with it.

    Raises:
        UserError: where it does not start.
    """
    with tempfile.TemporaryDirectory(prefix="odevit-bench-") as place:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        c = AppCommand((folder,), port=port, cache=Path(place) / "cache")
        given = os.environ | environment(c) | {"OMP_NUM_THREADS": str(threads)}
        log = Path(place) / "log"
        with log.open("w") as said:
            process = subprocess.Popen(command(c), env=given, stdout=said, stderr=said, start_new_session=True)
        server = Server(process, port, log)
        try:
            _wait(server)
            yield server
        finally:
            process.terminate()
            process.wait()


def _wait(server: Server) -> None:
    end = time.monotonic() + START
    while not server.answers():
        if server.process.poll() is not None or time.monotonic() > end:
            last = (server.log.read_text().strip().splitlines() or ["it said nothing"])[-1]
            raise UserError(f"app: the server did not start ({last})")
        time.sleep(0.05)


class Health(threading.Thread):
    """Asks a server all the time whether it is well.   worst: seconds of the slowest answer.   failed, asked: counts."""

    def __init__(self, server: Server):
        super().__init__(daemon=True)
        self.server, self.done = server, threading.Event()
        self.worst, self.failed, self.asked = 0.0, 0, 0

    def run(self) -> None:
        """Ask until the block of `with` ends."""
        while not self.done.wait(POLL):
            start = time.perf_counter()
            self.failed += not self.server.answers()
            self.asked += 1
            self.worst = max(self.worst, time.perf_counter() - start)

    def __enter__(self) -> "Health":
        self.start()
        return self

    def __exit__(self, *error) -> None:
        self.done.set()
        self.join()
