"""What a model's answers are worth and what they cost: accuracy, calibration, NFE, MACs, throughput, and a sweep over solvers."""

import time
from dataclasses import asdict, dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .backbone import Backbone
from .data import ImageSet, normalise
from .errors import NonFiniteError
from .trajectory import TimeGrid

CALIBRATION_BINS = 15


@dataclass(frozen=True)
class Scores:
    """Measured on `n` images: top-1 and top-5 accuracy, mean cross-entropy (nats), expected calibration error, NFE, images/s."""

    split: str
    n: int
    top1: float
    top5: float
    loss: float
    ece: float
    nfe: int
    images_per_second: float


@torch.no_grad()
def predict(model: Backbone, images: Tensor, *, grid: TimeGrid | None = None, method: str | None = None, batch_size: int = 256):
    """Logits (n, C) of uint8 images (n, C, H, W) in eval mode, and the NFE of a solve; the model's mode is restored.

    Raises:
        NonFiniteError: a logit is NaN or infinite; names the first image and the first time at which its state is.
    """
    grid = (grid or model.grid).with_save(1)
    device, training, nfe, out = model.head.weight.device, model.training, 0, []
    model.eval()
    try:
        for batch in images.split(batch_size):
            x = normalise(batch.to(device), model.inputs.mean, model.inputs.std)
            solved = model.trajectory(x, grid, method=method)
            logits, nfe = model.readout(solved.x[-1]).float(), solved.nfe
            if not torch.isfinite(logits).all():
                raise NonFiniteError(nonfinite_cause(model, x, grid, method))
            out.append(logits)
    finally:
        model.train(training)
    return torch.cat(out), nfe


@torch.no_grad()
def nonfinite_cause(model: Backbone, images: Tensor, grid: TimeGrid | None = None, method: str | None = None) -> str:
    """Why a model's answer to normalised images is not finite: its weights, the input, or a state, at which t and image."""
    bad = [name for name, w in model.state_dict().items() if w.is_floating_point() and not bool(torch.isfinite(w).all())]
    if bad:
        return f"the weights hold NaN or infinite values: {bad[0]}" + (f" and {len(bad) - 1} more" if len(bad) > 1 else "")
    if not bool(torch.isfinite(images).all()):
        return f"the input is not finite: image {_first_bad(images)} of the batch"
    solved = model.trajectory(images, (grid or model.grid).with_save(None), method=method)
    for k, (t, x) in enumerate(zip(solved.t, solved.x)):
        if not bool(torch.isfinite(x).all()):
            return f"the state blows up: not finite at t = {float(t):g} (step {k}), image {_first_bad(x)} of the batch"
    return "the states are finite but the head's logits are not"


def _first_bad(batch: Tensor) -> int:
    return int((~torch.isfinite(batch).flatten(1).all(1)).nonzero()[0])


def scores(logits: Tensor, labels: Tensor, *, split: str = "", nfe: int = 0, seconds: float = 0.0) -> Scores:
    """Scores of logits (n, C) against labels (n,); sums over images, so independent of any batch size."""
    labels = labels.to(logits.device)
    n, classes = logits.shape
    top = logits.topk(min(5, classes), dim=1).indices == labels[:, None]
    loss = F.cross_entropy(logits.double(), labels)
    return Scores(
        split, n, float(top[:, 0].double().mean()), float(top.any(1).double().mean()), float(loss),
        calibration_error(logits.double().softmax(1), labels), nfe, n / seconds if seconds else 0.0,
    )  # fmt: skip


def calibration_error(probabilities: Tensor, labels: Tensor) -> float:
    """Expected calibration error, 15 equal bins of confidence: sum over bins of (share) * |accuracy - confidence|."""
    confidence, predicted = probabilities.max(1)
    right = (predicted == labels).double()
    which = (confidence * CALIBRATION_BINS).long().clamp_max(CALIBRATION_BINS - 1)
    gaps = torch.zeros(CALIBRATION_BINS, dtype=torch.float64, device=which.device).index_add_(0, which, right - confidence)
    return float(gaps.abs().sum() / len(labels))


def evaluate(
    model: Backbone, data: ImageSet, *, grid: TimeGrid | None = None, method: str | None = None, batch_size: int = 256
) -> Scores:
    """Scores of a model on a split."""
    start = time.perf_counter()
    logits, nfe = predict(model, data.images, grid=grid, method=method, batch_size=batch_size)
    return scores(logits, data.labels, split=data.split, nfe=nfe, seconds=time.perf_counter() - start)


def parameters(model: nn.Module) -> int:
    """Number of trained parameters."""
    return sum(p.numel() for p in model.parameters())


def macs(model: Backbone, nfe: int | None = None) -> int:
    """Multiply-adds of one image: stem, `nfe` evaluations of the field with attention, head.

    The field: N D^2 (4 + 2 r) for the projections and the MLP, 2 N^2 D for the maps and their product with the values. A
    discrete ViT calls each block once. Normalisations, activations and softmax are not counted, as is usual.
    """
    c, n = model.config, model.layout.size
    hidden = round(c.embed_dim * c.mlp_ratio)
    field = n * c.embed_dim * (4 * c.embed_dim + 2 * hidden) + 2 * n * n * c.embed_dim
    side, stem = c.image_shape, 0
    for layer in model.tokenizer.stem.modules():
        if isinstance(layer, nn.Conv2d):
            side = tuple((s + 2 * p - k) // d + 1 for s, p, k, d in zip(side, layer.padding, layer.kernel_size, layer.stride))
            stem += side[0] * side[1] * layer.weight.numel()
    calls = nfe if nfe is not None else trained_nfe(model)
    return stem + calls * field + c.embed_dim * c.num_classes


def trained_nfe(model: Backbone) -> int:
    """Calls of the field in one solve as trained; an adaptive method is asked with a grey image."""
    image = torch.zeros(1, model.config.in_chans, *model.config.image_shape, device=model.head.weight.device)
    with torch.no_grad():
        return model.eval().trajectory(image, model.grid.with_save(1)).nfe


def sweep(model: Backbone, data: ImageSet, methods: list[str], steps: list[int], *, batch_size: int = 256) -> list[dict]:
    """What does the answer cost, and does it change? One row per solver and number of steps, against the model as trained.

    Rows hold method, steps (None for adaptive), NFE, MACs, top1, loss, change in accuracy, share of flipped predictions, the
    largest change of a logit, and images per second.
    """
    from .flow import find_method

    trained, _ = predict(model, data.images, batch_size=batch_size)
    base = scores(trained, data.labels)
    rows = []
    for method in methods:
        adaptive = find_method(method).kind == "adaptive"
        for count in [model.solver.steps] if adaptive else steps:
            start = time.perf_counter()
            grid = TimeGrid(0.0, model.solver.horizon, count, 1)
            logits, nfe = predict(model, data.images, grid=grid, method=method, batch_size=batch_size)
            found = asdict(scores(logits, data.labels, split=data.split, nfe=nfe, seconds=time.perf_counter() - start))
            rows.append({
                "method": method, "steps": None if adaptive else count, "nfe": nfe, "macs": macs(model, nfe),
                "top1": found["top1"], "change": found["top1"] - base.top1,
                "flips": float((logits.argmax(1) != trained.argmax(1)).double().mean()),
                "max_dlogit": float((logits - trained).abs().max()), "loss": found["loss"],
                "images_per_second": found["images_per_second"], "split": data.split, "n": len(data.labels),
            })  # fmt: skip
    return rows
