"""Teachers: a discrete ViT of another library, read from local files into our own `ViT`; nothing is downloaded or executed.

Layers become Euler steps of size 1 (x_{l+1} = x_l + block_l(x_l)), so hidden state l is the trajectory at t = l; the final norm
belongs to the readout. Families: ViT (2010.11929), DeiT (2012.12877), DINO (2104.14294), DINOv2 (2304.07193, 2309.16588).
"""

import logging
import math
from dataclasses import replace
from functools import partial
from typing import Any

from ..checkpoint import assemble, check_weights, load_model, resize_positions, strip_prefixes
from ..errors import UserError
from ..vit import ViT
from .facts import check_supported, facts_of
from .families import SUPPORTED
from .locations import Found, locate
from .sizing import completed, headed, inputs_of, patch_grid, sized
from .translation import gather_tokens, recognise, translate, unfuse

log = logging.getLogger("odevit")

__all__ = ["SUPPORTED", "load"]


def load(
    path,
    *,
    num_heads: int | None = None,
    img_size: int | tuple[int, int] | None = None,
    patch_size: int | None = None,
    num_classes: int | None = None,
) -> ViT:
    """The discrete ViT at a path, in eval mode, on the CPU, in float32 or better.

    Args:
        path: a folder of ours or of Hugging Face, a `local-dir:` folder of timm, a folder of the Hugging Face cache or the name
            "x/y" of a model in it, or a safetensors or torch file with a state dict (timm, torchvision, DINO, DINOv2).
        num_heads: attention heads, where nothing beside the weights tells.
        img_size: another image size than that of the weights; the positions of the patches are interpolated, which is logged.
        patch_size: must be that of the weights.
        num_classes: another number of classes than the head has: the head is replaced by zeros, to be trained.

    Returns:
        The model; its `inputs` hold the pixel normalisation and the class names. Without a head in the weights it has one of
        zeros, which is logged.

    Raises:
        UserError: nothing to be read there, an architecture that is not supported, tensors that are missing, unexpected or of
            another shape, sizes that contradict each other, or something that must be told (`num_heads`).
        NonFiniteError: a tensor holds NaN or infinite values.
    """
    found = locate(path)
    if "format" in found.config:
        model = _own(found, num_heads, img_size, patch_size, num_classes)
    else:
        if found.config:
            _in(found.where, check_supported, found.config)
        model = _foreign(found, num_heads, img_size, patch_size, num_classes)
    c = model.config
    log.info(
        "%s: %d layers, width %d, %d heads, %d registers, %dx%d px, patch %d, %d classes, %s parameters", found.where, c.depth,
        c.embed_dim, c.num_heads, c.registers, *c.image_shape, c.patch_size, c.num_classes,
        f"{sum(p.numel() for p in model.parameters()):,}",
    )  # fmt: skip
    return model.eval()


def _in(where, function, *args) -> Any:
    """The function's value; a complaint of it begins with where the trouble lies."""
    try:
        return function(*args)
    except UserError as error:
        raise UserError(f"{where}: {error}") from None


def _own(found: Found, num_heads, img_size, patch_size, num_classes) -> ViT:
    """A teacher that this project trained."""
    model = load_model(found.where, img_size=img_size)
    if not isinstance(model, ViT):
        raise UserError(f"{found.where}: holds an {type(model).__name__}; a teacher is a discrete ViT")
    check_weights(model)
    c = model.config
    for name, value in (("num_heads", num_heads), ("patch_size", patch_size)):
        if value not in (None, getattr(c, name)):
            raise UserError(f"{name}: {value}, but {found.where} has {getattr(c, name)}")
    if num_classes in (None, c.num_classes):
        return model
    state = dict(model.state_dict())
    config = _in(found.where, headed, state, c, None, num_classes)
    return assemble(state, config, config.solver, replace(model.inputs, classes=()), found.where)  # type: ignore[return-value]


def _foreign(found: Found, num_heads, img_size, patch_size, num_classes) -> ViT:
    """A teacher of another library."""
    where = found.where
    naming, tensors = recognise(strip_prefixes(found.tensors()), where)
    stem = tensors.get(naming.theirs("tokenizer.stem.weight"))
    facts = _in(where, facts_of, found.config, found.preprocessing, naming, 0 if stem is None else len(stem))
    state, depth = translate(tensors, naming, facts.sizes.get("num_hidden_layers", ("", None))[1], where)
    unfuse(state, depth)
    config = _in(where, sized, state, facts, depth, num_heads, patch_size)
    trained = _in(where, patch_grid, state, facts, config.patch_size, img_size)
    gather_tokens(state, math.prod(trained))
    config = _in(where, completed, state, config, trained)
    config = _in(where, headed, state, config, facts.labels, num_classes)
    if img_size is not None:
        config = _in(where, partial(replace, config, img_size=img_size))
        state["tokenizer.positions"] = resize_positions(state["tokenizer.positions"], trained, config.grid)
    inputs = _in(where, inputs_of, facts, config)
    log.info("%s: a %s, pixels normalised by %s", where, facts.name, facts.normalised_by)
    return assemble(state, config, config.solver, inputs, where)  # type: ignore[return-value]
