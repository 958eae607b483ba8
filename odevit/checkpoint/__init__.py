"""Checkpoints: a folder of config.json, model.safetensors and README.md; training state apart; diagnosis of broken files.

Only tensors and plain data are ever read. `convert(..., trust=True)` is the one place that unpickles a foreign file.
"""

from .cards import model_card
from .conversion import convert, load_tensors
from .diagnosis import diagnose, sniff
from .inspection import inspect
from .restoring import assemble, check_fit, check_weights, load_model, read_config, resize_positions, strip_prefixes
from .saving import FORMAT, file_hash, model_hash, save_model, write_atomically
from .states import load_training_state, save_training_state

__all__ = [
    "FORMAT", "assemble", "check_fit", "check_weights", "convert", "diagnose", "file_hash", "inspect", "load_model",
    "load_tensors", "load_training_state", "model_card", "model_hash", "read_config", "resize_positions", "save_model",
    "save_training_state", "sniff", "strip_prefixes", "write_atomically",
]  # fmt: skip
