"""`odevit distill`: a discrete ViT teaches an ODE-ViT; the student's defaults follow from the teacher that is named."""

import logging
import sys

from odevit.config import DistillConfig
from odevit.errors import UserError
from odevit.tables import table

from .cli import parse


def distill(args: list[str]) -> None:
    """Load the teacher, build the student, train it, and say what the pair is like before and after."""
    from odevit.distillation import PAIR_FILE, Distillation
    from odevit.processes import leave
    from odevit.trainer import FILES

    log = logging.getLogger("odevit")
    log.setLevel(logging.INFO)
    log.addHandler(logging.StreamHandler(sys.stdout))
    config, teacher = _config(args)
    run = Distillation(config, teacher=teacher)
    first = run.trainer.rank == 0
    if first:
        print(_summary(run))
    if run.trainer.progress.epoch >= config.optim.epochs:
        print(f"nothing left to do: {config.out} has all {config.optim.epochs} epochs")
        return
    after = run.fit()
    if first:
        print(table(rows(run.before, after)))
        print(f"the teacher is unchanged (hash {run.hash})")
        for name in (*FILES, PAIR_FILE):
            print(f"wrote {config.out / name}")
    leave()


def _config(args: list[str]):
    """The config, and the teacher that its defaults were taken from; flags that say which teacher are read first."""
    from odevit.distillation import default_student, load_teacher

    if "--help" in args or "-h" in args:
        return parse(DistillConfig, args, "distill"), None
    asked = {name: _value(args, name) for name in ("--teacher", "--teacher-heads", "--img-size", "--head")}
    given = [part for name, value in asked.items() if value is not None for part in (name, value)]
    teacher = load_teacher(parse(DistillConfig, given, "distill"))
    classes = _value(args, "--model.num-classes")
    model, solver = default_student(teacher, int(classes) if classes and classes.isdigit() else None)
    return parse(DistillConfig, args, "distill", DistillConfig(model=model, solver=solver)), teacher


def _value(args: list[str], flag: str) -> str | None:
    """The value of a flag, in the forms `--flag value` and `--flag=value`."""
    for i, word in enumerate(args):
        name, _, value = word.replace("_", "-").partition("=")
        if name == flag:
            if not value and i + 1 == len(args):
                raise UserError(f"{flag.lstrip('-')}: no value given")
            return word.partition("=")[2] or args[i + 1]
    return None


def _summary(run) -> str:
    from odevit.data import describe
    from odevit.evaluate import macs, parameters

    teacher, student = run.teacher, run.student
    times = ", ".join(f"{t:g}" for t in run.times)
    moved = ", ".join(f"{d:.3g}" for d in run.distances)
    trained = sum(p.numel() for p in student.parameters() if p.requires_grad)
    return (
        f"{describe(run.data)}\nteacher: {parameters(teacher):,} parameters, {macs(teacher) / 1e6:.1f} M MACs an image\n"
        f"student: {parameters(student):,} parameters, {trained:,} of them trained, {macs(student) / 1e6:.1f} M MACs an image, "
        f"{student.solver.steps} {student.solver.method} steps\n"
        f"the teacher moves by {moved} in its layers; control points at t = {times}"
    )


def rows(before, after) -> list[dict]:
    """The pair before and after training, as rows of a table."""
    out = []
    for name, pair in (("before", before), ("after", after)):
        teacher = {"teacher": pair.teacher_accuracy} if pair.teacher_accuracy is not None else {}
        agree = {"agreement": pair.agreement} if pair.agreement is not None else {}
        out.append({
            "": name, **teacher, "student": pair.student_accuracy, **agree, "distance, mean": float(pair.distance[1:].mean()),
            "distance, end": float(pair.distance[-1]), "overlap of attention": float(pair.overlap.mean()),
            "split": pair.split, "n": pair.n,
        })  # fmt: skip
    return out
