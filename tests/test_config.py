"""Configs: every preset survives the round trip, every mistake is named with its nearest neighbour, nothing is ignored."""

import ast
import dataclasses
import json
import math
from pathlib import Path

import numpy as np
import pytest

import odevit.config
from odevit import InputConfig, ODEViTConfig, SolverConfig, TrainConfig, UserError, ViTConfig, list_models
from odevit.config import PRESETS, DataConfig, LossConfig, OptimConfig, from_dict, nearest, preset, to_dict

CONFIGS = [ODEViTConfig, ViTConfig, SolverConfig, InputConfig, DataConfig, LossConfig, OptimConfig, TrainConfig]


def refused(call) -> str:
    with pytest.raises(UserError) as error:
        call()
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("name", list_models())
def test_every_preset_survives_the_round_trip_through_json(name):
    model, solver = preset(name)
    again = from_dict(type(model), json.loads(json.dumps(to_dict(model))))
    assert again == model and from_dict(SolverConfig, json.loads(json.dumps(to_dict(solver)))) == solver
    run = TrainConfig(preset=name, model=model, solver=solver, out=Path("runs/x"))
    assert from_dict(TrainConfig, json.loads(json.dumps(to_dict(run)))) == run


def test_tuples_and_rectangles_survive_the_round_trip():
    for config in (ViTConfig(img_size=(16, 32)), InputConfig((0.1,), (0.2,), ("cat", "dog"), "pets")):
        assert from_dict(type(config), json.loads(json.dumps(to_dict(config)))) == config
    assert from_dict(ODEViTConfig, {"mlp_ratio": 4}).mlp_ratio == 4.0
    assert type(from_dict(ODEViTConfig, {"registers": np.int64(3)}).registers) is int


@pytest.mark.parametrize(("data", "said"), [
    ({"registrs": 3}, "config: unknown key 'registrs', did you mean registers?"),
    ({"xyz": 3}, "config: unknown key 'xyz'"),
    ({"registers": "3"}, "config.registers: '3' is not int"),
    ({"registers": 3.0}, "config.registers: 3.0 is not int"),
    ({"registers": True}, "config.registers: True is not int"),
    ({"bias": 1}, "config.bias: 1 is not bool"),
    ({"mlp_ratio": None}, "config.mlp_ratio: None is not float"),
    ({"img_size": "big"}, "config.img_size: 'big' is not int"),
    ({"img_size": [8, 8, 8]}, "config.img_size: [8, 8, 8] is not int"),
    ({"norm": "centre"}, "config.norm: unknown 'centre', did you mean center? (known: center, layer, none)"),
    ([1], "config: expected an object, got list"),
])  # fmt: skip
def test_unknown_keys_and_wrong_types_are_named_with_their_place(data, said):
    assert refused(lambda: from_dict(ODEViTConfig, data)) == said


def test_nested_mistakes_are_named_by_their_dotted_path():
    plain = to_dict(TrainConfig())
    plain["optim"]["lr"] = "fast"
    assert refused(lambda: from_dict(TrainConfig, plain, "run")) == "run.optim.lr: 'fast' is not float"
    plain = to_dict(TrainConfig(model=ViTConfig(), solver=ViTConfig().solver))
    plain["model"]["depht"] = plain["model"].pop("depth")  # complaint of the kind of model that it looks like
    assert refused(lambda: from_dict(TrainConfig, plain)) == "config.model: unknown key 'depht', did you mean depth?"


@pytest.mark.parametrize(("kind", "change", "said"), [
    (ODEViTConfig, {"num_heads": 3}, "num_heads: 3 does not divide embed_dim 128"),
    (ODEViTConfig, {"img_size": 30}, "img_size: 30 is not divisible by patch_size 4"),
    (ODEViTConfig, {"img_size": 0}, "img_size: 0 is not divisible by patch_size 4"),
    (ODEViTConfig, {"img_size": 30, "patch_size": 6, "stem": "conv"}, "patch_size: 6 is not a power of two"),
    (ODEViTConfig, {"attention": "l3"}, "attention: unknown 'l3', did you mean l2? (known: dot, l2, cosine)"),
    (ODEViTConfig, {"stem": "patches"}, "stem: unknown 'patches', did you mean patch?"),
    (ODEViTConfig, {"num_classes": 1}, "num_classes: 1; a classifier needs at least 2"),
    (ODEViTConfig, {"registers": -1}, "registers: -1 must be 0 or more"),
    (ODEViTConfig, {"blocks": 0}, "blocks: 0 must be at least 1"),
    (ODEViTConfig, {"time_frequencies": -1}, "time_frequencies: -1 must be 0 or more"),
    (ODEViTConfig, {"mlp_ratio": math.nan}, "mlp_ratio: nan must be positive and finite"),
    (ODEViTConfig, {"norm_eps": -1e-6}, "norm_eps: -1e-06 must be positive and finite"),
    (ODEViTConfig, {"embed_dim": 1, "num_heads": 1}, "embed_dim: 1; a normalisation over channels needs at least 2"),
    (ViTConfig, {"depth": 0}, "depth: 0 must be at least 1"),
    (ViTConfig, {"block": "serial"}, "block: unknown 'serial'"),
    (ViTConfig, {"activation": "relu"}, "activation: unknown 'relu'"),
    (SolverConfig, {"horizon": 0.0}, "horizon: 0.0 must be positive and finite"),
    (SolverConfig, {"horizon": math.nan}, "horizon: nan must be positive and finite"),
    (SolverConfig, {"steps": 0}, "steps: 0 must be at least 1"),
    (SolverConfig, {"rtol": 0.0}, "rtol: 0.0 must be positive"),
    (InputConfig, {"mean": (0.5,)}, "data.mean has 1 values, data.std 3"),
    (InputConfig, {"std": (0.5, 0.0, 1.0)}, "data.std: (0.5, 0.0, 1.0) must be positive and finite"),
    (DataConfig, {"bad_images": "skipp"}, "data.bad_images: unknown 'skipp', did you mean skip?"),
    (DataConfig, {"erasing": 1.5}, "data.erasing: 1.5 is not between 0 and 1"),
    (DataConfig, {"mixup": math.nan}, "data.mixup: nan must be 0 or more"),
    (LossConfig, {"label_smoothing": 1.0}, "loss.label_smoothing: 1.0 is not in [0, 1)"),
    (LossConfig, {"curvature": -1.0}, "loss.curvature: -1.0 must be 0 or more"),
    (LossConfig, {"jasmin": 0.1, "jasmin_k": 1}, "loss.jasmin_k: 1 makes JaSMin identically 0"),
    (LossConfig, {"jasmin_window": 0.0}, "loss.jasmin_window: 0.0 is not in (0, 1]"),
    (OptimConfig, {"batch_size": 10, "accumulate": 3}, "optim.accumulate: 3 does not divide batch_size 10"),
    (OptimConfig, {"lr": math.nan}, "optim.lr: nan must be positive"),
    (OptimConfig, {"weight_decay": -0.1}, "optim.weight_decay: -0.1 must be 0 or more"),
    (OptimConfig, {"ema": 1.0}, "optim.ema: 1.0 is not in [0, 1)"),
])  # fmt: skip
def test_configs_that_make_no_sense_do_not_exist(kind, change, said):
    assert refused(lambda: kind(**change)).startswith(said)


DOPRI5, NO_PENALTY = SolverConfig(method="dopri5"), LossConfig(curvature=0.0)


@pytest.mark.parametrize(("change", "said"), [
    ({"amp": "fp16"}, "amp: unknown 'fp16'"),
    ({"segments": -1}, "segments and random_steps must be 0 or more"),
    ({"solver": DOPRI5, "loss": NO_PENALTY, "amp": "bf16"}, "amp: bf16 rounding looks like error to dopri5"),
    ({"solver": DOPRI5, "loss": NO_PENALTY, "segments": 2}, "segments: 2, but dopri5 chooses its own steps"),
    ({"solver": DOPRI5, "loss": NO_PENALTY, "random_steps": 2}, "random_steps: 2, but dopri5 chooses its own steps"),
    ({"solver": DOPRI5}, "loss.curvature: 0.1, but dopri5 chooses its own steps"),
    ({"random_steps": 6}, "random_steps: 6 must be below solver.steps 6"),
    ({"random_steps": 5}, "loss.curvature: needs 2 steps in each batch, not 1"),
    ({"solver": SolverConfig(method="strang"), "loss": LossConfig(jasmin=0.1)}, "loss.jasmin: reads the maps of whole"),
    ({"solver": SolverConfig(steps=1)}, "loss.curvature: needs 2 steps in each batch, not 1"),
    ({"model": ODEViTConfig(blocks=2), "random_steps": 1}, "random_steps: 1, but 2 blocks must divide the steps"),
    ({"model": ViTConfig(), "random_steps": 1}, "random_steps: 1, but 6 blocks must divide the steps"),
    ({"model": ViTConfig(), "solver": DOPRI5}, "solver.method: dopri5, but a discrete ViT is not solved"),
])  # fmt: skip
def test_runs_that_would_fail_in_the_first_batch_are_refused_before_it(change, said):
    """T04 and the smell 'an option that nothing reads'."""
    assert refused(lambda: TrainConfig(**change)).startswith(said)


def test_sound_runs_pass_the_cross_checks():
    TrainConfig(solver=DOPRI5, loss=NO_PENALTY)
    TrainConfig(random_steps=4, segments=3, amp="bf16")
    TrainConfig(model=ViTConfig(depth=3), solver=ViTConfig(depth=3).solver)


def test_presets_are_those_of_the_design():
    """Section 3: tiny D 128, 4 heads, ratio 2, T 6; small D 192, 3 heads, ratio 4, T 12; base D 768, 12 heads, 10 registers."""
    keys = ("embed_dim", "num_heads", "mlp_ratio", "registers", "img_size", "patch_size", "blocks")
    for name, expected in {
        "odevit_tiny_patch4_32": (128, 4, 2.0, 4, 32, 4, 1, 6.0, 6),
        "odevit_tiny_conv_32": (128, 4, 2.0, 4, 32, 4, 1, 6.0, 6),
        "odevit_small_conv_32": (192, 3, 4.0, 4, 32, 4, 1, 12.0, 12),
        "odevit_base_patch16_224": (768, 12, 4.0, 10, 224, 16, 1, 12.0, 36),
    }.items():
        model, solver = PRESETS[name]
        assert (*(getattr(model, k) for k in keys), solver.horizon, solver.steps) == expected
        assert (solver.method, model.norm, model.bias, model.final_norm) == ("euler", "center", False, False)
    assert list_models("odevit_tiny*") == ["odevit_tiny_conv_32", "odevit_tiny_patch4_32"]


def test_the_nearest_name_ignores_case_and_gives_up_on_nonsense():
    assert nearest("RK4", ["euler", "rk4"]) == ", did you mean rk4?"
    assert nearest("qqq", ["euler", "rk4"]) == ""


@pytest.mark.parametrize("config", CONFIGS)
def test_every_field_has_a_sentence_under_it(config):
    """The help of the command line is made of them."""
    found = {}
    for file in Path(odevit.config.__file__).parent.glob("*.py"):
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                found[node.name] = [
                    a.target.id for a, b in zip(node.body, node.body[1:])
                    if isinstance(a, ast.AnnAssign) and isinstance(b, ast.Expr) and isinstance(b.value, ast.Constant)
                ]  # fmt: skip
    explained = {name for base in config.__mro__ for name in found.get(base.__name__, [])}
    assert {f.name for f in dataclasses.fields(config)} <= explained
    assert dataclasses.is_dataclass(config) and config.__dataclass_params__.frozen
