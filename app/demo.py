"""`odevit demo`: train an ODE-ViT on handwritten digits; how good is it, how few steps does it need, is it well-posed?"""

import time
from dataclasses import replace
from pathlib import Path

from odevit import __version__
from odevit.checkpoint import load_model, read_config
from odevit.config import DataConfig
from odevit.data import describe, load
from odevit.evaluate import macs, parameters
from odevit.study import digits_run
from odevit.trainer import Trainer

from .figures_command import figures
from .release import finish, solver_lines

DEMO = Path("runs/demo")
DRAWN_IMAGES = 8
MAIN_FIGURES = (
    "training_curves", "logit_lens", "token_trajectories", "attention_over_time", "jacobian_eigenvalues", "lipschitz_over_time",
)  # fmt: skip


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
    known = read_config(out)["training"]
    test = load(DataConfig(source="digits"), splits=("test",), **_settings(model))["test"]
    found = finish(load_model(out), out, known, config, test, trainer.data["val"])
    score = found["test"]
    print(f"\ntest accuracy {score['top1']:.2%} ({score['n']} images, looked at once), trained in {trained:.0f} s")
    print(solver_lines(found["sweep"], model.solver.steps))
    print("\n" + "\n".join(f"wrote {path}" for path in sorted(out.iterdir()) if path.is_file()))
    figures([str(out), "--out", str(out / "figures"), "--images", str(DRAWN_IMAGES), "--only", *MAIN_FIGURES, "--force"])
    print(f"next: odevit eval {out} --sweep    odevit analyze {out} --images 16 --out {out}/analysis")
    return found


def _settings(model) -> dict:
    return {"image_shape": model.config.image_shape, "channels": model.config.in_chans, "classes": model.inputs.classes}
