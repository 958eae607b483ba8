"""Report(s) -> matplotlib Figure, one function per figure of a paper; `FIGURES` lists those of one model.

`PAIR_FIGURES` need a teacher and a student, `ANIMATIONS` write GIFs. Every function draws Reports only, takes `ax=` where it is
one axes, and has the caption that we would print under it as its docstring.
"""

from .animations import attention_animation, token_animation
from .attention_curves import attention_heads, attention_mass
from .attention_plots import attention_over_time, cls_attention, teacher_student_attention
from .bound_plots import lipschitz_over_time, lipschitz_parts
from .diagrams import architecture, teacher_student
from .drawing import Entry, draw
from .exponent_plots import (
    exponents_by_class,
    exponents_confidence,
    exponents_histogram,
    exponents_right_wrong,
    lyapunov_convergence,
    lyapunov_spectrum,
)
from .history_plots import training_curves
from .influence_plots import block_influence, effect_map, effect_on_patches, influence_on_patches
from .lens_plots import decision_times, intervention_distance, logit_lens
from .motion_plots import token_collapse, token_motion
from .norm_plots import token_norms
from .path_plots import cls_trajectory, cls_trajectory_3d, teacher_student_trajectory
from .perturbation_plots import perturbation_growth, token_separation
from .plane_plots import field_plane, token_trajectories
from .solver_plots import error_along, euler_error, solver_accuracy, solver_flips
from .spectrum_plots import jacobian_eigenvalues, norms_over_time, numerical_range
from .style import paper, save
from .swap_plots import no_flip_margins, solver_paths, step_limits, two_answers
from .teacher_plots import control_points, match_distance, pair_distance
from .verdict_plots import certificate_table, jasmin_bounds, token_growth

FIGURES: dict[str, Entry] = {
    "certificate_table": Entry(certificate_table, ("certificate",)),
    "token_growth": Entry(token_growth, ("certificate",)),
    "jacobian_eigenvalues": Entry(jacobian_eigenvalues, ("certificate", "stability_region?")),
    "norms_over_time": Entry(norms_over_time, ("certificate", "flow_bound?")),
    "numerical_range": Entry(numerical_range, ("numerical_range",)),
    "lipschitz_over_time": Entry(lipschitz_over_time, ("lipschitz*",)),
    "lipschitz_parts": Entry(lipschitz_parts, ("lipschitz*",)),
    "exponents_histogram": Entry(exponents_histogram, ("exponents",)),
    "exponents_by_class": Entry(exponents_by_class, ("exponents",)),
    "exponents_right_wrong": Entry(exponents_right_wrong, ("exponents",)),
    "exponents_confidence": Entry(exponents_confidence, ("exponents",)),
    "lyapunov_spectrum": Entry(lyapunov_spectrum, ("lyapunov", "finite_time?")),
    "lyapunov_convergence": Entry(lyapunov_convergence, ("lyapunov",)),
    "euler_error": Entry(euler_error, ("euler_error*", "observed_order?")),
    "error_along": Entry(error_along, ("euler_error",)),
    "solver_accuracy": Entry(solver_accuracy, ("solver_swap",)),
    "accuracy_by_steps": Entry(solver_accuracy, ("solver_swap",), {"against": "steps"}),
    "solver_flips": Entry(solver_flips, ("solver_swap",)),
    "block_influence": Entry(block_influence, ("influence*", "token_paths?")),
    "influence_on_patches": Entry(influence_on_patches, ("influence*", "token_paths")),
    "effect_map": Entry(effect_map, ("effects",)),
    "effect_on_patches": Entry(effect_on_patches, ("effects", "token_paths")),
    "jasmin_bounds": Entry(jasmin_bounds, ()),
    "cls_trajectory": Entry(cls_trajectory, ("cls_paths", "lens?")),
    "cls_trajectory_3d": Entry(cls_trajectory_3d, ("cls_paths", "lens?")),
    "token_trajectories": Entry(token_trajectories, ("token_paths",)),
    "token_trajectories_time": Entry(token_trajectories, ("token_paths",), {"by": "time"}),
    "token_trajectories_class": Entry(token_trajectories, ("token_paths", "lens"), {"by": "class"}),
    "field_plane": Entry(field_plane, ("cls_plane",)),
    "token_motion": Entry(token_motion, ("token_paths",)),
    "token_collapse": Entry(token_collapse, ("token_paths",)),
    "token_norms": Entry(token_norms, ("token_paths",)),
    "cls_attention": Entry(cls_attention, ("attention",)),
    "attention_over_time": Entry(attention_over_time, ("attention",)),
    "attention_heads": Entry(attention_heads, ("attention",)),
    "attention_mass": Entry(attention_mass, ("attention",)),
    "logit_lens": Entry(logit_lens, ("lens",)),
    "decision_times": Entry(decision_times, ("lens",)),
    "intervention_distance": Entry(intervention_distance, ("intervention_*",)),
    "architecture": Entry(architecture, ("config",)),
    "training_curves": Entry(training_curves, ("history*",)),
}

PAIR_FIGURES: dict[str, Entry] = {  # from the reports of analysis.pair_reports
    "teacher_student": Entry(teacher_student, ("student_config", "teacher_config", "pair?")),
    "teacher_student_trajectory": Entry(teacher_student_trajectory, ("pair",)),
    "teacher_student_trajectory_3d": Entry(teacher_student_trajectory, ("pair",), {"components": 3}),
    "teacher_student_attention": Entry(teacher_student_attention, ("student_attention", "teacher_attention", "pair?")),
    "pair_distance": Entry(pair_distance, ("pair",)),
    "match_distance": Entry(match_distance, ("match",)),
    "control_points": Entry(control_points, ("pair",)),
}

ANIMATIONS: dict[str, Entry] = {  # functions of (report, path) that write a GIF
    "attention_animation": Entry(attention_animation, ("attention",)),
    "token_animation": Entry(token_animation, ("token_paths",)),
}

__all__ = [
    "ANIMATIONS", "Entry", "FIGURES", "PAIR_FIGURES", "architecture", "attention_animation", "attention_heads",
    "attention_mass", "attention_over_time", "block_influence", "certificate_table", "cls_attention", "cls_trajectory",
    "cls_trajectory_3d", "control_points", "decision_times", "draw", "effect_map", "effect_on_patches", "error_along",
    "euler_error", "exponents_by_class", "exponents_confidence", "exponents_histogram", "exponents_right_wrong", "field_plane",
    "influence_on_patches", "intervention_distance", "jacobian_eigenvalues", "jasmin_bounds", "lipschitz_over_time",
    "lipschitz_parts", "logit_lens", "lyapunov_convergence", "lyapunov_spectrum", "match_distance", "no_flip_margins",
    "norms_over_time", "numerical_range", "pair_distance", "paper", "perturbation_growth", "save", "solver_accuracy",
    "solver_flips", "solver_paths", "step_limits", "teacher_student", "teacher_student_attention",
    "teacher_student_trajectory", "token_animation", "token_collapse", "token_growth", "token_motion", "token_norms",
    "token_separation", "token_trajectories", "training_curves", "two_answers",
]  # fmt: skip
