"""Two processes (gloo, CPU) train to the weights of one: each loss setting, uneven batches, resume, and one writer."""

import contextlib
import csv
import json
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from unittest import mock

import pytest
import torch
from test_trainer import difference, digits, tiny, trained

from odevit.checkpoint import load_training_state
from odevit.config import LossConfig, TrainConfig
from odevit.errors import UserError
from odevit.processes import Processes, leave
from odevit.trainer import Trainer

LOSSES = {
    "plain": LossConfig(curvature=0.0), "curvature": LossConfig(), "jasmin": LossConfig(curvature=0.0, jasmin=0.1),
}  # fmt: skip


def config_of(out: Path, name: str) -> TrainConfig:
    """58 images in batches of 16: the last has 10, and 5 to each process; with accumulation pieces of 3, 3, 2, 2."""
    config = replace(tiny(out / name, optim__accumulate=2 if name == "jasmin" else 1), loss=LOSSES[name])
    return replace(config, optim=replace(config.optim, ema=0.9 if name == "plain" else 0.0))


def uneven() -> dict:
    return digits(train=58, val=31)


def joined(rank: int, port: int) -> None:
    """Give this process the environment that torchrun would."""
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def train_all(rank: int, port: int, out: str) -> None:
    """Every loss setting in turn; each rank keeps its own weights and writes what it saw."""
    joined(rank, port)
    for name in LOSSES:
        trainer = trained(config_of(Path(out), name), uneven())
        kept = {"model": trainer.model.state_dict(), "ema": trainer.averaged.state_dict()}
        torch.save(kept | {"history": trainer.progress.history}, Path(out) / f"{name}-{rank}.pt")
    conv = tiny(Path(out) / "conv", model__stem="conv")
    try:
        Trainer(conv, uneven())
    except UserError as error:
        (Path(out) / f"conv-{rank}.txt").write_text(str(error))
    leave()


def stopped_and_resumed(rank: int, port: int, out: str) -> None:
    """Rank 1 alone gets Ctrl-C after batch 6 of 8 (the second of epoch 2); both must stop there, then go on and finish."""
    joined(rank, port)
    config = config_of(Path(out), "curvature")
    trainer, seen = Trainer(config, uneven()), []
    plain = trainer._step

    def step(ids):
        plain(ids)
        seen.append(ids)
        if rank == 1 and len(seen) == 6:
            os.kill(os.getpid(), signal.SIGINT)

    trainer._step = step
    with contextlib.suppress(KeyboardInterrupt):
        trainer.fit()
        raise AssertionError("not stopped")
    again = trained(replace(config, resume=True), uneven())
    kept = {"model": again.model.state_dict(), "steps": len(seen), "history": again.progress.history}
    torch.save(kept, Path(out) / f"r{rank}.pt")
    leave()


def pair(target, out: Path) -> None:
    """Run `target` in two processes that know each other."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["odevit.trainer"])
    both = [context.Process(target=target, args=(rank, port, str(out)), daemon=True) for rank in range(2)]
    alone = {"__main__": ModuleType("__main__")}  # AppTest leaves its page there, which the processes would run
    with mock.patch.dict(sys.modules, alone):
        for process in both:
            process.start()
    for process in both:
        process.join(300)
    assert [process.exitcode for process in both] == [0, 0]


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """The folder in which two processes trained every loss setting."""
    out = tmp_path_factory.mktemp("two")
    pair(train_all, out)
    return out


@pytest.mark.slow
@pytest.mark.parametrize("name", LOSSES)
def test_two_processes_end_with_the_weights_of_one_with_twice_the_batch(two, tmp_path, name):
    ranks = [torch.load(two / f"{name}-{rank}.pt") for rank in range(2)]
    for part in ("model", "ema"):
        assert all(torch.equal(v, ranks[1][part][k]) for k, v in ranks[0][part].items())  # the same bits on both
    config = replace(config_of(tmp_path, name), optim=replace(config_of(tmp_path, name).optim, accumulate=1))
    one = trained(config, uneven())
    for part, model in (("model", one.model), ("ema", one.averaged)):
        assert max(float((v - ranks[0][part][k]).abs().max()) for k, v in model.state_dict().items()) <= 1e-5
    start = Trainer(replace(config, force=True), uneven()).model
    assert difference(one.model, start) > 1e-2  # it moved
    rows = list(csv.DictReader((two / name / "log.csv").open()))
    assert len(rows) == len(one.progress.history)
    for row, expected in zip(rows, one.progress.history):
        for column, value in expected.items():
            if column != "seconds":
                assert float(row[column]) == pytest.approx(value, abs=1e-5)
    assert ranks[1]["history"][-1]["val_accuracy"] == ranks[0]["history"][-1]["val_accuracy"]  # told by rank 0
    names = {path.name for path in (two / name).iterdir()}
    assert names == {"config.json", "model.safetensors", "README.md", "log.csv", "state.pt"}


@pytest.mark.slow
def test_batchnorm_between_cpu_processes_is_refused_in_one_line(two):
    for rank in range(2):
        text = (two / f"conv-{rank}.txt").read_text()
        assert text.startswith("model.stem: conv has BatchNorm") and "patch or one process" in text and "\n" not in text


@pytest.mark.slow
def test_ctrl_c_in_one_process_stops_both_at_one_batch_and_the_resumed_log_counts_every_image(two, tmp_path):
    pair(stopped_and_resumed, tmp_path)
    whole = torch.load(two / "curvature-0.pt")
    for rank in range(2):
        found = torch.load(tmp_path / f"r{rank}.pt")
        assert found["steps"] == 6
        assert all(torch.equal(v, whole["model"][k]) for k, v in found["model"].items())
        for row, expected in zip(found["history"], whole["history"]):
            assert row | {"seconds": 0} == pytest.approx(expected | {"seconds": 0})


@pytest.mark.slow
def test_torchrun_trains_from_the_shell_with_one_writer(tmp_path):
    flags = "--preset odevit_digits --model.stem patch --optim.epochs 1 --optim.batch-size 256 --threads 1"
    shell = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "app.cli", "train"]
    done = subprocess.run(
        [*shell, *flags.split(), "--device", "cpu", "--out", str(tmp_path / "r")], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert sum(line.startswith("epoch 1/1") for line in lines) == 1 and sum(line.startswith("wrote ") for line in lines) == 5
    assert "2 x " in json.loads((tmp_path / "r" / "config.json").read_text())["training"]["hardware"]
    assert load_training_state(tmp_path / "r" / "state.pt")["progress"]["epoch"] == 1


def test_shares_of_a_batch_are_disjoint_whole_and_even(monkeypatch):
    alone = Processes(torch.device("cpu"))
    assert (alone.rank, alone.world) == (0, 1)
    assert alone.summed({"a": 2.5}) == {"a": 2.5} and alone.any(True) and not alone.any(False)
    assert alone.from_first(lambda: "asked") == "asked"
    ids = torch.arange(23)
    for world in (1, 2, 3):
        for parts in (1, 2, 4):
            pieces = []
            for rank in range(world):
                process = Processes(torch.device("cpu"))
                process.rank, process.world = rank, world
                share = process.share(ids, parts)
                assert len(share) == parts
                pieces += share
            assert torch.equal(torch.cat(pieces), ids)
            assert max(map(len, pieces)) - min(map(len, pieces)) <= 1 and min(map(len, pieces)) >= 1
