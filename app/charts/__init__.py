"""Report -> plotly Figure, one function per chart of the browser app; no streamlit, no torch."""

from .cls_charts import cls_by_class, vector_field
from .intervention_charts import EFFECTS, class_effect, effect_frames, effect_over_time, head_effects, patch_chooser, spread
from .motion_charts import QUANTITIES, dots_left_out, path_shape, token_alikeness, token_motion, token_ranks
from .overview_charts import training_history
from .trajectory_charts import WAYS, left_out, token_plane, token_space

__all__ = [
    "EFFECTS",
    "QUANTITIES",
    "WAYS",
    "class_effect",
    "cls_by_class",
    "dots_left_out",
    "effect_frames",
    "effect_over_time",
    "head_effects",
    "left_out",
    "patch_chooser",
    "path_shape",
    "spread",
    "token_alikeness",
    "token_motion",
    "token_plane",
    "token_ranks",
    "token_space",
    "training_history",
    "vector_field",
]
