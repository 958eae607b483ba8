"""The processes of a run under torchrun: how a batch is shared, what is summed, what rank 0 does for all.

Gradients are averaged by DistributedDataParallel; each process weighs its loss by its share of the images, so that the average
is the gradient of the mean over the whole batch. One process needs none of this and joins no group.
"""

import os
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.parallel import DistributedDataParallel

from .errors import UserError

Answer = TypeVar("Answer")


class Processes:
    """This process among those that torchrun started (by its environment); a group is joined where there is more than one.

    Attributes:
        rank, world: number of this process, and how many there are.
    """

    def __init__(self, device: torch.device):
        self.rank, self.world, self.device = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1)), device
        if self.world > 1 and not dist.is_initialized():
            if device.type == "cuda":
                torch.cuda.set_device(device)
            dist.init_process_group("nccl" if device.type == "cuda" else "gloo")

    def share(self, ids: Tensor, parts: int) -> tuple[Tensor, ...]:
        """This process's part of a batch, in `parts` pieces; sizes differ by at most one over all pieces of all processes."""
        return ids.tensor_split(self.world * parts)[self.rank * parts : (self.rank + 1) * parts]

    def wrapped(self, module: nn.Module) -> nn.Module:
        """`module` with gradients averaged over the processes and BatchNorm over their common batch.

        Raises UserError for BatchNorm between processes on CPUs, where torch cannot share its statistics.
        """
        if self.world == 1:
            return module
        if self.device.type == "cuda":
            module = nn.SyncBatchNorm.convert_sync_batchnorm(module)
            return DistributedDataParallel(module, device_ids=[self.device])
        if any(isinstance(m, _BatchNorm) for m in module.modules()):
            way_out = "use --model.stem patch or one process"
            raise UserError(f"model.stem: conv has BatchNorm, whose statistics are shared between GPUs only; {way_out}")
        return DistributedDataParallel(module)

    def summed(self, values: dict[str, float]) -> dict[str, float]:
        """Each value summed over the processes, which must have the same keys in the same order."""
        if self.world == 1 or not values:
            return dict(values)
        total = torch.tensor(list(values.values()), dtype=torch.float64, device=self.device)
        dist.all_reduce(total)
        return dict(zip(values, total.tolist()))

    def any(self, flag: bool) -> bool:
        """Whether the flag is set in any process."""
        return self.summed({"flag": float(flag)})["flag"] > 0

    def from_first(self, ask: Callable[[], Answer]) -> Answer:
        """What `ask` returns in rank 0, which alone calls it; the others wait for the answer."""
        if self.world == 1:
            return ask()
        answer: list[Any] = [ask() if self.rank == 0 else None]
        dist.broadcast_object_list(answer, src=0, device=self.device)
        return answer[0]


def without_averaging(forward: nn.Module):
    """A context in which backward keeps its gradients in this process, for all micro-batches of a step but the last."""
    return forward.no_sync() if isinstance(forward, DistributedDataParallel) else nullcontext()


def leave() -> None:
    """Leave the group, at the end of a program."""
    if dist.is_initialized():
        dist.destroy_process_group()
