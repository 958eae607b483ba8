"""Peak memory of a piece of work, measured in a process of its own (Linux, CPU).

glibc keeps freed blocks by default, which would count; told to hand them back, the resident size is what the tensors need.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable

PROMPT_RETURN = {"MALLOC_MMAP_THRESHOLD_": "1000000", "MALLOC_TRIM_THRESHOLD_": "1000000"}


def in_own_process(module: str, call: str) -> dict:
    """What `call`, an expression over the names of `module`, returns as JSON when evaluated in a fresh process."""
    code = f"import json; from {module} import *; print(json.dumps({call}))"
    environment = {**os.environ, **PROMPT_RETURN}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    return json.loads(done.stdout.splitlines()[-1])


def peak(run: Callable) -> dict:
    """Peak bytes of the resident size during `run()` above what it was before, and seconds."""
    before = _resident("VmRSS")
    with open("/proc/self/clear_refs", "w") as file:  # noqa: PTH123  resets VmHWM to the present size
        file.write("5")
    start = time.perf_counter()
    run()
    return {"bytes": _resident("VmHWM") - before, "seconds": time.perf_counter() - start}


def _resident(name: str) -> int:
    with open("/proc/self/status") as file:  # noqa: PTH123
        return 1024 * int(next(line for line in file if line.startswith(name)).split()[1])
