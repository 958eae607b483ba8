"""`odevit app`: what it refuses, and that the server it starts answers on this machine only, with a clean log."""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest

from app.browser_bench.own_server import Server
from app.cli import main
from app.serve import AppCommand


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_a_folder_that_is_not_there_is_named(capsys):
    assert main(["app", "nowhere"]) == 2
    assert "folders: nowhere is not there" in capsys.readouterr().err


def test_a_port_that_is_taken_is_named(models, capsys):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert main(["app", str(models), "--port", str(port)]) == 2
    assert f"port: 127.0.0.1:{port} cannot be used" in capsys.readouterr().err


def test_it_binds_to_this_machine_unless_told_otherwise():
    assert AppCommand().host == "127.0.0.1"


@pytest.mark.slow
def test_the_server_starts_clean_and_stops_when_interrupted(models, tmp_path):
    port = free_port()
    command = [sys.executable, "-m", "app.cli", "app", str(models), "--port", str(port), "--cache", str(tmp_path / "cache")]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
    try:
        for _ in range(300):
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/_stcore/health", timeout=1) as answer:
                    assert answer.read() == b"ok"
                break
            except (urllib.error.URLError, ConnectionError):
                time.sleep(0.1)
        else:
            pytest.fail("the server did not answer in 30 s")
    finally:
        os.killpg(server.pid, signal.SIGINT)
        said, _ = server.communicate(timeout=20)
    assert f"http://localhost:{port}" in said
    assert "Traceback" not in said and "0.0.0.0" not in said


@pytest.mark.slow
def test_the_server_does_not_outlive_the_command(models, tmp_path):
    port = free_port()
    command = [sys.executable, "-m", "app.cli", "app", str(models), "--port", str(port), "--cache", str(tmp_path / "cache")]
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    server = Server(process, port, tmp_path / "log")
    try:
        for _ in range(600):
            if server.answers():
                break
            time.sleep(0.1)
        process.terminate()
        assert process.wait(timeout=30) == 0
        assert not server.answers() and "Traceback" not in server.log.read_text()
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
