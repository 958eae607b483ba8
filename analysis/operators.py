"""Matrix-free derivatives of a field and of its flow: J(t, x) v, J^T u, x'' = d_t f + J f, and tangents along a solve.

f is linearised once per point by reverse mode: u -> J^T u is its backward pass, and because that map is linear in u, its own
transpose is v -> J v (the double-VJP trick, Townsend 2017). No forward-mode rules are needed, so adaptive solvers work too,
and k products share one recorded pass (`is_grads_batched`).
"""

import copy
import hashlib
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from odevit.backbone import Backbone
from odevit.checkpoint import model_hash
from odevit.errors import NonFiniteError, UserError
from odevit.flow import integrate, piece_at
from odevit.trajectory import TimeGrid

from .reports import Provenance

Field = Callable[[Any, Tensor], Tensor]
DENSE_LIMIT = 2000  # dimensions above which no n x n matrix is formed
CHUNK = 2**20  # numbers in the tangents of one pass; more are split, so that memory stays flat in k
HALF = (torch.float16, torch.bfloat16)


def check_finite(name: str, tensor: Tensor, when: str = "") -> None:
    """Raise NonFiniteError, naming `name`, its first bad entry and `when`, unless every entry of `tensor` is finite."""
    bad = ~torch.isfinite(tensor)
    if bool(bad.any()):
        first = tuple(int(i) for i in bad.nonzero()[0])
        value = "NaN" if bool(torch.isnan(tensor[first])) else "infinite"
        count = f"{int(bad.sum())} of {bad.numel()} entries are not finite"
        raise NonFiniteError(f"{name} is {value} at {list(first)}{' ' + when if when else ''} ({count})")


@contextmanager
def explicit_attention() -> Iterator[None]:
    """Inside this context attention runs through differentiable matrix products: fused kernels have no second derivative."""
    fastpath = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fastpath)


def as_float64(model):
    """A float64 copy of a module in eval() mode, its parameters frozen; a half-precision module is cast with a warning.

    Raises NonFiniteError naming the first parameter or buffer that holds NaN or infinite values.
    """
    tensors = [*model.named_parameters(), *model.named_buffers()]
    for name, tensor in tensors:
        if tensor.is_floating_point():
            check_finite(f"weight {name}", tensor.detach())
    half = sorted({str(t.dtype) for _, t in tensors if t.dtype in HALF})
    if half:
        warnings.warn(f"analysis: cast a {', '.join(half)} model to float64; its weights keep their rounding", stacklevel=2)
    double = copy.deepcopy(model).to(torch.float64).eval().requires_grad_(False)
    for module in double.modules():
        if hasattr(module, "fused"):
            module.fused = False
        if hasattr(module, "compute_dtype"):
            module.compute_dtype = None
    return double


def prepared(f: Field, x: Tensor) -> tuple[Field, Tensor]:
    """(f, x) ready for analysis: modules (or their bound methods) and the state in float64 and eval(); callables as given."""
    owner = getattr(f, "__self__", f)
    if isinstance(owner, nn.Module):
        copied = owner if _ready(owner) else as_float64(owner)
        return copied if owner is f else getattr(copied, f.__name__), x.detach().to(torch.float64)
    if x.dtype in HALF or not x.is_floating_point():
        x = x.to(torch.float64)
    return f, x.detach()


def provenance(f: Any, x: Tensor, seed: int | None = None, note: str = "") -> Provenance:
    """Provenance of numbers computed from f at x: hash of the weights where f is a module (or one's method), dtype, device."""
    owner = getattr(f, "__self__", f)
    model = ""
    if isinstance(owner, Backbone):
        model = f"{type(owner).__name__} {model_hash(owner)}"
    elif isinstance(owner, nn.Module):
        digest = hashlib.sha256()
        for name, weight in owner.state_dict().items():
            exact = weight.detach().cpu().to(torch.float64)  # so that a model and its float64 copy have one hash
            digest.update(name.encode() + exact.contiguous().numpy().tobytes())
        model = f"{type(owner).__name__} {digest.hexdigest()[:12]}"
    return Provenance(model=model, dtype=str(x.dtype).removeprefix("torch."), device=str(x.device), seed=seed, note=note)


def _ready(model: nn.Module) -> bool:
    """Whether `as_float64` would change nothing."""
    tensors = [t for t in (*model.parameters(), *model.buffers()) if t.is_floating_point()]
    plain = not any(getattr(m, "fused", False) or getattr(m, "compute_dtype", None) for m in model.modules())
    return plain and not model.training and all(t.dtype == torch.float64 and not t.requires_grad for t in tensors)


def linearize(g: Callable[..., Tensor], *at: Tensor) -> tuple[Tensor, Callable, Callable]:
    """(g(*at), v -> J v, u -> J^T u) with everything recorded once.

    v holds one tangent for each argument in `at`, u is a cotangent of the value; both maps take `batched=True` where tangents
    carry an extra first axis. J^T u is returned for the last argument.

    Cost: one call of g and one backward pass; each product then costs about one call of g.
    """
    with torch.enable_grad(), explicit_attention():
        at = tuple(a.detach().requires_grad_() for a in at)
        value = g(*at)
        value = value + 0.0 * sum(a.sum() for a in at)  # a path from every argument, also where g is constant
        u = torch.zeros_like(value, requires_grad=True)
        pulled = torch.autograd.grad(value, at, u, create_graph=True)

    def push(*v: Tensor, batched: bool = False) -> Tensor:
        return torch.autograd.grad(pulled, u, v, retain_graph=True, is_grads_batched=batched)[0]

    def pull(u: Tensor, batched: bool = False) -> Tensor:
        return torch.autograd.grad(value, at[-1], u, retain_graph=True, is_grads_batched=batched)[0]

    return value.detach(), push, pull


class Jacobian:
    """J = dg/dx at one point as a linear operator on states, linearised once; build it by `jacobian` or `flow_jacobian`.

    Attributes:
        shape_state: shape of x (samples included).
        n: dimension of one sample.
        batch: number of samples, None without a batch axis. Samples do not mix: J is block diagonal over them.
        value: g(x).
        products: J v and J^T u so far, per sample.
    """

    def __init__(self, g: Callable[[Tensor], Tensor], x: Tensor, batch_dims: int = 0, when: str = "", name: str = "f(t, x)"):
        if batch_dims not in (0, 1) or x.dim() < batch_dims or x.numel() == 0:
            raise UserError(f"batch_dims: {batch_dims} does not fit a state of shape {tuple(x.shape)}; 0, or 1 for (B, ...)")
        check_finite("state x", x, when)
        self.shape_state = tuple(x.shape)
        self.batch = x.shape[0] if batch_dims else None
        self.n = x.numel() // (self.batch or 1)
        self.dtype, self.device, self.products = x.dtype, x.device, 0
        self.value, self._push, self._pull = linearize(g, x)
        if self.value.shape != x.shape:
            raise UserError(f"{name}: shape {tuple(self.value.shape)} differs from the state's {self.shape_state}")
        check_finite(name, self.value, when)

    def matvec(self, v: Tensor) -> Tensor:
        """J v for one tangent (*state) or k tangents (k, *state) in one pass; the same shape comes back."""
        return self._apply(self._push, v)

    def rmatvec(self, u: Tensor) -> Tensor:
        """J^T u for one cotangent (*state) or k cotangents (k, *state) in one pass; the same shape comes back."""
        return self._apply(self._pull, u)

    def symmetric(self, v: Tensor) -> Tensor:
        """S v = (J v + J^T v) / 2, two products for each tangent."""
        return (self.matvec(v) + self.rmatvec(v)) / 2

    def dense(self) -> Tensor:
        """J as a matrix (n, n), or (B, n, n), in n products; vec is row-major.

        Raises UserError above DENSE_LIMIT dimensions, NonFiniteError where J is not finite.
        """
        n, b = self.n, self.batch or 1
        if n > DENSE_LIMIT:
            size = b * n * n * self.value.element_size() / 2**30
            raise UserError(
                f"dense Jacobian: {n} x {n} ({size:.3g} GiB) is above the limit of {DENSE_LIMIT} dimensions; "
                "ask for leading values (k) or use matvec and rmatvec"
            )
        columns = []
        for first in range(0, n, step := max(1, CHUNK // (n * b))):
            unit = torch.zeros(min(step, n - first), n, dtype=self.dtype, device=self.device)
            unit[torch.arange(len(unit)), first + torch.arange(len(unit))] = 1.0
            tangents = unit[:, None].expand(-1, b, -1).reshape(len(unit), *self.shape_state)
            columns.append(self.matvec(tangents).reshape(len(unit), b, n))
        matrix = torch.cat(columns).permute(1, 2, 0).contiguous()  # (B, n, n), column j = J e_j
        check_finite("Jacobian", matrix)
        return matrix if self.batch is not None else matrix[0]

    def _apply(self, product, v: Tensor) -> Tensor:
        if v.shape == self.shape_state:
            self.products += 1
            return product(v)
        if v.shape[1:] != self.shape_state:
            raise UserError(f"tangents: shape {tuple(v.shape)}; expected {self.shape_state} or (k, *{self.shape_state})")
        self.products += len(v)
        chunks = v.split(max(1, CHUNK // (self.n * (self.batch or 1))))
        return torch.cat([product(chunk, batched=True) for chunk in chunks])


def jacobian(f: Field, x: Tensor, t: float = 0.0, *, batch_dims: int = 0) -> Jacobian:
    """J(t, x) = df/dx as an operator.

    Args:
        f: callable (t, x) -> dx/dt of the shape of x. Modules that are not float64 or in training are copied by `as_float64`.
        x: state of any shape, or (B, ...) with batch_dims=1.
        t: time.

    Raises NonFiniteError where x, f(t, x) or a weight is not finite. Cost: 2 field evaluations, then about 1 for each product.
    """
    f, x = prepared(f, x)
    return Jacobian(lambda y: f(t, y), x, batch_dims, when=f"at t = {float(t):g}")


def flow_jacobian(f: Field, x0: Tensor, grid: TimeGrid, method: str = "euler", *, batch_dims: int = 0) -> Jacobian:
    """dPhi/dx0 of the flow map x0 -> x(t1) as an operator: the exact derivative of the solver's own map; `.value` is x(t1).

    Args as `jacobian` and `odevit.integrate`. With an adaptive method the accepted steps are held fixed.
    Cost: 2 solves, then about 1 for each product; memory for the whole solve.
    """
    f, x0 = prepared(f, x0)
    ends = grid.with_save(1)
    return Jacobian(lambda y: integrate(f, y, ends, method).x[-1], x0, batch_dims, f"at t = {grid.t1:g}", "x(t1)")


def second_derivative(f: Field, x: Tensor, t: float = 0.0) -> Tensor:
    """x'' = d_t f + J f along the solution through (t, x), exact, of the shape of x; cost: 3 field evaluations.

    Holds where f is smooth in t; inside a piece for a field that is smooth piece by piece.
    """
    f, x = prepared(f, x)
    time = torch.tensor(float(t), dtype=x.dtype, device=x.device)
    value, push, _ = linearize(piece_at(f, float(t)), time, x)
    check_finite("f(t, x)", value, f"at t = {float(t):g}")
    return push(torch.ones_like(time), value)


class TangentField:
    """The variational system d(x, V)/dt = (f(t, x), J(t, x) V) as a field on tuples; V: (k, *state).

    Carries `breaks`, `piece` and the two parts of f, so that every solver that works on f works on this.
    """

    def __init__(self, f: Field):
        self.field = f
        self.breaks = getattr(f, "breaks", ())

    def __call__(self, t, state: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        x, v = state
        value, push, _ = linearize(lambda y: self.field(t, y), x)
        return value, push(v, batched=True)

    def piece(self, t: float) -> "TangentField":
        """The tangent system of the smooth piece of f around t."""
        return TangentField(self.field.piece(t))  # type: ignore[attr-defined]

    def __getattr__(self, name: str):
        if name in ("attention_part", "mlp_part"):
            part = getattr(self.field, name)
            return lambda state, t=0.0: TangentField(lambda s, y: part(y, s))(t, state)
        raise AttributeError(name)


def tangent_flow(f: Field, x0: Tensor, v0: Tensor, grid: TimeGrid, method: str = "euler") -> tuple[Tensor, Tensor]:
    """(x(t1), V(t1)): state and tangents integrated as one system with the given method and grid.

    For a fixed-step method this is exactly the derivative of the discrete flow map: V(t1) = dPhi/dx0 V(0).

    Args:
        x0: state of any shape, a batch included. v0: (k, *state).

    Cost: (2 + k) field evaluations for each stage; memory of one field evaluation.
    """
    f, x0 = prepared(f, x0)
    if v0.shape[1:] != x0.shape:
        raise UserError(f"tangents: shape {tuple(v0.shape)}; expected (k, *{tuple(x0.shape)})")
    with torch.no_grad():
        x, v = integrate(TangentField(f), (x0, v0.to(x0)), grid.with_save(1), method).x
    check_finite("x(t1)", x[-1], f"at t = {grid.t1:g}")
    check_finite("tangent V(t1)", v[-1], f"at t = {grid.t1:g}")
    return x[-1], v[-1]
