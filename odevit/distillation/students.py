"""Students: an ODE-ViT that takes over the patch embedding, CLS, positions, final norm and head of a discrete ViT.

Copies, never shares, and freezes them; the ODE block and the registers are trained. A student of another width d sees the
teacher through a linear map learned from it: P (d, D), whose rows are the leading directions of the teacher's hidden states
(eigenvectors of sum x x^T, largest first), so x0 = P x0_teacher and its states are compared with P x. The head is then its own.
"""

import torch
from torch import Tensor, nn

from ..config import ODEViTConfig, SolverConfig
from ..errors import UserError
from ..field import CenterNorm
from ..model import ODEViT
from ..vit import ViT

SHARED = ("img_size", "patch_size", "in_chans", "stem", "pool", "final_norm", "norm_eps")
STEPS_PER_LAYER = 2  # of a student, unless it is told otherwise; the reference takes 2 to 3
REGISTERS = 4  # of a student whose teacher has none


def default_student(teacher: ViT, num_classes: int | None = None) -> tuple[ODEViTConfig, SolverConfig]:
    """The student of a teacher where nothing else is said: same widths, one block without biases, T = depth, Euler."""
    c = teacher.config
    model = ODEViTConfig(
        num_classes=num_classes or c.num_classes, embed_dim=c.embed_dim, num_heads=c.num_heads, mlp_ratio=c.mlp_ratio,
        registers=c.registers or REGISTERS, **{name: getattr(c, name) for name in SHARED},
    )  # fmt: skip
    return model, SolverConfig("euler", float(c.depth), STEPS_PER_LAYER * c.depth)


def check_student(model: ODEViTConfig, solver: SolverConfig, teacher: ViT, head: str) -> None:
    """UserError, naming the field, where a student cannot take over what it must from its teacher."""
    if head == "teacher" and model.num_classes != teacher.config.num_classes:
        classes = teacher.config.num_classes
        raise UserError(f"model.num_classes: {model.num_classes}, but the teacher's head has {classes}; use that or --head new")
    for name in SHARED:
        if getattr(model, name) != getattr(teacher.config, name):
            raise UserError(f"model.{name}: {getattr(model, name)}, but the teacher has {getattr(teacher.config, name)}")
    if solver.horizon != teacher.config.depth:
        raise UserError(f"solver.horizon: {solver.horizon:g}, but T is the depth of the teacher, {teacher.config.depth}")
    if model.embed_dim != teacher.config.embed_dim and model.stem == "conv":
        raise UserError("model.embed_dim: a convolutional stem cannot be mapped to another width; use that of the teacher")


@torch.no_grad()
def principal_map(teacher: ViT, images: Tensor, width: int, batch_size: int = 64) -> Tensor:
    """The linear map P (d, D) with orthonormal rows that keeps most of the energy of CLS and patch states over all layers.

    Args:
        images: normalised, (n, C, H, W).
        width: d; where it is above D, P is the identity with zeros below.
    """
    dim, layout = teacher.config.embed_dim, teacher.layout
    if width > dim:
        return torch.eye(width, dim)
    moment = torch.zeros(dim, dim, dtype=torch.float64)
    for batch in images.split(batch_size):
        x = teacher.trajectory(batch.to(teacher.head.weight.device)).x[:, :, : layout.patches.stop].flatten(0, 2).double().cpu()
        moment += x.T @ x
    return torch.linalg.eigh(moment).eigenvectors.flip(1)[:, :width].T.float().contiguous()


@torch.no_grad()
def take_over(student: ODEViT, teacher: ViT, *, head: str, basis: Tensor | None = None) -> None:
    """Copy into a fresh student what it takes over, and freeze it, in place.

    Args:
        head: teacher or new, as in DistillConfig.
        basis: P (d, D) for a student of another width; None for the same.
    """
    _copy_tokens(student, teacher, basis)
    frozen: list[nn.Module] = [student.tokenizer.stem]
    if basis is None:
        student.norm.load_state_dict(teacher.norm.state_dict())
        frozen.append(student.norm)
        if head == "teacher":
            student.head.load_state_dict(teacher.head.state_dict())
            frozen.append(student.head)
    for module in frozen:
        module.requires_grad_(False)
    student.tokenizer.cls.requires_grad_(False)
    student.tokenizer.positions.requires_grad_(False)


def _copy_tokens(student: ODEViT, teacher: ViT, basis: Tensor | None) -> None:
    own, others = student.tokenizer, teacher.tokenizer
    same = min(student.config.registers, teacher.config.registers)  # these are trained on from the teacher's
    if basis is None:
        own.stem.load_state_dict(others.stem.state_dict())
        own.cls.copy_(others.cls)
        own.positions.copy_(others.positions)
        own.registers[:same].copy_(others.registers[:same])
        return
    basis = basis.to(others.cls)
    stem = dict(others.stem.named_parameters())  # one convolution: check_student refuses others
    own.stem.load_state_dict(
        {"weight": torch.einsum("de,ecij->dcij", basis, stem["weight"]), "bias": basis @ stem["bias"]}
    )
    own.cls.copy_(basis @ others.cls)
    own.positions.copy_(others.positions @ basis.T)
    own.registers[:same].copy_(others.registers[:same] @ basis.T)


@torch.no_grad()
def calibrate(student: ODEViT, teacher: ViT, images: Tensor, basis: Tensor | None = None) -> None:
    """Scale the blocks of a fresh student so that its field is as fast on the teacher's states as the teacher is, in place.

    A frozen embedding is small (0.02 at birth) and CenterNorm keeps it so, where the teacher's LayerNorm does not: a field of
    spectral norm 1 would hardly move. gamma becomes 1 / rms of the centred states, which gives normalised tokens the size that
    LayerNorm gives them; then the maps out of both branches are scaled until mean |f(h_l)|^2 = mean |h_{l+1} - h_l|^2.

    Args:
        student: in eval mode.
        images: normalised, (n, C, H, W).
        basis: map (d, D) of the teacher's states for a student of width d.
    """
    states = teacher.trajectory(images).x[:, :, : teacher.layout.patches.stop]  # (L + 1, n, CLS and patches, D)
    states = states if basis is None else states @ basis.to(states).T
    size = (states[:-1] - states[:-1].mean(-1, keepdim=True)).square().mean().sqrt()
    speed, own = states.diff(dim=0).square().mean().sqrt(), student.initial_state(images)[:, student.layout.registers]
    for i, block in enumerate(student.field.blocks):
        for norm in (block.norm1, block.norm2):
            if isinstance(norm, CenterNorm):
                norm.gamma.div_(size)
        t = (i + 0.5) * student.solver.horizon / len(student.field.blocks)
        moves = [student.field(t, torch.cat([x, own], 1))[:, : teacher.layout.patches.stop] for x in states[:-1]]
        factor = speed / torch.stack(moves).square().mean().sqrt()
        for out in (block.attn.proj, block.mlp.fc2):  # type: ignore[union-attr]
            out.weight.mul_(factor)  # type: ignore[operator, union-attr]


def class_order(teacher: ViT, classes: tuple[str, ...]) -> tuple[str, ...] | None:
    """The order of classes that a teacher's head has, where the data name the same classes in another; None: as they are.

    Raises:
        UserError: another number of classes than the teacher's, or other names.
    """
    known = teacher.inputs.classes
    if len(classes) != teacher.config.num_classes:
        found = f"the teacher has {teacher.config.num_classes} classes, the data {len(classes)}"
        raise UserError(f"teacher: {found}; --head new gives the student a head of its own")
    if not known or known == classes:
        return None
    strangers = sorted(set(classes) - set(known))
    if strangers:
        named = ", ".join(strangers[:5])
        raise UserError(f"teacher: it does not know these classes of the data: {named}; use --head new or rename them")
    return known
