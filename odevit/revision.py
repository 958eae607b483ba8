"""Which commit this code is, for model cards and the provenance of reports."""

import subprocess
from functools import cache
from pathlib import Path


@cache
def commit() -> str:
    """Short hash of the commit this code was checked out from, with + where files differ from it; '' outside a repository."""
    ask = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty=+", "--exclude=*"]
    try:
        return subprocess.run(ask, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""
