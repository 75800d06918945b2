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
# Outside of these, numbers cancel or overflow: pure eps only.
LEAST_EPS = 2.0**-20
GREATEST_EPS = 256.0


def adaptive_delta(eps_of_draws, eps, other_draws=None):
    """Return delta such that exponential draws together are (eps, delta)-DP, rounded up.

    Each draw may depend on all outcomes before it. `eps_of_draws` are in the order of the draws,
    which is fixed and public; draws that do not look at each other may come in any order. If
    ``other_draws[i]`` is not 0, draws i and i + 1 are a fork, and it is the eps of the draw that
    other records meet: its square must not be larger than the sum of their squares.
    """
    draws = np.asarray(eps_of_draws, dtype=np.float64)[::-1]  # the recursion starts at the end
    if math.fsum(draws) * (1 + 2.0**-50) <= eps:
        return 0.0
    others = np.zeros(len(draws)) if other_draws is None else np.asarray(other_draws)[::-1]

    # Forks raise log(P/Q), for which a part of eps is set aside.
    forks = np.flatnonzero(others)
    raised = np.sum((others - draws)[forks] ** 2 + draws[forks - 1] ** 2) / 32
    eps = eps - raised * (1 + 2.0**-40)
    if not LEAST_EPS <= eps <= GREATEST_EPS or draws.max() > GREATEST_EPS:
        return 1.0

    delta = math.exp(raised) * (1 + 2.0**-40) * _delta_of_paths(draws, others, eps)
    return min(delta, 1.0)


def _delta_of_paths(draws, others, eps):
    """Return delta of draws from the last to the first, if forks split no record."""
    n_draws = len(draws)
    squares = float(np.sum(draws**2))
    draws = np.maximum(draws, 2.0**-20 * math.sqrt(squares / n_draws))  # more, and never 0
    log_x, n_below, step = _lattice(draws, squares, eps)

    # From D_0 to the curve before the first draw. A fork has two ways from the curve behind it.
    curve = -np.expm1(np.minimum(log_x, 0.0))
    behind_one = behind_two = curve
    for draw, other in zip(draws.tolist(), others.tolist(), strict=True):
        behind_two = behind_one
        behind_one = curve
        curve = _curve_before(curve, draw, step)
        if other > 0:
            curve = np.maximum(curve, _curve_before(behind_two, other, step))

    # A draw adds a rounding error below 2^-40 of the curve at the left end of its chords. Others
    # transform it like the curve: to 2^-40 of the final one, a draw to the left. 1e-300: underflow.
    widest = math.ceil(max(draws.max(), others.max()) / step)
    one_draw_left = curve[n_below - widest] if widest <= n_below else 1.0
    return float(curve[n_below] + n_draws * 2.0**-40 * one_draw_left + 1e-300)


def _lattice(draws, squares, eps):
    """Return the points log x of a lattice around eps, how many lie below it, and their step.

    It has more steps per draw if few of them have to share its loss. It ends where log(P/Q)
    arrives with a chance far below delta (Hoeffding).
    """
    n_draws = len(draws)
    rho = squares / 8
    step = math.sqrt(squares / n_draws) / (20 + 200 / n_draws)

    tail = max(eps - rho, 0.0) ** 2 / (4 * rho) + 12
    reach = min(math.fsum(draws), rho + math.sqrt(squares * tail / 2))
    n_below = math.ceil((eps + reach / 2) / step)
    n_above = math.ceil(max(reach - eps, 0) / step)

    return eps + step * np.arange(-n_below, n_above + 1), n_below, step


def _curve_before(curve, eps, step):
    """Return upper bounds of the curve before a draw, given those of the curve behind it.

    Left of the lattice the chord to D(0) = 1 is above the curve, and right of it its last value.
    Let u and w be the curve at x1 and at x1 e^eps. While x1 moves over a step of the lattice, both
    are at most straight, since they are convex. The chord at x is then at most A x1 + B - C / x1
    with C = x (u0 - w0) / (e^eps - 1), where u0 and w0 continue the straight lines to x1 = 0. Such
    a function exceeds the larger one of its values at the ends of the step, of which l is the left
    one, by at most C / l * (1 - e^(-step / 2))^2.

    Curves have the shape (n_points,); u, w and what follows from them begin `n_steps` + 1 points
    further left.
    """
    n_points = len(curve)
    n_steps = int(eps / step)  # of the lattice, in the range of the draw
    width = math.expm1(eps)
    cell = math.expm1(step)
    log_ratios = step * np.arange(n_steps + 2)  # of x to x1

    # The curve with n_steps + 1 more points on each side.
    left_of_lattice = 1 - np.exp(-log_ratios[:0:-1]) * (1 - curve[0])
    wider = np.concatenate((left_of_lattice, curve, np.full(n_steps + 1, curve[-1])))

    # u and w; x1 e^eps lies between two points of the lattice.
    u = wider[: -n_steps - 1]
    before_end = wider[n_steps:-1]
    after_end = wider[n_steps + 1 :]
    w = before_end + math.expm1(eps - n_steps * step) / cell * (after_end - before_end)

    # u0 - w0 of each step, and by how much a chord may exceed its ends, as a multiple of x / l.
    gaps = u - w
    gaps_at_zero = np.maximum(gaps[:-1] + (gaps[:-1] - gaps[1:]) / cell, 0.0)
    excess = gaps_at_zero * (math.expm1(-step / 2) ** 2 / width)

    # The best chord at each x, while its left end moves from x to the left, step by step.
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


@lru_cache(maxsize=256)
def largest_scale(pattern, eps, delta, other_draws=None, first_draw=0.0):
    """Return the largest s such that draws of eps s * pattern[i] together are (eps, delta)-DP.

    `pattern` is a tuple of positive numbers in the order of the draws, and `other_draws` one for
    forks, in the same proportion, see `adaptive_delta`. One draw of eps `first_draw` comes before
    them. The result is rounded down, by about 1e-3 at most, and never less than the pure split.
    """
    pure_scale = (eps - first_draw) / math.fsum(pattern) * (1 - 2.0**-40)
    if delta == 0 or len(pattern) > LONGEST or not LEAST_EPS <= eps <= GREATEST_EPS:
        return pure_scale

    draws = np.array(pattern)
    others = np.zeros(len(pattern)) if other_draws is None else np.array(other_draws)
    before = [first_draw] if first_draw else []

    def delta_at(scale):
        all_draws = np.append(before, scale * draws)
        all_others = np.append(np.zeros(len(before)), scale * others)
        return adaptive_delta(all_draws, eps, all_others)

    # As log delta is about -1 / scale^2, deltas within this part of log delta have scales within
    # 1e-3. The rho of a delta grows like scale^2, so the second guess is nearly right.
    enough = delta * (1 + max(0.0015 * math.log(delta), -0.1))
    aim = rho_of_approximate_dp(eps, (delta + enough) / 2)
    guess = 1.05 * math.sqrt(8 * aim / np.sum(draws**2))

    low = pure_scale  # keeps within delta
    high = math.inf  # does not
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
