"""Distillation: what is copied and frozen, live gradients of every term, sums and means, the teacher that never changes."""

import shlex
from dataclasses import replace

import pytest
import torch

from odevit import ODEViT, UserError, ViT, losses, teachers
from odevit.checkpoint import load_model, model_hash, read_config, save_model
from odevit.config import (
    DataConfig,
    DistillConfig,
    InputConfig,
    LossConfig,
    MatchConfig,
    ODEViTConfig,
    OptimConfig,
    SolverConfig,
    ViTConfig,
)
from odevit.data import load, normalise
from odevit.distillation import Distillation, Lessons, Matching, calibrate, compare, default_student, load_teacher, take_over
from odevit.distillation.lessons import looks_of_cls
from odevit.distillation.students import check_student, class_order, principal_map

TEACHER = ViTConfig(
    img_size=8, patch_size=4, in_chans=1, num_classes=10, embed_dim=16, num_heads=2, mlp_ratio=2.0, registers=2, depth=3
)
DIGITS = tuple("0123456789")


def teacher(**changes) -> ViT:
    torch.manual_seed(3)
    return ViT(replace(TEACHER, **changes), InputConfig((0.3,), (0.4,), DIGITS, "digits")).eval()


@pytest.fixture(scope="module")
def data():
    sets = load(DataConfig(), image_shape=(8, 8), channels=1)
    return {"train": sets["train"].subset(range(48)), "val": sets["val"].subset(range(30))}


def config(tmp_path, taught: ViT, **changes) -> DistillConfig:
    model, solver = default_student(taught)
    usual = {
        "model": model, "solver": solver, "loss": LossConfig(curvature=0.0),
        "optim": OptimConfig(epochs=2, batch_size=16, lr=3e-3), "out": tmp_path / "run", "device": "cpu",
        "threads": 1, "cache": tmp_path / "cache", "teacher": "given",
    }  # fmt: skip
    return DistillConfig(**(usual | changes))


def batch(data, inputs: InputConfig, n: int = 6):
    return normalise(data["train"].images[:n], inputs.mean, inputs.std), data["train"].labels[:n]


# ------------------------------------------------------------------------------------------------------- what is taken over


@pytest.mark.parametrize("stem", ["patch", "conv"])
def test_a_student_copies_and_freezes_and_starts_where_its_teacher_starts(stem):
    taught = teacher(stem=stem)
    model, solver = default_student(taught)
    student = ODEViT(model, solver, taught.inputs).eval()
    take_over(student, taught, head="teacher")
    shared = {p.data_ptr() for p in taught.parameters()} & {p.data_ptr() for p in student.parameters()}
    assert not shared
    images = torch.randn(2, 1, 8, 8)
    named = slice(0, taught.layout.patches.stop)
    assert torch.equal(student.initial_state(images)[:, named], taught.initial_state(images)[:, named])
    x = torch.randn(2, taught.layout.size, 16)
    assert torch.equal(student.readout(x), taught.readout(x))
    trained = {name.split(".")[0] + "." + name.split(".")[1] for name, p in student.named_parameters() if p.requires_grad}
    assert trained == {"field.blocks", "tokenizer.registers"}
    assert solver.horizon == taught.config.depth and student.inputs.mean == (0.3,)


def test_a_run_leaves_the_teacher_and_what_was_taken_over_as_they_were(tmp_path, data):
    taught = teacher(stem="conv")
    before = {name: tensor.clone() for name, tensor in taught.state_dict().items()}
    run = Distillation(config(tmp_path, taught, optim=OptimConfig(epochs=2, batch_size=16, ema=0.9)), data, taught)
    start = {name: p.clone() for name, p in run.student.named_parameters()}
    run.fit()
    assert all(torch.equal(before[name], tensor) for name, tensor in taught.state_dict().items())
    kept = load_model(tmp_path / "run")
    for name, value in kept.state_dict().items():  # the moving average too
        if name.startswith(("tokenizer.stem", "tokenizer.cls", "tokenizer.positions", "head", "norm")):
            assert torch.equal(value, taught.state_dict()[name]), name
    last = dict(run.trainer.model.named_parameters())
    assert all(torch.equal(p, last[name]) != p.requires_grad for name, p in start.items())


def test_a_teacher_that_changes_is_noticed(tmp_path, data):
    taught = teacher()
    run = Distillation(config(tmp_path, taught), data, taught)
    with torch.no_grad():
        taught.head.bias += 1e-3
    with pytest.raises(RuntimeError, match="the teacher changed while it taught"):
        run.fit()


def test_another_width_sees_the_teacher_through_its_principal_directions(tmp_path, data):
    taught = teacher()
    images, _ = batch(data, taught.inputs)
    basis = principal_map(taught, images, 8)
    torch.testing.assert_close(basis @ basis.T, torch.eye(8))
    states = taught.trajectory(images).x[:, :, : taught.layout.patches.stop].flatten(0, 2).detach()
    energy = torch.linalg.svdvals(states.double()).square()
    kept = (states @ basis.T).square().sum().double() / states.square().sum().double()
    torch.testing.assert_close(kept, energy[:8].sum() / energy.sum(), atol=1e-5, rtol=0)

    model = replace(default_student(taught)[0], embed_dim=8)
    run = Distillation(config(tmp_path, taught, model=model), data, taught)
    x0, y0 = run.student.initial_state(images), taught.initial_state(images)
    named = slice(0, taught.layout.patches.stop)
    torch.testing.assert_close(x0[:, named], y0[:, named] @ run.basis.T)
    assert run.student.head.weight.requires_grad and run.student.head.weight.shape == (10, 8)
    assert run.fit().distance.shape == (4,)
    assert torch.equal(principal_map(taught, images, 20) @ torch.ones(16), torch.tensor([1.0] * 16 + [0.0] * 4))


@pytest.mark.parametrize("changes", [{}, {"blocks": 2}, {"norm": "layer"}, {"attention": "l2"}, {"embed_dim": 8}])
def test_a_fresh_student_is_as_fast_as_its_teacher(data, changes):
    taught = teacher()
    images, _ = batch(data, taught.inputs)
    model, solver = default_student(taught)
    student = ODEViT(replace(model, **changes), solver, taught.inputs).eval()
    basis = principal_map(taught, images, 8) if "embed_dim" in changes else None
    take_over(student, taught, head="teacher", basis=basis)
    calibrate(student, taught, images, basis)
    stop = taught.layout.patches.stop
    states = taught.trajectory(images).x[:, :, :stop].detach() @ (torch.eye(16) if basis is None else basis).T
    own = student.initial_state(images)[:, student.layout.registers]
    for t in (0.1, 2.9):
        moves = torch.stack([student.field(t, torch.cat([x, own], 1))[:, :stop] for x in states[:-1]])
        torch.testing.assert_close(moves.square().mean(), states.diff(dim=0).square().mean())


# ------------------------------------------------------------------------------------------------------------------ the terms


def matching(taught: ViT, match: MatchConfig, loss: LossConfig | None = None, steps: int = 6) -> Matching:
    model, solver = default_student(taught)
    torch.manual_seed(5)
    student = ODEViT(model, replace(solver, steps=steps), taught.inputs)
    take_over(student, taught, head="teacher")
    loss = loss or LossConfig(curvature=0.0, label_smoothing=0.0)
    return Matching(student, Lessons(taught, match), (1.0, 2.0, 3.0), match, loss)


SILENT = {"trajectory": 0.0, "attention": 0.0, "logits": 0.0, "ce": 0.0}
TERMS = {
    "trajectory": MatchConfig(**SILENT | {"trajectory": 1.0}),
    "trajectory, all tokens": MatchConfig(**SILENT | {"trajectory": 1.0}, tokens="all"),
    "trajectory, end": MatchConfig(**SILENT | {"trajectory": 1.0}, points="last"),
    "attention": MatchConfig(**SILENT | {"attention": 1.0}),
    "attention, every layer": MatchConfig(**SILENT | {"attention": 1.0}, attention_points="all"),
    "logits": MatchConfig(**SILENT | {"logits": 1.0}),
}


@pytest.mark.parametrize("term", TERMS)
def test_every_term_moves_the_block(data, term):
    taught = teacher()
    objective = matching(taught, TERMS[term])
    terms = objective(*batch(data, taught.inputs), objective.model.grid)
    terms["loss"].backward()
    attention = objective.model.field.blocks[0].attn
    for layer in (attention.q, attention.k):
        assert float(layer.weight.grad.abs().max()) > 1e-8, term
    assert all(p.grad is None for p in taught.parameters())
    assert objective.model.head.weight.grad is None


def test_jasmin_and_curvature_move_the_block_beside_a_silent_teacher(data):
    taught = teacher()
    for loss in (LossConfig(curvature=0.0, jasmin=1.0), LossConfig(curvature=1.0)):
        objective = matching(taught, replace(TERMS["logits"], logits=1e-12), loss)
        objective(*batch(data, taught.inputs), objective.model.grid)["loss"].backward()
        assert float(objective.model.field.blocks[0].attn.q.weight.grad.abs().max()) > 1e-6


def test_the_loss_is_the_weighted_sum_once_and_does_not_know_the_size_of_the_batch(data):
    taught = teacher()
    match = MatchConfig(trajectory=0.7, attention=0.3, logits=0.5, ce=0.2, tokens="all", attention_points="all")
    objective = matching(taught, match, LossConfig(curvature=0.11, jasmin=0.13, label_smoothing=0.0))
    images, labels = batch(data, taught.inputs)
    terms = objective(images, labels, objective.model.grid)
    weights = {"trajectory": 0.7, "attention": 0.3, "logits": 0.5, "ce": 0.2, "curvature": 0.11, "jasmin": 0.13}
    torch.testing.assert_close(terms["loss"], sum(w * terms[name] for name, w in weights.items()))
    twice = objective(torch.cat([images, images]), torch.cat([labels, labels]), objective.model.grid)
    for name in ("loss", *weights):
        torch.testing.assert_close(twice[name], terms[name], msg=name)


def test_cross_entropy_joins_in_its_epoch(data):
    taught = teacher()
    objective = matching(taught, MatchConfig(ce=2.0, ce_from=3))
    images, labels = batch(data, taught.inputs)
    early, late = (objective(images, labels, objective.model.grid, None, epoch) for epoch in (2, 3))
    torch.testing.assert_close(early["loss"], early["trajectory"])
    torch.testing.assert_close(late["loss"], late["trajectory"] + 2 * late["ce"])


def test_a_student_that_is_its_teacher_has_nothing_to_learn(data):
    """A teacher of equal parallel layers with CenterNorm is the student's own Euler solution."""
    taught = teacher(block="parallel", norm="center", bias=False)
    with torch.no_grad():
        for block in taught.field.blocks[1:]:
            block.load_state_dict(taught.field.blocks[0].state_dict())
    objective = matching(taught, MatchConfig(1.0, "all", "all", 1.0, "all", 1.0), steps=3)
    images, labels = batch(data, taught.inputs)
    start = float(objective(images, labels, objective.model.grid)["trajectory"].detach())
    objective.model.field.blocks[0].load_state_dict(taught.field.blocks[0].state_dict())
    terms = objective(images, labels, objective.model.grid)
    assert start > 0.01
    for name in ("trajectory", "attention", "logits"):
        assert float(terms[name].detach()) == pytest.approx(0.0, abs=1e-6), name
    with torch.no_grad():
        pair = compare(taught, objective.model, data["val"], (1.0, 2.0, 3.0))
    assert pair.agreement == 1.0 and pair.distance.max() < 1e-5 and pair.overlap.min() > 1 - 1e-5
    assert pair.teacher_accuracy == pair.student_accuracy


def test_closed_forms_of_the_terms():
    x = torch.randn(3, 4, 2, 5)
    assert float(losses.trajectory_matching(x, x)) == 0
    assert float(losses.trajectory_matching(torch.zeros_like(x), x)) == pytest.approx(1)
    scaled = x * torch.tensor([1.0, 10.0, 100.0]).view(3, 1, 1, 1)  # every control point has the same say
    assert float(losses.trajectory_matching(1.1 * scaled, scaled)) == pytest.approx(0.01, rel=1e-4)
    p = torch.tensor([1.0, 0.0, 0.0]).expand(2, 3, 4, 3)
    q = torch.tensor([0.0, 0.5, 0.5]).expand(2, 3, 4, 3)
    assert float(losses.attention_matching(p, q)) == 2 and float(losses.attention_matching(p, p)) == 0
    heads = torch.stack([p[:, :, 0], q[:, :, 0]], 2)
    assert float(losses.attention_matching(heads, (p[:, :, :1] + q[:, :, :1]) / 2)) == 0
    a, b = torch.randn(2, 6, 10, dtype=torch.float64)
    soft = (b / 3).softmax(-1)
    expected = 9 * (soft * (soft.log() - (a / 3).log_softmax(-1))).sum(-1).mean()
    torch.testing.assert_close(losses.logit_distillation(a, b, 3.0), expected)
    maps = torch.rand(2, 5, 7, 7)
    rows = looks_of_cls(maps, teacher().layout)
    torch.testing.assert_close(rows.sum(-1), torch.ones(2, 5))
    torch.testing.assert_close(rows, maps[:, :, 0, 1:5] / maps[:, :, 0, 1:5].sum(-1, keepdim=True))


# ------------------------------------------------------------------------------------------------------------- kept on disk


@pytest.mark.parametrize("width", [16, 8])
def test_kept_lessons_are_those_that_are_asked_for(tmp_path, data, width):
    taught = teacher()
    match = MatchConfig(attention=1.0, attention_points="all", tokens="all")
    basis = None if width == 16 else principal_map(taught, batch(data, taught.inputs)[0], width)
    asked, kept = Lessons(taught, match, basis), Lessons(taught, match, basis)
    kept.keep(data["train"], tmp_path, "k", batch_size=20)
    ids = torch.tensor([5, 0, 47, 21])
    images = normalise(data["train"].images[ids], taught.inputs.mean, taught.inputs.std)
    for a, b in zip(asked(images), kept(images, ids)):
        assert a.shape == b.shape
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-5)
    assert [p.name for p in tmp_path.iterdir()] == ["lessons-k.npy"]


def test_lessons_are_kept_without_augmentation_only_and_shared_between_seeds(tmp_path, data):
    taught = teacher()
    Distillation(config(tmp_path, taught, data=DataConfig(flip=True)), data, taught)
    assert not list((tmp_path / "cache").glob("lessons*"))
    for seed in (0, 1):
        Distillation(config(tmp_path, taught, seed=seed), data, taught)
    assert len(list((tmp_path / "cache").glob("lessons*"))) == 1
    assert len(list((tmp_path / "cache").glob("distances*"))) == 1


def test_a_resumed_run_ends_with_the_same_bits(tmp_path, data):
    taught, ends = teacher(), []
    for name, cut in (("whole", False), ("cut", True)):
        c = config(tmp_path, taught, out=tmp_path / name, data=DataConfig(flip=True))
        if cut:
            run = Distillation(c, data, taught)
            run.trainer._finish_epoch = lambda *_: (_ for _ in ()).throw(KeyboardInterrupt)
            run.trainer._save_state()
            with pytest.raises(KeyboardInterrupt):
                run.fit()
            c = replace(c, resume=True)
        run = Distillation(c, data, taught)
        run.fit()
        ends.append(run.trainer.model.state_dict())
    assert all(torch.equal(a, b) for a, b in zip(ends[0].values(), ends[1].values()))
    with pytest.raises(UserError, match=r"another match.trajectory \(1.0, now 2.0\)"):
        Distillation(replace(c, match=MatchConfig(trajectory=2.0)), data, taught)


def test_what_config_json_says_of_a_distillation(tmp_path, data):
    taught = teacher()
    save_model(taught, tmp_path / "teacher")
    c = config(tmp_path, taught, teacher=str(tmp_path / "teacher"))
    Distillation(c, data).fit()
    known = read_config(tmp_path / "run")["training"]
    assert known["teacher_hash"] == model_hash(taught)
    assert known["control_points"][-1] == 3 and len(known["teacher_distances"]) == 3
    assert known["losses"] == "1 x trajectory (cls, all) + 1 x cross-entropy (from epoch 1, label smoothing 0.1)"
    from app.distill_command import _config

    words = shlex.split(known["command"])
    assert words[:2] == ["odevit", "distill"]
    assert _config(words[2:])[0] == c


# ------------------------------------------------------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"solver": SolverConfig("euler", 3.0, 2)}, "solver.steps: 2 cannot hold 3 control points, one a layer; use 3 or more"),
        ({"solver": SolverConfig("euler", 4.0, 8)}, "solver.horizon: 4, but T is the depth of the teacher, 3"),
        ({"model.num_classes": 4}, "model.num_classes: 4, but the teacher's head has 10; use that or --head new"),
        ({"model.img_size": 16}, "model.img_size: 16, but the teacher has 8"),
        ({"preset": "odevit_digits"}, "preset: odevit_digits, but a student follows from its teacher"),
        ({"random_steps": 1}, "random_steps: control points lie on steps"),
        ({"model": ViTConfig()}, "model: a student is an ODE-ViT"),
        ({"match": {"trajectory": 0.0}}, "match: trajectory, attention and logits are all 0"),
        ({"match": {"trajectory": -1.0}}, "match.trajectory: -1.0 must be 0 or more"),
        ({"match": {"temperature": 0.0}}, "match.temperature: 0.0 must be positive"),
        ({"match": {"ce_from": 2}}, "match.ce_from: 2 of 2 epochs leaves none with cross-entropy"),
        ({"match": {"logits": 1.0}, "head": "new"}, "match.logits: a new head has other classes"),
        ({"match": {"ce": 0.0}, "head": "new"}, "match.ce: 0 leaves a new head untrained"),
    ],
)
def test_a_config_that_makes_no_sense_is_refused(tmp_path, data, changes, message):
    taught = teacher()
    model = default_student(taught)[0]
    parts = {name.partition(".")[2]: changes.pop(name) for name in list(changes) if name.startswith("model.")}
    changes = {"model": replace(model, **parts), **changes} if parts else dict(changes)
    with pytest.raises(UserError, match=message):
        if "match" in changes:
            changes["match"] = MatchConfig(**changes["match"])
        Distillation(config(tmp_path, taught, **changes), data, taught)


def test_teachers_whose_head_does_not_fit(tmp_path, data):
    taught = teacher()
    with pytest.raises(UserError, match="the teacher has 10 classes, the data 3; --head new gives the student a head"):
        class_order(taught, ("a", "b", "c"))
    with pytest.raises(UserError, match="it does not know these classes of the data: ten; use --head new or rename them"):
        class_order(taught, (*DIGITS[:9], "ten"))
    assert class_order(taught, DIGITS) is None and class_order(taught, DIGITS[::-1]) == DIGITS
    with pytest.raises(UserError, match="teacher: none given"):
        load_teacher(config(tmp_path, taught, teacher=""))
    save_model(teachers_without_head(), tmp_path / "bare")
    bare = config(tmp_path, taught, teacher=str(tmp_path / "bare"))
    with pytest.raises(UserError, match="has no trained head to take over; use --head new"):
        load_teacher(bare)
    run = Distillation(replace(bare, head="new"), data)
    assert run.student.head.weight.requires_grad and not run.student.norm.weight.requires_grad
    conv = teacher(stem="conv")
    with pytest.raises(UserError, match="a convolutional stem cannot be mapped to another width"):
        check_student(replace(default_student(conv)[0], embed_dim=8), conv.solver, conv, "teacher")


def teachers_without_head() -> ViT:
    model = teacher()
    with torch.no_grad():
        model.head.weight.zero_()
        model.head.bias.zero_()
    return model


@pytest.mark.slow
def test_the_command_line(tmp_path, capsys):
    from app.cli import main

    save_model(teacher(), tmp_path / "teacher")
    common = ["distill", "--teacher", str(tmp_path / "teacher"), "--optim.epochs", "1", "--threads", "1", "--cache", "None"]
    assert main([*common, "--out", str(tmp_path / "run"), "--model.mlp-ratio", "1", "--solver.steps", "3"]) == 0
    out = capsys.readouterr().out
    assert "control points at t = 1, 2, 3" in out and "the teacher is unchanged" in out
    assert isinstance(load_model(tmp_path / "run").config, ODEViTConfig)
    assert main([*common, "--out", str(tmp_path / "x"), "--solver.steps", "2"]) == 2
    assert "solver.steps: 2 cannot hold 3 control points" in capsys.readouterr().err
    with pytest.raises(UserError, match="holds an ODEViT; a teacher is a discrete ViT"):
        teachers.load(tmp_path / "run")
