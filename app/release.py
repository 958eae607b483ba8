"""Turn a finished run into a model folder to share: the test split once, other solvers, the certificate, the card.

`odevit release RUN --out checkpoints/NAME` is how everything under checkpoints/ was made; the demo does the same in place.
"""

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import tyro

import analysis
from odevit import records
from odevit.backbone import Backbone
from odevit.checkpoint import load_model, model_hash, read_config, save_model, write_atomically
from odevit.config import DataConfig, DistillConfig, TrainConfig, read_run, to_dict
from odevit.data import ImageSet, load
from odevit.errors import UserError
from odevit.evaluate import evaluate, macs, parameters, sweep, trained_nfe
from odevit.vit import ViT

from .cli import parse
from .commands import refuse_overwrite

METHODS = ("euler", "midpoint", "rk4", "dopri5")
CERTIFIED_IMAGES = 4
SWEPT_IMAGES = 2000  # other solvers cost up to 30 times the trained one


def measured(model: Backbone, test: ImageSet, val: ImageSet) -> dict[str, Any]:
    """Scores on the test split, looked at once; validation accuracy under other solvers and steps; sizes."""
    rows = [] if isinstance(model, ViT) else _swept(model, val)
    return {
        "test": asdict(evaluate(model, test)), "parameters": parameters(model), "macs": macs(model), "nfe": trained_nfe(model),
        "sweep": rows,
    }  # fmt: skip


def _swept(model: Backbone, val: ImageSet) -> list[dict]:
    """Accuracy under other solvers and steps, which only an ODE has."""
    steps, some = model.solver.steps, val.subset(range(min(SWEPT_IMAGES, len(val))))
    fewer = {max(1, steps // 3), max(1, steps // 2), steps, 2 * steps}
    rows = sweep(model, some, ["euler"], sorted(fewer | {4 * steps, 8 * steps}))
    return rows + sweep(model, some, [m for m in METHODS if m != "euler"], sorted(fewer))


def solver_change(rows: list[dict], steps: int) -> tuple[dict, dict]:
    """The row that moves the accuracy most among solvers with the trained steps or more, and the cheapest within one point."""
    solved = [row for row in rows if row["change"] is not None]  # None: the state blew up under that solver
    enough = [row for row in solved if row["steps"] is None or row["steps"] >= steps]
    worst = max(enough, key=lambda row: abs(row["change"]))
    return worst, min((row for row in solved if abs(row["change"]) <= 0.01), key=lambda row: row["nfe"])


def solver_lines(rows: list[dict], steps: int) -> str:
    """What other solvers and steps do to the answer, in two sentences; of a discrete net that there are none."""
    if not rows:
        return "A discrete net: its layers are its steps, so no other solver or number of steps applies."
    worst, cheapest = solver_change(rows, steps)
    return (
        f"With {steps} steps or more of {', '.join(METHODS)} the validation accuracy moves by at most "
        f"{100 * abs(worst['change']):.2f} points ({named(worst)}). "
        f"It stays within 1 point down to NFE {cheapest['nfe']} ({named(cheapest)})."
    )


def named(row: dict) -> str:
    """A row's solver in words, such as 'euler, 3 steps'."""
    steps = row["steps"]
    return row["method"] + ("" if steps is None else f", {steps} step{'s' if steps > 1 else ''}")


def rows_of_card(found: dict[str, Any], seed: int) -> dict[str, dict]:
    """The measured numbers as rows of a model card."""
    test = {"split": "test", "n": found["test"]["n"], "seed": seed}
    names = {"top-1 accuracy, test": "top1", "top-5 accuracy, test": "top5", "calibration error, test": "ece"}
    rows = {name: {"value": found["test"][key], **test} for name, key in names.items()}
    for row in (row for row in found["sweep"] if row["top1"] is not None):
        where = {"split": row["split"], "n": row["n"], "seed": seed}
        rows[f"top-1 accuracy, {named(row)} (NFE {row['nfe']})"] = {"value": row["top1"], **where}
    return rows


def finish(model: Backbone, out: Path, known: dict[str, Any], config: TrainConfig, test: ImageSet, val: ImageSet) -> dict:
    """Measure, certify and write the card and metrics.json of the model folder `out`; returns what metrics.json holds."""
    found = measured(model, test, val) | {"val_accuracy": known["val_accuracy"], "best_epoch": known["best_epoch"]}
    limits = [solver_lines(found["sweep"], model.solver.steps)]
    text = records.card(model, config, known, measured=rows_of_card(found, config.seed), limits=limits)
    save_model(model, out, card=text, extra=known)
    write_atomically(out / "metrics.json", (json.dumps(found, indent=1) + "\n").encode())
    certificate = analysis.certificate(model, model.preprocess(val.images[:CERTIFIED_IMAGES]))
    certificate.save(out / "certificate")
    write_atomically(out / "certificate.md", certificate.to_markdown().encode())
    print(certificate.to_text())
    return found


def release_run(run: Path, out: Path, source: str | None = None, name: str | None = None) -> list[Path]:
    """Write the model of a run to `out` with its log, measured on the run's own data (or on `source`); returns the files.

    Paths of the machine that trained it are left out: the data is called by `name`, or by the last part of its path.
    """
    known = dict(read_config(run)["training"])
    if "run" not in known:
        raise UserError(f"{run}: config.json does not say how it was trained; only runs of train and distill are released")
    config = read_run(known["run"], "training.run")
    model = load_model(run)
    data = replace(config.data, source=source or config.data.source)
    sets = load(
        data, image_shape=model.config.image_shape, channels=model.config.in_chans, splits=("val", "test"),
        classes=model.inputs.classes or None,
    )  # fmt: skip
    val = evaluate(model, sets["val"])
    known |= {"val_accuracy": val.top1, "val_loss": val.loss, "val_ece": val.ece, "val_images": val.n}
    for key in ("commit", "hardware", "torch"):
        known.setdefault(key, "")
    called = name or Path(data.source).name
    config = replace(config, data=replace(config.data, source=called, root=DataConfig.root), out=Path("runs") / out.name)
    if isinstance(config, DistillConfig):
        known |= _taught_by(config.teacher, called)
        config = replace(config, teacher=known["teacher"], cache=DistillConfig.cache)
    known |= {"run": to_dict(config), "command": records.command(config)}
    model.inputs = replace(model.inputs, source=called)
    out.mkdir(parents=True, exist_ok=True)
    finish(model, out, known, config, sets["test"], sets["val"])
    for file in ("log.csv", "pair.json"):
        if (run / file).exists():
            write_atomically(out / file, (run / file).read_bytes())
    return sorted(out.iterdir())


def _taught_by(teacher: str, called: str) -> dict[str, str]:
    """The teacher as it is named once it is released too, with its data called the same: a hash tells the name of the data."""
    found = {"teacher": Path(teacher).name}
    if (Path(teacher) / "config.json").exists() and "training" in read_config(teacher):
        net = load_model(teacher)
        net.inputs = replace(net.inputs, source=called)
        found["teacher_hash"] = model_hash(net)
    return found


@dataclass(frozen=True)
class ReleaseCommand:
    """Measure a finished run on the test split, once, and write it as a model to share."""

    run: tyro.conf.Positional[Path]
    """Folder of the run."""
    out: Path
    """Model folder to write."""
    data: str | None = None
    """The run's data, where it lies elsewhere now."""
    name: str | None = None
    """What to call the data in the card; the last part of its path unless given."""
    force: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Overwrite --out."""


def release(args: list[str]) -> None:
    """`odevit release`."""
    c = parse(ReleaseCommand, args, "release")
    refuse_overwrite(c.out, c.force)
    for path in release_run(c.run, c.out, c.data, c.name):
        print(f"wrote {path}")
