"""Kaplan-Yorke dimension of a set of Lyapunov exponents.

With exponents in descending order and j the largest number of them whose sum is not negative,
D = j + (lambda_1 + .. + lambda_j) / |lambda_{j+1}|   (Kaplan & Yorke 1979; Frederickson et al. 1983).
"""

from typing import NamedTuple

import numpy as np

from odevit.errors import NonFiniteError, UserError


class KaplanYorke(NamedTuple):
    """A dimension, or a lower bound of it where the exponents known do not reach the change of sign.

    Attributes:
        value: the dimension, or the number of exponents known.
        exact: False where the true value is larger than `value`.
    """

    value: float
    exact: bool

    def __str__(self) -> str:
        return f"{self.value:.4g}" if self.exact else f"> {self.value:g}"


def kaplan_yorke(exponents, n: int | None = None) -> KaplanYorke:
    """The Kaplan-Yorke dimension: 0 where the largest exponent is negative, n where no partial sum is.

    Args:
        exponents: shape (k,), unit 1/t, any order; -inf is allowed (a direction that one step collapses).
        n: dimension of the state; k unless given. With k < n and no negative partial sum only "> k" is known.

    Returns:
        KaplanYorke(value, exact).

    Raises:
        UserError: no exponent, more than n. NonFiniteError: NaN or +inf.

    >>> str(kaplan_yorke([0.5, -1.0])), str(kaplan_yorke([-1.0, -2.0])), str(kaplan_yorke([0.5, 0.1], n=9))
    ('1.5', '0', '> 2')
    """
    values = np.sort(np.asarray(exponents, dtype=float).ravel())[::-1]
    n = values.size if n is None else n
    if not 1 <= values.size <= n:
        raise UserError(f"exponents: {values.size} given for a state of {n} dimensions")
    if np.isnan(values).any() or values[0] == np.inf:
        raise NonFiniteError("exponents: NaN or +inf has no Kaplan-Yorke dimension")
    sums = np.cumsum(values)
    if sums[-1] >= 0:
        return KaplanYorke(float(values.size), values.size == n)
    j = int(np.argmax(sums < 0))  # the partial sums of descending values rise and then fall, so the first negative one decides
    above = float(sums[j - 1]) if j else 0.0
    return KaplanYorke(j + above / abs(float(values[j])), True)
