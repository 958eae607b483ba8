"""Models of one shape with other weights, so that nothing computed for one holds for another."""

from pathlib import Path

import torch

from odevit.checkpoint import load_model

SPREAD = 0.05  # of the noise, in standard deviations of a tensor: other answers, the same kind of dynamics


def write_copies(source: Path, root: Path, count: int) -> list[str]:
    """Names of `count` models written under `root`: `source` with noise on its weights, seed 0, 1 ..; cards left out.

    Raises:
        UserError: a folder without a model that can be read.
    """
    names = [f"copy{seed}" for seed in range(count)]
    for seed, name in enumerate(names):
        model = load_model(source)
        draw = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for p in model.parameters():
                if p.numel() > 1:
                    p.add_(SPREAD * p.std() * torch.randn(p.shape, generator=draw))
        model.save_pretrained(root / name)
    return names
