"""One loop for supervised training and distillation: AdamW, warm-up and cosine, EMA, bf16 products, DDP, exact resume.

Order, augmentation and number of steps of a batch depend on (seed, epoch, batch) alone, so a run that was killed and resumed ends
with the bits of one that was not (same machine, thread count, no compile). Under `torchrun` each process takes its share of
every batch and DDP averages; batch_size counts the images of all processes together.
"""

import csv
import io
import os
import signal
import time
from contextlib import nullcontext
from dataclasses import dataclass, field

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim.swa_utils import AveragedModel
from tqdm import tqdm

from .backbone import Backbone
from .checkpoint import load_training_state, save_model, save_training_state, write_atomically
from .config import InputConfig, TrainConfig, to_dict
from .data import Augmenter, ImageSet, load
from .errors import NonFiniteError, UserError
from .evaluate import evaluate, nonfinite_cause
from .model import build
from .objective import Objective
from .optimisation import moving_average, parameter_groups, pick_device, schedule
from .trajectory import TimeGrid


@dataclass
class Progress:
    """Where a run stands; saved with the weights, so that it can go on from there."""

    epoch: int = 0
    batch: int = 0
    sums: dict[str, float] = field(default_factory=dict)
    history: list[dict[str, float]] = field(default_factory=list)
    best: float = -1.0
    best_epoch: int = 0


class Trainer:
    """Trains the model of a config on its data.

    Args:
        config: the run.
        data: splits "train" and "val"; loaded from config.data unless given.
        model: built from config.model unless given.
        objective: module (images, targets, grid) -> loss terms around `model`; cross-entropy with penalties unless given.

    After `fit`, `config.out` is a model folder (config.json, model.safetensors of the best epoch on validation, README.md) with
    log.csv and state.pt beside it.
    """

    def __init__(self, config: TrainConfig, data: dict[str, ImageSet] | None = None, model: Backbone | None = None, objective=None):
        self.config = config
        self.rank, self.world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
        self.device = pick_device(config.device)
        if config.threads:
            torch.set_num_threads(config.threads)
        if self.world > 1 and not dist.is_initialized():
            dist.init_process_group("nccl" if self.device.type == "cuda" else "gloo")
        self._claim_folder()
        m = config.model
        self.data = data or load(config.data, image_shape=m.image_shape, channels=m.in_chans)
        self._check_data()
        torch.manual_seed(config.seed)
        train = self.data["train"]
        inputs = InputConfig(*train.statistics(), classes=train.classes, source=config.data.source)
        self.model = (model or build(m, config.solver, inputs)).to(self.device)
        self.objective = objective or Objective(self.model, config.loss, config.segments)
        self.augment = Augmenter(config.data, self.model.inputs.mean, self.model.inputs.std, m.num_classes, config.seed)
        self.optimizer = torch.optim.AdamW(parameter_groups(self.model, config.optim.weight_decay), lr=config.optim.lr)
        if config.amp == "bf16":
            self.model.compute_in(torch.bfloat16)
        average = moving_average(config.optim.ema)
        self.ema = AveragedModel(self.model, avg_fn=average, use_buffers=True) if config.optim.ema else None
        self.progress = Progress()
        self.interrupted = False
        if config.resume:
            self._restore()
        self._prepare_forward()

    def _prepare_forward(self) -> None:
        if self.device.type == "cuda":
            for block in self.model.field.blocks:
                block.attn.fused = True  # type: ignore[union-attr]
        if self.config.compile:
            for block in self.model.field.blocks:
                block.compile(dynamic=False)  # few batch sizes occur; one kernel each is faster than one for all
        self.forward: nn.Module = self.objective
        if self.world > 1:
            if self.device.type == "cuda":
                self.objective = nn.SyncBatchNorm.convert_sync_batchnorm(self.objective)
            self.forward = DistributedDataParallel(self.objective, device_ids=[self.device] if self.device.type == "cuda" else None)

    def _claim_folder(self) -> None:
        out, c = self.config.out, self.config
        if self.rank:
            return
        if (out / "state.pt").exists() and not (c.resume or c.force):
            raise UserError(f"out: {out} holds a run; go on with it by --resume or overwrite it by --force")
        out.mkdir(parents=True, exist_ok=True)
        if c.force and not c.resume:
            (out / "state.pt").unlink(missing_ok=True)

    def _check_data(self) -> None:
        train, classes = self.data["train"], self.config.model.num_classes
        if len(train.classes) != classes:
            raise UserError(f"num_classes: {classes}, but {self.config.data.source} has {len(train.classes)} classes")
        if len(train) < self.world * self.config.optim.accumulate:
            raise UserError(f"data: {len(train)} training images are fewer than processes x accumulation steps")

    @property
    def steps_per_epoch(self) -> int:
        """Optimiser steps in an epoch; a last batch too small to give every process an image is dropped."""
        size, share = self.config.optim.batch_size, self.world * self.config.optim.accumulate
        full, rest = divmod(len(self.data["train"]), size)
        return full + (rest >= share)

    def fit(self) -> list[dict[str, float]]:
        """Train to the last epoch and return the log, one dict an epoch; Ctrl-C saves and raises KeyboardInterrupt."""
        previous = signal.getsignal(signal.SIGINT)
        try:
            signal.signal(signal.SIGINT, self._interrupt)
        except ValueError:
            pass  # not the main thread: Ctrl-C is the caller's
        try:
            while self.progress.epoch < self.config.optim.epochs:
                self._epoch()
        finally:
            if previous is not None:
                try:
                    signal.signal(signal.SIGINT, previous)
                except ValueError:
                    pass
        return self.progress.history

    def _interrupt(self, *_) -> None:
        if self.interrupted:
            raise KeyboardInterrupt
        self.interrupted = True

    def _epoch(self) -> None:
        p, started = self.progress, time.perf_counter()
        earlier = p.sums.get("seconds", 0.0)
        order = torch.randperm(len(self.data["train"]), generator=_generator(self.config.seed, p.epoch, 0))
        bar = tqdm(
            total=self.steps_per_epoch, initial=p.batch, desc=f"epoch {p.epoch + 1}/{self.config.optim.epochs}", leave=False,
            disable=None if self.rank == 0 else True,
        )  # fmt: skip
        self.forward.train()
        while p.batch < self.steps_per_epoch:
            size = self.config.optim.batch_size
            self._step(order[p.batch * size : (p.batch + 1) * size])
            p.batch += 1
            bar.update()
            n = p.sums["n"]
            bar.set_postfix(loss=f"{p.sums['loss'] / n:.3f}", acc=f"{p.sums['correct'] / n:.3f}", nfe=f"{p.sums['nfe'] / n:.0f}")
            if self.interrupted:
                bar.close()
                p.sums["seconds"] = earlier + time.perf_counter() - started
                self._save_state()
                raise KeyboardInterrupt
        bar.close()
        self._finish_epoch(earlier + time.perf_counter() - started)

    def _step(self, ids: Tensor) -> None:
        c, p = self.config, self.progress
        step = p.epoch * self.steps_per_epoch + p.batch
        lr = c.optim.lr * schedule(step, c.optim.epochs * self.steps_per_epoch, c.optim.warmup)
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        grid = self._grid()
        shares = ids.tensor_split(self.world * c.optim.accumulate)
        mine = shares[self.rank * c.optim.accumulate : (self.rank + 1) * c.optim.accumulate]
        for i, share in enumerate(mine):
            last = i == len(mine) - 1
            wait = self.forward.no_sync() if isinstance(self.forward, DistributedDataParallel) and not last else nullcontext()
            with wait:
                terms = self._terms(share, grid)
                # DDP takes the mean over processes; this makes it the mean over the images of the whole batch
                (terms["loss"] * (len(share) * self.world / len(ids))).backward()
        if c.optim.clip:
            nn.utils.clip_grad_norm_(self.model.parameters(), c.optim.clip)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        if self.ema is not None:
            self.ema.update_parameters(self.model)
        p.sums["lr"] = lr

    def _terms(self, ids: Tensor, grid: TimeGrid) -> dict[str, Tensor]:
        train = self.data["train"]
        pixels, labels = train.images[ids].to(self.device), train.labels[ids].to(self.device)
        images, targets = self.augment(pixels, labels, ids.to(self.device), self.progress.epoch)
        terms = self.forward(images, targets, grid)
        if not bool(torch.isfinite(terms["loss"])):
            p = self.progress
            cause = nonfinite_cause(self.model, images, grid)
            kept = f"last good state: {self.config.out / 'state.pt'}" if (self.config.out / "state.pt").exists() else "no state yet"
            raise NonFiniteError(f"loss is not finite in epoch {p.epoch + 1}, batch {p.batch}: {cause} ({kept})")
        sums, n = self.progress.sums, len(ids)
        for name, value in terms.items():
            sums[name] = sums.get(name, 0.0) + float(value.detach()) * (1 if name == "correct" else n)
        sums["n"] = sums.get("n", 0.0) + n
        return terms

    def _grid(self) -> TimeGrid:
        """The grid of this batch: the trained one, or one with a number of steps drawn around it."""
        p, spread, grid = self.progress, self.config.random_steps, self.model.grid
        steps = grid.steps
        if spread:
            draw = _generator(self.config.seed, p.epoch, 1 + p.batch)
            steps += int(torch.randint(-spread, spread + 1, (), generator=draw))
        return TimeGrid(grid.t0, grid.t1, steps, None if self.objective.needs_states else 1)

    def _finish_epoch(self, seconds: float) -> None:
        p, c = self.progress, self.config
        sums = self._summed(p.sums)
        model = self.averaged
        val = evaluate(model, self.data["val"], batch_size=c.optim.batch_size)
        row = {"epoch": p.epoch + 1, "lr": p.sums["lr"]}
        n = sums["n"]
        row |= {("accuracy" if k == "correct" else k): v / n for k, v in sums.items() if k not in ("n", "lr", "seconds")}
        row |= {"val_loss": val.loss, "val_accuracy": val.top1, "seconds": seconds}
        p.history.append(row)
        p.epoch, p.batch, p.sums = p.epoch + 1, 0, {}
        if val.top1 > p.best:
            p.best, p.best_epoch = val.top1, p.epoch
            if self.rank == 0:
                extra = {"run": to_dict(c), "best_epoch": p.epoch, "val_accuracy": val.top1, "val_images": val.n}
                save_model(model, c.out, extra=extra)
        if self.rank == 0:
            write_atomically(c.out / "log.csv", log_text(p.history).encode())
        self._save_state()
        if self.rank == 0:
            left = (c.optim.epochs - p.epoch) * seconds / 60
            tqdm.write(
                f"epoch {p.epoch}/{c.optim.epochs}  loss {row['loss']:.4f}  acc {row['accuracy']:.4f}  val {val.top1:.4f} "
                f"(best {p.best:.4f})  nfe {row['nfe']:.0f}  lr {row['lr']:.2e}  {seconds:.0f} s, {left:.0f} min left"
            )

    @property
    def averaged(self) -> Backbone:
        """The model to be judged and kept: the moving average where there is one."""
        return self.ema.module if self.ema is not None else self.model  # type: ignore[return-value]

    def _summed(self, sums: dict[str, float]) -> dict[str, float]:
        if self.world == 1:
            return sums
        values = torch.tensor(list(sums.values()), dtype=torch.float64, device=self.device)
        dist.all_reduce(values)
        return dict(zip(sums, values.tolist()))

    def _save_state(self) -> None:
        if self.rank:
            return
        state = {
            "model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(), "progress": vars(self.progress),
            "ema": self.ema.state_dict() if self.ema is not None else None, "run": to_dict(self.config),
        }  # fmt: skip
        save_training_state(self.config.out / "state.pt", state)

    def _restore(self) -> None:
        path = self.config.out / "state.pt"
        if not path.exists():
            return
        state = load_training_state(path)
        changed = _changed(state["run"], to_dict(self.config))
        if changed:
            raise UserError(f"resume: {path} was made with another {changed}; use the same configuration or --force")
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        if self.ema is not None:
            self.ema.load_state_dict(state["ema"])
        self.progress = Progress(**state["progress"])


def _changed(before: dict, now: dict) -> str:
    """Name of the first field that differs, of those that change the result of a run."""
    free = {"out", "device", "resume", "force", "threads", "preset"}
    for name in now:
        if name in free or before.get(name) == now[name]:
            continue
        if isinstance(now[name], dict) and isinstance(before.get(name), dict):
            return f"{name}." + next(k for k in now[name] if before[name].get(k) != now[name][k])
        return name
    return ""


def _generator(seed: int, epoch: int, stream: int) -> torch.Generator:
    return torch.Generator().manual_seed((seed * 1_000_003 + epoch) * 1_000_003 + stream)


def log_text(history: list[dict[str, float]]) -> str:
    """The log as CSV, one row an epoch."""
    out = io.StringIO()
    writer = csv.DictWriter(out, list(history[0]))
    writer.writeheader()
    writer.writerows(history)
    return out.getvalue()
