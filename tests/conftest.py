"""Settings of the whole suite: one thread a process, since the tests themselves run on every core (pytest -n auto)."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # also for the processes that tests start

import torch  # noqa: E402

torch.set_num_threads(1)
