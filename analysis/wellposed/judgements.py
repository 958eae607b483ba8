"""The verdicts: one function a question, from what was found to an answer in plain words.

A function returns a Verdict, or one line "name: reason" where the question makes no sense for the model. The mathematics is in
the reports behind the numbers; here it is only decided what may be claimed.
"""

import math

import numpy as np

from odevit.field import CenterNorm
from odevit.flow import find_method

from ..discretization import step_stability
from ..reports.verdicts import Verdict
from .findings import Findings

VACUOUS = 50.0  # LT above which e^{LT} bounds nothing
LOOSE = 100.0  # a radius this many times larger than what is seen says nothing
LAYERS = "a discrete ViT is a finite composition of layers, not the solution of an ODE"
_GROWTH = "D+ r <= a r + b, r = max_i |x_i|"


def existence(found: Findings) -> Verdict | str:
    """Existence and uniqueness on [0, T] (Picard-Lindelof with linear growth)."""
    if found.solve.discrete:
        return f"existence: {LAYERS}; its output exists and is unique by construction"
    a, b = (max(getattr(g, name) for g in found.growth) for name in ("a", "b"))
    pieces = len(found.growth)
    smooth = "smooth" if pieces == 1 else f"smooth on each of {pieces} pieces"
    speed = " + ".join(([f"{a:.3g} r (r the largest token)"] if a else []) + ([f"{b:.3g}"] if b or not a else []))
    answer = f"Yes: the field is {smooth}, a token's speed at most {speed}; so one solution exists on {_span(found)}."
    if found.layered:
        answer = answer[:-1] + ", though LayerNorm's constant is vacuous."
    return Verdict(
        "existence", "Does every image have exactly one trajectory?", answer, "proven", True, a, "1/t", "upper",
        "all states, all times", _GROWTH, "Picard-Lindelof; Hairer, Norsett & Wanner I, ch. I.7; constants derived here",
    )  # fmt: skip


def growth(found: Findings) -> Verdict:
    """Proven radius of what tokens can reach, against the largest token seen."""
    bound, seen = float(found.bound[-1]), float(found.radius.max())
    vacuous = not bound <= LOOSE * seen
    if vacuous:
        answer = f"Proven is only a norm of at most {bound:.3g}, which says nothing; the largest token seen has {seen:.3g}."
    else:
        answer = f"No token of these images can leave the ball of radius {bound:.3g}; the largest seen has norm {seen:.3g}."
    start = f"starts with |x_i(0)| <= {found.radius[0]:.3g}, t in {_span(found)}"
    formula = "r <- (1 + a) r + b, layer by layer" if found.solve.discrete else "R_T = e^{aT} r(0) + b (e^{aT} - 1) / a"
    return Verdict(
        "growth", "How large can tokens get?", answer, "vacuous" if vacuous else "proven", None, bound, "state", "upper", start,
        formula, "derived here from " + _GROWTH,
    )  # fmt: skip


def constant(found: Findings) -> Verdict | str:
    """The Lipschitz constant on the reached ball and e^{LT}."""
    if found.solve.discrete:
        return f"Lipschitz: {LAYERS}"
    upper, product = found.upper, found.upper * found.solve.trajectory.t[-1].item()
    vacuous = found.layered or not product <= VACUOUS
    worst = float(found.norm.max())
    if found.layered:
        answer = f"No: LayerNorm's max|gamma| / sqrt(eps) makes L = {upper:.2g}, while |J| <= {worst:.3g} is measured."
    elif vacuous:
        huge = "infinite" if math.isinf(product) else _power(product)
        answer = f"No: L = {upper:.2g} on the ball above makes e^(LT) = {huge}, while |J| <= {worst:.3g} is measured."
    else:
        answer = f"Yes: L = {upper:.3g} on the ball above, so solutions separate by at most e^(LT) = {math.exp(product):.3g}."
    return Verdict(
        "Lipschitz", "Does the textbook bound e^(LT) say anything?", answer, "vacuous" if vacuous else "proven", not vacuous,
        upper, "1/t", "upper", f"ball max_i |x_i| <= {found.bound[-1]:.3g}",
        "L = sup |J|, |x(T) - y(T)| <= e^{LT} |x(0) - y(0)|", "Gronwall; bounds of analysis.lipschitz",
    )  # fmt: skip


def step(found: Findings) -> Verdict | str:
    """h ||J|| < 1: a step merges no two neighbouring states."""
    if found.solve.adaptive:
        return "step: an adaptive solver chooses its own steps and controls their error"
    h = abs(found.solve.grid.h)
    measured, local, everywhere = h * float(found.norm.max()), h * float(found.local.max()), h * found.upper
    layer = "layer" if found.solve.discrete else "step"
    status, side, region = "measured", "lower", f"the {found.norm.size} states looked at"
    if everywhere < 1:
        status, side, region = "proven", "upper", f"ball max_i |x_i| <= {found.bound[-1]:.3g}"
        answer = f"Yes: h |J| <= {everywhere:.3g} < 1 on the ball that tokens can reach, so a {layer} is one-to-one there."
    elif local < 1:
        status, side = "proven", "local"
        answer = f"Yes, near each state looked at: h |J| <= {local:.3g} < 1 there (measured {measured:.3g})."
    elif measured < 1:
        answer = f"Yes, near each state looked at: h |J| = {measured:.3g} < 1 there (proven only <= {local:.3g})."
    else:
        at = found.time[int(found.norm.max(1).argmax())]
        answer = f"Not by this test: h |J| reaches {measured:.3g} at t = {at:g}" + _enough(found, measured)
    value = {"upper": everywhere, "local": local, "lower": measured}[side]
    return Verdict(
        "step", f"Is a {layer} one-to-one, so that it merges no two states?", answer, status, value < 1, value, "", side,
        region, "h |J| < 1 on a convex region: x -> x + h f(x) is injective, sigma_min(I + hJ) >= 1 - h |J|",
        "Banach's fixed point",
    )  # fmt: skip


def _enough(found: Findings, measured: float) -> str:
    if found.solve.discrete:
        return "; a layer may merge states."
    return f"; {math.floor(measured * found.solve.grid.steps) + 1} steps or more would bring it below 1."


def stability(found: Findings) -> Verdict | str:
    """The method's stability region at the leading eigenvalues that decay."""
    method, h = found.solve.method, abs(found.solve.grid.h)
    if found.solve.discrete:
        return f"stability: {LAYERS}"
    if found.solve.adaptive:
        return "stability: an adaptive solver chooses its own steps and controls their error"
    if find_method(method).tableau is None:
        return f"stability: {method} splits the field, so no single eigenvalue decides"
    values = found.eigenvalues[~np.isnan(found.eigenvalues)]
    seen = step_stability(values, method, h)
    decays = (values.real < 0) & (h * np.abs(values) > 1e-9)
    if not decays.any():
        answer, limit, good = f"Nothing to keep: none of the {len(values)} leading eigenvalues decays.", math.inf, True
    else:
        worst, limit, good = float(seen.factor[decays].max()), seen.h_max_all, bool(seen.passes[decays].all())
        most = "any h" if math.isinf(limit) else f"h <= {limit:.3g}"
        count, wrong = int(decays.sum()), int((~seen.passes[decays]).sum())
        if good:
            answer = f"Yes: all {count} leading modes that should decay do, |R(h lambda)| <= {worst:.3g}; stable for {most}."
        else:
            rate = float(seen.discrete_exponents[decays].max())
            grow = f"{wrong} of {count} leading modes that should decay grow instead"
            answer = f"No: {grow}, at up to {rate:.2g}; stable for {most}."
    return Verdict(
        "stability", "Does the solver let decaying modes decay?", answer, "measured", good, limit, "t", "estimate",
        f"{found.eigenvalues.shape[-1] - 1} eigenvalues of largest modulus at each of the {found.norm.size} states looked at",
        "|R(h lambda)| <= 1 where Re lambda < 0", "Hairer & Wanner II, ch. IV.2; a heuristic where J is far from normal",
    )  # fmt: skip


def rates(found: Findings) -> Verdict:
    """Growth and contraction along the trajectories: logarithmic norm and spectral abscissa, or a layer's stretch."""
    where = f"the {found.norm.size} states looked at"
    if found.solve.discrete:
        most, least = float(found.step_norm.max()), float(found.step_norm.max(1).min())
        at = found.step_time[int(found.step_norm.max(1).argmax())]
        answer = f"A layer stretches small differences by a factor of up to {most:.3g} (layer {at:g}; mildest {least:.3g})."
        return Verdict(
            "rates", "Do nearby states separate or approach?", answer, "measured", None, most, "", "lower", where, "|I + J|",
            "largest singular value of the layer's Jacobian",
        )  # fmt: skip
    mu, alpha = found.mu.max(1), float(found.abscissa.max())
    k = int(mu.argmax())
    if mu[k] <= 0:
        answer = f"They approach: at a rate of at least {-mu[k]:.3g} everywhere looked at (logarithmic norm below 0)."
    else:
        answer = (
            f"They separate at a rate of up to {mu[k]:.3g} (at t = {found.time[k]:g}; {mu[-1]:.3g} at the end); in the long "
            f"run the linear system would {'grow' if alpha > 0 else 'shrink'} at {abs(alpha):.3g}."
        )
    return Verdict(
        "rates", "Do nearby trajectories separate or approach, and how fast?", answer, "measured", None, float(mu[k]), "1/t",
        "lower", where, "mu(J) = lambda_max((J + J^T) / 2), alpha = max Re lambda <= mu",
        "Dahlquist 1958, Lozinskii 1958; Ritz values: a lower bound, accurate to its residual",
    )  # fmt: skip


def sensitivity(found: Findings) -> Verdict:
    """Largest singular value of the flow Jacobian and its bounds."""
    worst = int(found.sigma.argmax())
    sigma, span = float(found.sigma[worst]), found.solve.trajectory.t[-1].item()
    rate = math.log(sigma) / span if sigma > 0 else -math.inf
    product, integral = float(found.product[worst]), float(np.exp(found.integral[worst]))
    layer = "layer" if found.solve.discrete else "step"
    bounds = [] if math.isnan(product) else [f"{layer} by {layer} {product:.3g}"]
    bounds += [] if math.isnan(integral) else [f"by exp int mu dt {integral:.3g}"]
    answer = f"By a factor of up to {sigma:.3g} for the worst image (finite-time exponent {rate:.3g}); "
    answer += f"bounded {', '.join(bounds)}."
    return Verdict(
        "sensitivity", "How much is a tiny change of the first state amplified?", answer, "measured", None, sigma, "", "lower",
        f"{len(found.sigma)} images, infinitesimal changes",
        "sigma_1(dx(T)/dx(0)) <= prod |I + hJ_k| (Euler), <= exp int mu(J) dt (exact flow)", "Soderlind 2006; Oseledets 1968",
    )  # fmt: skip


def error(found: Findings) -> Verdict | str:
    """The solver's error: principal error and no-flip radius for Euler, else Richardson, a fine solve for adaptive ones."""
    if found.solve.discrete:
        return f"error: {LAYERS}, so there is nothing it approximates"
    if found.euler is not None:
        return _euler_error(found)
    size = found.solve.trajectory.x[-1].flatten(1).norm(dim=1).cpu().numpy()
    if found.order is not None:
        expected = found.order.expected
        gap = np.asarray(found.order.error) * 2**expected / size  # of x_h itself, 2^p times that of x_{h/2}
        share, how = float(np.max(gap)), f"Richardson: |x_h - x_(h/2)| / (1 - 2^-{expected})"
        answer = f"About {share:.2g} of the final state's norm for the worst image (comparing h with h/2)."
    else:
        share, how = float(found.swap.max_shift[-1]), "|readout's input - that of rk4|"
        answer = f"The readout's input differs by {share:.2g} from a fine rk4 solve ({int(found.swap.steps[-1])} steps)."
    return _error(answer, "measured", share, "" if found.order is not None else "state", how, "Richardson 1911", found)


def _euler_error(found: Findings) -> Verdict:
    euler = found.euler
    assert euler is not None and found.flip is not None
    size = found.solve.trajectory.x[-1].flatten(1).norm(dim=1).cpu().numpy()
    share = float((euler.principal[:, -1] / size).max())
    radius, shift = found.flip
    safe, n = int((shift < radius).sum()), len(shift)
    first = "" if found.order is None or np.all(found.order.in_ode_regime) else "; first order in a large h"
    answer = (
        f"About {share:.1%} of the final state's norm (worst image{first}); logits move by "
        f"{np.abs(euler.logits_shift).max():.2g}, inside the no-flip radius for {safe} of {n} images."
    )
    reference = "Hairer, Norsett & Wanner I, ch. II.8 (principal error); no-flip radius derived here"
    formula = "h e(T), e' = J e - x''/2; no flip while |d readout input| < min_j (z_a - z_j) / |w_a - w_j|"
    return _error(answer, "measured", share, "", formula, reference, found)


def _error(answer: str, status: str, value: float, unit: str, formula: str, reference: str, found: Findings) -> Verdict:
    return Verdict(
        "error", "How far is the net from the exact solution of its ODE?", answer, status, None, value, unit, "estimate",
        f"{len(found.sigma)} images, at t = T", formula, reference,
    )  # fmt: skip


def ode(found: Findings) -> Verdict:
    """Whether answers survive more steps and another solver."""
    swap, order = found.swap, found.order
    other = ~((swap.method == swap.trained_method) & (swap.steps == swap.trained_steps)) & (swap.steps > swap.trained_steps)
    flips = round(float(swap.flip_rate[other].max()) * swap.images)
    change, good = float(swap.max_logit_change[other].max()), flips == 0
    observed = "" if order is None or np.isnan(order.observed).all() else _observed(order)
    solvers = ", ".join(dict.fromkeys(swap.method.tolist()))
    answer = (
        f"{'Yes' if good else 'No'}: with 2 and 4 times the steps ({solvers}) {flips} of {swap.images} predictions change, "
        f"logits by {change:.2g} at most{observed}."
    )
    what = "Do the layers act like steps of an ODE" if found.solve.discrete else "Is it an ODE"
    return Verdict(
        "ODE", f"{what}: do answers survive more steps and another solver?", answer, "measured", good, change, "logit", "lower",
        f"{swap.images} images", "max |z - z'| over solves with 2n and 4n steps",
        "Queiruga et al. 2020 (2008.02389): nets that are no ODE change",
    )  # fmt: skip


def _observed(order) -> str:
    worst = np.asarray(order.observed)
    worst = worst[np.nanargmax(np.abs(worst - order.expected))]
    rough = "" if np.asarray(order.in_ode_regime)[~np.isnan(order.observed)].all() else " (h is large)"
    return f"; observed order {worst:.2f} of {order.expected}{rough}"


def structure(found: Findings) -> Verdict | str:
    """The eigenvalues that are 0 by construction."""
    n = found.solve.trajectory.x[0, 0].numel()
    if not found.zeros:
        kinds = {type(b.norm1).__name__ for b in found.solve.model.field.blocks}
        names = {CenterNorm.__name__: "CenterNorm", "Identity": "no norm"}
        return f"structure: no eigenvalue is claimed to be 0 for {', '.join(names.get(k, k) for k in sorted(kinds))}"
    answer = (
        f"{found.zeros} of {n} eigenvalues (one a token) are exactly 0: CenterNorm cannot see a token's mean. They are no "
        f"dynamics and are left out above."
    )
    return Verdict(
        "structure", "Which eigenvalues are 0 by construction?", answer, "proven", None, float(found.zeros), "", "exact",
        "all states", "J (a (x) 1) = 0 since C 1 = 0; f(x + a (x) 1) = f(x)", "derived here",
    )  # fmt: skip


def _span(found: Findings) -> str:
    return f"[{found.solve.grid.t0:g}, {found.solve.grid.t1:g}]"


def _power(exponent: float) -> str:
    return f"{math.exp(exponent):.2g}" if exponent < 700 else f"e^{exponent:.2g}"


QUESTIONS = (existence, growth, constant, step, stability, rates, sensitivity, error, ode, structure)
