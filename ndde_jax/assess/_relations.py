"""Relations that a causal graph does not contain: at once, by hidden drivers, static, drifting.

Hidden common drivers: if h drives s and later t, the past of s is a noisy proxy for h, and the link
found is s -> t. But t then follows only what is *new* in s. The part of s that comes from its own
past and its inputs has nothing to do with h and must be subtracted. So whatever moves s leaves t
unaffected, and is an instrument that reveals h. A true cause leaves no such sign.
"""

import itertools
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from .._types import KnownGraph, Pairs, Square, divisor
from ..regression._design import knots_of, spline_terms
from ..regression._missing import Normal, fit_normal
from ..regression._search import WINDOWS_PER_COLUMN
from ._rivals import adjacent_lags, join_adjacent
from ._score import (
    NOISE,
    OWN_PAST,
    POOR,
    ROWS,
    Column,
    Columns,
    Inputs,
    PerRow,
    Rows,
    SourceLags,
    basis,
    clipped_residuals,
    conditioning_columns,
    drift_if_better,
    favours_products,
    group_test,
    hermite_terms,
    kept_columns,
    normal_scores,
    read_inputs,
    residuals_of,
    source_past,
    source_tests,
)

# Residual correlation, and partial correlation, below which a link within the interval is harmless,
# and the expected share of false pairs among those found (Benjamini and Hochberg, 1995), which is
# also the probability of any pair in a record of unrelated variables. The first limit was chosen by
# inspecting six stations that share a field equally, with partial correlations of about .18. If
# they share more or less of it, many are smaller: a `CLOSE` pair needs only a `WEAK` partial one.
RELATED, CHANCE = 0.12, 1 / 40
CLOSE, WEAK = 0.25, 0.05


class AtOnce(NamedTuple):
    """The `correlation` of the residuals of two rates, and whether it remains given all others,
    `related`; both symmetric, `[source target]`.
    """

    correlation: Square
    related: Pairs


def residuals(inputs: Inputs, graph: KnownGraph, poor: float = POOR) -> PerRow:
    """Return the residuals of every rate from a regression on the kept inputs, with Hermite
    terms and products, and with the fitted drift where these leave `poor` times as much as it does.

    NaN if there are too few rows for the columns.
    """
    rates = inputs.rows.rates
    left = np.full_like(rates, np.nan)
    for j in range(rates.shape[1]):
        q = basis(conditioning_columns(inputs, graph, j, poor=poor))
        if len(rates) > 2 * len(q):
            left[:, j] = rates[:, j] - (q @ rates[:, j]) @ q
    return left


def partial_residuals(rows: Rows, graph: KnownGraph, poor: float = POOR) -> PerRow:
    """Return [`residuals`][ndde_jax.assess._relations.residuals] of rows with missing values, NaN
    where a rate or one of its inputs is not measured.
    """
    left = np.full_like(rows.rates, np.nan)
    for j in range(rows.dim):
        kept, there = graph[:, j].T, rows.counting(j, graph[:, j])  # kept is [lag source]
        past, rate = rows.past[there][:, kept][:, None], rows.rates[there][:, [j]]
        drift = rows.drift and rows.drift._replace(rates=rows.drift.rates[there][:, [j]])
        own = rows._replace(past=past, rates=rate, known=None, drift=drift, late=None)
        every = np.ones((kept.sum(), 1, 1), bool)
        left[there, j] = residuals(read_inputs(own), every, poor)[:, 0]
    return left


def at_once(inputs: Inputs, graph: KnownGraph, left: PerRow, undecided: bool = False) -> AtOnce:
    """Return the correlations of residuals and the related pairs: those with large correlations
    whose partial correlations, given all other residuals, exceed chance by
    heteroscedasticity-robust standard errors.

    On a continuous path, a link with a delay shorter than a step also acts within the step. The
    largest possible such effect is subtracted first, also if it is `undecided` whether the path is
    continuous.
    """
    from scipy.special import ndtr  # takes a moment to import
    from scipy.stats import false_discovery_control

    if inputs.rows.midway or undecided:
        left = _residuals_beyond_step(inputs, graph, left)
    dim = left.shape[1]
    correlation, related = np.full((dim, dim), np.nan), np.zeros((dim, dim), bool)
    measured = np.isfinite(left)
    # A residual is missing where its rate or one of its inputs is.
    least = 2 * int(measured.any(axis=0).sum())
    known = measured.sum(axis=0) > least
    z, there = left[:, known], measured[:, known]
    size = np.sqrt((np.where(there, z, 0) ** 2).sum(axis=0) / np.maximum(there.sum(axis=0), 1))
    z = z / np.where(size > 0, size, np.inf)
    count, places = there.T.astype(float) @ there, np.ix_(known, known)
    if not z.shape[1]:
        return AtOnce(correlation, related)
    normal = None if there.all() else fit_normal(np.where(there, z, np.nan))
    if normal is None:
        covariance = z.T @ z / len(z)
    else:
        size = np.sqrt(np.diag(normal.covariance))
        z = (normal.values - normal.mean[None]) / size[None]
        covariance = normal.covariance / np.outer(size, size)
    correlation[places] = np.where(count > least, covariance, np.nan)
    precision = _precision(covariance)
    missing = None if normal is None else _Missing.of_patterns(normal, precision)
    partial = partial_correlations(covariance)
    whole = z @ precision
    errors = np.zeros_like(partial)  # distance from zero in standard errors
    for i in range(len(partial) - 1):
        j = np.arange(i + 1, len(partial))
        # The residuals of both given all others, from the precision of the pair.
        pair = np.stack([whole[:, [i] * len(j)], whole[:, j]])
        aa, bb, ab = precision[i, i], precision[j, j], precision[i, j]
        det = np.maximum(aa * bb - ab**2, 1e-300)
        a, b = (bb * pair[0] - ab * pair[1]) / det, (aa * pair[1] - ab * pair[0]) / det
        product = a * b
        if missing is not None:
            own, of_both, others = missing.of(i)
            expected = (aa * bb + ab**2) * of_both[:, j] - ab * (bb * own + aa * others[:, j])
            product = product + expected / det**2
        both = there[:, [i]] & there[:, j]
        n = np.maximum(count[i, j], 1)
        mean = (product * both).sum(axis=0) / n
        error = np.sqrt((both * (product - mean) ** 2).sum(axis=0) / n / n)
        errors[i, j] = np.abs(mean) / np.maximum(error, 1e-300)
    tested = np.triu(count > least, 1)
    inside = np.zeros_like(tested)
    # Overflows carry no information.
    chance = 2 * ndtr(-np.nan_to_num(errors[tested]))
    inside[tested] = false_discovery_control(chance) < CHANCE
    # Two drivers of a third variable are related given that one, but not without it.
    shared = np.abs(covariance)
    matters = np.abs(partial) > np.where(shared > CLOSE, WEAK, RELATED)
    related[places] = (inside | inside.T) & (shared > RELATED) & matters
    noisy = noisy_rates(inputs, left)
    related &= noisy[:, None] & noisy
    return AtOnce(correlation, related)


def partial_correlations(correlation: Square) -> Square:
    """Return correlations given all other variables; 0 for variables without any (NaN)."""
    known = np.isfinite(np.diag(correlation))
    precision = _precision(np.nan_to_num(correlation[np.ix_(known, known)]))
    d = np.sqrt(np.maximum(np.diag(precision), 1e-300))
    partial = np.zeros_like(correlation)
    partial[np.ix_(known, known)] = -precision / np.outer(d, d)
    np.fill_diagonal(partial, 1)
    return partial


def _precision(covariance: Float[np.ndarray, "dim dim"]) -> Float[np.ndarray, "dim dim"]:
    return np.linalg.pinv(covariance + 1e-9 * np.eye(len(covariance)), hermitian=True)


class _Missing(NamedTuple):
    """The spread of missing residuals given those measured in the same row.

    - `factors`: a factor for every pattern of missing residuals, `[missing dim]`. Its inner
        products are the conditional covariance of all residuals times a precision.
    - `pattern`: the pattern of every row.
    """

    factors: list[np.ndarray]
    pattern: Int[np.ndarray, "row"]

    @classmethod
    def of_patterns(cls, normal: Normal, precision: Float[np.ndarray, "dim dim"]) -> "_Missing":
        """Return the spread of missing residuals under a normal distribution."""
        roots = (np.linalg.cholesky(precision[np.ix_(gone, gone)]) for gone in normal.patterns)
        pairs = zip(roots, normal.patterns, strict=True)
        factors = [np.linalg.solve(root, precision[gone]) for root, gone in pairs]
        return cls(factors, normal.pattern)

    def of(self, i: int) -> tuple[np.ndarray, ...]:
        """Return the conditional variance of one product, `[row 1]`, its covariance with all, and
        the variances of all, `[row dim]`.
        """
        both = np.stack([factor[:, i] @ factor for factor in self.factors])[self.pattern]
        every = np.stack([(factor**2).sum(axis=0) for factor in self.factors])[self.pattern]
        return every[:, [i]], both, every


def noisy_rates(inputs: Inputs, left: PerRow) -> Bool[np.ndarray, "dim"]:
    """Return the rates whose residuals are larger than an error of the drift."""

    def mean_square(columns):
        return np.nansum(columns**2, axis=0) / np.maximum(np.isfinite(columns).sum(axis=0), 1)

    return mean_square(left) > NOISE * mean_square(inputs.rows.rates)


def _residuals_beyond_step(inputs, graph, left):
    """Return residuals of a continuous path minus what kept links at the present or the next lag
    can do within a step.

    Noise of the source reaches the target for at most half of the step, with the sign of the link.
    Rates halfway through a step were already corrected for a present link, possibly by too much if
    its delay is a part of the step.
    """
    from scipy.optimize import lsq_linear  # takes a moment to import

    rows, corrected = inputs.rows, left.copy()
    # A lag of a map corresponds to one of a flow that is half a step longer.
    soon = [a for a, lag in enumerate(rows.lags) if lag <= rows.step * rows.midway]
    for j in range(left.shape[1]):
        places = [(int(i), int(a)) for i, a in np.argwhere(graph[:, j])]
        sources = dict.fromkeys(i for i, a in places if a in soon and i != j)
        if not sources:
            continue
        there = np.isfinite(left[:, j])
        own = there if there.any() and not there.all() else slice(None)
        lines = np.stack([inputs.line[own][:, a, i] for i, a in places], axis=1)
        slopes = np.linalg.lstsq(lines - lines.mean(axis=0), rows.rates[own, j], rcond=1e-9)[0]
        at = [[k for k, (s, a) in enumerate(places) if s == i and a in soon] for i in sources]
        most = np.array(
            [slopes[k].sum() * rows.moves[i] / 2 for i, k in zip(sources, at, strict=True)]
        )
        among = list(sources)
        every = np.isfinite(left[:, [j, *among]]).all(axis=1)
        if every.sum() <= len(among):
            continue
        # Jointly: one by one, related sources would subtract the same part twice.
        other = -most if rows.midway else 0.0
        bounds = np.minimum(most, other) - 1e-300, np.maximum(most, other) + 1e-300
        share = lsq_linear(left[every][:, among], left[every, j], bounds).x
        corrected[:, j] -= left[:, among] @ share
    return corrected


# Error rate of a whole record: all tests of all kept links together (Bonferroni).
ERROR = 0.01
# Number of earlier steps whose innovations of a source, or of its target, are tested.
INNOVATIONS = 4
# Smallest share of a link's strength that such a sign must explain: smaller signs change hardly any
# edge, and long records show every imperfection of a drift. Simulated drivers that a thousand
# samples reveal give .12 and more.
SIGN_SHARE = 0.1
# Scales at which a given input saturates, in inverse standard deviations.
SATURATION = (0.75, 1.5, 3.0)
# Share of the effect of a link, where instruments move its source, below which the source is no
# cause, and the F statistic of instruments that are strong enough (Staiger and Stock, 1997). In
# simulations the share is about one for true links and about zero for those of unobserved drivers.
CAUSED, STRONG = 0.35, 10.0
# How close to one that share must be, with two standard errors, for a target to follow its source
# fully. Signs of an unobserved variable in the source's innovations then do not count, since true
# links leave them too if steps are long. Chosen by inspection: .11 to .23 for five true links of
# flows with such signs, .31 and more for 24 links of simulated drivers.
FULL = 0.25
# With an unobserved driver, a link from what moves a source to the target, with the delay of both
# links, may cancel what the source would pass on. It is then negatively correlated with that, by at
# least the first number, and at most the second number times as large. Chosen by inspecting
# simulated drivers (-.5 to -1 in 34 of 36, up to 2.8 times) and noisy chaotic flows (above -.35).
OPPOSITE, MOST_OPPOSITE = 0.45, 4.0


class Signs(NamedTuple):
    """The p-values of every kept link, `[source target]`, adjusted for all tests of the record, or
    those of one link. NaN where nothing was tested.

    - `older`: the source's older past and its earlier inputs explain the target although the source
        is given, as through a collider.
    - `innovations`: the source's innovations do. `large_innovations`: only large ones do, as those
        of bursts.
    - `reverse`: innovations of the target predict the source, which it does not drive.
    - `inputs`, `itself`: the source has no full effect where its inputs, or its own past, move it.
    """

    older: Any
    innovations: Any
    large_innovations: Any
    reverse: Any
    inputs: Any
    itself: Any


# Negative autocorrelation of the residuals of a rate beyond which they contain measurement errors,
# and the required number of standard errors. Such errors enter two changes with opposite signs;
# alone they give -1/2. It is above -.13 for simulated hidden drivers, and -.1 to -.5 for chaotic
# systems measured with errors.
TURNS_BACK, TURNS_BEYOND = 0.1, 3.5


def turning_back(rows: Rows, left: PerRow) -> Bool[np.ndarray, "dim"]:
    """Return the variables whose residual rates are negatively autocorrelated, as measurement
    errors make them.

    Residuals are scaled by how much the next value follows the present one in the fitted drift; by
    one if no drift is known.
    """
    before = rows.before(rows.step)
    there = before >= 0
    late, early = left[there], left[before[there]] * _next_value_derivatives(rows)[there]
    both = np.isfinite(late + early)
    late, early = np.where(both, late, 0), np.where(both, early, 0)
    products = late * early
    size = np.sqrt((late**2).sum(axis=0) * (early**2).sum(axis=0))
    chance = np.sqrt((products**2).sum(axis=0))
    return products.sum(axis=0) < -np.maximum(TURNS_BACK * size, TURNS_BEYOND * chance)


def _next_value_derivatives(rows: Rows) -> PerRow:
    """Return the derivative of each variable's next value with respect to its present one."""
    drift, stays = rows.drift, np.ones_like(rows.rates)
    if drift is None or 0 not in rows.lags:
        return stays
    now, by = rows.lags.index(0), 0.05
    for j in range(rows.dim):
        more = drift.with_moved(now, j, by, j) - drift.rates[:, j]
        width = by * float(rows.past[:, now, j].std())
        stays[:, j] += float(rows.moves[j]) * more / max(width, 1e-300)
    return np.where(np.isfinite(stays), stays, 1.0)


# Standard errors beyond which the rates of a record persist: for all variables together, and
# without the clearest one; error rates of .001 and .05.
PERSISTENT_ERRORS, WITHOUT_ONE = 3.09, 1.645


def persistent(inputs: Inputs, graph: KnownGraph, left: PerRow) -> Bool[np.ndarray, "dim"]:
    """Return the variables whose rates persist from one step to the next, if the rates of the whole
    record do: given the present level and the other inputs at their kept and adjacent lags, a rate
    is larger the lower the level was a step before.

    Means over a step, smoothed values and variables with an unobserved driver have such rates. A
    single variable may follow its own past, and so may a map in which that was found. `left` are
    the residuals of the rates. Nothing is tested where these are negligible, or where candidate
    lags next to that of an input are missing, since the input may act between them.
    """
    rows, none = inputs.rows, np.zeros(inputs.rows.dim, bool)
    lags, before = np.asarray(rows.lags), rows.before(rows.step)
    gaps = np.diff(lags) > rows.step
    apart = np.append(gaps, False) | np.append(False, gaps)
    there, soon = before >= 0, lags <= rows.step
    if lags[0] != 0:
        return none
    products = {}
    for j in map(int, np.flatnonzero(noisy_rates(inputs, left))):
        own = np.zeros_like(graph[:, j])
        own[j] = graph[j, j] & soon
        if not rows.allowed[:, j].any() or (own[j, 1:].any() and not rows.midway):
            continue
        others = graph[:, j] & ~own
        if others[:, apart].any():
            continue
        around = np.abs(lags[:, None] - lags[None]) <= rows.step
        beside = others @ around & ~others
        beside[j] &= ~soon
        given = [kept_columns(inputs, others), inputs.test[:, 0, j]]
        given.append(inputs.line.transpose(0, 2, 1)[:, beside])
        residual = residuals_of(rows.rates[:, j], np.concatenate(given, axis=1))
        # Polynomials can miss enough of a bend for its remainder to be taken for persistence.
        drift = drift_if_better(rows, j, residual, poor=1.0)
        if drift is not None:
            given.append(drift.without(own & (lags > 0), j)[:, None])
        columns = np.concatenate(given, axis=1)[there]
        if there.sum() < 3 * (columns.shape[1] + 10):
            continue
        q, level = basis(columns), inputs.line[before[there], 0, j]
        past = level - (q @ level) @ q
        rate = clipped_residuals(rows.rates[there, j], q)
        size = float(np.linalg.norm(past) * np.linalg.norm(rate))
        if size > 0:
            products[j] = -past * rate / size
    if len(products) < 2:
        return none
    clear = {j: _z_score(own) for j, own in products.items()}
    together, first = sum(products.values()), max(clear, key=clear.__getitem__)
    rest = _z_score(together - products[first])
    if _z_score(together) > PERSISTENT_ERRORS and rest > WITHOUT_ONE:
        none[[j for j, one in clear.items() if one > WITHOUT_ONE]] = True
    return none


def _z_score(products: Column) -> float:
    """Return the sum over its heteroscedasticity-robust standard error."""
    return float(products.sum() / max(np.linalg.norm(products), 1e-300))


class HiddenDriverEvidence(NamedTuple):
    """The evidence from kept links about unobserved variables, `[source target]`.

    - `signs`: p-values of the signs that an unobserved variable drives both.
    - `follows`: the share of the effect that remains where the source's inputs, or its own past,
        move the source, whichever is larger; minus infinity if both instruments are too weak, NaN
        where nothing was tested.
    """

    signs: Signs
    follows: Square

    @property
    def pairs(self) -> Pairs:
        """The pairs that an unobserved variable drives, symmetric."""
        with np.errstate(invalid="ignore"):
            either = np.any([p < ERROR for p in self.signs], axis=0)
        return either | either.T

    @property
    def not_excluded(self) -> Pairs:
        """The links that may also come from an unobserved driver of both variables."""
        with np.errstate(invalid="ignore"):
            return self.follows < CAUSED

    @property
    def partly(self) -> Pairs:
        """The links whose target shows less than the full effect where the source is moved."""
        with np.errstate(invalid="ignore"):
            return self.follows < 1 - FULL


def hidden_driver_tests(
    inputs: Inputs, graph: KnownGraph, left: PerRow, mistaken: Bool[np.ndarray, "dim"]
) -> HiddenDriverEvidence:
    """Return tests of every kept link between different variables; `left` are the residuals of the
    rates.

    Negligible residuals are errors of the drift, so nothing is tested there. For `mistaken`
    variables, whose residuals are measurement errors, only instruments count: the true value of a
    source is unobserved then, and its past and its inputs predict it better than the measurement.
    """
    dim = len(graph)
    links = [(int(i), int(j)) for i, j in np.argwhere(graph.any(axis=2)) if i != j]
    found = HiddenDriverEvidence(
        Signs(*np.full((6, dim, dim), np.nan)), np.full((dim, dim), np.nan)
    )
    noisy = noisy_rates(inputs, left)
    beside = [conditioning_columns(inputs, graph, j, own=True) for j in range(dim)]
    for i, j in links:
        if noisy[i] and noisy[j] and np.isfinite(left[:, [i, j]]).all():
            one = _link(inputs, graph, left, beside, i, j)
            if mistaken[i] or mistaken[j]:
                nothing = dict.fromkeys(
                    ("older", "innovations", "large_innovations", "reverse"), np.nan
                )
                one = one._replace(signs=one.signs._replace(**nothing))
            for every, p in zip(found.signs, one.signs, strict=True):
                every[i, j] = np.minimum(p * len(found.signs) * len(links), 1.0)
            found.follows[i, j] = one.follows
    return found


def _link(inputs, graph, left, beside, i: int, j: int) -> HiddenDriverEvidence:
    """Return the evidence from one link, as numbers; `beside` are the given columns by target."""
    rows = inputs.rows
    step, lags = rows.step, np.asarray(rows.lags)
    kept = lags[graph[i, j]]
    first, last = int(kept.min()), int(kept.max())
    steps = [first + step * m for m in range(1, INNOVATIONS + 1)]
    beyond = [int(lags[-1]) + step * m for m in (1, 2)]
    parents = [last + step, last + 2 * step]
    places = {shift: rows.before(shift) for shift in {*steps, *beyond, *parents}}
    there = np.all([place >= 0 for place in places.values()], axis=0)
    n = int(there.sum())
    given = beside[j]
    near = np.flatnonzero((np.abs(lags[:, None] - kept[None]) <= step).any(axis=1))
    near_columns = [inputs.line[:, near, i], *(inputs.hermite[:, a, i] for a in near)]
    given = np.concatenate([given, *near_columns, saturating(inputs, graph[:, j])], axis=1)
    if n < 3 * (given.shape[1] + 10):
        return HiddenDriverEvidence(Signs(*[1.0] * len(Signs._fields)), -np.inf)
    rate = rows.rates[there, j]

    past = np.flatnonzero(lags > last + step)
    older = [inputs.line[:, past, i]]
    older += [inputs.line[places[shift], 0, i][:, None] for shift in beyond]
    for s, a in np.argwhere(graph[:, i]):
        older += [inputs.line[places[shift], a, s][:, None] for shift in parents]
    innovations = np.stack([left[places[shift], i] for shift in steps], axis=1)
    large = _large_part(left[:, i])
    large = np.stack([large[places[shift]] for shift in steps[:-1]], axis=1)
    given = given[there]
    signs = [
        group_test(rate, columns[there], given)
        for columns in (np.concatenate(older, axis=1), innovations, large)
    ]
    before = [rows.before(step * m) for m in range(1, INNOVATIONS + 1)]
    there = np.all([place >= 0 for place in before], axis=0)
    innovations = np.stack([left[place, j] for place in before], axis=1)
    given = np.concatenate([beside[i], saturating(inputs, graph[:, i])], axis=1)
    signs.append(group_test(rows.rates[there, i], innovations[there], given[there]))
    share = _explained_share(inputs, graph, i, j)
    # Both are shares of the residual given the other inputs.
    large_enough = [sign.share * (1 - share) >= SIGN_SHARE * share for sign in signs]
    older, innovations, large, reverse = (
        float(sign.p) if clear else 1.0 for sign, clear in zip(signs, large_enough, strict=True)
    )
    by_inputs, by_itself = _by_inputs(inputs, graph, i, j), _by_itself(inputs, graph, i, j)
    moved = by_inputs.p(max(CAUSED, 2 * by_inputs.error))
    itself = _own_past_p_value(inputs, graph, i, j, by_itself)
    if graph[j, i].any():
        reverse = 1.0  # innovations of the link back are tested with that link
    unknown = _moved_by_unknown(rows, graph, i, j)
    instruments = [by_inputs] if unknown else [by_inputs, by_itself]
    deviations = [one.largest_deviation for one in instruments if one.strength > STRONG]
    if deviations and max(deviations) < FULL:
        older = innovations = large = 1.0
    follows = max(one.follows for one in instruments)
    return HiddenDriverEvidence(Signs(older, innovations, large, reverse, moved, itself), follows)


# Steps within which the own past, given the present, shows where a continuous path is going.
# Chosen by inspecting 30 flows that an unmeasured stimulus moves: their splines kept such lags.
MOMENTUM = 2


def _moved_by_unknown(rows: Rows, graph: KnownGraph, i: int, j: int) -> bool:
    """Return whether a variable of a continuous path has momentum but no input except from its
    target: its rate depends on a level shortly before. Whatever moves it has a memory, is not
    measured and may also move the target, so that its own past is no instrument.
    """
    lags = np.asarray(rows.lags)
    soon = (lags > 0) & (lags <= MOMENTUM * rows.step)
    alone = not np.delete(graph[:, i], [i, j], axis=0).any()
    return bool(rows.midway and alone and graph[i, i, soon].any())


def saturating(inputs: Inputs, kept: SourceLags) -> Columns:
    """Return kept inputs with early and late saturation. Whatever moved the source predicts what
    polynomials miss of a strong bend, which could be mistaken for an unobserved variable.
    """
    line = inputs.line.transpose(0, 2, 1)[:, kept]
    return np.concatenate([np.tanh(scale * line) for scale in SATURATION], axis=1)


def _explained_share(inputs, graph, i: int, j: int) -> float:
    """Return the share of a rate's residual, given the other inputs, that a source explains, with
    the fitted drift where polynomials do not describe its effect.
    """
    kept, rate = graph[:, j], inputs.rows.rates[:, j]
    others = kept.copy()
    others[i] = False
    given, columns = kept_columns(inputs, others, own=j), kept_columns(inputs, kept)
    drift = drift_if_better(inputs.rows, j, residuals_of(rate, columns))
    if drift is not None:
        given = np.concatenate([given, drift.without(kept & ~others, j)[:, None]], axis=1)
        columns = np.concatenate([columns, drift.rates[:, [j]]], axis=1)
    return float(group_test(rate, columns, given).share)


def _large_part(innovations: Column) -> Column:
    """Return the part beyond two robust standard deviations, up to ten."""
    low, high = np.quantile(innovations, [0.25, 0.75])
    spread = (high - low) / 1.349
    return np.sign(innovations) * np.clip(np.abs(innovations) - 2 * spread, 0, 8 * spread)


class _InstrumentalEffect(NamedTuple):
    """The share `slope` of an effect that remains where instruments move its source, its robust
    standard `error`, and the `strength` of the instruments, an F statistic.
    """

    slope: float
    error: float
    strength: float

    def p(self, most: float) -> float:
        """Return the p-value of a full effect; 1 if instruments are weak or the share is at least
        `most`.
        """
        from scipy.special import ndtr  # takes a moment to import

        clear = self.strength > STRONG and abs(self.slope) < most
        return float(ndtr((self.slope - 1) / self.error)) if clear else 1.0

    @property
    def largest_deviation(self) -> float:
        """The largest plausible distance of the share from one: two standard errors more."""
        return abs(self.slope - 1) + 2 * self.error

    @property
    def follows(self) -> float:
        """The share; minus infinity if instruments are weak."""
        return self.slope if self.strength > STRONG else -np.inf


# The result without information.
_NO_INSTRUMENT = _InstrumentalEffect(1.0, np.inf, 0.0)


def _by_inputs(inputs, graph, i: int, j: int) -> _InstrumentalEffect:
    """Return how much of the effect of a source remains where other variables move it."""
    moving = [(s, m) for s, m in np.argwhere(graph[:, i]).tolist() if s not in (i, j)]
    return _instrumented_effect(inputs, graph, i, j, np.flatnonzero(graph[i, j]).tolist(), moving)


def _by_itself(inputs, graph, i: int, j: int) -> _InstrumentalEffect:
    """Return how much of the effect of a source at its first lag remains where its own past moves
    it; on a continuous path, whose level persists, also without a link from its own past.
    """
    own = np.flatnonzero(graph[i, i]).tolist() or ([0] if inputs.rows.midway else [])
    moving = [(i, m) for m in own]
    return _instrumented_effect(
        inputs, graph, i, j, np.flatnonzero(graph[i, j])[:1].tolist(), moving
    )


def _own_past_p_value(inputs, graph, i: int, j: int, found: _InstrumentalEffect) -> float:
    """Return the p-value of a source having its effect where its own past moves it. It is 1 if no
    other lag cancels that effect, or if the target may follow changes of the source, as a driven
    variable can.
    """
    rows, moving = inputs.rows, np.flatnonzero(graph[i, i])
    lags, (first, *later) = np.asarray(rows.lags), np.flatnonzero(graph[i, j]).tolist()
    delays = lags[first] + lags[moving] + rows.step
    around = rows.step if rows.midway else 0
    if not any((np.abs(lags[a] - delays) <= around).any() for a in later):
        return 1.0
    before = rows.before(rows.step)
    now, past = inputs.line[before >= 0, 0, i], inputs.line[before[before >= 0], 0, i]
    by_changes = 1 - float(past @ past) / max(float(past @ now), 1e-300)
    return found.p(min(2 * found.error, found.slope - by_changes - 2 * found.error))


def _instrumented_effect(
    inputs: Inputs,
    graph: KnownGraph,
    i: int,
    j: int,
    acting: list[int],
    moving: list[tuple[int, int]],
) -> _InstrumentalEffect:
    """Return how much of the effect of a source, at the positions of some kept lags, remains where
    some of its inputs, `(source, place)`, move it: they are instruments (Durbin, 1954; Hausman,
    1978).

    Whatever moves a cause moves its target. If an unobserved variable drives both, it does not, and
    the graph has another link of opposite sign, from what moves the source, with the delay of both
    links; such links are not among the given columns. An input with another link to the target at
    that delay is no instrument. The effect is that of the fitted drift if polynomials of the source
    do not describe it. If it acts through products, so do its instruments.
    """
    if not moving:
        return _NO_INSTRUMENT
    rows = inputs.rows
    step, lags, around = rows.step, np.asarray(rows.lags), rows.step if rows.midway else 0
    own = np.zeros_like(graph[:, j])
    own[i, acting] = True
    others, effect = graph[:, j] & ~own, _effect_of_inputs(inputs, graph, j, own)
    beside_it = {s for s, _ in moving} - {i}
    direct = {s for s in beside_it if _drives_directly(inputs, graph, i, j, s, effect)}
    moving = [(s, m) for s, m in moving if s not in direct]
    beside, there, columns = others.copy(), np.ones(len(rows.rates), bool), []
    hermite_columns: list[np.ndarray] = []
    by_lag: list[tuple[int, list[np.ndarray]]] = []
    source, given = kept_columns(inputs, own), kept_columns(inputs, others, own=j)
    for a in acting:
        before = rows.before(int(lags[a]) + step)
        there &= before >= 0
        for s, m in moving:
            beside[s] &= np.abs(lags - (lags[a] + lags[m] + step)) > around
        lines = [inputs.line[before, m, s] for s, m in moving]
        hermite = [column for s, m in moving for column in inputs.hermite[before, m, s].T]
        by_lag.append((a, [*lines, *hermite]))
        columns += lines
        hermite_columns += hermite
    every, rate = np.concatenate([source, given], axis=1), rows.rates[:, j]
    if not columns or there.sum() < 3 * (every.shape[1] + len(columns) + 10):
        return _NO_INSTRUMENT
    given, drift = (
        kept_columns(inputs, beside, own=j),
        drift_if_better(rows, j, residuals_of(rate, every)),
    )
    if drift is not None:
        given = np.concatenate([given, drift.without(graph[:, j] & ~beside, j)[:, None]], axis=1)
        if favours_products(inputs, j, graph[:, j]):
            lines = inputs.line.transpose(0, 2, 1)[:, others].T
            columns += [column * line for column in columns for line in lines]

    def expected():
        return [sum(_expected_effect(inputs.line[:, a, i], effect, by) for a, by in by_lag)]

    found = _NO_INSTRUMENT
    # Hermite terms are needed for an effect that is the same at high and low values. Many columns
    # are weak instruments where one is not.
    for instruments in (lambda: columns, lambda: [*columns, *hermite_columns], expected):
        if not found.strength > STRONG:
            moving_columns = np.stack(instruments(), axis=1)[there]
            found = _two_stages(rate[there], effect[there], moving_columns, given[there])
    return found


def _drives_directly(inputs, graph, i: int, j: int, s: int, effect: Column) -> bool:
    """Return whether an input `s` of a source `i` has a link of its own to the target `j`, with the
    delay of both links, that does not cancel what the source would pass on.
    """
    rows, lags, acting = inputs.rows, np.asarray(inputs.rows.lags), np.flatnonzero(graph[i, j])
    both = lags[acting][:, None] + lags[graph[s, i]] + rows.step
    near = np.abs(lags[:, None] - both.ravel()).min(axis=1) <= (rows.step if rows.midway else 0)
    link, passing = np.zeros_like(graph[:, j]), np.zeros_like(graph[:, i])
    link[s], passing[s] = graph[s, j] & near, graph[s, i]
    if not link.any():
        return False
    # The movement of the source by its input, and that of the target with it.
    moved = float(rows.moves[i]) * _effect_of_inputs(inputs, graph, i, passing)
    lines = inputs.line[:, acting, i]
    slopes = np.linalg.lstsq(lines - lines.mean(axis=0), effect, rcond=1e-9)[0]
    before = np.stack([rows.before(int(lags[a]) + rows.step) for a in acting], axis=1)
    there = (before >= 0).all(axis=1)
    passed, own = (moved[before] @ slopes)[there], _effect_of_inputs(inputs, graph, j, link)[there]
    passed, own = passed - passed.mean(), own - own.mean()
    size, product = np.linalg.norm(passed), float(passed @ own)
    alike = -product > OPPOSITE * size * np.linalg.norm(own)
    return not (alike and -product < MOST_OPPOSITE * size**2)


def _effect_of_inputs(inputs: Inputs, graph: KnownGraph, j: int, own: SourceLags) -> Column:
    """Return the effect of some kept inputs of a target on its rate, from polynomials of all, or
    from the fitted drift if these do not describe the rate.
    """
    rows, rate = inputs.rows, inputs.rows.rates[:, j]
    source = kept_columns(inputs, own)
    every = np.concatenate([source, kept_columns(inputs, graph[:, j] & ~own, own=j)], axis=1)
    drift = drift_if_better(rows, j, residuals_of(rate, every))
    if drift is None:
        return _effect(every, source.shape[1], rate)
    rest = drift.without(own, j)[:, None]
    return _effect(np.concatenate([drift.rates[:, [j]] - rest, rest], axis=1), 1, rate)


def _expected_effect(source: Column, effect: Column, columns: list[Column]) -> Column:
    """Return the expected effect of a source given only `columns` that move it.

    Under a normal distribution, the expected Hermite polynomials of the source are those of its
    expectation times a power of the correlation of the two (Mehler's formula).
    """
    q, score = basis(np.stack(columns, axis=1)), normal_scores(source)
    predicted = (q @ score) @ q
    predicted = predicted - predicted.mean()
    correlation = predicted.std() / max(score.std(), 1e-300)
    polynomials = np.column_stack([score, hermite_terms(source)])
    slopes = np.linalg.lstsq(polynomials - polynomials.mean(axis=0), effect, rcond=1e-9)[0]
    of_predicted = np.column_stack([normal_scores(predicted), hermite_terms(predicted)])
    return of_predicted @ (slopes * correlation ** np.arange(1, 5))


def _effect(columns: Columns, count: int, rate: Column) -> Column:
    """Return the contribution of the first columns in a regression of a rate on all columns."""
    slopes = np.linalg.lstsq(columns - columns.mean(axis=0), rate, rcond=1e-9)[0]
    return columns[:, :count] @ slopes[:count]


def _two_stages(
    rate: Column, effect: Column, instruments: Columns, given: Float[np.ndarray, "row given"]
) -> _InstrumentalEffect:
    """Return the slope of a rate on an effect by two-stage least squares, given other columns."""
    q = basis(given)
    columns = instruments - instruments.mean(axis=0)
    first = basis(columns - q.T @ (q @ columns))[1:]
    rate, effect = (y - (q @ y) @ q for y in (rate, effect))
    moved = (first @ effect) @ first
    size, rest = moved @ moved, effect - moved
    if not size > 0:
        return _NO_INSTRUMENT
    slope = (moved @ rate) / size
    error = np.linalg.norm(moved * (rate - slope * effect)) / size
    free = len(rate) - len(q) - len(first)
    strength = size / len(first) / max(rest @ rest, 1e-300) * free
    return _InstrumentalEffect(float(slope), float(error), float(strength))


# Largest residual share of a level's variance on held-out blocks: derived variables are computed or
# measured to a few digits, and driven variables lag behind their drivers by more.
LEFT = 0.01
BLOCKS = 5
# Relative size above which singular values count.
RESOLVED = 1e-8


# Share of a variable's residual variance per step that the present states of others must explain:
# all of it if the variable is computed from them, none if it has noise of its own.
NEW = 0.5


class Static(NamedTuple):
    """Whether the present states of all others determine a variable, `[target]`.

    - `found`: they give its level to within a hundredth of its variance.
    - `derived`: they also give its innovation at every step, as if it were computed from them.
    """

    found: Bool[np.ndarray, " target"]
    derived: Bool[np.ndarray, " target"]


def static_targets(rows: Rows, left: Float[np.ndarray, "row target"]) -> Static:
    """Return which variables the present states of all others determine; `left` are the residuals
    of the rates.

    Each level is regressed on splines of the others' levels, their squares and products, and
    predicted block by block from the other blocks. No variable is found if the present is not a
    candidate, or with fewer than four windows per column.
    """
    n, dim = len(rows.rates), rows.dim
    share = np.full(dim, np.inf)
    if dim < 2 or 0 not in rows.lags:
        return Static(share < LEFT, share < LEFT)
    now = rows.past[:, list(rows.lags).index(0)]
    terms = np.asarray(spline_terms(now, knots_of(now)))
    for j in range(dim):
        others = [i for i in range(dim) if i != j]
        pairs = [
            now[:, a] * now[:, b] for a, b in itertools.combinations_with_replacement(others, 2)
        ]
        columns = [np.ones(n), *pairs, *np.moveaxis(terms[:, others].reshape(n, -1), 1, 0)]
        if WINDOWS_PER_COLUMN * len(columns) > n:
            continue
        x, y = np.stack(columns, axis=1), now[:, j]
        x = x / np.maximum(np.sqrt((x**2).mean(axis=0)), 1e-300)
        rest_of_level, limit = 0.0, LEFT * np.sum((y - y.mean()) ** 2)
        for block in np.array_split(np.arange(n), BLOCKS):
            rest = np.setdiff1d(np.arange(n), block)
            c = np.linalg.lstsq(x[rest], y[rest], rcond=RESOLVED)[0]
            rest_of_level += np.sum((y[block] - x[block] @ c) ** 2)
            if rest_of_level >= limit:
                break
        else:
            share[j] = rest_of_level / n
    new = (left**2).mean(axis=0) * rows.moves**2
    return Static(np.isfinite(share), share < NEW * new)


# Error rate of a whole record: all candidates of all targets together (Bonferroni).
DRIFT_ERROR = 1e-3
# Number of waves over a record, of half a period to six, that effects may follow, and a ridge that
# keeps their covariance regular.
WAVES, RIDGE = 12, 1e-6
# Largest lag of the autocorrelation of scores.
REMEMBERED = 50


def drifting(inputs: Inputs, graph: KnownGraph) -> KnownGraph:
    """Return the candidates whose product with time, or with waves of a few periods in the record,
    explains the residual of a rate given the kept inputs, the candidate and time.

    It must explain more than an error of the drift, in which a test without noise finds anything. A
    link that changes sign is detected only here.
    """
    rows = inputs.rows
    n, dim, lags = len(rows.rates), rows.dim, len(rows.lags)
    time = np.linspace(-1, 1, n)
    p, swings = np.full((2, dim, dim, lags), np.nan)
    line = inputs.line.transpose(2, 1, 0).reshape(-1, n)
    test, waves = line[:, None] * time, _waves(n)
    made = line[:, None]
    for j in range(dim):
        columns = kept_columns(inputs, graph[:, j], own=j)
        # The residual of a strong bend wanders with its source: the fitted drift is given too.
        with_drift = conditioning_columns(inputs, graph, j, own=True)
        for given in (columns, with_drift) if with_drift.shape != columns.shape else (columns,):
            given = np.concatenate([given, time[:, None]], axis=1)
            if n > 2 * (given.shape[1] + 10):
                rate = rows.rates[:, j]
                tested = source_tests(rate, _centred(test), _centred(made), given)
                of_rate = np.var(residuals_of(rate, given)) / max(np.var(rate), 1e-300)
                p_value = np.where(tested.share * of_rate > NOISE, tested.p, 1)
                p[:, j] = np.fmax(p[:, j], p_value.reshape(dim, lags))
                p_value = _wave_test(rate, _centred(line), given, waves)
                swings[:, j] = np.fmax(swings[:, j], p_value.reshape(dim, lags))
    p = np.where(rows.allowed, np.fmin(p, swings), np.nan)
    with np.errstate(invalid="ignore"):
        return p < DRIFT_ERROR / max(np.isfinite(p).sum(), 1)


def _waves(n: int) -> Float[np.ndarray, "wave row"]:
    """Return cosines with 0, 1/2, 1, ... periods in the record, up to `WAVES` periods."""
    return np.cos(np.pi * np.arange(2 * WAVES + 1)[:, None] * (np.arange(n) + 0.5) / n)


def _memory_given_waves(
    scores: Float[np.ndarray, "candidate row"], waves: Float[np.ndarray, "wave row"]
) -> Float[np.ndarray, "candidate"]:
    """Return the sum of the autocorrelations of scores given waves, up to the first that may be
    chance; 1 for scores without memory.
    """
    n = scores.shape[1]
    left = _centred(scores) - (2 / n) * (scores @ waves.T) @ waves
    power, total = np.einsum("ck,ck->c", left, left), np.ones(len(left))
    goes_on = power > 0
    for lag in range(1, min(REMEMBERED, n // 10) + 1):
        r = np.einsum("ck,ck->c", left[:, :-lag], left[:, lag:]) / divisor(power)
        goes_on &= r > 2 / np.sqrt(n)
        if not goes_on.any():
            break
        total += np.where(goes_on, 2 * r, 0)
    return total


def _wave_test(
    rate: Column,
    lines: Float[np.ndarray, "candidate row"],
    given: Float[np.ndarray, "row given"],
    waves: Float[np.ndarray, "wave row"],
) -> Float[np.ndarray, "candidate"]:
    """Return the p-value of each candidate's effect varying with waves over the record; 1 if that
    explains no more than an error of the drift.

    This is a score test. With a constant effect, the products of a candidate and the residuals have
    mean zero in every part of the record. Their covariance is estimated from the products, which
    allows for heavy tails and changing noise, times their memory given the waves.
    """
    from scipy.special import chdtrc  # takes a moment to import

    q = basis(given)
    left, own = clipped_residuals(rate, q), lines - (lines @ q.T) @ q
    power = np.einsum("ck,ck->c", own, own)
    scores = own * (left[None] - ((own @ left) / divisor(power))[:, None] * own)
    first, places = waves[1 : WAVES + 1], np.arange(1, WAVES + 1)
    sums = scores @ first.T
    # A product of two waves is the mean of two others.
    others = np.abs(places[:, None] - places), places[:, None] + places
    covariance = sum((scores**2 @ waves.T)[:, other] for other in others) / 2
    size = np.sqrt(np.einsum("cww->cw", covariance))
    unit = sums / divisor(size)
    alike = covariance / divisor(size[:, :, None] * size[:, None])
    alike = alike + RIDGE * np.eye(WAVES)[None]
    statistic = np.einsum("cw,cw->c", unit, np.linalg.solve(alike, unit[..., None])[..., 0])
    statistic = statistic / _memory_given_waves(scores, first)
    explained = np.sum(sums**2 / divisor(own**2 @ (first**2).T), axis=1)
    enough = explained > NOISE * divisor(np.sum((rate - rate.mean()) ** 2))
    return np.where(enough, chdtrc(WAVES, statistic), 1.0)


def _centred(a):
    return a - a.mean(axis=-1, keepdims=True)


# Error rate of a whole record: all links that are tested (Bonferroni). The links were selected
# among more candidates, but a correction for that made true links of larger systems fail.
UNCONFIRMED = 0.01
# Share of a source's apparent effect below which its innovations have none, and the standard
# errors of a one-sided 90 % bound: a smooth source has small innovations.
NEW_SHARE, NEW_BOUND = 0.5, 1.282


def unconfirmed(inputs: Inputs, graph: KnownGraph, required: KnownGraph) -> KnownGraph:
    """Return the kept links between different variables that pass on nothing new from their source.

    Alone, or times the other inputs if products matter, such a link explains its target beyond
    chance. Given what its source was made of, it does not, and by a one-sided 90 % bound its effect
    is less than half of the apparent one.

    The test is that of the p-values, applied to the apparent effect of the input. This is one
    column, which needs shorter records than its separate terms. Adjacent lags are tested together,
    since a delay lies between them and neither explains much without the other. A link
    that is a proxy for a driver of its source, or for a memory that both share, explains its target
    only until that is given.
    """
    rows = inputs.rows
    plain, p, most = np.full((3, *graph.shape), np.nan)
    adjacent = adjacent_lags(graph, rows.lags)
    for j in range(rows.dim):
        multiplied = favours_products(inputs, j, graph[:, j])
        used = rows.counting(j, graph[:, j])
        left = residuals_of(rows.rates[used, j], kept_columns(inputs, graph[:, j], own=j)[used])
        drift = drift_if_better(rows, j, left, used)
        for i, places in join_adjacent(graph[:, j], adjacent[:, j]):
            if i == j or required[i, j, places].any():
                continue
            others = graph[:, j].copy()
            others[i, places] = False
            past, there = source_past(inputs, graph, i, rows.lags[places[-1]])
            there &= used
            other = kept_columns(inputs, others, own=j)
            columns = inputs.test[:, places, i].reshape(len(there), -1)
            if drift is not None:
                # The effect of the input by the drift, given its earlier effects.
                rest = drift.without(graph[:, j] & ~others, j)[:, None]
                other = np.concatenate([other, rest], axis=1)
                columns = drift.rates[:, [j]] - rest
                before = [rows.before(rows.step * m) for m in range(1, OWN_PAST + 1)]
                there &= np.all([place >= 0 for place in before], axis=0)
                past = np.concatenate([past, *(columns[place] for place in before)], axis=1)
            elif multiplied:
                columns = np.concatenate([columns, _times(inputs, i, places, others)], axis=1)
            other = other[there]
            given = np.concatenate([other, past[there]], axis=1)
            if len(given) > ROWS * (given.shape[1] + 10):
                rate, columns = rows.rates[there, j], columns[there]
                plain[i, j, places] = group_test(rate, columns, other).p
                seems = _apparent_effect(rate, columns, other)
                p[i, j, places] = group_test(rate, seems[:, None], given).p
                most[i, j, places] = _upper_share(rate, seems, given)
    limit = UNCONFIRMED / max(np.isfinite(p).sum(), 1)
    with np.errstate(invalid="ignore"):
        return (plain <= limit) & (p > limit) & (most < NEW_SHARE)


def _apparent_effect(rate, columns, other) -> Column:
    """Return the apparent effect of the columns of an input given the other inputs only."""
    q = basis(other)
    columns, rate = columns - columns.mean(axis=0), rate - rate.mean()
    columns, rate = columns - q.T @ (q @ columns), rate - q.T @ (q @ rate)
    return columns @ np.linalg.lstsq(columns, rate, rcond=1e-9)[0]


def _upper_share(rate, seems, given) -> float:
    """Return a robust upper bound of the share of an apparent effect due to innovations.

    It is infinite if they would explain more than the whole residual, as for a source without
    noise, whose only innovations are errors of the drift.
    """
    new, left = residuals_of(seems, given), residuals_of(rate, given)
    if new @ new > left @ left:
        return np.inf
    size = max(float(new @ new), 1e-300)
    share = float(new @ left) / size
    return share + NEW_BOUND * float(np.linalg.norm(new * (left - share * new))) / size


def _times(inputs, source: int, places: list[int], others) -> Columns:
    """Return the products of an input with the other inputs, all bounded."""
    line = inputs.test[..., 0]
    own, rest = line[:, places, source], line.transpose(0, 2, 1)[:, others]
    return (own[:, :, None] * rest[:, None]).reshape(len(line), -1)
