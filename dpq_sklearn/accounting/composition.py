"""The best that delta can buy: optimal composition of adaptive exponential mechanisms.

A draw of an exponential mechanism is eps-bounded-range: for neighbours P and Q, log(P/Q) of its
outcome lies in [t - eps, t] for some t in [0, eps] (Dong, Durfee, Rogers 2020). A sequence of draws
is (log x, D(x))-DP with the curve D(x) = E_P max(1 - x Q/P, 0). As D is convex and Q/P has mean 1
under P, the worst draw only ever hits the two ends of its range. So the worst sequence has

    D_0(x) = max(1 - x, 0),
    D_j(x) = sup over x1 <= x <= x1 e^eps of the chord of D_{j-1} from x1 to x1 e^eps, at x,

where t = log(x / x1) may depend on all outcomes before. D_j is convex and non-increasing.

A *fork* is a pair of draws, of eps a and c, that some records meet, while others meet one draw, of
eps b, instead, and parts of a record may meet both. Its curve is at most the larger one of the two
curves without such parts, if log(P/Q) is raised by ((b - a)^2 + c^2) / 32 (docs/privacy.md).

Curves are kept at the points of a lattice, even in log x. Straight lines between upper bounds at
these points are above a convex curve, so every result is an upper bound.
"""

import math
from functools import lru_cache

import numpy as np

from dpq_sklearn.accounting.conversions import rho_of_approximate_dp

LONGEST = 1000  # draws: more would take seconds, and zCDP is 7% worse
LEAST_EPS, GREATEST_EPS = 2.0**-20, 256.0  # outside, numbers cancel or overflow: pure eps only


def adaptive_delta(eps_of_draws, eps, instead=None):
    """Return delta such that exponential draws together are (eps, delta)-DP, rounded up.

    Each draw may depend on all outcomes before it. `eps_of_draws` are in the order of the draws,
    which is fixed and public; draws that do not look at each other may come in any order. If
    ``instead[i]`` is not 0, draws i and i + 1 are a fork, and it is the eps of the other draw: its
    square must not be larger than the sum of their squares.
    """
    draws = np.asarray(eps_of_draws, dtype=np.float64)[::-1]  # the recursion starts at the end
    if math.fsum(draws) * (1 + 2.0**-50) <= eps:
        return 0.0
    instead = np.zeros(len(draws)) if instead is None else np.asarray(instead)[::-1]
    forks = np.flatnonzero(instead)
    raised = np.sum((instead - draws)[forks] ** 2 + draws[forks - 1] ** 2) / 32
    eps = eps - raised * (1 + 2.0**-40)
    if not LEAST_EPS <= eps <= GREATEST_EPS or draws.max() > GREATEST_EPS:
        return 1.0
    return min(math.exp(raised) * (1 + 2.0**-40) * _delta_of_paths(draws, instead, eps), 1.0)


def _delta_of_paths(draws, instead, eps):
    """Return delta of draws from the last to the first, if forks split no record."""
    n_draws, squares = len(draws), float(np.sum(draws**2))
    rho = squares / 8
    draws = np.maximum(draws, 2.0**-20 * math.sqrt(squares / n_draws))  # more, and never 0
    # The lattice has more steps per draw if few of them have to share its loss. It ends where
    # log(P/Q) arrives with a chance far below delta (Hoeffding).
    step = math.sqrt(squares / n_draws) / (20 + 200 / n_draws)
    tail = max(eps - rho, 0.0) ** 2 / (4 * rho) + 12
    reach = min(math.fsum(draws), rho + math.sqrt(squares * tail / 2))
    n_below, n_above = math.ceil((eps + reach / 2) / step), math.ceil(max(reach - eps, 0) / step)
    log_x = eps + step * np.arange(-n_below, n_above + 1)
    oldest = older = curve = -np.expm1(np.minimum(log_x, 0.0))  # D_0
    for draw, other in zip(draws.tolist(), instead.tolist(), strict=True):
        oldest, older, curve = older, curve, _before_draw(curve, draw, step)
        if other > 0:
            curve = np.maximum(curve, _before_draw(oldest, other, step))
    # A draw adds a rounding error below 2^-40 of the curve at the left end of its chords. Others
    # transform it like the curve: to 2^-40 of the final one, a draw to the left. 1e-300: underflow.
    widest = math.ceil(max(draws.max(), instead.max()) / step)
    one_draw_left = curve[n_below - widest] if widest <= n_below else 1.0
    return float(curve[n_below] + n_draws * 2.0**-40 * one_draw_left + 1e-300)


def _before_draw(curve, eps, step):
    """Return upper bounds of the curve before a draw, given those of the curve behind it.

    Left of the lattice the chord to D(0) = 1 is above the curve, and right of it its last value.
    Let u and w be the curve at x1 and at x1 e^eps. While x1 moves over a step of the lattice, both
    are at most straight, since they are convex. The chord at x is then at most A x1 + B - C / x1
    with C = x (u0 - w0) / (e^eps - 1), where u0 and w0 continue the straight lines to x1 = 0. Such
    a function exceeds the larger one of its values at the ends of the step, of which l is the left
    one, by at most C / l * (1 - e^(-step / 2))^2.
    """
    n_steps, n_points = int(eps / step), len(curve)
    width, cell = math.expm1(eps), math.expm1(step)
    log_ratios = step * np.arange(n_steps + 2)  # of x to x1
    left_of_lattice = 1 - np.exp(-log_ratios[:0:-1]) * (1 - curve[0])
    wider = np.concatenate((left_of_lattice, curve, np.full(n_steps + 1, curve[-1])))
    # x1 e^eps lies between two points of the lattice.
    u, before_end, after_end = wider[: -n_steps - 1], wider[n_steps:-1], wider[n_steps + 1 :]
    w = before_end + math.expm1(eps - n_steps * step) / cell * (after_end - before_end)
    gaps = u - w
    at_zero = np.maximum(gaps[:-1] + (gaps[:-1] - gaps[1:]) / cell, 0.0)
    excess = at_zero * (math.expm1(-step / 2) ** 2 / width)
    weights_of_u = np.exp(log_ratios) * np.expm1(eps - log_ratios) / width
    weights_of_w = np.expm1(log_ratios) / width
    best = right = curve
    for steps_left in range(1, n_steps + 2):
        x1 = slice(n_steps + 1 - steps_left, n_steps + 1 - steps_left + n_points)
        left = weights_of_u[steps_left] * u[x1] + weights_of_w[steps_left] * w[x1]
        bound = np.maximum(left, right) + math.exp(log_ratios[steps_left]) * excess[x1]
        best, right = np.maximum(best, bound), left
    return best


@lru_cache(maxsize=256)
def largest_scale(pattern, eps, delta, instead=None, first=0.0):
    """Return the largest s such that draws of eps s * pattern[i] together are (eps, delta)-DP.

    `pattern` is a tuple of positive numbers in the order of the draws, and `instead` one for forks,
    see `adaptive_delta`. One draw of eps `first` comes before them. The result is rounded down, by
    about 1e-3 at most, and never less than the pure split.
    """
    shares, low = np.array(pattern), (eps - first) / math.fsum(pattern) * (1 - 2.0**-40)
    others, high = np.zeros(len(pattern)) if instead is None else np.array(instead), math.inf
    before = [first] if first else []
    if delta == 0 or len(pattern) > LONGEST or not LEAST_EPS <= eps <= GREATEST_EPS:
        return low
    # As log delta is about -1 / scale^2, deltas within this part of log delta have scales within
    # 1e-3. The rho of a delta grows like scale^2, so the second guess is nearly right.
    enough = delta * (1 + max(0.0015 * math.log(delta), -0.1))
    aim = rho_of_approximate_dp(eps, (delta + enough) / 2)
    guess = 1.05 * math.sqrt(8 * aim / np.sum(shares**2))
    for trial in range(60):
        if trial >= 4 or not low < guess < high:
            guess = math.sqrt(low * min(high, 2 * low))
        forks = np.append(np.zeros(len(before)), guess * others)
        found = adaptive_delta(np.append(before, guess * shares), eps, forks)
        low, high = (guess, high) if found <= delta else (low, guess)
        if enough <= found <= delta or high <= low * (1 + 2.0**-12):
            break
        if 0 < found < 1:
            guess *= math.sqrt(aim / rho_of_approximate_dp(eps, found))
    return low
