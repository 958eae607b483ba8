"""How other libraries name the tensors of a ViT, as data: a table per library, {i} is the layer and {p} weight or bias.

Our names (left) are those of `ViT.state_dict()`; three stand for what is rebuilt on reading: `attn.qkv` (q, k and v in one
matrix), `distillation` (DeiT's second token, a register that has a position) and `distillation_head`.
"""

import re
from dataclasses import dataclass
from functools import cache

BLOCK = "field.blocks.{i}."


@dataclass(frozen=True)
class Naming:
    """The names that a library gives to the parts of a ViT.

    Attributes:
        library: what it is called in messages.
        names: our name -> theirs.
        aliases: (pattern, replacement) that bring other versions of the library to the names of this table.
    """

    library: str
    names: dict[str, str]
    aliases: tuple[tuple[str, str], ...] = ()

    def usual(self, name: str) -> str:
        """A name of another version of the library, as this table has it."""
        for pattern, replacement in self.aliases:
            name = re.sub(pattern, replacement, name)
        return name

    def ours(self, name: str) -> str | None:
        """Our name of one of theirs; None for a name that the table does not have."""
        for mine, theirs in self.names.items():
            if found := _pattern(theirs).fullmatch(name):
                return mine.format(**found.groupdict())
        return None

    def theirs(self, ours: str) -> str:
        """Their name of one of ours."""
        for mine, theirs in self.names.items():
            if found := _pattern(mine).fullmatch(ours):
                return theirs.format(**found.groupdict())
        raise KeyError(ours)


@cache
def _pattern(template: str) -> re.Pattern[str]:
    return re.compile(re.escape(template).replace(r"\{i\}", r"(?P<i>\d+)").replace(r"\{p\}", "(?P<p>weight|bias)"))


TIMM = Naming(
    "timm",
    {
        "tokenizer.cls": "cls_token", "tokenizer.positions": "pos_embed", "tokenizer.registers": "reg_token",
        "distillation": "dist_token", "tokenizer.stem.{p}": "patch_embed.proj.{p}",
        BLOCK + "norm1.{p}": "blocks.{i}.norm1.{p}", BLOCK + "norm2.{p}": "blocks.{i}.norm2.{p}",
        BLOCK + "attn.qkv.{p}": "blocks.{i}.attn.qkv.{p}", BLOCK + "attn.proj.{p}": "blocks.{i}.attn.proj.{p}",
        BLOCK + "mlp.fc1.{p}": "blocks.{i}.mlp.fc1.{p}", BLOCK + "mlp.fc2.{p}": "blocks.{i}.mlp.fc2.{p}",
        BLOCK + "scale1": "blocks.{i}.ls1.gamma", BLOCK + "scale2": "blocks.{i}.ls2.gamma",
        "norm.{p}": "norm.{p}", "head.{p}": "head.{p}", "distillation_head.{p}": "head_dist.{p}",
    },
    ((r"^register_tokens$", "reg_token"),),  # DINOv2's own code
)  # fmt: skip

TORCHVISION = Naming(
    "torchvision",
    {
        "tokenizer.cls": "class_token", "tokenizer.positions": "encoder.pos_embedding", "tokenizer.stem.{p}": "conv_proj.{p}",
        BLOCK + "norm1.{p}": "encoder.layers.encoder_layer_{i}.ln_1.{p}",
        BLOCK + "norm2.{p}": "encoder.layers.encoder_layer_{i}.ln_2.{p}",
        BLOCK + "attn.qkv.{p}": "encoder.layers.encoder_layer_{i}.self_attention.in_proj_{p}",
        BLOCK + "attn.proj.{p}": "encoder.layers.encoder_layer_{i}.self_attention.out_proj.{p}",
        BLOCK + "mlp.fc1.{p}": "encoder.layers.encoder_layer_{i}.mlp.0.{p}",
        BLOCK + "mlp.fc2.{p}": "encoder.layers.encoder_layer_{i}.mlp.3.{p}",
        "norm.{p}": "encoder.ln.{p}", "head.{p}": "heads.head.{p}",
    },
    ((r"\.mlp\.linear_1\.", ".mlp.0."), (r"\.mlp\.linear_2\.", ".mlp.3."), (r"^heads\.(weight|bias)$", r"heads.head.\1")),
)  # fmt: skip

_HF_TOKENS = {
    "tokenizer.cls": "embeddings.cls_token", "tokenizer.positions": "embeddings.position_embeddings",
    "tokenizer.registers": "embeddings.register_tokens", "distillation": "embeddings.distillation_token",
    "tokenizer.stem.{p}": "embeddings.patch_embeddings.projection.{p}",
    BLOCK + "attn.q.{p}": "encoder.layer.{i}.attention.attention.query.{p}",
    BLOCK + "attn.k.{p}": "encoder.layer.{i}.attention.attention.key.{p}",
    BLOCK + "attn.v.{p}": "encoder.layer.{i}.attention.attention.value.{p}",
    BLOCK + "attn.proj.{p}": "encoder.layer.{i}.attention.output.dense.{p}",
    "norm.{p}": "layernorm.{p}", "head.{p}": "classifier.{p}", "distillation_head.{p}": "distillation_classifier.{p}",
}  # fmt: skip

_HF_NEW = (  # the modules of transformers 5; its save_pretrained still writes the names of 4
    (r"^layers\.", "encoder.layer."), (r"\.q_proj\.", ".attention.query."), (r"\.k_proj\.", ".attention.key."),
    (r"\.v_proj\.", ".attention.value."), (r"\.attention\.o_proj\.", ".attention.output.dense."),
    (r"^cls_classifier\.", "classifier."),
)  # fmt: skip

HUGGING_FACE_VIT = Naming(
    "Hugging Face ViT",
    _HF_TOKENS | {
        BLOCK + "norm1.{p}": "encoder.layer.{i}.layernorm_before.{p}",
        BLOCK + "norm2.{p}": "encoder.layer.{i}.layernorm_after.{p}",
        BLOCK + "mlp.fc1.{p}": "encoder.layer.{i}.intermediate.dense.{p}",
        BLOCK + "mlp.fc2.{p}": "encoder.layer.{i}.output.dense.{p}",
    },
    (*_HF_NEW, (r"\.mlp\.fc1\.", ".intermediate.dense."), (r"(layer\.\d+)\.mlp\.fc2\.", r"\1.output.dense.")),
)  # fmt: skip

HUGGING_FACE_DINOV2 = Naming(
    "Hugging Face DINOv2",
    _HF_TOKENS | {
        BLOCK + "norm1.{p}": "encoder.layer.{i}.norm1.{p}", BLOCK + "norm2.{p}": "encoder.layer.{i}.norm2.{p}",
        BLOCK + "mlp.fc1.{p}": "encoder.layer.{i}.mlp.fc1.{p}", BLOCK + "mlp.fc2.{p}": "encoder.layer.{i}.mlp.fc2.{p}",
        BLOCK + "scale1": "encoder.layer.{i}.layer_scale1.lambda1", BLOCK + "scale2": "encoder.layer.{i}.layer_scale2.lambda1",
    },
    _HF_NEW,
)  # fmt: skip

NAMINGS = (TORCHVISION, HUGGING_FACE_VIT, HUGGING_FACE_DINOV2, TIMM)

SUPPORTED = (
    "an odevit ViT folder; Hugging Face folders of model_type vit (ViT, DINO), deit, dinov2, dinov2_with_registers; "
    "timm vit_*, deit_*, deit3_* with a class token; torchvision VisionTransformer; DINO and DINOv2 .pth"
)

NEEDED = (
    "tokenizer.cls", "tokenizer.positions", "tokenizer.stem.weight", "norm.weight", "norm.bias",
    *(f"{BLOCK}norm{i}.{p}" for i in (1, 2) for p in ("weight", "bias")),
    *(f"{BLOCK}{part}.weight" for part in ("attn.proj", "mlp.fc1", "mlp.fc2")),
)  # fmt: skip

# has no part in classification: masked-image training, poolers, the projection heads of DINO
UNUSED = re.compile(r"(^|\.)(mask_token$|pooler\.|decoder\.|head\.(mlp|last_layer)\.|dino_head\.|ibot_head\.)")
