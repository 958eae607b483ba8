"""The discrete ViT: layers read as Euler steps give exactly the loop that everybody writes."""

import problems
import pytest
import torch
import torch.nn.functional as F

from odevit import TimeGrid, UserError, ViT, ViTConfig, create_model
from odevit.config import TrainConfig, preset

SMALL = {"img_size": 8, "embed_dim": 8, "num_heads": 2, "registers": 2, "depth": 3}


def small(**config) -> ViT:
    """A ViT with random weights, norms, biases and LayerScale, in float64."""
    model = ViT(ViTConfig(**(SMALL | config)))
    problems.randomise(model, 0.7, torch.Generator().manual_seed(0))
    return model.double().eval()


def images(seed: int = 1) -> torch.Tensor:
    return torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def written_by_hand(model: ViT, x: torch.Tensor) -> list[torch.Tensor]:
    """Hidden states by the pre-norm loop with torch's own multi-head attention, layer norm and GELU."""
    states, dim = [x], x.shape[-1]
    for block in model.field.blocks:
        a, m = block.attn, block.mlp

        def attend(x, block=block, a=a):
            y = F.layer_norm(x, (dim,), block.norm1.weight, block.norm1.bias, 1e-6).transpose(0, 1)
            stacked = [torch.cat([getattr(a.q, k), getattr(a.k, k), getattr(a.v, k)]) for k in ("weight", "bias")]
            out, _ = F.multi_head_attention_forward(
                y, y, y, dim, a.num_heads, *stacked, None, None, False, 0.0, a.proj.weight, a.proj.bias, need_weights=False
            )
            return out.transpose(0, 1) * (1 if block.scale1 is None else block.scale1)

        def feed(x, block=block, m=m):
            y = F.layer_norm(x, (dim,), block.norm2.weight, block.norm2.bias, 1e-6)
            return m.fc2(F.gelu(m.fc1(y))) * (1 if block.scale2 is None else block.scale2)

        if model.config.block == "sequential":
            x = x + attend(x)
            x = x + feed(x)
        else:
            x = x + attend(x) + feed(x)
        states.append(x)
    return states


@pytest.mark.parametrize("block", ["sequential", "parallel"])
@pytest.mark.parametrize("layer_scale", [False, True])
def test_the_trajectory_is_the_hidden_states_of_the_usual_loop(block, layer_scale):
    model, x = small(block=block, layer_scale=layer_scale), images()
    solved = model.trajectory(x)
    assert solved.t.tolist() == [0.0, 1.0, 2.0, 3.0]
    assert (solved.method, solved.h, solved.nfe) == ("discrete", 1.0, 3)
    expected = torch.stack(written_by_hand(model, model.initial_state(x)))
    assert float((solved.x - expected).abs().max()) < 1e-12


def test_blocks_differ_and_are_visited_in_order():
    model, x = small(), images()
    states = model.trajectory(x).x
    for k, block in enumerate(model.field.blocks):
        assert torch.allclose(states[k + 1], states[k] + block(states[k]), rtol=0, atol=1e-13)
        others = [b for b in model.field.blocks if b is not block]
        assert all(not torch.allclose(states[k + 1], states[k] + b(states[k])) for b in others)


def test_the_last_hidden_state_is_before_the_final_norm():
    """Defect 14: explicit here, whatever a library version does."""
    model, x = small(), images()
    end = written_by_hand(model, model.initial_state(x))[-1]
    normed = F.layer_norm(end[:, 0], (8,), model.norm.weight, model.norm.bias, 1e-6)
    assert torch.allclose(model(x), F.linear(normed, model.head.weight, model.head.bias), rtol=0, atol=1e-12)
    assert not torch.allclose(model(x), model.head(end[:, 0]))


def test_without_final_norm_the_head_reads_the_state():
    model, x = small(final_norm=False), images()
    assert torch.allclose(model(x), model.head(model.trajectory(x).x[-1][:, 0]), rtol=0, atol=1e-13)


def test_other_grids_read_the_layers_as_a_piecewise_field():
    model, x = small(), images()
    fine = model.trajectory(x, TimeGrid(0.0, 3.0, 6))
    assert (fine.method, fine.h) == ("euler", 0.5)
    x0 = model.initial_state(x)
    assert torch.allclose(fine.x[1], x0 + 0.5 * model.field.blocks[0](x0), rtol=0, atol=1e-13)
    with pytest.raises(UserError, match="^steps: with 4 steps no step ends at t = 1, where the field changes its block$"):
        model.trajectory(x, TimeGrid(0.0, 3.0, 4))
    assert model.trajectory(x, method="euler").method == "euler"


def test_solver_is_the_depth_and_nothing_else():
    """A solver that a discrete ViT would ignore is refused."""
    model = create_model("vit_digits", depth=2)
    assert (model.solver.method, model.solver.horizon, model.solver.steps) == ("euler", 2.0, 2)
    assert model.field.breaks == (1.0,) and preset("vit_digits", depth=2)[1] == model.solver
    with pytest.raises(UserError, match="^steps: a discrete ViT is not solved but has layers; set depth"):
        create_model("vit_digits", steps=8)
    with pytest.raises(UserError, match="^solver.method: rk4, but a discrete ViT is not solved"):
        TrainConfig(model=ViTConfig(), solver=create_model("odevit_digits", method="rk4").solver)
