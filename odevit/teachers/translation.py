"""Tensors of a foreign ViT -> the state dict of our `ViT`: names, fused q k v, registers at the end, the head.

Self-attention and MLP act alike on every token, so moving the registers behind the patches moves them in every hidden state and
changes nothing else. A distillation token (DeiT, 2012.12877) is a register to which its position is added; the mean of its two
heads is one head on [CLS, register].
"""

import logging
import re
from collections import Counter

import torch
from torch import Tensor

from ..errors import NonFiniteError, UserError
from .families import BLOCK, NAMINGS, NEEDED, SUPPORTED, UNUSED, Naming

log = logging.getLogger("odevit")
State = dict[str, Tensor]


def recognise(tensors: State, where) -> tuple[Naming, State]:
    """Whose names these are, and the tensors under the usual names of that library, without prefixes and unused parts (logged).

    Raises:
        UserError: names of no supported library.
        NonFiniteError: a tensor holds NaN or infinite values.
    """
    useful = {name: tensor for name, tensor in tensors.items() if not UNUSED.search(name)}
    counted = {(naming.library, prefix): n for naming in NAMINGS for prefix, n in _prefixes(naming, useful).items()}
    best = max(counted, key=lambda key: (counted[key], "teacher" in key[1]), default=None)
    if best is None or counted[best] < len(useful) / 3:
        shown = ", ".join(list(tensors)[:3])
        raise UserError(f"{where}: unsupported architecture: names such as {shown} (supported: {SUPPORTED})")
    naming = next(naming for naming in NAMINGS if naming.library == best[0])
    rivals = [prefix for (library, prefix), n in counted.items() if library == best[0] and 2 * n > counted[best]]
    named = _stripped(useful, best[1], [prefix for prefix in rivals if prefix != best[1]])
    _say_what_is_left(tensors, named.values(), where)
    for name, tensor in named.values():
        bad = int((~torch.isfinite(tensor)).sum()) if tensor.is_floating_point() else 0
        if bad:
            raise NonFiniteError(f"{where}: {name} holds {bad} NaN or infinite values (of {tensor.numel()})")
    return naming, {naming.usual(name): tensor for name, (_, tensor) in named.items()}


def _prefixes(naming: Naming, names) -> Counter[str]:
    """How many names the library knows after each prefix, such as "backbone." of "backbone.patch_embed.proj.weight"."""
    found: Counter[str] = Counter()
    for name in names:
        parts = name.split(".")
        for i in range(len(parts)):
            if naming.ours(naming.usual(".".join(parts[i:]))):
                found["".join(f"{part}." for part in parts[:i])] += 1
                break
    return found


def _stripped(tensors: State, prefix: str, rivals: list[str]) -> dict[str, tuple[str, Tensor]]:
    """name without prefix -> (name, tensor), without the tensors of other networks in the same file (a student, say)."""
    others = tuple(rival for rival in rivals if rival and not prefix.startswith(rival))
    return {name.removeprefix(prefix): (name, tensor) for name, tensor in tensors.items() if not name.startswith(others)}


def _say_what_is_left(tensors: State, kept, where) -> None:
    """One log line on the tensors that are not read."""
    taken = {name for name, _ in kept}
    left = Counter(re.sub(r"\.(weight|bias)$", "", name) for name in tensors if name not in taken)
    if left:
        shown = ", ".join(list(left)[:6]) + (", .." if len(left) > 6 else "")
        log.info("%s: ignored, has no part in classification: %s", where, shown)


def translate(tensors: State, naming: Naming, depth: int | None, where) -> tuple[State, int]:
    """The tensors under our names, and the number of layers.

    Args:
        tensors: under the usual names of the library.
        depth: number of layers where it is known; counted otherwise.

    Raises:
        UserError: tensors are missing or unexpected; all are counted, the first ones named.
    """
    named = {name: naming.ours(name) for name in tensors}
    blocks = [int(found[1]) for ours in named.values() if ours and (found := re.match(r"field\.blocks\.(\d+)\.", ours))]
    depth = depth or max(blocks, default=-1) + 1
    kinds = {re.sub(r"blocks\.\d+", "blocks.{i}", ours) for ours in named.values() if ours}
    attention = [f"{BLOCK}attn.{part}.weight" for part in (["qkv"] if f"{BLOCK}attn.qkv.{{p}}" in naming.names else "qkv")]
    needed = [ours for kind in kinds.union(NEEDED, attention) for ours in _instances(kind, depth)]
    present = set(named.values())
    missing = sorted(naming.theirs(ours) for ours in needed if ours not in present)
    extra = [name for name, ours in named.items() if ours is None or ours not in needed]
    complaints = [
        f"{len(names)} {what} ({', '.join(names[:4])}{', ..' if len(names) > 4 else ''})"
        for what, names in (("missing", missing), ("unexpected", extra))
        if names
    ]
    if complaints:
        hint = "; it has no class token" if naming.names["tokenizer.cls"] in missing else ""
        raise UserError(f"{where}: weights do not fit a {naming.library} model: {'; '.join(complaints)}{hint}")
    return {ours: tensors[name] for name, ours in named.items() if ours}, depth


def _instances(kind: str, depth: int) -> list[str]:
    return [kind.format(i=i) for i in range(depth)] if "{i}" in kind else [kind]


def unfuse(state: State, depth: int) -> None:
    """Split q, k and v where they are one matrix, and give zeros to linear maps without a bias, in place."""
    for prefix in (BLOCK.format(i=i) for i in range(depth)):
        for part in ("weight", "bias"):
            fused = state.pop(f"{prefix}attn.qkv.{part}", None)
            if fused is not None:
                parts = zip("qkv", fused.chunk(3))
                state.update({f"{prefix}attn.{name}.{part}": tensor for name, tensor in parts})
        for layer in ("attn.q", "attn.k", "attn.v", "attn.proj", "mlp.fc1", "mlp.fc2"):
            _with_bias(state, prefix + layer)
    for layer in ("tokenizer.stem", "head", "distillation_head"):
        if f"{layer}.weight" in state:
            _with_bias(state, layer)


def _with_bias(state: State, layer: str) -> None:
    weight = state[f"{layer}.weight"]
    state.setdefault(f"{layer}.bias", weight.new_zeros(len(weight)))


def gather_tokens(state: State, patches: int) -> None:
    """CLS, registers and positions as our tokenizer has them, in place.

    Args:
        state: may hold `distillation`; the position table has `patches` rows after those of none, CLS, or all other tokens.
    """
    positions = state["tokenizer.positions"].flatten(0, -2)  # (rows, D)
    width = positions.shape[-1]
    others = [state.pop(name).reshape(-1, width) for name in ("distillation", "tokenizer.registers") if name in state]
    registers = torch.cat([positions.new_zeros(0, width), *others])
    lead = len(positions) - patches
    if lead > 1:
        registers = registers + positions[1:lead]
    cls = positions[:1] if lead else positions.new_zeros(1, width)
    state["tokenizer.cls"] = state["tokenizer.cls"].flatten()
    state["tokenizer.registers"] = registers
    state["tokenizer.positions"] = torch.cat([cls, positions[lead:]])
