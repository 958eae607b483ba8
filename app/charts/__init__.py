"""Report -> plotly Figure, one function per chart of the browser app; no streamlit, no torch."""

from .attention_charts import attention_shares, head_distance, head_entropy, head_maps, register_shares, token_name
from .cls_charts import cls_by_class, vector_field
from .intervention_charts import EFFECTS, class_effect, effect_frames, effect_over_time, head_effects, patch_chooser, spread
from .motion_charts import QUANTITIES, dots_left_out, path_shape, token_alikeness, token_motion, token_ranks
from .overview_charts import training_history
from .predict_charts import decision_shares, margin_over_time, prediction_over_time
from .token_maps import frames_note
from .trajectory_charts import WAYS, left_out, token_plane, token_space

__all__ = [
    "EFFECTS",
    "QUANTITIES",
    "WAYS",
    "attention_shares",
    "class_effect",
    "cls_by_class",
    "decision_shares",
    "dots_left_out",
    "effect_frames",
    "effect_over_time",
    "frames_note",
    "head_distance",
    "head_effects",
    "head_entropy",
    "head_maps",
    "left_out",
    "margin_over_time",
    "patch_chooser",
    "path_shape",
    "prediction_over_time",
    "register_shares",
    "spread",
    "token_alikeness",
    "token_motion",
    "token_name",
    "token_plane",
    "token_ranks",
    "token_space",
    "training_history",
    "vector_field",
]
