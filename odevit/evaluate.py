"""What a model's answers are worth and what they cost: accuracy, calibration, NFE, MACs, throughput, and a sweep over solvers.

Calibration: expected calibration error, sum over bins of confidence of share * |accuracy - confidence|   (Naeini et al. 2015;
Guo et al. 2017, 1706.04599). Every score is a sum over images, so it does not depend on how they were batched.
"""

import time
from dataclasses import asdict, dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .backbone import Backbone
from .data import ImageSet, normalise
from .errors import NonFiniteError
from .flow import find_method
from .trajectory import TimeGrid

CALIBRATION_BINS = 15


@dataclass(frozen=True)
class Scores:
    """Measured on `n` images: top-1 and top-5 accuracy, mean cross-entropy (nats), expected calibration error, NFE, images/s.

    Top-5 is 1 by definition where there are no more than 5 classes.
    """

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
            logits, nfe = _checked_logits(model, x, grid, method)
            out.append(logits)
    finally:
        model.train(training)
    return torch.cat(out), nfe


def _checked_logits(model: Backbone, x: Tensor, grid: TimeGrid, method: str | None) -> tuple[Tensor, int]:
    try:
        solved = model.trajectory(x, grid, method=method)
        logits = model.readout(solved.x[-1]).float()
        if bool(torch.isfinite(logits).all()):
            return logits, solved.nfe
    except NonFiniteError:
        pass  # an adaptive method gave up; the cause is found in the same way
    raise NonFiniteError(nonfinite_cause(model, x, grid, method))


@torch.no_grad()
def nonfinite_cause(model: Backbone, images: Tensor, grid: TimeGrid | None = None, method: str | None = None) -> str:
    """Why a model's answer to normalised images is not finite, in words: weights, input or state, at which t and image."""
    bad = [name for name, w in model.state_dict().items() if w.is_floating_point() and not bool(torch.isfinite(w).all())]
    if bad:
        return f"the weights hold NaN or infinite values: {bad[0]}" + (f" and {len(bad) - 1} more" if len(bad) > 1 else "")
    if not bool(torch.isfinite(images).all()):
        return f"the input is not finite: image {_first_bad(images)} of the batch"
    try:
        solved = model.trajectory(images, (grid or model.grid).with_save(None), method=method)
    except NonFiniteError as error:  # an adaptive method stops by itself and says where
        return str(error)
    for k, (t, x) in enumerate(zip(solved.t, solved.x)):
        if not bool(torch.isfinite(x).all()):
            return f"the state blows up: not finite at t = {float(t):g} (step {k}), image {_first_bad(x)} of the batch"
    if not bool(torch.isfinite(model.readout(solved.x[-1])).all()):
        return "the states are finite but the head's logits are not"
    return "weights, input, states and logits are finite"


def _first_bad(batch: Tensor) -> int:
    return int((~torch.isfinite(batch).flatten(1).all(1)).nonzero()[0])


def scores(logits: Tensor, labels: Tensor, *, split: str = "", nfe: int = 0, seconds: float = 0.0) -> Scores:
    """Scores of logits (n, C) against labels (n,); sums over images, so independent of any batch size."""
    labels = labels.to(logits.device)
    n, classes = logits.shape
    top1 = (logits.argmax(1) == labels).double().mean()
    top5 = (logits.topk(min(5, classes), dim=1).indices == labels[:, None]).any(1).double().mean()
    loss = F.cross_entropy(logits.double(), labels)
    return Scores(
        split, n, float(top1), float(top5), float(loss),
        calibration_error(logits.double().softmax(1), labels), nfe, n / seconds if seconds else 0.0,
    )  # fmt: skip


def calibration_error(probabilities: Tensor, labels: Tensor) -> float:
    """Expected calibration error in 15 equal bins of confidence [k / 15, (k + 1) / 15), the last one closed.

    Args:
        probabilities: shape (n, C), rows sum to 1.
        labels: shape (n,).

    >>> certain_and_right_half_of_the_time = torch.tensor([[1.0, 0.0], [1.0, 0.0]])
    >>> calibration_error(certain_and_right_half_of_the_time, torch.tensor([0, 1]))
    0.5
    """
    confidence, predicted = probabilities.max(1)
    right = (predicted == labels).double()
    which = (confidence * CALIBRATION_BINS).long().clamp_max(CALIBRATION_BINS - 1)
    gaps = torch.zeros(CALIBRATION_BINS, dtype=torch.float64, device=which.device).index_add_(0, which, right - confidence)
    return float(gaps.abs().sum() / len(labels))


def confusion(logits: Tensor, labels: Tensor) -> Tensor:
    """Counts (C, C) of true class (row) against predicted class (column); their sum is the number of images."""
    classes = logits.shape[1]
    pairs = labels.to(logits.device) * classes + logits.argmax(1)
    return torch.bincount(pairs, minlength=classes**2).view(classes, classes)


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

    The field: N D (4 D + 2 hidden) for the projections and the MLP, 2 N^2 D for the maps and their product with the values;
    tied L2 attention has 3 projections. A discrete ViT calls each block once. Normalisations, activations, softmax and products
    of weights with weights are not counted, as is usual.
    """
    c, n = model.config, model.layout.size
    projections, hidden = 3 if c.attention == "l2" else 4, round(c.embed_dim * c.mlp_ratio)
    field = n * c.embed_dim * (projections * c.embed_dim + 2 * hidden) + 2 * n * n * c.embed_dim
    pixels, stem = c.image_shape[0] * c.image_shape[1], 0
    for layer in model.tokenizer.stem.modules():
        if isinstance(layer, nn.Conv2d):
            pixels //= layer.stride[0] * layer.stride[1]  # sides are multiples of the patch, so of every stride
            stem += pixels * layer.weight.numel()
    calls = nfe if nfe is not None else trained_nfe(model)
    return stem + calls * field + model.head.weight.numel()


@torch.no_grad()
def trained_nfe(model: Backbone) -> int:
    """Calls of the field in one solve as trained; an adaptive method is asked with a grey image."""
    image = torch.zeros(1, model.config.in_chans, *model.config.image_shape, device=model.head.weight.device)
    training = model.training
    try:
        return model.eval().trajectory(image, model.grid.with_save(1)).nfe
    finally:
        model.train(training)


def sweep(model: Backbone, data: ImageSet, methods: list[str], steps: list[int], *, batch_size: int = 256) -> list[dict]:
    """What does the answer cost, and does it change? One row per solver and number of steps, against the model as trained.

    Rows hold method, steps (None for adaptive), NFE, MACs, top1, loss, change in accuracy, share of flipped predictions, the
    largest change of a logit, and images per second. A solver under which the state blows up has None there, and its cause
    under `problem`.
    """
    trained, _ = predict(model, data.images, batch_size=batch_size)
    rows = []
    for method in methods:
        adaptive = find_method(method).kind == "adaptive"
        for count in [model.solver.steps] if adaptive else steps:
            grid = TimeGrid(0.0, model.solver.horizon, count, 1)
            row: dict = {"method": method, "steps": None if adaptive else count, **dict.fromkeys(MEASURED), "problem": ""}
            try:
                row |= _compared(model, data, grid, method, batch_size, trained)
            except NonFiniteError as error:
                row["problem"] = str(error)
            rows.append(row | {"split": data.split, "n": len(data)})
    return rows


MEASURED = ("nfe", "macs", "top1", "change", "flips", "max_dlogit", "loss", "images_per_second")


def _compared(model: Backbone, data: ImageSet, grid: TimeGrid, method: str, batch_size: int, trained: Tensor) -> dict:
    """The numbers of a row of `sweep`."""
    start = time.perf_counter()
    logits, nfe = predict(model, data.images, grid=grid, method=method, batch_size=batch_size)
    found = asdict(scores(logits, data.labels, split=data.split, nfe=nfe, seconds=time.perf_counter() - start))
    labels = data.labels.to(logits.device)
    return {
        "nfe": nfe, "macs": macs(model, nfe), "top1": found["top1"],
        "change": found["top1"] - float((trained.argmax(1) == labels).double().mean()),
        "flips": float((logits.argmax(1) != trained.argmax(1)).double().mean()),
        "max_dlogit": float((logits - trained).abs().max()),
        "loss": found["loss"], "images_per_second": found["images_per_second"],
    }  # fmt: skip
