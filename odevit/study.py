"""Studies on the handwritten digits, small enough to repeat over seeds: what the curvature penalty changes.

Plain training of a few-step net is free to leave the ODE: its own solver fits, another one does not. `curvature_study` trains
with and without the penalty of losses.curvature and asks every model under other solvers and steps.
"""

import statistics
from dataclasses import replace
from pathlib import Path

from tqdm import tqdm

from .checkpoint import load_model
from .config import DataConfig, LossConfig, OptimConfig, TrainConfig, preset
from .evaluate import sweep
from .trainer import Trainer

SOLVERS = ("euler", "midpoint", "rk4", "dopri5")
STEPS = (2, 3, 4, 8, 16)


def digits_run(out: Path, *, seed: int = 0, epochs: int = 60, curvature: float = 1.0) -> TrainConfig:
    """The run of the demo: `odevit_digits` on scikit-learn's digits; one thread, since two gain nothing at this size."""
    model, solver = preset("odevit_digits")
    return TrainConfig(
        preset="odevit_digits", model=model, solver=solver, data=DataConfig(source="digits"),  # type: ignore[arg-type]
        loss=LossConfig(curvature=curvature), optim=OptimConfig(epochs=epochs, batch_size=64, lr=3e-3, ema=0.98),
        out=out, seed=seed, threads=1, force=True,
    )  # fmt: skip


def curvature_study(out: Path, *, seeds: int = 5, epochs: int = 150, weights: tuple[float, ...] = (0.0, 1.0)) -> list[dict]:
    """Accuracy on validation by solver and steps, mean and standard deviation over seeds, for each weight of the penalty.

    Args:
        out: folder of the runs, one a weight and seed; a finished run is not trained again.
        seeds: number of seeds, 0 .. seeds - 1.
        epochs: epochs of each run.
        weights: weights of the penalty to compare.

    Returns:
        Rows with curvature, method, steps, nfe, top1 (mean), std, n (seeds).
    """
    found: dict[tuple, list[dict]] = {}
    jobs = [(weight, seed) for weight in weights for seed in range(seeds)]
    for weight, seed in tqdm(jobs, desc="curvature study", disable=None):
        config = digits_run(out / f"curvature{weight:g}-seed{seed}", seed=seed, epochs=epochs, curvature=weight)
        trainer = Trainer(replace(config, resume=True))
        trainer.fit()
        for row in sweep(load_model(config.out), trainer.data["val"], list(SOLVERS), list(STEPS)):
            found.setdefault((weight, row["method"], row["steps"]), []).append(row)
    return [_summary(weight, method, steps, rows) for (weight, method, steps), rows in found.items()]


def _summary(weight: float, method: str, steps: int | None, rows: list[dict]) -> dict:
    """Mean, standard deviation and worst accuracy over the seeds of one solver."""
    top1 = [row["top1"] for row in rows]
    deviation = statistics.stdev(top1) if len(top1) > 1 else 0.0
    return {
        "curvature": weight, "method": method, "steps": steps, "nfe": round(statistics.mean(row["nfe"] for row in rows)),
        "top1": statistics.mean(top1), "std": deviation, "worst": min(top1), "n": len(rows),
    }  # fmt: skip
