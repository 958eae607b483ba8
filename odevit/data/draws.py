"""Random numbers by counter: u = hash(seed, epoch, sample, k), so a draw depends on the sample, never on batch, rank or device.

The hash is the SplitMix64 stream (Steele, Lea and Flood, OOPSLA 2014, doi 10.1145/2660193.2660195) started at a state into
which seed, epoch and sample were mixed one after the other with the same finaliser; int64 products wrap, as it wants.
"""

import torch
from torch import Tensor


def _signed(word: int) -> int:
    """The int64 with the lowest 64 bits of `word`."""
    word &= 2**64 - 1
    return word - 2**64 if word >> 63 else word


GOLDEN = _signed(0x9E3779B97F4A7C15)
FIRST, SECOND = _signed(0xBF58476D1CE4E5B9), _signed(0x94D049BB133111EB)


def _shifted(word: Tensor, bits: int) -> Tensor:
    return (word >> bits) & (2 ** (64 - bits) - 1)  # torch's >> keeps the sign; the hash needs zeros


def _finalise(word: Tensor) -> Tensor:
    word = (word ^ _shifted(word, 30)) * FIRST
    word = (word ^ _shifted(word, 27)) * SECOND
    return word ^ _shifted(word, 31)


def stream(state: Tensor, count: int) -> Tensor:
    """The first `count` words of the SplitMix64 streams that start at the given states.

    >>> hex(int(stream(torch.zeros(1, dtype=torch.int64), 1)) % 2**64)
    '0xe220a8397b1dcdaf'

    Args:
        state: int64, shape (B,).
        count: words per state.
    Returns: int64, shape (B, count), all 64 bits in use.
    """
    steps = torch.arange(1, count + 1, device=state.device)
    return _finalise(state[:, None] + GOLDEN * steps)


def uniforms(seed: int, epoch: int, samples: Tensor, count: int) -> Tensor:
    """Uniform numbers in [0, 1) that are a function of (seed, epoch, sample, column) only.

    Args:
        seed: any integer (its lowest 64 bits count).
        epoch: any integer.
        samples: int64 numbers of the samples, shape (B,).
        count: numbers per sample.
    Returns: float64, shape (B, count), 53 random bits each.
    """
    state = torch.zeros_like(samples)
    for word in (_signed(seed), _signed(epoch), samples):
        state = _finalise((state + GOLDEN) ^ word)
    return _shifted(stream(state, count), 11).double() * 2.0**-53
