"""Read a model folder: config.json says what the model is, model.safetensors must fit it name by name."""

import json
import logging
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from ..backbone import Backbone
from ..config import InputConfig, ODEViTConfig, SolverConfig, ViTConfig, from_dict, nearest
from ..errors import NonFiniteError, UserError
from ..flow import find_method
from ..layout import TokenLayout
from ..model import build
from .conversion import read_safetensors
from .diagnosis import diagnose, missing, safetensors_header
from .saving import FORMAT

log = logging.getLogger("odevit")
_POSITIONS = "tokenizer.positions"


def load_model(path, *, device: Any = "cpu", img_size: int | tuple[int, int] | None = None, **overrides) -> Backbone:
    """The model saved in a folder, in eval mode.

    Args:
        path: a folder that `save_model` wrote.
        device: where to put it.
        img_size: another image size than the trained one; the positions of the patches are interpolated and this is logged.
        overrides: fields of the solver (method, steps, horizon, rtol, atol), replaced.

    Raises:
        UserError: no such folder, a broken file, a newer format, weights that do not fit, a solver that is not installed.
    """
    folder = Path(path)
    config = read_config(folder)
    model_config, solver, inputs = parse_config(config, folder)
    trained_grid = model_config.grid
    if img_size is not None:
        model_config = replace(model_config, img_size=img_size)
    solver = _overridden(solver, overrides, model_config, folder)
    if not (folder / "model.safetensors").exists():
        raise UserError(f"{folder}: no model.safetensors; found: {listing(folder)}")
    tensors = strip_prefixes(read_safetensors(folder / "model.safetensors")[0])
    if model_config.grid != trained_grid and _POSITIONS in tensors:
        tensors[_POSITIONS] = resize_positions(tensors[_POSITIONS], trained_grid, model_config.grid)
    return assemble(tensors, model_config, solver, inputs, folder).to(device).eval()


def assemble(
    tensors: dict[str, Tensor], config: ODEViTConfig | ViTConfig, solver: SolverConfig, inputs: InputConfig, where
) -> Backbone:
    """The model of a config with these weights, in float32 or better; UserError, beginning with `where`, unless they fit it."""
    try:
        with torch.device("meta"), _Undrawn():  # nothing is allocated or drawn before the names and shapes are known to fit
            model = build(config, solver, inputs)
    except RuntimeError as error:
        raise UserError(f"{where}: no model can be built from its config ({error})") from None
    expected = model.state_dict()
    check_fit(tensors, expected, where)
    model.load_state_dict({name: _settled(tensor, expected[name]) for name, tensor in tensors.items()}, assign=True)
    return model


def _settled(tensor: Tensor, like: Tensor) -> Tensor:
    """A copy in float32 or better, in the memory order of the tensor that it takes the place of."""
    dtype = torch.float32 if tensor.dtype in (torch.float16, torch.bfloat16) else tensor.dtype
    return torch.empty_strided(like.shape, like.stride(), dtype=dtype).copy_(tensor)


class _Undrawn(TorchFunctionMode):
    """Leave out the initial draws: they would be overwritten, and on meta tensors torch imports sympy for them (a second)."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func in (Tensor.normal_, Tensor.div_, torch.linalg.matrix_norm):
            return args[0]
        return func(*args, **(kwargs or {}))


def read_config(path) -> dict[str, Any]:
    """config.json of a model folder, of a format that this version reads.

    Where it is missing or older than the weights (a save was killed between the two), the copy inside the weights is taken.
    """
    folder = Path(path)
    file, weights = folder / "config.json", folder / "model.safetensors"
    inner = _embedded(weights)
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        if inner is None:
            raise UserError(_no_config(folder)) from None
        log.warning("%s: no config.json; using the copy inside model.safetensors", folder)
        return inner
    except (OSError, ValueError) as error:
        raise UserError(f"{file}: cannot be read ({error})") from None
    _check_format(config, file)
    if inner and "save" in config and config["save"] != inner.get("save"):
        log.warning("%s: config.json is older than the weights (a save was interrupted); using the copy inside them", folder)
        return inner
    return config


def _embedded(weights: Path) -> dict[str, Any] | None:
    """The copy of config.json that our own weights carry."""
    try:
        text = (safetensors_header(weights) or {}).get("__metadata__", {}).get("odevit")
        config = json.loads(text) if text else None
    except (OSError, ValueError, AttributeError):  # damaged: reading the tensors will say how
        return None
    return config if isinstance(config, dict) and config.get("format") == FORMAT else None


def _no_config(folder: Path) -> str:
    if not folder.exists():
        return f"{folder}: {missing(folder)}"
    if not folder.is_dir():
        return f"{folder}: {diagnose(folder) or 'is a file; give the folder that holds config.json and model.safetensors'}"
    return f"{folder}: no config.json; found: {listing(folder)}"


def listing(folder: Path) -> str:
    """Names of the first few files of a folder."""
    found = sorted(p.name for p in folder.iterdir() if not p.name.startswith("."))
    return (", ".join(found[:8]) or "nothing") + (f" and {len(found) - 8} more" if len(found) > 8 else "")


def _check_format(config: Any, file: Path) -> None:
    if not isinstance(config, dict):
        raise UserError(f"{file}: expected an object, got {type(config).__name__}")
    if "format" not in config and "model_type" in config:
        raise UserError(f"{file}: a Hugging Face model ({config['model_type']}); load it as a teacher (odevit.teachers.load)")
    version = config.get("format", 0)
    if not isinstance(version, int) or version < 1:
        said = f"format {version!r}" if "format" in config else "no format"
        raise UserError(f"{file}: {said}; not written by a release of odevit (which reads format {FORMAT})")
    if version > FORMAT:
        raise UserError(f"{file}: written by a newer version (format {version}; this one reads up to {FORMAT})")


def parse_config(config: dict[str, Any], folder: Path) -> tuple[ODEViTConfig | ViTConfig, SolverConfig, InputConfig]:
    """The typed configs of a model folder; UserError names the file and the key."""
    kinds: dict[Any, type] = {"odevit": ODEViTConfig, "vit": ViTConfig}
    kind = config.get("kind")
    try:
        if kind not in kinds:
            raise UserError(f"kind: unknown {kind!r}{nearest(str(kind), kinds)} (known: odevit, vit)")
        for section in ("model", "solver"):
            if section not in config:
                raise UserError(f"no section {section!r}")
        inputs = from_dict(InputConfig, config.get("data", {}), "data")
        return from_dict(kinds[kind], config["model"], "model"), from_dict(SolverConfig, config["solver"], "solver"), inputs
    except UserError as error:
        raise UserError(f"{folder / 'config.json'}: {error}") from None


def _overridden(solver: SolverConfig, overrides: dict[str, Any], model_config, folder: Path) -> SolverConfig:
    known = [f.name for f in fields(SolverConfig)]
    for key in overrides:
        if key == "patch_size":
            raise UserError(f"{folder}: patch_size is fixed by the weights ({model_config.patch_size})")
        if key not in known:
            raise UserError(f"{key}: unknown override{nearest(key, known)} (known: img_size, {', '.join(known)})")
    if overrides and isinstance(model_config, ViTConfig):
        raise UserError(f"{folder}: a discrete ViT has no solver to override ({', '.join(overrides)}); give it to trajectory()")
    solver = replace(solver, **overrides)
    try:
        find_method(solver.method)
    except UserError as error:
        way_out = "" if "method" in overrides else '; load_model(path, method="rk4") or --method rk4 loads it'
        raise UserError(f"{folder}: solver.{error}{way_out}") from None
    return solver


def strip_prefixes(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors without what DDP ("module." before every name) and torch.compile ("_orig_mod." anywhere) put into names."""
    named = {name.replace("_orig_mod.", ""): tensor for name, tensor in tensors.items()}
    while named and all(name.startswith("module.") for name in named):
        named = {name.removeprefix("module.").replace("_orig_mod.", ""): tensor for name, tensor in named.items()}
    return named


def check_fit(tensors: dict[str, Tensor], expected: dict[str, Tensor], where) -> None:
    """Raise UserError unless names and shapes agree; the message counts and names what is missing, unexpected or misshapen."""
    missing = [name for name in expected if name not in tensors]
    extra = [name for name in tensors if name not in expected]
    shapes = [
        f"{name} {tuple(tensors[name].shape)} instead of {tuple(expected[name].shape)}"
        for name in expected
        if name in tensors and tensors[name].shape != expected[name].shape
    ]
    found = [
        f"{len(names)} {what} ({', '.join(names[:3])}{', ..' if len(names) > 3 else ''})"
        for what, names in (("missing", missing), ("unexpected", extra), ("of another shape", shapes))
        if names
    ]
    if found:
        raise UserError(f"{where}: weights do not fit the config: {'; '.join(found)}")


def resize_positions(positions: Tensor, old: tuple[int, int], new: tuple[int, int]) -> Tensor:
    """Position table (1 + rows * columns, D) on another patch grid: bicubic on the grid, the CLS row as it is; logged.

    Args:
        positions: CLS first, then the patches of grid `old` row by row.
        old, new: (rows, columns).
    """
    if old == new:
        return positions
    log.info("positions %dx%d -> %dx%d", *old, *new)
    layout = TokenLayout(0, old)
    if len(positions) != layout.size:
        raise UserError(f"positions: {len(positions)} rows do not fit a grid of {old[0]}x{old[1]} and CLS")
    grid = positions[layout.patches].float().T.reshape(1, -1, *old)  # (1, D, rows, columns)
    resized = F.interpolate(grid, size=new, mode="bicubic", antialias=True).flatten(2)[0].T
    return torch.cat([positions[layout.cls], resized.to(positions.dtype)])


def check_weights(model: torch.nn.Module) -> None:
    """Raise NonFiniteError naming the first weight or buffer that holds NaN or an infinite value."""
    for name, tensor in model.state_dict().items():
        bad = int((~torch.isfinite(tensor)).sum()) if tensor.is_floating_point() else 0
        if bad:
            raise NonFiniteError(f"weights: {name} holds {bad} NaN or infinite values (of {tensor.numel()})")
