"""Speed and memory of training and evaluation against the plain twin that a user would write, medians of one run.

The twin: torchdiffeq's `odeint`, Euler over a 12-point grid, `nn.MultiheadAttention` with `need_weights=True`, every state and
map kept, JaSMin by a full sort of the maps of all steps. Same weights, images and loss; the logits are compared first.
Memory is measured in processes of their own: peak of the resident size during a step, above what it was before.
"""

import statistics
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torchdiffeq import odeint
from tqdm import tqdm

from .backbone import Backbone
from .config import LossConfig
from .evaluate import macs
from .memory import in_own_process, peak
from .model import create_model
from .objective import Objective
from .tables import aligned
from .trajectory import TimeGrid

BATCH, POINTS = 64, 12
SIZES = {"embed_dim": 192, "num_heads": 3, "mlp_ratio": 2.0, "horizon": 12.0, "steps": POINTS - 1}
PEAK_SIDE = 2048  # side of the square products that measure the machine's peak


class PlainTwin(nn.Module):
    """The same ODE-ViT as a user would write it in an afternoon; weights are copied from `model`."""

    def __init__(self, model: Backbone):
        super().__init__()
        dim, block = model.config.embed_dim, model.field.block_at(0.0)
        self.tokenizer, self.head, self.block = model.tokenizer, model.head, block
        q, k, v = block.attn.q.weight, block.attn.k.weight, block.attn.v.weight  # type: ignore[union-attr]
        self.attention = nn.MultiheadAttention(dim, model.config.num_heads, bias=False, batch_first=True)
        with torch.no_grad():
            self.attention.in_proj_weight.copy_(torch.cat([q, k, v]))
            self.attention.out_proj.weight.copy_(block.attn.proj.weight)
        self.t = torch.linspace(0, model.solver.horizon, POINTS)
        self.maps: list[Tensor] = []

    def field(self, t: Tensor, x: Tensor) -> Tensor:
        """F(x) + G(x), keeping the maps."""
        y = self.block.norm1(x)
        attended, maps = self.attention(y, y, y, need_weights=True, average_attn_weights=False)
        self.maps.append(maps)
        hidden = F.gelu(self.block.mlp.fc1(self.block.norm2(x)))
        return attended + self.block.mlp.fc2(hidden)

    def forward(self, images: Tensor) -> Tensor:
        """Logits (B, C)."""
        self.maps = []
        states = odeint(self.field, self.tokenizer(images), self.t.to(images.device), method="euler")
        return self.head(states[-1, :, 0])

    def loss(self, images: Tensor, targets: Tensor) -> Tensor:
        """Cross-entropy + 0.1 JaSMin (k = 0) over all steps."""
        logits = self(images)
        p = torch.stack(self.maps).sort(-1, descending=True).values
        rows = (p[..., 0] * (1 - p[..., 0] + p[..., 1])).log().amax(-1)
        return F.cross_entropy(logits, targets) + 0.1 * rows.mean()


def batch(device: torch.device) -> tuple[Tensor, Tensor]:
    """Random normalised images (64, 3, 32, 32) and labels, seed 0."""
    draw = torch.Generator().manual_seed(0)
    images = torch.randn(BATCH, 3, 32, 32, generator=draw)
    return images.to(device), torch.randint(0, 10, (BATCH,), generator=draw).to(device)


def build(**overrides) -> Backbone:
    """The model of the benchmark (D 192, 3 heads, mlp ratio 2, 32 px, patch 4, T = 12), seed 0."""
    torch.manual_seed(0)
    return create_model("odevit_small_patch4_32", **{**SIZES, **overrides})


def train_step(
    model: Backbone, *, amp: bool = False, compiled: bool = False, jasmin: bool = True, segments: int = 0
) -> Callable:
    """A function that does one optimiser step of `model` on the benchmark's batch."""
    images, targets = batch(model.head.weight.device)
    config = LossConfig(label_smoothing=0.0, curvature=0.0, jasmin=0.1 * jasmin, jasmin_window=1.0)
    objective = Objective(model, config, segments)
    model.compute_in(torch.bfloat16 if amp else None).train()
    if compiled:
        for block in model.field.blocks:
            block.compile(dynamic=False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    grid = TimeGrid(0.0, model.solver.horizon, model.solver.steps, None if objective.needs_states else 1)

    def step() -> None:
        objective(images, targets, grid)["loss"].backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def twin_step(model: Backbone) -> Callable:
    """The same for the twin."""
    twin, (images, targets) = PlainTwin(model), batch(model.head.weight.device)
    optimizer = torch.optim.AdamW(twin.parameters(), lr=1e-4)

    def step() -> None:
        twin.loss(images, targets).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def evaluation(module: nn.Module, device: torch.device) -> Callable:
    """A function that computes the logits of the benchmark's batch without gradients."""
    images, _ = batch(device)

    def forward() -> None:
        with torch.no_grad():
            module(images)

    return forward


def medians(candidates: dict[str, Callable], repeats: int) -> dict[str, float]:
    """Median seconds of each candidate; the candidates take turns, so that a slow moment hits all alike."""
    times: dict[str, list[float]] = {name: [] for name in candidates}
    for run in candidates.values():
        run(), run()
    for _ in tqdm(range(repeats), desc="bench", leave=False, disable=None):
        for name, run in candidates.items():
            _wait()
            start = time.perf_counter()
            run()
            _wait()
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in times.items()}


def _wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def matrix_peak(device: torch.device, dtype: torch.dtype, repeats: int = 5) -> float:
    """Multiply-adds per second of square products of side 2048, the best of several."""
    a = torch.randn(PEAK_SIDE, PEAK_SIDE, device=device).to(dtype)
    best = float("inf")
    for _ in range(repeats + 1):
        _wait()
        start = time.perf_counter()
        a @ a
        _wait()
        best = min(best, time.perf_counter() - start)
    return PEAK_SIDE**3 / best


KINDS: dict[str, Callable[[], Callable]] = {
    "twin": lambda: twin_step(build()),
    "float32": lambda: train_step(build()),
    "bf16": lambda: train_step(build(), amp=True),
    "6 steps": lambda: train_step(build(steps=6), jasmin=False),
    "48 steps, 12 segments": lambda: train_step(build(steps=48), jasmin=False, segments=12),
}


def peak_of_step(kind: str) -> dict:
    """Peak bytes of one train step of a kind in KINDS, in this process; kernels are loaded first, so that they do not count."""
    torch.set_num_threads(2)
    step = KINDS[kind]()
    build()(torch.zeros(1, 3, 32, 32)).sum().backward()
    return peak(step)


def check_twin(device: torch.device) -> float:
    """Largest difference of the twin's logits from ours, same weights and images, float32."""
    model = build().to(device)
    images, _ = batch(device)
    with torch.no_grad():
        return float((PlainTwin(model)(images) - model(images)).abs().max())


def speed_rows(repeats: int, device: torch.device) -> list[dict]:
    """Rows of time: train step and evaluation, as ratios twin / ours."""

    def ours(**how) -> Callable:
        return train_step(build().to(device), **how)

    train = medians({
        "twin": twin_step(build().to(device)), "float32": ours(), "float32 compiled": ours(compiled=True),
        "bf16": ours(amp=True), "bf16 compiled": ours(amp=True, compiled=True),
        "bf16 compiled, no JaSMin": ours(amp=True, compiled=True, jasmin=False),
    }, repeats)  # fmt: skip
    forwards = {"twin": evaluation(PlainTwin(build().to(device)), device)}
    for name in ("float32", "bf16", "bf16 compiled"):
        model = build().to(device).eval().compute_in(torch.bfloat16 if "bf16" in name else None)
        if "compiled" in name:
            model.field.blocks[0].compile(dynamic=False)
        forwards[name] = evaluation(model, device)
    found = {"train step": train, "evaluation": medians(forwards, repeats)}
    return [
        {"what": what, "how": how, "value": times[how], "unit": "s", "ratio": times["twin"] / times[how]}
        for what, times in found.items() for how in times
    ]  # fmt: skip


def memory_rows(repeats: int) -> list[dict]:
    """Rows of peak memory of a train step, as ratios to the twin's, and of 48 checkpointed steps to 6 plain ones."""
    found = {
        kind: statistics.median(in_own_process("odevit.bench", f"peak_of_step({kind!r})")["bytes"] for _ in range(repeats))
        for kind in KINDS
    }
    base = {kind: "6 steps" if "steps" in kind else "twin" for kind in KINDS}
    return [
        {"what": "peak memory", "how": kind, "value": value / 2**20, "unit": "MiB", "ratio": value / found[base[kind]]}
        for kind, value in found.items()
    ]


def run(repeats: int, threads: int) -> list[dict]:
    """Measure everything and print the table; returns its rows (what, how, value, unit, ratio)."""
    torch.set_num_threads(threads)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    gap = check_twin(device)
    rows = speed_rows(repeats, device)
    for dtype, how in ((torch.float32, "float32"), (torch.bfloat16, "bf16 compiled")):
        seconds = next(r["value"] for r in rows if r["what"] == "train step" and r["how"] == how)
        share = 3 * BATCH * macs(build()) / seconds / matrix_peak(device, dtype)
        what = "share of matrix peak"
        rows.append({"what": what, "how": f"train step, {how}", "value": 100 * share, "unit": "%", "ratio": None})
    if device.type == "cpu":
        rows += memory_rows(min(repeats, 3))
    print(f"{device}, {threads} threads, torch {torch.__version__}, medians of {repeats}, twin's logits differ by {gap:.1e}")
    print(aligned(rows))
    return rows
