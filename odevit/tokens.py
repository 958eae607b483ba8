"""Tokenizer: an image becomes the initial state x0 of the flow.

x0 = [CLS; patches] + positions, then the registers, which have none (ODE-ViT, 2511.16501). The stem is one strided convolution
(ViT) or stride-2 3x3 convolutions with BatchNorm and GELU and a 1x1 convolution (Xiao et al. 2021, 2106.14881).
"""

import torch
from torch import Tensor, nn

from .attention import spectral_init_
from .config import BackboneConfig
from .layout import TokenLayout


def conv_stem(in_chans: int, patch_size: int, dim: int) -> nn.Sequential:
    """log2(patch_size) stages of 3x3, stride 2, BatchNorm, GELU, with doubling width up to dim, then 1x1: to (B, D, h, w)."""
    stages = max(1, patch_size.bit_length() - 1)
    widths = [in_chans, *(max(8, dim >> (stages - 1 - i)) for i in range(stages))]
    layers: list[nn.Module] = []
    for a, b in zip(widths, widths[1:]):
        layers += [nn.Conv2d(a, b, 3, stride=2 if patch_size > 1 else 1, padding=1, bias=False), nn.BatchNorm2d(b), nn.GELU()]
    return nn.Sequential(*layers, nn.Conv2d(widths[-1], dim, 1))


class Tokenizer(nn.Module):
    """Images (B, C, H, W) -> initial state x0 (B, N, D), float32 or better.

    Attributes:
        stem: image -> patch features; cls (D,), registers (R, D), positions (1 + h w, D) for CLS and patches.
    """

    def __init__(self, config: BackboneConfig):
        super().__init__()
        dim, patch = config.embed_dim, config.patch_size
        self.layout = TokenLayout(config.registers, config.grid)
        if config.stem == "conv":
            self.stem: nn.Module = conv_stem(config.in_chans, patch, dim).to(memory_format=torch.channels_last)
        else:
            self.stem = nn.Conv2d(config.in_chans, dim, patch, stride=patch)
        self.cls = nn.Parameter(torch.empty(dim))
        self.registers = nn.Parameter(torch.empty(config.registers, dim))
        self.positions = nn.Parameter(torch.empty(1 + self.layout.num_patches, dim))
        for tokens in (self.cls, self.registers, self.positions):
            if tokens.numel():
                nn.init.trunc_normal_(tokens, std=0.02)
        for layer in self.stem.modules():
            if isinstance(layer, nn.Conv2d):
                spectral_init_(layer.weight)
                if layer.bias is not None:
                    nn.init.zeros_(layer.bias)

    def forward(self, images: Tensor) -> Tensor:
        """x0, shape (B, N, D)."""
        if isinstance(self.stem, nn.Sequential):
            images = images.contiguous(memory_format=torch.channels_last)
        patches = self.stem(images).flatten(2).transpose(1, 2)  # (B, h w, D)
        batch = len(patches)
        named = torch.cat([self.cls.expand(batch, 1, -1), patches], 1) + self.positions
        return torch.cat([named, self.registers.expand(batch, -1, -1)], 1)
