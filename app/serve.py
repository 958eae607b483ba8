"""`odevit app`: start the browser app on folders of models."""

import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import tyro

from odevit.errors import UserError

from .cli import parse

MAIN = Path(__file__).with_name("main.py")
LOCAL = "127.0.0.1"


@dataclass(frozen=True)
class AppCommand:
    """Open the workbench in the browser: is a model well-posed and stable, and what do its tokens do over integration time?"""

    folders: tyro.conf.Positional[tuple[Path, ...]] = ()
    """Model folders, or folders of model folders; checkpoints/ of the working folder unless given."""
    data: str | None = None
    """Images to look at beside those that come along: an .npz file, a folder of images, cifar10 or cifar100."""
    port: int = 8501
    """Port."""
    host: str = LOCAL
    """Address to listen on; other machines reach the app only where this is theirs to reach, such as 0.0.0.0."""
    cache: Path | None = None
    """Where computed reports are kept (at most 512 MB); runs/app_cache unless given."""

    def __post_init__(self):
        if not 1 <= self.port <= 65535:
            raise UserError(f"port: {self.port} is not between 1 and 65535")
        for folder in self.folders:
            if not folder.is_dir():
                raise UserError(f"folders: {folder} is {'a file' if folder.exists() else 'not there'}; give folders of models")


def app(args: list[str]) -> None:
    """`odevit app`."""
    serve(parse(AppCommand, args, "app"))


def serve(c: AppCommand) -> None:
    """Run the server until it is interrupted.

    Raises:
        UserError: a port that is taken, or an address that is not this machine's.
    """
    _check_port(c.host, c.port)
    found = c.folders or (Path("checkpoints"),)
    print(
        f"models of {', '.join(map(str, found))}: http://{'localhost' if c.host == LOCAL else c.host}:{c.port} (Ctrl-C stops)"
    )
    with subprocess.Popen(command(c), env=os.environ | environment(c)) as server:
        signal.signal(signal.SIGTERM, lambda *_: server.terminate())  # it does not outlive this process
        with suppress(KeyboardInterrupt):  # the server got it too, and ends by itself
            server.wait()
        code = server.wait()
    if code not in (0, 130, -signal.SIGINT, -signal.SIGTERM):
        raise UserError(f"app: the server ended with code {code}")


def command(c: AppCommand) -> list[str]:
    """The command line of the server."""
    where = ["--server.port", str(c.port), "--server.address", c.host]
    return [sys.executable, "-m", "app.ready_server", "run", str(MAIN), *where]


def environment(c: AppCommand) -> dict[str, str]:
    """What main.py reads from the environment: folders, data, cache."""
    found = {"ODEVIT_APP_FOLDERS": os.pathsep.join(str(f.resolve()) for f in c.folders)} if c.folders else {}
    if c.data:
        found["ODEVIT_APP_DATA"] = str(Path(c.data).resolve()) if Path(c.data).exists() else c.data
    if c.cache:
        found["ODEVIT_APP_CACHE"] = str(c.cache.resolve())
    return found


def _check_port(host: str, port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise UserError(
                f"port: {host}:{port} cannot be used ({error.strerror or error}); choose another with --port"
            ) from None
