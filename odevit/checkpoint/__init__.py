"""Checkpoints: a folder of config.json, model.safetensors and README.md; training state apart; diagnosis of broken files.

Only tensors and plain data are ever read. `convert(..., trust=True)` is the one place that unpickles a foreign file.
"""

from .cards import model_card
from .restoring import check_weights, load_model, read_config, resize_positions
from .saving import FORMAT, file_hash, model_hash, save_model, write_atomically
from .states import load_training_state, save_training_state

__all__ = [
    "FORMAT", "check_weights", "file_hash", "load_model", "load_training_state", "model_card", "model_hash", "read_config",
    "resize_positions", "save_model", "save_training_state", "write_atomically",
]  # fmt: skip
