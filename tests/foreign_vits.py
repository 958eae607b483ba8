"""Small random ViTs under the names and in the folders of other libraries, written by hand from their own names."""

import json
import re
from pathlib import Path

import torch
from safetensors.torch import save_file

WIDTH, DEPTH, HEADS, HIDDEN, PATCH, CLASSES = 16, 2, 4, 24, 4, 3


def draw(*shape: int) -> torch.Tensor:
    return 0.3 * torch.randn(*shape)


def timm_state(grid: int = 4, registers: int = 0, head: bool = True) -> dict[str, torch.Tensor]:
    """A ViT under the names of timm and of the original DINO."""
    torch.manual_seed(0)
    state = {
        "cls_token": draw(1, 1, WIDTH), "pos_embed": draw(1, 1 + grid * grid, WIDTH),
        "patch_embed.proj.weight": draw(WIDTH, 3, PATCH, PATCH), "patch_embed.proj.bias": draw(WIDTH),
        "norm.weight": 1 + draw(WIDTH), "norm.bias": draw(WIDTH),
    }  # fmt: skip
    for i in range(DEPTH):
        shapes = {
            "norm1.weight": (WIDTH,), "norm1.bias": (WIDTH,), "norm2.weight": (WIDTH,), "norm2.bias": (WIDTH,),
            "attn.qkv.weight": (3 * WIDTH, WIDTH), "attn.qkv.bias": (3 * WIDTH,), "attn.proj.weight": (WIDTH, WIDTH),
            "attn.proj.bias": (WIDTH,), "mlp.fc1.weight": (HIDDEN, WIDTH), "mlp.fc1.bias": (HIDDEN,),
            "mlp.fc2.weight": (WIDTH, HIDDEN), "mlp.fc2.bias": (WIDTH,),
        }  # fmt: skip
        state |= {f"blocks.{i}.{name}": draw(*shape) for name, shape in shapes.items()}
    if registers:
        state["reg_token"] = draw(1, registers, WIDTH)
    if head:
        state |= {"head.weight": draw(CLASSES, WIDTH), "head.bias": draw(CLASSES)}
    return state


HF_BLOCK = {
    "norm1": "layernorm_before", "norm2": "layernorm_after", "attn.proj": "attention.output.dense",
    "mlp.fc1": "intermediate.dense", "mlp.fc2": "output.dense",
}  # fmt: skip


def hf_state(grid: int = 4) -> dict[str, torch.Tensor]:
    """The same ViT under the names of a Hugging Face ViTForImageClassification."""
    state = {}
    names = {"cls_token": "embeddings.cls_token", "pos_embed": "embeddings.position_embeddings"}
    for name, tensor in timm_state(grid).items():
        name = names.get(name, name).replace("patch_embed.proj", "embeddings.patch_embeddings.projection")
        name = re.sub(r"^norm\.", "layernorm.", re.sub(r"^blocks\.", "encoder.layer.", name))
        if ".attn.qkv." in name:
            for part, piece in zip(("query", "key", "value"), tensor.chunk(3)):
                state[f"vit.{name.replace('attn.qkv', f'attention.attention.{part}')}"] = piece.contiguous()
            continue
        for ours, theirs in HF_BLOCK.items():
            name = name.replace(f".{ours}.", f".{theirs}.")
        state[name.replace("head.", "classifier.") if name.startswith("head.") else f"vit.{name}"] = tensor
    return state


HF_CONFIG = {
    "model_type": "vit", "architectures": ["ViTForImageClassification"], "hidden_size": WIDTH, "num_hidden_layers": DEPTH,
    "num_attention_heads": HEADS, "intermediate_size": HIDDEN, "hidden_act": "gelu", "layer_norm_eps": 1e-12, "image_size": 16,
    "patch_size": PATCH, "num_channels": 3, "qkv_bias": True, "id2label": {"0": "cat", "1": "dog", "2": "ox"},
}  # fmt: skip


def hf_folder(place: Path, config: dict | None = None, state: dict | None = None) -> Path:
    place.mkdir(parents=True)
    (place / "config.json").write_text(json.dumps(HF_CONFIG | (config or {})))
    save_file(hf_state() if state is None else state, place / "model.safetensors")
    return place


def file_of(place: Path, content) -> Path:
    torch.save(content, place)
    return place


def images(size: int = 16) -> torch.Tensor:
    return torch.randn(2, 3, size, size, generator=torch.Generator().manual_seed(1))
