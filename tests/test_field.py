"""The vector field: F + G whichever way it is computed, CenterNorm, purity, precision, and derivatives of every kind."""

import problems
import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from odevit import ODEViTConfig, ViTConfig
from odevit.field import Block, CenterNorm, VectorField

KINDS = ["dot", "l2", "cosine"]


def state(n: int = 6, dim: int = 8, seed: int = 1) -> torch.Tensor:
    return torch.randn(2, n, dim, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def field(time: int = 0, blocks: int = 1, seed: int = 0, discrete: bool = False, **config) -> VectorField:
    """A field with random weights, gamma, beta and biases, in float64."""
    kind = ViTConfig if discrete else ODEViTConfig
    made = VectorField(kind(embed_dim=8, num_heads=2, **config), blocks, horizon=2.0, time_frequencies=time)
    problems.randomise(made, 1.0, torch.Generator().manual_seed(seed))
    return made.double()


@pytest.mark.parametrize("norm", ["center", "layer", "none"])
@pytest.mark.parametrize("attention", KINDS)
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("time", [0, 2])
def test_the_field_is_the_sum_of_its_parts(norm, attention, bias, time):
    """The folded product is F + G, with the norms, biases and the shift in time where they belong."""
    f, x, t = field(time, norm=norm, attention=attention, bias=bias), state(), 0.7
    block = f.blocks[0]
    shift = 0.0 if f.shift(t) is None else f.shift(t)
    mlp = block.mlp.fc2(torch.nn.functional.gelu(block.mlp.fc1(block.norm2(x) + shift)))
    parts = f.attention_part(x, t) + f.mlp_part(x, t)
    assert torch.allclose(f.mlp_part(x, t), mlp, rtol=0, atol=1e-12)
    assert torch.allclose(f.attention_part(x, t), block.attn(block.norm1(x) + shift), rtol=0, atol=1e-12)
    assert torch.allclose(f(t, x), parts, rtol=0, atol=1e-12)
    velocity, maps = f.with_maps(t, x)
    assert torch.allclose(velocity, parts, rtol=0, atol=1e-12)
    assert torch.allclose(maps, f.attention(t, x), rtol=0, atol=1e-12)


@pytest.mark.parametrize("activation", ["gelu", "gelu_tanh", "quick_gelu"])
def test_activations_are_their_formulas(activation):
    mlp = Block(ViTConfig(embed_dim=8, num_heads=2, activation=activation)).mlp
    z = torch.linspace(-6, 6, 49, dtype=torch.float64)
    exact = {
        "gelu": z * torch.special.ndtr(z),
        "gelu_tanh": z / 2 * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (z + 0.044715 * z**3))),
        "quick_gelu": z / (1 + torch.exp(-1.702 * z)),
    }
    assert torch.allclose(mlp.act(z), exact[activation], rtol=0, atol=1e-14)
    assert all(not torch.allclose(mlp.act(z), exact[k], rtol=0, atol=1e-6) for k in exact if k != activation)


def test_center_norm_is_its_matrix():
    norm = CenterNorm(5).double()
    problems.randomise(norm, 1.0, torch.Generator().manual_seed(0))
    with torch.no_grad():
        norm.gamma.copy_(torch.tensor([1.0, -2.0, 0.5, 3.0, 0.1]))
    x = state(dim=5)
    assert torch.allclose(norm(x), x @ norm.matrix().T + norm.beta, rtol=0, atol=1e-14)
    assert float((norm.matrix() @ torch.ones(5, dtype=torch.float64)).abs().max()) < 1e-14
    assert torch.linalg.matrix_norm(norm.matrix(), 2) <= 5 / 4 * 3.0


@pytest.mark.parametrize("dim", [2, 192])
def test_center_norm_is_not_one_lipschitz(dim):
    """Theory 2.1: D/(D-1), which is 1.00524 for D = 192, D - 1 times, and 0 once."""
    values = torch.linalg.svdvals(CenterNorm(dim).double().matrix())
    assert torch.allclose(values[:-1], torch.full((dim - 1,), dim / (dim - 1), dtype=torch.float64))
    assert float(values[-1]) < 1e-12


@pytest.mark.parametrize("attention", KINDS)
def test_center_normed_fields_do_not_see_the_mean_of_a_token(attention):
    """Theory 1.2: f(x + a (x) 1) = f(x) for any a per token."""
    f, x = field(1, attention=attention), state()
    moved = x + torch.randn(2, 6, 1, generator=torch.Generator().manual_seed(3), dtype=torch.float64) * 10
    assert torch.allclose(f(0.3, moved), f(0.3, x), rtol=0, atol=1e-12)


@pytest.mark.parametrize("norm", ["center", "layer", "none"])
@pytest.mark.parametrize("attention", KINDS)
def test_fields_are_pure_and_permutation_equivariant(norm, attention):
    f, x = field(1, norm=norm, attention=attention), state()
    first = f.train()(0.4, x)
    before = {k: v.clone() for k, v in f.state_dict().items()}
    f.attention(0.4, x), f(1.1, 2 * x)
    assert torch.equal(f.eval()(0.4, x), first)
    assert all(torch.equal(v, before[k]) for k, v in f.state_dict().items())
    assert not [name for name, value in vars(f.blocks[0].attn).items() if isinstance(value, torch.Tensor)]  # no stored maps
    order = [3, 0, 5, 1, 4, 2]
    assert torch.allclose(f(0.4, x[:, order]), first[:, order], rtol=0, atol=1e-12)
    assert torch.allclose(f(0.4, x[:1]), first[:1], rtol=0, atol=1e-12)


def test_the_shift_in_time_is_periodic_and_smooth():
    f, x = field(3), state()
    assert torch.allclose(f(0.25, x), f(2.25, x), rtol=0, atol=1e-12) and not torch.allclose(f(0.25, x), f(0.5, x))
    m, t = torch.arange(1, 4, dtype=torch.float64), 0.3
    angle = 2 * torch.pi * m * t / 2.0
    expected = angle.sin() @ f.time_weight[:3] + angle.cos() @ f.time_weight[3:]
    assert torch.allclose(f.shift(t), expected, rtol=0, atol=1e-14)
    assert not f.autonomous and field().autonomous and not field(blocks=2).autonomous


def test_blocks_take_turns():
    f, x = field(blocks=4), state()
    assert f.breaks == (0.5, 1.0, 1.5)
    assert [f.index_at(t) for t in (-1.0, 0.0, 0.49, 0.5, 1.2, 1.5, 2.0, 9.0)] == [0, 0, 0, 1, 2, 3, 3, 3]
    for t, block in ((0.1, 0), (0.6, 1), (1.9, 3)):
        alone = f.blocks[block](x)
        assert torch.equal(f(t, x), alone) and torch.equal(f.piece(t)(1.0, x), alone)
        assert torch.equal(f.attention(t, x), f.blocks[block].maps(x))
    odd = VectorField(ODEViTConfig(embed_dim=8, num_heads=2), blocks=7, horizon=0.7)
    assert [odd.index_at(t) for t in odd.breaks] == [1, 2, 3, 4, 5, 6]  # at a break, the later one, whatever the rounding


@pytest.mark.parametrize("discrete", [False, True])
@pytest.mark.parametrize("attention", KINDS)
@pytest.mark.parametrize("norm", ["center", "layer"])
def test_bf16_products_stay_close_and_the_value_stays_float32(discrete, attention, norm):
    f = field(0, attention=attention, norm=norm, discrete=discrete).float()
    x = state(n=17).float()
    exact = f(0.0, x)
    f.compute_dtype = torch.bfloat16
    parts = f.attention_part(x), f.mlp_part(x)
    assert f(0.0, x).dtype == f.with_maps(0.0, x)[0].dtype == parts[0].dtype == parts[1].dtype == torch.float32
    error = float((f(0.0, x) - exact).norm() / exact.norm())
    assert 1e-5 < error < 0.03  # the products are rounded, and no more than that


CONFIGS = [
    {"attention": kind, "norm": norm, "bias": bias, "time": time}
    for kind in KINDS for norm in ("center", "layer", "none") for bias, time in ((False, 0), (True, 2))
] + [{"discrete": True, "block": block, "layer_scale": True} for block in ("parallel", "sequential")]  # fmt: skip


@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_every_parameter_gets_a_gradient(config):
    """Defect 1. One exception: softmax does not see the bias of dot-product keys, which is there because teachers have it."""
    f, x = field(**config), state()
    (f(0.3, x) * state(seed=5)).sum().backward()
    silent = {name for name, p in f.named_parameters() if p.grad is None or float(p.grad.abs().max()) < 1e-12}
    dot_bias = f.blocks[0].attn.kind == "dot" and f.blocks[0].attn.k.bias is not None
    assert silent == ({"blocks.0.attn.k.bias"} if dot_bias else set())


@pytest.mark.parametrize("config", [*({"attention": kind} for kind in KINDS), {"norm": "layer"}, {"discrete": True}], ids=str)
def test_products_with_the_jacobian_agree_with_central_differences(config):
    """T01: forward and reverse mode, one direction or many at once."""
    f, x = field(1, **config), state()
    vs = torch.stack([state(seed=k) for k in (7, 8, 9)])
    eps = 1e-5
    differences = torch.stack([(f(0.3, x + eps * v) - f(0.3, x - eps * v)) / (2 * eps) for v in vs])
    forward = torch.func.vmap(lambda v: torch.func.jvp(lambda y: f(0.3, y), (x,), (v,))[1])(vs)
    assert torch.allclose(forward, differences, rtol=0, atol=1e-6 * float(differences.abs().max()))
    transposed = torch.func.vjp(lambda y: f(0.3, y), x)[1]
    w = state(seed=11)
    assert float((w * forward[0]).sum()) == pytest.approx(float((transposed(w)[0] * vs[0]).sum()), rel=1e-10)


def test_fused_attention_has_derivatives_under_the_math_kernel():
    """T01: forward mode through the fused kernel is not implemented; the explicit softmax and the math kernel agree."""
    f, x, v = field(), state(), state(seed=7)
    explicit = torch.func.jvp(lambda y: f(0.0, y), (x,), (v,))[1]
    f.blocks[0].attn.fused = True
    with sdpa_kernel(SDPBackend.MATH):
        fused = torch.func.jvp(lambda y: f(0.0, y), (x,), (v,))[1]
    assert torch.allclose(fused, explicit, rtol=0, atol=1e-12)
