"""What the tokens do along t: motion, principal axes, collapse and clusters, matching of two paths, logit lens.

x_i(t) is a curve in R^D; its velocity f_i(t, x) and acceleration are exact (see `kinematics`).
"""

from .bases import Basis, effective_rank, participation_ratio, principal_basis, stable_rank
from .collapse import cluster_count, collapse_ratio, mean_cosine
from .kinematics import curvature, menger
from .lens import logit_lens
from .matching import procrustes_distance, teacher_student, warp
from .measuring import token_paths
from .pairing import paired_paths
from .planes import plane_field
from .regions import patch_region, token_indices
from .solver_paths import solver_in_words, solver_paths

__all__ = [
    "Basis", "cluster_count", "collapse_ratio", "curvature", "effective_rank", "logit_lens", "mean_cosine", "menger",
    "paired_paths", "participation_ratio", "patch_region", "plane_field", "principal_basis", "procrustes_distance",
    "solver_in_words", "solver_paths", "stable_rank", "teacher_student", "token_indices", "token_paths", "warp",
]  # fmt: skip
