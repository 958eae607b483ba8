"""Report -> plotly Figure, one function per chart of the browser app; no streamlit, no torch."""

from .answer_charts import two_answers
from .attention_charts import attention_shares, head_distance, head_entropy, head_maps, register_shares, token_name
from .cls_charts import cls_by_class, vector_field
from .compare_charts import paired_chances, paired_decisions, paired_paths, paired_rates, paired_spectra, paired_speeds
from .influence_charts import influence_maps, token_chooser, token_names
from .intervention_charts import EFFECTS, class_effect, effect_frames, effect_over_time, head_effects, patch_chooser, spread
from .lipschitz_charts import (
    bound_table,
    bounds_by_name,
    bounds_over_time,
    branch_over_time,
    flow_stretch,
    sharpest,
    sharpest_whole,
)
from .motion_charts import QUANTITIES, dots_left_out, path_shape, token_alikeness, token_motion, token_ranks
from .overview_charts import training_history
from .predict_charts import decision_shares, margin_over_time, prediction_over_time
from .solver_charts import (
    error_along,
    euler_errors,
    solver_accuracy,
    solver_distance,
    solver_flips,
    solver_margins,
    solver_plane,
    step_limits,
)
from .spectra_charts import convergence, departure, eigenvalue_plane, values_of
from .stability_charts import (
    bounds_of,
    exponent_convergence,
    exponent_spectrum,
    exponents_by_class,
    exponents_right_wrong,
    perturbed_picture,
    separation,
    token_separation,
)
from .token_maps import frames_note
from .trajectory_charts import WAYS, left_out, token_plane, token_space

__all__ = [
    "EFFECTS",
    "QUANTITIES",
    "WAYS",
    "attention_shares",
    "bound_table",
    "bounds_by_name",
    "bounds_of",
    "bounds_over_time",
    "branch_over_time",
    "class_effect",
    "cls_by_class",
    "convergence",
    "decision_shares",
    "departure",
    "dots_left_out",
    "effect_frames",
    "effect_over_time",
    "eigenvalue_plane",
    "error_along",
    "euler_errors",
    "exponent_convergence",
    "exponent_spectrum",
    "exponents_by_class",
    "exponents_right_wrong",
    "flow_stretch",
    "frames_note",
    "head_distance",
    "head_effects",
    "head_entropy",
    "head_maps",
    "influence_maps",
    "left_out",
    "margin_over_time",
    "paired_chances",
    "paired_decisions",
    "paired_paths",
    "paired_rates",
    "paired_spectra",
    "paired_speeds",
    "patch_chooser",
    "path_shape",
    "perturbed_picture",
    "prediction_over_time",
    "register_shares",
    "separation",
    "sharpest",
    "sharpest_whole",
    "solver_accuracy",
    "solver_distance",
    "solver_flips",
    "solver_margins",
    "solver_plane",
    "spread",
    "step_limits",
    "token_alikeness",
    "token_chooser",
    "token_motion",
    "token_name",
    "token_names",
    "token_plane",
    "token_ranks",
    "token_separation",
    "token_space",
    "training_history",
    "two_answers",
    "values_of",
    "vector_field",
]
