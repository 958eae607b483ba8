"""`odevit demo`: train an ODE-ViT on handwritten digits, say how good it is, how few steps it can do with, and is it well-posed."""

import json
import time
from dataclasses import asdict, replace
from pathlib import Path

import torch

import analysis
from odevit import __version__
from odevit.checkpoint import load_model, write_atomically
from odevit.config import DataConfig
from odevit.data import describe, load
from odevit.evaluate import Scores, evaluate, macs, parameters, sweep, trained_nfe
from odevit.study import digits_run
from odevit.trainer import Trainer

CERTIFIED_IMAGES = 4
DEMO = Path("runs/demo")


def run(out: Path, seed: int = 0) -> dict:
    """Train, evaluate, certify; returns what metrics.json holds. Only `out` is overwritten."""
    started = time.perf_counter()
    config = replace(digits_run(out, seed=seed), force=out == DEMO)
    trainer = Trainer(config)
    print(f"odevit {__version__}: an ODE-ViT on scikit-learn's handwritten digits\n{describe(trainer.data)}")
    model = trainer.model
    print(
        f"{parameters(model):,} parameters; one block over t in [0, {model.solver.horizon:g}], {model.solver.steps} "
        f"{model.solver.method} steps, {model.layout.size} tokens, {macs(model) / 1e6:.2f} M MACs an image"
    )
    trainer.fit()
    trained = time.perf_counter() - started
    model = load_model(out)
    settings = {"image_shape": model.config.image_shape, "channels": model.config.in_chans, "classes": model.inputs.classes}
    test = load(DataConfig(source="digits"), splits=("test",), **settings)["test"]
    found = evaluate(model, test)
    rows = sweep(model, trainer.data["val"], ["euler", "midpoint", "rk4", "dopri5"], [2, 4, 8])
    metrics = {
        "test": asdict(found), "val_accuracy": trainer.progress.best, "best_epoch": trainer.progress.best_epoch,
        "train_seconds": trained, "threads": torch.get_num_threads(), "seed": seed, "parameters": parameters(model),
        "macs": macs(model), "nfe": trained_nfe(model), "sweep": rows,
    }  # fmt: skip
    write_atomically(out / "metrics.json", (json.dumps(metrics, indent=1) + "\n").encode())
    print(f"\ntest accuracy {found.top1:.2%} ({found.n} images, looked at once), calibration error {found.ece:.3f}, {trained:.0f} s")
    print(steps_line(rows))
    _certify(model, trainer.data["val"].images[:CERTIFIED_IMAGES], out)
    _closing(out, found)
    return metrics


def steps_line(rows: list[dict]) -> str:
    """Whether the answer changes under other solvers and steps, in one line."""
    worst = max((row for row in rows if (row["steps"] or 99) >= 4), key=lambda row: abs(row["change"]))
    few = next(row for row in rows if row["method"] == "euler" and row["steps"] == 2)
    return (
        f"with other solvers and 4 steps or more the validation accuracy moves by at most {abs(worst['change']):.2%} "
        f"({worst['method']}); with 2 Euler steps by {few['change']:+.2%}"
    )


def _certify(model, images, out: Path) -> None:
    certificate = analysis.certificate(model, model.preprocess(images))
    print(f"\n{certificate.to_text()}")
    certificate.save(out / "reports" / "certificate")
    write_atomically(out / "certificate.md", certificate.to_markdown().encode())


def _closing(out: Path, found: Scores) -> None:
    names = ("model.safetensors", "config.json", "README.md", "log.csv", "metrics.json", "certificate.md")
    print("\n" + "\n".join(f"wrote {out / name}" for name in names))
    print(f"next: odevit eval {out} --sweep    odevit analyze {out} --images 16 --out {out}/analysis")
