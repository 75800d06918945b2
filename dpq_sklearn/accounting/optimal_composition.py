"""Optimal composition of adaptive exponential mechanisms: the smallest delta for a given eps.

A draw of an exponential mechanism is eps-bounded-range: for neighbours P and Q, log(P/Q) of its
outcome lies in [t - eps, t] for some t in [0, eps] (Dong, Durfee, Rogers 2020). A sequence of draws
is (log x, D(x))-DP with the curve D(x) = E_P max(1 - x Q/P, 0). As D is convex and Q/P has mean 1
under P, the worst draw only ever hits the two ends of its range. So the worst sequence has

    D_0(x) = max(1 - x, 0),
    D_j(x) = sup over x1 <= x <= x1 e^eps of the chord of D_{j-1} from x1 to x1 e^eps, at x,

where t = log(x / x1) may depend on all outcomes before. D_j is convex and non-increasing.

A *fork* is a pair of draws, of eps a and c, that some records meet, while other records meet a
single draw of eps b instead. The weight of one record may be divided between both. The curve of a
fork is at most the larger of the two curves for undivided records, if log(P/Q) is raised by
((b - a)^2 + c^2) / 32 (docs/privacy.md).

Curves are stored as upper bounds at evenly spaced points in log x. Straight lines between such
bounds are above a convex curve, so every result is an upper bound.
"""

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from dpq_sklearn.accounting.conversions import rho_of_approximate_dp

LONGEST = 1000  # more draws would take seconds, and zCDP is only 7% worse
# Outside of this range numbers cancel or overflow, and only pure eps is used.
LEAST_EPS = 2.0**-20
GREATEST_EPS = 256.0


def adaptive_delta(
    eps_of_draws: Sequence[float] | np.ndarray,
    eps: float,
    other_draws: Sequence[float] | np.ndarray | None = None,
) -> float:
    """Return delta such that exponential draws together are (eps, delta)-DP, rounded up.

    Each draw may depend on all outcomes before it. `eps_of_draws` follows the order of the draws,
    which is fixed and public. Draws that do not depend on each other may come in any order. If
    ``other_draws[i]`` is not 0, draws i and i + 1 are a fork, and it is the eps of the single draw
    that other records meet. Its square must not exceed the sum of the squares of the two.
    """
    draws = np.asarray(eps_of_draws, dtype=np.float64)[::-1]  # the recursion starts at the end
    if math.fsum(draws) * (1 + 2.0**-50) <= eps:
        return 0.0
    others = np.zeros(len(draws)) if other_draws is None else np.asarray(other_draws)[::-1]

    # Forks raise log(P/Q), so some eps is reserved for them.
    forks = np.flatnonzero(others)
    raised = np.sum((others - draws)[forks] ** 2 + draws[forks - 1] ** 2) / 32
    eps = eps - raised * (1 + 2.0**-40)
    if not LEAST_EPS <= eps <= GREATEST_EPS or np.max(draws) > GREATEST_EPS:
        return 1.0

    delta = math.exp(raised) * (1 + 2.0**-40) * _delta_of_paths(draws, others, eps)
    return min(delta, 1.0)


def _delta_of_paths(draws: np.ndarray, others: np.ndarray, eps: float) -> float:
    """Return delta of draws, from the last to the first, if forks divide no record."""
    n_draws = len(draws)
    squares = float(np.sum(draws**2))
    draws = np.maximum(draws, 2.0**-20 * math.sqrt(squares / n_draws))  # larger, and never 0
    log_x, n_below, step = _curve_points(draws, squares, eps)

    # From D_0 to the curve before the first draw. A fork takes the larger of two curves.
    curve = -np.expm1(np.minimum(log_x, 0.0))
    behind_one = behind_two = curve
    for draw, other in zip(draws.tolist(), others.tolist(), strict=True):
        behind_two = behind_one
        behind_one = curve
        curve = _curve_before(curve, draw, step)
        if other > 0:
            curve = np.maximum(curve, _curve_before(behind_two, other, step))

    # A draw adds a rounding error below 2^-40 of the curve at the left end of its chords. The other
    # draws transform the error like the curve, so it ends at 2^-40 of the final curve one draw
    # further left. 1e-300 covers underflow.
    widest = math.ceil(max(draws.max(), others.max()) / step)
    one_draw_left = curve[n_below - widest] if widest <= n_below else 1.0
    return float(curve[n_below] + n_draws * 2.0**-40 * one_draw_left + 1e-300)


def _curve_points(draws: np.ndarray, squares: float, eps: float) -> tuple[np.ndarray, int, float]:
    """Return evenly spaced points log x around eps, the number of points below eps, and their step.

    The fewer draws there are, the more steps each of them gets. The points end where log(P/Q)
    arrives with a probability far below delta (Hoeffding).
    """
    n_draws = len(draws)
    rho = squares / 8
    step = math.sqrt(squares / n_draws) / (20 + 200 / n_draws)

    tail = max(eps - rho, 0.0) ** 2 / (4 * rho) + 12
    reach = min(math.fsum(draws), rho + math.sqrt(squares * tail / 2))
    n_below = math.ceil((eps + reach / 2) / step)
    n_above = math.ceil(max(reach - eps, 0) / step)

    return eps + step * np.arange(-n_below, n_above + 1), n_below, step


def _curve_before(curve: np.ndarray, eps: float, step: float) -> np.ndarray:
    """Return upper bounds of the curve before a draw, given those of the curve behind it.

    The curve before the draw at x is the highest chord of the curve behind it, over all x1 from
    x e^-eps to x. With u the curve at x1 and w the curve at x1 e^eps, that chord is a mean of u
    and w. The bounds follow the left end x1 from one point to the next (`_chord_excess` covers the
    positions between two points).

    Curves have the shape (n_points,). The arrays `u` and `w` begin ``n_steps + 1`` points further
    left.
    """
    n_points = len(curve)
    n_steps = int(eps / step)  # between points, in the range of the draw
    log_ratios = step * np.arange(n_steps + 2)  # of x to x1
    u, w = _chord_ends(curve, eps, step, log_ratios)
    excess = _chord_excess(u - w, eps, step)

    width = math.expm1(eps)
    weights_of_u = np.exp(log_ratios) * np.expm1(eps - log_ratios) / width
    weights_of_w = np.expm1(log_ratios) / width

    best = chord_right = curve
    for steps_left in range(1, n_steps + 2):
        start = n_steps + 1 - steps_left
        x1 = slice(start, start + n_points)
        chord_left = weights_of_u[steps_left] * u[x1] + weights_of_w[steps_left] * w[x1]

        bound = np.maximum(chord_left, chord_right)
        bound += math.exp(log_ratios[steps_left]) * excess[x1]
        best = np.maximum(best, bound)
        chord_right = chord_left

    return best


def _chord_ends(
    curve: np.ndarray, eps: float, step: float, log_ratios: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return bounds of the curve at the points x1 and at x1 e^eps.

    To the left of all points, the chord to D(0) = 1 bounds the curve. To the right, its last value
    does.
    """
    n_steps = log_ratios.size - 2
    left = 1 - np.exp(-log_ratios[:0:-1]) * (1 - curve[0])
    right = np.full(n_steps + 1, curve[-1])
    wider = np.concatenate((left, curve, right))

    # x1 e^eps lies between two points.
    before_end = wider[n_steps:-1]
    after_end = wider[n_steps + 1 :]
    fraction = math.expm1(eps - n_steps * step) / math.expm1(step)
    return wider[: -n_steps - 1], before_end + fraction * (after_end - before_end)


def _chord_excess(gaps: np.ndarray, eps: float, step: float) -> np.ndarray:
    """Return the most by which a chord may exceed the chords at both ends of a step, times l / x.

    `gaps` is u - w at the points. While x1 moves over a step from l on, u and w are at most
    straight, since they are convex. The chord at x is then at most A x1 + B - C / x1 with
    C = x (u0 - w0) / (e^eps - 1), where u0 and w0 continue the straight lines to x1 = 0. Such a
    function exceeds the larger of its values at the two ends by at most
    C / l * (1 - e^(-step / 2))^2.
    """
    gaps_at_zero = gaps[:-1] + (gaps[:-1] - gaps[1:]) / math.expm1(step)
    return np.maximum(gaps_at_zero, 0.0) * (math.expm1(-step / 2) ** 2 / math.expm1(eps))


@lru_cache(maxsize=256)
def largest_scale(
    pattern: tuple[float, ...],
    eps: float,
    delta: float,
    other_draws: tuple[float, ...] | None = None,
    first_draw: float = 0.0,
) -> float:
    """Return the largest s such that draws of eps s * pattern[i] together are (eps, delta)-DP.

    `pattern` has positive numbers in the order of the draws. `other_draws` describes forks in the
    same proportion (`adaptive_delta`). A draw of eps `first_draw` comes before them. The result is
    rounded down by at most about 1e-3, and is never below the scale of pure DP.
    """
    pure_scale = (eps - first_draw) / math.fsum(pattern) * (1 - 2.0**-40)
    if delta == 0 or len(pattern) > LONGEST or not LEAST_EPS <= eps <= GREATEST_EPS:
        return pure_scale

    draws = np.array(pattern)
    others = np.zeros(len(pattern)) if other_draws is None else np.array(other_draws)
    before = [first_draw] if first_draw else []

    def delta_at(scale: float) -> float:
        all_draws = np.append(before, scale * draws)
        all_others = np.append(np.zeros(len(before)), scale * others)
        return adaptive_delta(all_draws, eps, all_others)

    # As log delta is about -1 / scale^2, deltas within this part of log delta have scales within
    # 1e-3. The rho of a delta grows like scale^2, so the second guess is nearly right.
    enough = delta * (1 + max(0.0015 * math.log(delta), -0.1))
    aim = rho_of_approximate_dp(eps, (delta + enough) / 2)
    guess = 1.05 * math.sqrt(8 * aim / np.sum(draws**2))

    low = pure_scale  # keeps within delta
    high = math.inf  # exceeds delta
    for trial in range(60):
        if trial >= 4 or not low < guess < high:
            guess = math.sqrt(low * min(high, 2 * low))

        found = delta_at(guess)
        if found <= delta:
            low = guess
        else:
            high = guess
        if enough <= found <= delta or high <= low * (1 + 2.0**-12):
            break

        if 0 < found < 1:
            guess *= math.sqrt(aim / rho_of_approximate_dp(eps, found))

    return low
