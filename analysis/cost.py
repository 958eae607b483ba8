"""Speed and memory of the analyses against dense linear algebra and separate passes: `odevit bench analysis`.

All ratios come from one run, medians of several, random weights of spectral norm 1 unless a model is given. Memory is measured
in a process of its own: peak of the resident size above what it was before.
"""

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from odevit.backbone import Backbone
from odevit.config import ODEViTConfig
from odevit.field import VectorField
from odevit.flow import integrate
from odevit.memory import in_own_process, peak
from odevit.model import create_model
from odevit.tables import aligned

from .lyapunov import lyapunov_spectrum
from .operators import as_float64, jacobian
from .spectra import jacobian_spectrum, logarithmic_norm, singular_values

K = 16
SIZES = ((25, 64, 4), (50, 64, 4), (50, 128, 4), (100, 128, 4))  # tokens, width, heads: N D from 1,600 to 12,800


class Products(TorchDispatchMode):
    """Counts multiply-adds of matrix products (torch's FLOP counter hooks modules, which autograd.grad does not allow)."""

    total = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if str(func).startswith(("aten.mm", "aten.bmm", "aten.addmm", "aten.baddbmm")):
            self.total += out.numel() * args["add" in str(func)].shape[-1]
        return out


def random_state(tokens: int, dim: int, heads: int, seed: int = 0) -> tuple[VectorField, Tensor]:
    """A field with fresh weights and a state of unit channels, float64."""
    torch.manual_seed(seed)
    config = ODEViTConfig(embed_dim=dim, num_heads=heads)
    return as_float64(VectorField(config)), torch.randn(1, tokens, dim, dtype=torch.float64)


def timed(run: Callable, repeats: int) -> tuple[float, Any]:
    """Median seconds of several calls after one to warm up, and what the last returned."""
    times, found = [], run()
    for _ in range(repeats):
        start = time.perf_counter()
        found = run()
        times.append(time.perf_counter() - start)
    return statistics.median(times), found


def row(what: str, how: str, value: float, unit: str, ratio: float | None = None, note: str = "") -> dict:
    """One line of the table."""
    return {"what": what, "how": how, "value": value, "unit": unit, "ratio": ratio, "note": note}


def against_dense(repeats: int) -> list[dict]:
    """Leading 16 singular values and the logarithmic norm at N D = 2,000, against the dense Jacobian and LAPACK."""
    f, x = random_state(50, 40, 4)

    def dense():
        matrix = jacobian(f, x).dense().numpy()
        return np.linalg.svd(matrix, compute_uv=False)[:K], np.linalg.eigvalsh((matrix + matrix.T) / 2)[-1]

    def ours():  # values converge as the square of the residual: 1e-4 gives them to 1e-8
        return singular_values(f, x, k=K, tolerance=1e-4), logarithmic_norm(f, x, tolerance=1e-4)

    slow, (values, mu) = timed(dense, repeats)
    fast, (found, norm) = timed(ours, 5 * repeats)
    gap = max(float(np.abs(found.singular_values / values - 1).max()), abs(float(norm) / mu - 1))
    what = "16 singular values + log norm, N D = 2,000"
    return [
        row(what, "dense + LAPACK", slow, "s", 1.0),
        row(what, "matrix-free", fast, "s", slow / fast, f"{found.products + norm.products} products, relative gap {gap:.0e}"),
    ]


def product_budget(model: Backbone, x: Tensor) -> list[dict]:
    """Products that one state of a model needs at a residual of 1e-4, and whether everything converged."""
    f, t = model.field, model.solver.horizon / 2
    how: dict[str, Any] = {"tolerance": 1e-4, "budget": 1000}
    modulus, singular = jacobian_spectrum(f, x, t, K, "LM", **how), singular_values(f, x, t, K, **how)
    norm, right = logarithmic_norm(f, x, t, **how), jacobian_spectrum(f, x, t, K, "LR", **how)
    total = modulus.products + singular.products + norm.products
    remarks = " ".join((modulus.remark, singular.remark, norm.remark)).strip()
    note = f"{modulus.products} + {singular.products} + {norm.products}{'; ' if remarks else ''}{remarks}"
    what = f"one state, N D = {x[0].numel():,}, residual 1e-4"
    return [
        row(what, "16 eigenvalues LM + 16 singular values + log norm", total, "products", total / 400, note),
        row(what, "16 eigenvalues LR", right.products, "products", right.products / 1000, right.remark),
    ]


def tangents(model: Backbone, x: Tensor, repeats: int) -> list[dict]:
    """k = 16 QR exponents in one pass: arithmetic in solves, and wall time against 16 separate passes."""
    grid, method = model.grid, model.solver.method

    def operations(run: Callable) -> int:
        with Products() as counter:
            run()
        return counter.total

    def together():
        return lyapunov_spectrum(model.field, x, grid, method, K)

    def apart():
        return [lyapunov_spectrum(model.field, x, grid, method, 1) for _ in range(K)]

    with torch.no_grad():
        solve = operations(lambda: integrate(model.field, x, grid, method))
    solves = operations(together) / solve
    slow, fast = timed(apart, 1)[0], timed(together, repeats)[0]
    what = f"{K} QR exponents, N D = {x[0].numel():,}"
    return [
        row(what, "arithmetic", solves, "solves", solves / (K + 1), "ratio: to k + 1 solves"),
        row(what, f"{K} separate passes", slow, "s", 1.0),
        row(what, "one pass", fast, "s", slow / fast),
    ]


def growth(repeats: int) -> list[dict]:
    """16 singular values at four sizes: products, seconds and memory at fixed k."""
    rows = []
    for tokens, dim, heads in SIZES:
        f, x = random_state(tokens, dim, heads)
        seconds, found = timed(lambda f=f, x=x: singular_values(f, x, k=K, tolerance=1e-4), repeats)
        memory = in_own_process("analysis.cost", f"peak_of_values({tokens}, {dim}, {heads}, {K}, False)")["bytes"]
        note = f"{seconds:.2f} s, {memory / 2**20:.0f} MiB"
        what = "16 singular values, residual 1e-4"
        rows.append(row(what, f"N = {tokens}, D = {dim}", found.products, "products", None, note))
    return rows


def peak_of_values(tokens: int, dim: int, heads: int, k: int, log_norm: bool) -> dict:
    """Peak bytes and seconds of k singular values (and the logarithmic norm) of a fresh field, in this process."""
    torch.set_num_threads(2)
    f, x = random_state(tokens, dim, heads)
    with torch.no_grad():
        f(0.0, x)

    def run() -> None:
        singular_values(f, x, k=k, tolerance=1e-4)
        if log_norm:
            logarithmic_norm(f, x, tolerance=1e-4)

    return peak(run)


def vit_b_sized() -> list[dict]:
    """8 singular values and the logarithmic norm of a ViT-B-sized field, in a process of its own."""
    found = in_own_process("analysis.cost", "peak_of_values(207, 768, 12, 8, True)")
    memory, what = found["bytes"] / 2**30, "8 singular values + log norm, 207 tokens, D 768"
    return [row(what, "peak memory", memory, "GiB", memory / 4, f"ratio: to 4 GiB; {found['seconds']:.0f} s, residual 1e-4")]


def run(repeats: int = 3, threads: int = 2, model: Backbone | None = None) -> list[dict]:
    """Measure everything, print the table and return its rows (what, how, value, unit, ratio, note).

    Args:
        repeats: runs of which the median is taken.   threads: CPU threads.
        model: whose Jacobian the product budget is measured on; a fresh odevit_tiny_conv_32 unless given.
    """
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    double = as_float64(model or create_model("odevit_tiny_conv_32"))
    image = torch.randn(1, double.config.in_chans, *double.config.image_shape, dtype=torch.float64)
    with torch.no_grad():
        x = double.trajectory(image).x[double.solver.steps // 2]
    rows = [*against_dense(repeats), *product_budget(double, x), *tangents(double, x, repeats)]
    rows += [*vit_b_sized(), *growth(repeats)]
    print(f"cpu, {threads} threads, float64, torch {torch.__version__}, medians of {repeats}")
    print(aligned(rows))
    return rows
