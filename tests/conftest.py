"""Settings of the whole suite: one thread a process, since the tests themselves run on every core (pytest -n auto)."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # also for the processes that tests start

import pytest  # noqa: E402
import torch  # noqa: E402

torch.set_num_threads(1)


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    """A folder with the tiny models of `app_pages.make_models`; reports that pages compute are kept beside it."""
    from app_pages import make_models

    return make_models(tmp_path_factory.mktemp("app") / "models")
