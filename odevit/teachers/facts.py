"""What the files beside the weights say of a teacher: heads, epsilon, activation, image size, class names, normalisation."""

import re
from dataclasses import dataclass, field
from typing import Any

from ..errors import UserError
from .families import SUPPORTED, TIMM, TORCHVISION, Naming

HALF = ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))

HUGGING_FACE = {"vit": HALF, "deit": IMAGENET, "dinov2": IMAGENET, "dinov2_with_registers": IMAGENET}
ACTIVATIONS = {
    "gelu": "gelu", "gelu_erf": "gelu", "gelu_python": "gelu", "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_tanh": "gelu_tanh", "quick_gelu": "quick_gelu", "quickgelu": "quick_gelu",
}  # fmt: skip
TIMM_HEADS = {  # width: heads, of the sizes that timm's names speak of
    "tiny": (192, 3), "small": (384, 6), "medium": (512, 8), "betwixt": (640, 10), "base": (768, 12), "large": (1024, 16),
    "huge": (1280, 16), "giant": (1408, 16), "gigantic": (1664, 16),
}  # fmt: skip
TIMM_VISIBLE = (  # arguments of a timm model that show in its weights or do nothing in evaluation
    "img_size", "patch_size", "in_chans", "num_classes", "embed_dim", "depth", "num_heads", "mlp_ratio", "qkv_bias",
    "init_values", "class_token", "no_embed_class", "reg_tokens", "global_pool", "act_layer", "dynamic_img_size", "drop_rate",
    "pos_drop_rate", "patch_drop_rate", "proj_drop_rate", "attn_drop_rate", "drop_path_rate", "weight_init",
)  # fmt: skip


@dataclass(frozen=True)
class Facts:
    """What config.json and preprocessor_config.json say; None where they are silent.

    Attributes:
        name: the kind of model, for messages.
        num_heads, eps, activation: what the weights do not show.
        image: (height, width) in pixels.
        sizes: what must agree with the weights: their name of a size -> (what it counts, value).
        labels, classes: number of classes and their names (empty where unknown).
        mean, std, normalised_by: of pixels in [0, 1], and where that stands.
    """

    name: str
    num_heads: int | None = None
    eps: float = 1e-6
    activation: str = "gelu"
    image: tuple[int, int] | None = None
    sizes: dict[str, tuple[str, int]] = field(default_factory=dict)
    labels: int | None = None
    classes: tuple[str, ...] = ()
    mean: tuple[float, ...] = IMAGENET[0]
    std: tuple[float, ...] = IMAGENET[1]
    normalised_by: str = "the default of the family"


def facts_of(config: dict[str, Any], preprocessing: dict[str, Any], naming: Naming, width: int) -> Facts:
    """The facts on a teacher; UserError names the key that says something this package cannot do.

    Args:
        config, preprocessing: contents of the two files; empty where there are none.
        naming: how its tensors are named.
        width: embedding width of the weights.
    """
    if "model_type" in config:
        return _hugging_face(config, preprocessing)
    if config:
        return _timm(config, width)
    eps = 1e-12 if naming not in (TIMM, TORCHVISION) and "DINO" not in naming.library else 1e-6
    mean, std = HALF if naming.library == "Hugging Face ViT" else IMAGENET
    return Facts(f"{naming.library} state dict", eps=eps, mean=mean, std=std)


def check_supported(config: dict[str, Any]) -> None:
    """UserError for a config.json of another kind of model, which is named together with those that can be read."""
    kind, architecture = config.get("model_type"), config.get("architecture")
    if kind is not None:
        if kind not in HUGGING_FACE:
            raise UserError(f"config.json: unsupported model_type {kind!r} (supported: {SUPPORTED})")
    elif architecture is not None:
        if not re.match(r"(vit|deit3?)_", str(architecture)):
            raise UserError(f"config.json: unsupported architecture {architecture!r} (supported: {SUPPORTED})")
    else:
        said = ", ".join(list(config)[:6]) or "nothing"
        raise UserError(f"config.json: no model_type, architecture or format; found: {said} (supported: {SUPPORTED})")


def _hugging_face(config: dict[str, Any], preprocessing: dict[str, Any]) -> Facts:
    kind = config["model_type"]
    if config.get("use_swiglu_ffn"):
        raise UserError(f"config.json: use_swiglu_ffn, a gated MLP, is not supported (supported: {SUPPORTED})")
    names = config.get("id2label") or {}
    classes = tuple(str(names[key]) for key in sorted(names, key=int))
    counted = {"hidden_size": "width", "num_hidden_layers": "depth", "patch_size": "patch", "num_channels": "channels"}
    counted |= {"intermediate_size": "hidden"} if kind in ("vit", "deit") else {"num_register_tokens": "registers"}
    mean, std = map(tuple, HUGGING_FACE[kind])
    by = f"the default of {kind}"
    if "image_mean" in preprocessing:
        mean, std, by = preprocessing["image_mean"], preprocessing["image_std"], "preprocessor_config.json"
    if preprocessing.get("do_normalize") is False:
        mean, std, by = (0.0,) * len(mean), (1.0,) * len(std), "preprocessor_config.json (do_normalize: false)"
    if abs(255 * preprocessing.get("rescale_factor", 1 / 255) - 1) > 1e-6 or preprocessing.get("do_rescale") is False:
        raise UserError("preprocessor_config.json: pixels are not scaled by 1/255 (rescale_factor), which is not supported")
    return Facts(
        f"Hugging Face {kind}", num_heads=config.get("num_attention_heads"),
        eps=config.get("layer_norm_eps", 1e-6 if "dinov2" in kind else 1e-12),
        activation=_activation(config.get("hidden_act", "gelu"), "hidden_act"), image=_pair(config.get("image_size")),
        sizes={key: (what, _side(config[key], key)) for key, what in counted.items() if key in config},
        labels=len(classes) or config.get("num_labels"),
        classes=() if all(re.fullmatch(r"LABEL_\d+", name) for name in classes) else classes,
        mean=tuple(mean), std=tuple(std), normalised_by=by,
    )  # fmt: skip


def _timm(config: dict[str, Any], width: int) -> Facts:
    architecture, pretrained = str(config["architecture"]), config.get("pretrained_cfg") or {}
    given = config.get("model_args") or {}
    for key in given:
        if key not in TIMM_VISIBLE:
            raise UserError(f"config.json: model_args.{key} = {given[key]!r} is not supported")
    pool = given.get("global_pool", config.get("global_pool", "token"))
    if pool not in ("token", ""):
        raise UserError(f"config.json: global_pool {pool!r} is not supported; the head must read the class token")
    usual = next((TIMM_HEADS[word] for word in architecture.split("_") if word in TIMM_HEADS), None)
    heads = given.get("num_heads") or (usual[1] if usual and usual[0] == width else None)
    size = given.get("img_size") or (pretrained.get("input_size") or [None])[-2:]
    labels = config.get("num_classes") or None
    classes = tuple(map(str, config.get("label_names") or pretrained.get("label_names") or ()))
    activation = given.get("act_layer") or ("quick_gelu" if "quickgelu" in architecture else "gelu")
    mean, std = pretrained.get("mean", IMAGENET[0]), pretrained.get("std", IMAGENET[1])
    by = "pretrained_cfg in config.json" if "mean" in pretrained else "the default of timm"
    return Facts(
        f"timm {architecture}", num_heads=heads, activation=_activation(activation, "model_args.act_layer"),
        image=_pair(size), labels=labels, classes=classes if len(classes) == labels else (),
        mean=tuple(mean), std=tuple(std), normalised_by=by,
    )  # fmt: skip


def _activation(name: Any, key: str) -> str:
    if name not in ACTIVATIONS:
        raise UserError(f"config.json: {key} {name!r} is not supported (supported: {', '.join(ACTIVATIONS)})")
    return ACTIVATIONS[name]


def _pair(size: Any) -> tuple[int, int] | None:
    """(height, width) of a size that is one number or two; None where it is not known."""
    if isinstance(size, int):
        return size, size
    return (int(size[0]), int(size[1])) if isinstance(size, (list, tuple)) and len(size) == 2 else None


def _side(value: Any, key: str) -> int:
    """A number, or the side of a square."""
    pair = _pair(value)
    if pair is None or pair[0] != pair[1]:
        raise UserError(f"config.json: {key} {value!r} is not a whole number" + (" (patches must be square)" if pair else ""))
    return pair[0]
