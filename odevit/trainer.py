"""One loop for supervised training and distillation: AdamW, warm-up and cosine, EMA, bf16 products, DDP, exact resume.

Order, augmentation and number of steps of a batch depend on (seed, epoch, batch) alone, so a run that was killed and resumed
ends with the bits of one that was not (same machine, thread count, no compile). Under `torchrun` each process takes its share
of every batch and DDP averages; batch_size counts the images of all processes together. BatchNorm (conv stem) sees the images
of one micro-batch: accumulation changes its statistics, and several processes share them on GPUs only.
"""

import math
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel
from tqdm import tqdm

from . import records
from .backbone import Backbone
from .checkpoint import load_training_state, save_model, save_training_state, write_atomically
from .config import InputConfig, TrainConfig, to_dict
from .data import Augmenter, ImageSet, load
from .errors import NonFiniteError, UserError
from .evaluate import Scores, evaluate, nonfinite_cause
from .model import build
from .objective import Objective
from .optimisation import moving_average, parameter_groups, pick_device, schedule
from .processes import Processes, without_averaging
from .progress import Progress, check_same_run, generator
from .tables import csv_text
from .trajectory import TimeGrid

FILES = ("config.json", "model.safetensors", "README.md", "log.csv", "state.pt")


class Trainer:
    """Trains the model of a config on its data.

    Args:
        config: the run.
        data: splits "train" and "val"; loaded from config.data unless given. No other split is looked at.
        model: built from config.model unless given.
        objective: module (images, targets, grid, ids, epoch) -> loss terms around `model`, with `needs_states` and `facts`;
            cross-entropy with penalties unless given.

    After `fit`, `config.out` is a model folder (config.json, model.safetensors of the best epoch on validation, README.md) with
    log.csv and state.pt beside it. Nothing is written before `fit`.
    """

    def __init__(
        self, config: TrainConfig, data: dict[str, ImageSet] | None = None, model: Backbone | None = None, objective=None
    ):
        self.config, m = config, config.model
        self.device = pick_device(config.device)
        if config.threads:
            torch.set_num_threads(config.threads)
        self.processes = Processes(self.device)
        self.rank = self.processes.rank
        self._check_folder()
        self.data = data or load(config.data, image_shape=m.image_shape, channels=m.in_chans)
        self._check_data()
        torch.manual_seed(config.seed % 2**64)
        train = self.data["train"]
        inputs = InputConfig(*train.statistics(), classes=train.classes, source=config.data.source)
        self.model = (model or build(m, config.solver, inputs)).to(self.device)
        self.objective = objective or Objective(self.model, config.loss, config.segments)
        self.augment = Augmenter(config.data, self.model.inputs.mean, self.model.inputs.std, m.num_classes, config.seed)
        self.optimizer = torch.optim.AdamW(parameter_groups(self.model, config.optim.weight_decay), lr=config.optim.lr)
        if config.amp == "bf16":
            self.model.compute_in(torch.bfloat16)
        decay = config.optim.ema
        self.ema = AveragedModel(self.model, avg_fn=moving_average(decay), use_buffers=True) if decay else None
        self.progress, self.interrupted = Progress(), False
        if config.resume and self.state_file.exists():
            self._restore()
        self._prepare_forward()

    @property
    def state_file(self) -> Path:
        """Where the training state of the run is kept."""
        return self.config.out / "state.pt"

    @property
    def averaged(self) -> Backbone:
        """The model to be judged and kept: the moving average where there is one."""
        return self.ema.module if self.ema is not None else self.model  # type: ignore[return-value]

    @property
    def steps_per_epoch(self) -> int:
        """Optimiser steps in an epoch; a last batch too small to give every process an image is dropped."""
        full, rest = divmod(len(self.data["train"]), self.config.optim.batch_size)
        return full + (rest >= self.processes.world * self.config.optim.accumulate)

    def _check_folder(self) -> None:
        c = self.config
        if c.force or (c.resume and self.state_file.exists()):
            return
        there = [name for name in FILES if (c.out / name).exists()]
        if there:
            way_out = "go on with it by --resume or overwrite it by" if "state.pt" in there else "overwrite it by"
            raise UserError(f"out: {c.out} holds {', '.join(there)}; {way_out} --force")

    def _check_data(self) -> None:
        train, classes, optim = self.data["train"], self.config.model.num_classes, self.config.optim
        if len(train.classes) != classes:
            source, found = self.config.data.source, len(train.classes)
            raise UserError(f"model.num_classes: {classes}, but {source} has {found} classes; use --model.num-classes {found}")
        parts = self.processes.world * optim.accumulate
        for name, size in (("data.source", len(train)), ("optim.batch_size", optim.batch_size)):
            if size < parts:
                raise UserError(f"{name}: {size} training images cannot be shared by {parts} processes x accumulation steps")

    def _prepare_forward(self) -> None:
        for block in self.model.field.blocks:
            if self.device.type == "cuda":
                block.attn.fused = True  # type: ignore[union-attr]
            if self.config.compile:
                block.compile(dynamic=False)  # few batch sizes occur; one kernel each is faster than one for all
        self.forward = self.processes.wrapped(self.objective)

    def fit(self) -> list[dict[str, float]]:
        """Train to the last epoch and return the log, one dict an epoch.

        Ctrl-C saves after the batch at hand and raises KeyboardInterrupt; pressed twice it stops at once.

        Raises:
            NonFiniteError: a loss or gradient is not finite; the state saved last is intact and named.
        """
        p, epochs = self.progress, self.config.optim.epochs
        self.interrupted = False
        self._open_folder()
        total, done = epochs * self.steps_per_epoch, p.epoch * self.steps_per_epoch + p.batch
        quiet = None if self.rank == 0 else True  # None: quiet where stderr is not a terminal
        columns, lines = shutil.get_terminal_size()  # tqdm draws nothing in a terminal that does not tell its size
        bar = tqdm(total=total, initial=done, disable=quiet, leave=False, smoothing=0.05, ncols=columns, nrows=lines)
        with self._catching_ctrl_c(), bar:
            while p.epoch < epochs:
                self._epoch(bar)
        return p.history

    def _open_folder(self) -> None:
        """Make the folder, clear it of an earlier run, and save where this one starts."""
        going_on = self.progress.epoch or self.progress.batch or self.config.resume
        if self.rank or (going_on and self.state_file.exists()):
            return
        for name in FILES:
            (self.config.out / name).unlink(missing_ok=True)
        self._save_state()

    @contextmanager
    def _catching_ctrl_c(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield  # only the main thread may handle signals
            return
        previous = signal.signal(signal.SIGINT, self._interrupt)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, previous or signal.SIG_DFL)

    def _interrupt(self, *_) -> None:
        if self.interrupted:
            raise KeyboardInterrupt
        self.interrupted = True

    def _epoch(self, bar: tqdm) -> None:
        p, size, started = self.progress, self.config.optim.batch_size, time.perf_counter()
        earlier = p.sums.pop("seconds", 0.0)
        order = torch.randperm(len(self.data["train"]), generator=generator(self.config.seed, p.epoch, 0))
        bar.set_description(f"epoch {p.epoch + 1}/{self.config.optim.epochs}", refresh=False)
        self.forward.train()
        while p.batch < self.steps_per_epoch:
            self._step(order[p.batch * size : (p.batch + 1) * size])
            p.batch += 1
            loss, acc, nfe = (p.sums[name] / p.sums["n"] for name in ("loss", "correct", "nfe"))
            bar.set_postfix({"loss": f"{loss:.3f}", "acc": f"{acc:.3f}", "nfe": f"{nfe:.3g}"}, refresh=False)
            bar.update()
            if self.processes.any(self.interrupted):
                p.sums = self._total(p.sums) | {"seconds": earlier + time.perf_counter() - started}
                self.processes.from_first(self._save_state)  # nobody leaves, and resumes, before it is on disk
                raise KeyboardInterrupt(f"saved {self.state_file}; go on with --resume")
        self._finish_epoch(earlier + time.perf_counter() - started)

    def _step(self, ids: Tensor) -> None:
        c, p = self.config, self.progress
        step = p.epoch * self.steps_per_epoch + p.batch
        lr = c.optim.lr * schedule(step, c.optim.epochs * self.steps_per_epoch, c.optim.warmup)
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        grid = self._grid()
        shares = self.processes.share(ids, c.optim.accumulate)
        for i, share in enumerate(shares):
            with nullcontext() if i == len(shares) - 1 else without_averaging(self.forward):
                terms = self._terms(share, grid)
                # DDP takes the mean over processes; this makes it the mean over the images of the whole batch
                (terms["loss"] * (len(share) * self.processes.world / len(ids))).backward()
        self._clip()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        if self.ema is not None:
            self.ema.update_parameters(self.model)
        p.sums["lr"] = lr

    def _clip(self) -> None:
        """Bound the norm of the gradient, which must be finite."""
        grads = {name: w.grad for name, w in self.model.named_parameters() if w.grad is not None}
        norm = nn.utils.get_total_norm(grads.values())
        if not bool(torch.isfinite(norm)):
            bad = next((name for name, grad in grads.items() if not bool(torch.isfinite(grad).all())), "all weights together")
            raise self._broken("gradient", f"that of {bad}")
        if self.config.optim.clip:
            nn.utils.clip_grads_with_norm_(self.model.parameters(), self.config.optim.clip, norm)

    def _terms(self, ids: Tensor, grid: TimeGrid) -> dict[str, Tensor]:
        """Loss terms of some images, added to the sums of the epoch."""
        train, sums, n = self.data["train"], self.progress.sums, len(ids)
        pixels, labels = train.images[ids].to(self.device), train.labels[ids].to(self.device)
        images, targets = self.augment(pixels, labels, ids.to(self.device), self.progress.epoch)
        try:
            terms = self.forward(images, targets, grid, ids, self.progress.epoch)
        except NonFiniteError:  # an adaptive method gave up
            raise self._broken("state", nonfinite_cause(self.model, images, grid)) from None
        values = {name: float(value.detach()) for name, value in terms.items()}
        if not math.isfinite(values["loss"]):
            bad = [name for name, value in values.items() if name != "loss" and not math.isfinite(value)]
            raise self._broken(f"loss ({', '.join(bad) or 'sum'})", nonfinite_cause(self.model, images, grid))
        for name, value in (values | {"n": 1.0}).items():
            sums[name] = sums.get(name, 0.0) + value * (1 if name == "correct" else n)
        return terms

    def _broken(self, what: str, cause: str) -> NonFiniteError:
        p = self.progress
        where = f"epoch {p.epoch + 1}, batch {p.batch + 1} of {self.steps_per_epoch}"
        return NonFiniteError(f"{what} not finite in {where}: {cause} (last good state: {self.state_file})")

    def _grid(self) -> TimeGrid:
        """The grid of this batch: the trained one, or one with a number of steps drawn around it."""
        p, spread, grid = self.progress, self.config.random_steps, self.model.grid
        steps = grid.steps
        if spread:
            draw = generator(self.config.seed, p.epoch, 1 + p.batch)
            steps += int(torch.randint(-spread, spread + 1, (), generator=draw))
        return TimeGrid(grid.t0, grid.t1, steps, None if self.objective.needs_states else 1)

    def _finish_epoch(self, seconds: float) -> None:
        p, c = self.progress, self.config
        sums = self._total(p.sums)
        val = self.processes.from_first(self._validate)
        row = {"epoch": p.epoch + 1, "lr": p.sums["lr"]}
        n = sums["n"]
        row |= {("accuracy" if k == "correct" else k): v / n for k, v in sums.items() if k not in ("n", "lr")}
        row |= {"val_loss": val.loss, "val_accuracy": val.top1, "seconds": seconds}
        p.history.append(row)
        p.epoch, p.batch, p.sums = p.epoch + 1, 0, {}
        better = val.top1 > p.best
        if better:
            p.best, p.best_epoch = val.top1, p.epoch
        if self.rank:
            return
        if better:
            facts = records.facts(c, val, p.epoch, records.hardware(self.device, self.processes.world)) | self.objective.facts
            save_model(self.averaged, c.out, card=records.card(self.averaged, c, facts), extra=facts)
        write_atomically(c.out / "log.csv", csv_text(p.history).encode())
        self._save_state()
        tqdm.write(records.epoch_line(row, c.optim.epochs, p.best))

    def _validate(self) -> Scores:
        try:
            return evaluate(self.averaged, self.data["val"], batch_size=self.config.optim.batch_size)
        except NonFiniteError as error:
            raise self._broken("validation", str(error)) from None

    def _total(self, sums: dict[str, float]) -> dict[str, float]:
        """The sums of the epoch over all processes, which all have the same learning rate."""
        return self.processes.summed({k: v for k, v in sums.items() if k != "lr"}) | {"lr": sums["lr"]}

    def _save_state(self) -> None:
        if self.rank:
            return
        state = {
            "model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(), "progress": vars(self.progress),
            "ema": self.ema.state_dict() if self.ema is not None else None, "run": to_dict(self.config),
        }  # fmt: skip
        save_training_state(self.state_file, state)

    def _restore(self) -> None:
        state = load_training_state(self.state_file)
        check_same_run(state["run"], self.config, self.state_file)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        if self.ema is not None:
            self.ema.load_state_dict(state["ema"])
        self.progress = Progress(**state["progress"])
        if self.rank:  # the sums of all processes stand in rank 0
            self.progress.sums = {name: v if name == "lr" else 0.0 for name, v in self.progress.sums.items()}
