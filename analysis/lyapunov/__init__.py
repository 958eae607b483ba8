"""Lyapunov exponents: finite-time (SVD of the flow Jacobian), QR spectrum, Kaplan-Yorke dimension, and over a set of images.

Unit 1/t, positive = expansion. Finite-time exponents and QR averages differ at finite T; their sums over all n agree, and
the sum of the first k QR averages never exceeds that of the first k finite-time exponents.
"""

from .auc import Auc, auc_interval
from .dataset_exponents import exponents_over
from .dimension import KaplanYorke, kaplan_yorke
from .finite_time import finite_time_exponents, net_and_ode
from .qr_spectrum import lyapunov_spectrum

__all__ = [
    "Auc", "KaplanYorke", "auc_interval", "exponents_over", "finite_time_exponents", "kaplan_yorke",
    "lyapunov_spectrum", "net_and_ode",
]  # fmt: skip
