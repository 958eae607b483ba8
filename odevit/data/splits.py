"""Stratified splits that depend on the seed and the labels only, and class names that mean the same in every split."""

import itertools

import numpy as np
import torch

from ..errors import UserError
from .draws import uniforms


def stratified(labels: np.ndarray, shares: tuple[float, ...], seed: int) -> list[np.ndarray]:
    """Disjoint index sets that cover all samples, each class cut in the given shares (rounded per class).

    The order inside a class is that of a hash of (seed, index), which no release of a library can change.

    Args:
        labels: integers, shape (n,).
        shares: shares of the parts; they sum to 1.
        seed: seed of the split.
    Returns: one ascending index array per share.
    """
    order = np.argsort(uniforms(seed, 0, torch.arange(len(labels)), 1)[:, 0].numpy(), kind="stable")
    parts: list[list[np.ndarray]] = [[] for _ in shares]
    for label in np.unique(labels):
        members = order[labels[order] == label]
        cuts = [0, *(round(len(members) * total) for total in itertools.accumulate(shares[:-1])), len(members)]
        for part, start, stop in zip(parts, cuts, cuts[1:]):
            part.append(members[start:stop])
    return [np.sort(np.concatenate(part)) if part else np.zeros(0, dtype=np.int64) for part in parts]


def relabel(labels: np.ndarray, names: tuple[str, ...], classes: tuple[str, ...], where: str) -> np.ndarray:
    """Labels in the order of `classes` for labels in the order of `names`: the same name gets the same number.

    >>> relabel(np.array([0, 1, 1]), ("cat", "dog"), ("ant", "cat", "dog"), "x")
    array([1, 2, 2])

    Raises: UserError naming a class that occurs in the labels but not in `classes`.
    """
    number = {name: i for i, name in enumerate(classes)}
    for label in np.unique(labels):
        if names[label] not in number:
            raise UserError(f"{where}: class {names[label]!r} is none of the {len(classes)} known classes ({listed(classes)})")
    return np.array([number.get(name, -1) for name in names], dtype=np.int64)[labels]


def listed(names: tuple[str, ...], most: int = 12) -> str:
    """The names joined by commas, the tail of a long list counted.

    >>> listed(("a", "b", "c"), most=2)
    'a, b and 1 more'
    """
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
