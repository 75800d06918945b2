"""The best that delta can buy: optimal composition of adaptive exponential mechanisms.

A draw of an exponential mechanism is eps-bounded-range: for neighbours P and Q, log(P/Q) of its
outcome lies in [t - eps, t] for some t in [0, eps] (Dong, Durfee, Rogers 2020). A sequence of draws
is (log x, D(x))-DP with the curve D(x) = E_P max(1 - x Q/P, 0). As D is convex and Q/P has mean 1
under P, the worst draw only ever hits the two ends of its range. So the worst sequence has

    D_0(x) = max(1 - x, 0),
    D_j(x) = sup over x1 <= x <= x1 e^eps of the chord of D_{j-1} from x1 to x1 e^eps, at x,

where t = log(x / x1) may depend on all outcomes before. D_j is convex and non-increasing,
D_j(0) = 1, and D_j(x) = 1 - x + x D_j(1/x), because neighbours may be swapped.

A *fork* is a pair of draws, of eps a and c, that some records meet, while others meet one draw, of
eps b, instead. A part w of a record may meet the pair, and the rest of it the other draw; then the
ranges of the two draws are w a + (1 - w) b and w c. With fixed chances of the outcomes under Q,
log(P/Q) of an outcome is concave in the range, with a second derivative of at least -1/4. So it is
at most w times that of the pair, plus 1 - w times that of the other draw, plus
w (1 - w) ((b - a)^2 + c^2) / 8. What follows is convex and increasing in log(P/Q). So the curve is
at most the larger one of the two curves without any w, if log(P/Q) is raised by
((b - a)^2 + c^2) / 32.

A curve is kept at the points exp(i step) of a lattice and straight in between, which is above any
convex curve, and the sup over t is exact for such a polygon. So every result is an upper bound.
For more than LONGEST draws, Gaussian curves take over, which are above as well and nearly as good.
"""

import functools
import math

import numpy as np
from scipy.special import log_ndtr, ndtr

LONGEST, BLOCK = 96, 64  # draws on the lattice: a whole sequence, the end of a longer one
LEAST_EPS, GREATEST_EPS = 2.0**-20, 256.0  # outside, numbers cancel or overflow: pure eps only


def adaptive_delta(eps_of_draws, eps, instead=None):
    """Return delta such that exponential draws together are (eps, delta)-DP, rounded up.

    Each draw may depend on all outcomes before it. `eps_of_draws` are in the order of the draws,
    which is fixed and public; draws that do not look at each other may come in any order. If
    ``instead[i]`` is not 0, draws i and i + 1 are a fork, and it is the eps of the other draw: its
    square must not be larger than the sum of theirs.
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
    """Return delta of draws from the last to the first, of which a record meets whole ones."""
    rho = float(np.sum(draws**2)) / 8
    draws = np.maximum(draws, 2.0**-20 * math.sqrt(rho / len(draws)))
    # What is less likely than e^-tail, much less than the answer, is not worth a lattice point.
    tail = max(eps - rho, 0.0) ** 2 / (4 * rho) + 30
    few = draws.max() ** 2 > rho / 8  # a few draws that outweigh the others are not Gaussian
    n = len(draws) if len(draws) <= (2 if few else 1) * LONGEST else BLOCK + (instead[BLOCK] > 0)
    squares = float(np.sum(draws[:n] ** 2))
    # With s steps a draw, the polygon costs about 1 / (2 s^2) of the eps of a draw.
    step = math.sqrt(squares / n) / max(12, 2 * round(50 / math.sqrt(n))) * (1 + 2.0**-30)
    if n == len(draws):
        return float(_lattice_curve(draws, instead, step, eps, eps, tail)[0])
    reach = _reach(draws[:n].sum(), squares, tail)
    curve = _lattice_curve(draws[:n], instead[:n], step, 0.0, reach, tail)
    older = variance = _gaussian_above(curve, step, squares / 4)
    # A chord from one lattice point to the next counts like a draw.
    for draw, other in [(step, 0.0), *zip(draws[n:].tolist(), instead[n:].tolist(), strict=True)]:
        oldest, older = older, variance
        variance = max(_after_draw(variance, draw), _after_draw(oldest, other))
    return float(_gaussian_curve(variance, eps) * (1 + 2.0**-20) + curve[-1])


@functools.lru_cache(maxsize=256)
def largest_scale(pattern, eps, delta, instead=None, first=0.0):
    """Return the largest s such that draws of eps s * pattern[i] together are (eps, delta)-DP.

    `pattern` is a tuple of positive numbers in the order of the draws, and `instead` one for forks,
    see `adaptive_delta`. One draw of eps `first` comes before them. The result is rounded down, by
    about 1e-3 at most, and never less than the pure split.
    """
    shares, low = np.array(pattern), (eps - first) / math.fsum(pattern) * (1 - 2.0**-40)
    others, high = np.zeros(len(pattern)) if instead is None else np.array(instead), math.inf
    before = [first] if first else []
    if delta == 0 or not LEAST_EPS <= eps <= GREATEST_EPS:
        return low
    # The curve of many draws is nearly Gaussian, so the second guess is nearly right. As log delta
    # is about -1 / scale^2, deltas within this part of log delta have scales within 1e-3.
    enough = delta * (1 + max(0.0015 * math.log(delta), -0.1))
    aim = _gaussian_variance(eps, (delta + enough) / 2)
    guess = math.sqrt(4 * aim / (np.sum(shares**2) * (1 + 3 / len(shares))))
    for trial in range(60):
        if trial >= 4 or not low < guess < high:
            guess = math.sqrt(low * min(high, 2 * low))
        forks = np.append(np.zeros(len(before)), guess * others)
        found = adaptive_delta(np.append(before, guess * shares), eps, forks)
        low, high = (guess, high) if found <= delta else (low, guess)
        if enough <= found <= delta or high <= low * (1 + 2.0**-12):
            break
        guess *= math.sqrt(aim / _gaussian_variance(eps, found))
    return low


def _reach(sums, squares, tail):
    """Return how far draws can move log x, except with probability e^-tail (Hoeffding)."""
    return np.minimum(sums, squares / 8 + np.sqrt(squares * tail / 2))


def _lattice_curve(draws, instead, step, low, high, tail):
    """Return upper bounds of the curve of `draws` at log x = low, low + step, ..., high.

    The first of `draws` acts first, on D_0. Of each curve only the points that matter are kept:
    those that draws still to come reach from [low, high], and those that draws already seen reach
    from 0. To their left the chord to D(0) = 1 is above the curve, to their right its last value.
    """
    # Draws reach whole cells.
    sums, squares = step * np.cumsum(np.ceil(draws / step)), np.cumsum(draws**2)
    seen = _reach(sums, squares, tail)
    to_come = _reach(sums[-1] - sums, squares[-1] - squares, tail)
    first = np.floor(np.maximum(-seen, low - to_come) / step).astype(int)
    last = np.ceil(np.minimum(seen, high + to_come) / step).astype(int)
    first[-1], last[-1] = math.ceil(low / step), math.ceil(high / step)
    moves, sizes = np.diff(first, prepend=0), np.maximum(last - first, 0) + 1
    rho, widest = squares[-1] / 8, max(draws.max(), instead.max())
    decay = np.exp(-step * np.arange(2 * max(-moves.min(), 0) + math.ceil(widest / step) + 2))
    draw_of = functools.cache(lambda eps, offset: _Draw(eps, step, offset))
    offsets = [0.0] * (len(draws) - 1) + [first[-1] - low / step]
    older = curve = np.zeros(1)
    for index, offset in enumerate(offsets):
        window = decay, int(moves[index]), int(sizes[index])
        oldest, older, curve = older, curve, draw_of(draws[index], offset).before(curve, *window)
        if instead[index] > 0:
            window = decay, int(moves[index - 1 : index + 1].sum()), int(sizes[index])
            other = draw_of(instead[index], offset).before(oldest, *window)
            curve = np.maximum(curve, other)
    # A rounding error at x is a few ulps of the curve at the far end of the chord, x / e^eps, and
    # other draws treat it as they treat the curve. So all of them together are a few ulps times
    # the final curve one draw to the left, which Hoeffding bounds. The last term is for underflow.
    left = np.maximum(low + step * np.arange(len(curve)) - widest - rho, 0.0)
    errors = len(draws) * (1 + widest) * np.exp(-(left**2) / (4 * rho))
    return curve + 2.0**-48 * errors + 1e-300


class _Draw:
    """What one draw makes of a curve on the lattice.

    Let u be the curve, w(x1) = u(x1 e^eps), v = (u - w) / (e^eps - 1) and r = x / x1 = e^t: the
    chord at x is u - (r - 1) v. While x1 and x1 e^eps pass no lattice point, u and w are straight,
    and the chord is that from the left end of such a cell of x1, whose r is k, plus
    p (k - r) (1 - q / r), where p = v - v' and q = -(u' + v') / p, with the slopes u' and v' in
    units of the left end. The largest is p (sqrt(k) - sqrt(q))^2, at r = sqrt(k q). If this r is
    outside of the cell, then one of its ends is better, and the clipped square is not above that.
    """

    def __init__(self, eps, step, offset=0.0):
        steps = eps / step
        if math.ceil(steps) - steps < 2.0**-20:  # Rounding up halves the work.
            steps = math.ceil(steps)
        self.width, self.shift = math.expm1(steps * step), int(steps)
        # The end of the chord passes a lattice point when the start is at `before` in its cell.
        before, after = (1 - steps % 1) * step, steps % 1 * step
        self.parts = math.expm1(before) / math.expm1(step), math.expm1(after) / math.expm1(step)
        lengths = np.array([before, after][: 1 + (after > 0)])[:, None, None]
        starts = np.array([0.0, before][: 1 + (after > 0)])[:, None, None]
        self.n_cells = math.ceil(steps + offset)
        log_k = step * (np.arange(1, self.n_cells + 1)[:, None] - offset) - starts
        self.cell = np.expm1(lengths)
        self.root = np.exp(log_k / 2)
        self.clip = self.root * -np.expm1(-lengths)
        self.chord = np.concatenate([np.ones_like(log_k), -np.expm1(log_k)], axis=2)

    def before(self, curve, decay, move, size):
        """Return the curve before this draw at `size` points, the first `move` steps further on."""
        n = size + self.n_cells
        left = self.n_cells - move
        right = n + self.shift + 2 - left - len(curve)
        chord_to_one = 1 - decay[max(left, 0) : 0 : -1] * (1 - curve[0])
        inside = curve[max(0, min(-left, len(curve) - 1)) :]
        curve = np.concatenate([chord_to_one, inside, np.full(max(right, 0), curve[-1])])
        u, w = curve[: n + 1], curve[self.shift : self.shift + n + 2]
        u_between = u[:-1] + self.parts[0] * (u[1:] - u[:-1])
        w_between = w[:-1] + self.parts[1] * (w[1:] - w[:-1])
        u = np.array([u[:-1], u_between, u[1:]])
        w = np.array([w_between[:-1], w[1:-1], w_between[1:]])
        uv = np.stack([u, (u - w) / self.width], axis=1)
        n_kinds = len(self.cell)
        drops = (uv[:n_kinds] - uv[1 : n_kinds + 1]) / self.cell
        uv = uv[:n_kinds]
        p = np.maximum(uv[:, 1:] + drops[:, 1:], 2.0**-200)  # not 0, and more is above
        q = np.maximum(drops[:, :1] + drops[:, 1:], 0.0) / p
        chords = np.minimum(np.maximum(self.root - np.sqrt(q), 0.0), self.clip) ** 2
        chords *= p
        chords += self.chord @ uv
        # Row i belongs to x at i + 1 cells to the right, so each x has a diagonal. Where rows are
        # cut one element shorter, it becomes a column.
        best = chords.max(axis=0).ravel()[self.n_cells - 1 : -1]
        return best.reshape(self.n_cells, n - 1)[:, :size].max(axis=0)


def _gaussian_curve(variance, log_x):
    """Return E max(1 - x N, 0) for log-normal N of mean 1: the curve of the Gaussian mechanism."""
    sd = math.sqrt(variance)
    return ndtr(sd / 2 - log_x / sd) - np.exp(log_x + log_ndtr(-sd / 2 - log_x / sd))


def _after_draw(variance, eps):
    """Return the variance of a Gaussian curve that is above all that a draw makes of this one.

    The draw turns the normal density of log N into a mixture of two, of the same variance v and
    with means eps apart. The log of its ratio to a normal density of variance v' is concave if
    1/v - 1/v' >= eps^2 / (4 v^2), because the second derivative of log(p e^(by) + (1 - p) e^(cy))
    is at most (b - c)^2 / 4. So the densities cross twice, and as the means of N agree (they are
    1), the wider one is larger in convex order.
    Nor does a draw ever add more than the eps^2 that it makes of D_0 by v = eps^2 / 2, because the
    sup over t of an expectation over N is at most the expectation of the sup.
    """
    quarter = eps**2 / 4
    return variance + quarter * variance / max(variance - quarter, variance / 4)


def _gaussian_above(curve, step, quarters):
    """Return a variance whose curve, plus curve[-1], is above `curve` at all lattice points.

    `curve` starts at x = 1; smaller x follow from D(1/x). See `_after_draw` for the largest.
    """
    log_x = step * np.arange(len(curve))
    low, high = quarters, 4 * quarters
    for _ in range(12):
        middle = (low + high) / 2
        gaussian = _gaussian_curve(middle, log_x) * (1 - 2.0**-20)
        low, high = (low, middle) if np.all(curve - curve[-1] <= gaussian) else (middle, high)
    return high


def _gaussian_variance(eps, delta):
    """Return about the variance whose curve at e^eps is delta."""
    low, high = 1e-14, 1e6
    for _ in range(40):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if _gaussian_curve(middle, eps) <= delta else (low, middle)
    return low
