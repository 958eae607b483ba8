"""Change the state in the middle of the flow and see what follows: where and when is the class decided?

x(t) -> x'(t) -> x'(T) -> logits, against the factual x(t) -> x(T) -> logits, on the model's own grid.
"""

from .changes import Change, KnockOut, KnockOutHead, Patch, Perturb
from .effect_maps import effect_map, intervene, joined
from .restart import Moment

__all__ = ["Change", "KnockOut", "KnockOutHead", "Moment", "Patch", "Perturb", "effect_map", "intervene", "joined"]
