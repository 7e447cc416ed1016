"""Drifts whose flow matches the data: fit, correct for the motion during a step, fit again.

[`fit_drift`][ndde_jax.fit_drift] is the one function for all families.

A forward difference (X[k+1] − X[k]) / dt is an unbiased measurement of the *flow* over one sample,
(Φ(X[k]) − X[k]) / dt, whatever the dynamical noise, but it differs from the drift by
dt/2 · (∂G) G + …, a tenth of it at a hundred samples per period. This bias appears as false edges
(paths of two steps look like one), and a sparse network cannot represent it. Central differences
have no such bias but, if noise drives the system, measure the current velocity, not the drift.

So the difference between flow and drift is computed with the current model and subtracted from the
data: deferred correction. The noise remains that of forward differences, the fixed point is the
drift with correct one-step forecasts, and everything that fits, selects or scores on windows works
on corrected ones. Corrections are made at the middle of each step, where a wrong model does the
least harm.
"""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from .._axes import from_graph_axes
from .._checks import (
    argument_error,
    check_choice,
    check_flag,
    check_whole,
    is_traced,
)
from .._memory import drop_programs_if_many
from .._types import Checked, Settings, on_host_or_traced, setting, to_jax
from ..models._families import AbstractFamily, Best, Family, Networks, Polynomials
from ..models._model import AbstractDelayModel, NeuralDDE
from ..models._networks import Layer, MaskedDrift
from ..models._polynomials import (
    FLOOR,
    MAX_TERMS,
    PolynomialDrift,
    PolynomialFit,
    all_exponents,
    bounds,
    fit_polynomial,
    natural_origin,
    physical_units,
)
from ..windows._windows import FlatData, Windows
from ._newton import NetworkFit, fit_network, select_inputs
from ._refit import StrengthConfig, checked_graph, checked_refit, input_slots, spread_network

# ---- corrections ----

# Mean square of a correction, relative to the variance of the rates, above which the step is too
# long: a variable that forgets most of its state within a step cannot be traced back from its end.
# For densely sampled flows it is below a tenth; for coarse ones it comes near the limit.
MAX_CORRECTION = 1.0


@eqx.filter_jit
def correct_at_midpoints(windows: Windows, model, following=None, bend=None) -> Windows:
    """Return windows at the middle of every step, with the rates of change that the model needs
    there.

    `following`: standardised histories at the end of the step; by default those of the next row,
    or the row's own if the next row does not start there. `bend`: distance of the past from a
    straight line halfway, by default 0.

    The model goes half a step forward from the start and half a step back from the end. If the two
    do not meet, its rate of change at the middle is wrong by their distance per step. This is exact
    to second order in the step and first order in the error, a correction at the start only to
    first order in the step. So rounds converge faster, even with long steps.
    """
    following = following_rows(windows, windows.history) if following is None else following
    return _corrected(windows, jax.vmap(model), following, bend, jnp)


def correct_at_midpoints_numpy(
    windows: Windows,
    drift: Callable,
    following,
    bend=None,
    means: Bool[np.ndarray, " target"] | None = None,
) -> Windows:
    """Apply [`correct_at_midpoints`][ndde_jax.fit._flow.correct_at_midpoints] in NumPy, which
    compiles nothing, with a drift that takes many physical histories at once.

    `means`: targets whose delayed sources are to be read as means over the step. Only present
    states correct their rates; by default none.
    """
    with np.errstate(all="ignore"):  # a drift may diverge; then nothing is corrected
        return _corrected(windows, drift, following, bend, np, means)


def _steps(windows: Windows, drift: Callable, following, bend, xp: ModuleType):
    """Return the steps of windows in physical units, in NumPy or JAX: states at the start, rates of
    change over the steps, their lengths, and a function: the drift of states at a fraction of the
    step, with the past interpolated between the two histories. `drift` takes many histories.
    """
    dtype = np.float64 if xp is np else windows.history.dtype
    s, history, following, increment, weight = jax.tree.map(
        lambda a: xp.asarray(a, dtype),
        (windows.scaling, windows.history, following, windows.increment, windows.weight),
    )
    start, end = (a * s.scale[None, None] + s.center[None, None] for a in (history, following))
    bent = 0.0 if bend is None else xp.asarray(bend, dtype) * s.scale[None, None]

    def rate(x, fraction):
        lagged = start + fraction * (end - start) + 4 * fraction * (1 - fraction) * bent
        if windows.lags[0] == 0:
            lagged = xp.concatenate([x[:, None], lagged[:, 1:]], axis=1)
        return drift(lagged)

    increment = increment * s.rate_scale[None] + s.rate_center[None]
    h = windows.step * xp.asarray(windows.dt, dtype) * xp.where(weight > 0, weight, 1)[:, None]
    return start[:, 0], increment, h, rate


def _corrected(
    windows: Windows, drift: Callable, following, bend, xp: ModuleType, means: Any = None
) -> Windows:
    """Return windows at the middle of every step, corrected, in NumPy or JAX."""
    x, increment, h, rate = _steps(windows, drift, following, bend, xp)
    ends = xp.stack([x, x + h * increment]), xp.arange(2, dtype=x.dtype)

    def halfway(x, at):
        return _mean_rate(rate, x, at, h)

    # In JAX as one batch, since a model is compiled for every call in a program.
    first, second = jax.vmap(halfway)(*ends) if xp is jnp else map(halfway, *ends)
    move = 0.5 * h * first
    difference = rate(x + move, 0.5) - 0.5 * (first + second)
    if means is not None and means.any():
        parts = [_mean_rate(lambda y, at: rate(y, 0.5), *end, h) for end in zip(*ends, strict=True)]
        moved = xp.where(means[None], 0.5 * h * parts[0], move)
        apart = rate(x + moved, 0.5) - 0.5 * (parts[0] + parts[1])
        move, difference = moved, xp.where(means[None], apart, difference)
    s = jax.tree.map(lambda a: xp.asarray(a, x.dtype), windows.scaling)
    move, difference = move / s.scale[None], difference / s.rate_scale[None]
    history = xp.asarray(windows.history)
    # Corrections that overflow the type of the windows are ignored.
    most = jnp.finfo(history.dtype).max / 2
    usable = xp.all(xp.abs(move) + xp.abs(difference) < most, axis=1) & xp.asarray(windows.valid)
    move, difference = (xp.where(usable[:, None], a, 0) for a in (move, difference))
    count = xp.maximum(xp.sum(usable), 1).astype(difference.dtype)
    square = xp.sum(difference**2, axis=0) / count
    difference = xp.where(square[None] < MAX_CORRECTION, difference, 0)
    middle = 0.5 * (history + xp.asarray(following)) + (0 if bend is None else xp.asarray(bend))
    middle = xp.where(usable[:, None, None], middle, history)
    if windows.lags[0] == 0:
        now = history[:, 0] + move
        middle = xp.concatenate([now[:, None], middle[:, 1:]], axis=1)
    rates = xp.asarray(windows.increment) + difference
    new = to_jax(middle, history.dtype), to_jax(rates, windows.increment.dtype)
    return eqx.tree_at(lambda w: (w.history, w.increment), windows, new)


def _mean_rate(rate, x, start, h):
    """Return the mean rate over one classical Runge–Kutta step from a fraction of the interval to
    its middle.
    """
    part = 0.5 - start
    k1 = rate(x, start)
    k2 = rate(x + 0.5 * part * h * k1, start + 0.5 * part)
    k3 = rate(x + 0.5 * part * h * k2, start + 0.5 * part)
    k4 = rate(x + part * h * k3, 0.5)
    return (k1 + 2 * k2 + 2 * k3 + k4) / 6


def following_rows(windows: Windows, history: Float[Array | np.ndarray, "window lag dim"]):
    """Return the histories at the end of each step, from the next row if it is adjacent, otherwise
    the row's own; in NumPy if `history` is.
    """
    xp = np if isinstance(history, np.ndarray) else jnp
    valid, position = xp.asarray(windows.valid), xp.asarray(windows.position)
    adjacent = (position[1:] == position[:-1] + windows.step) & valid[1:] & valid[:-1]
    later = xp.where(adjacent[:, None, None], history[1:], history[:-1])
    return xp.concatenate([later, history[-1:]])


# ---- fits ----

# Levenberg–Marquardt steps between two corrections, from the previous weights.
STEPS_PER_ROUND = 8


def fit_flow(
    windows: Checked[Windows],
    graph: Any = "full",
    *,
    key: Checked[PRNGKeyArray],
    members: Checked[int] = 4,
    rounds: Checked[int] = 6,
    config: Checked[StrengthConfig | None] = None,
    max_inputs: Checked[int | None] = None,
    family: Checked[str] = "auto",
    simple_numbers: Checked[bool] = False,
) -> NeuralDDE:
    """Fit a drift on a given graph so that its flow, not its Euler step, matches the data.

    Like [`fit_graph`][ndde_jax.fitting.fit_graph], with two differences. First, after a fit to
    plain forward differences the data are corrected by the model and the fit continues, `rounds`
    times: the model goes half a step forward from each sample and half a step back from the next,
    and its rate at the midpoint is corrected by their mismatch and fitted there. In a linear system
    each round leaves at most (h‖A‖)²/6 of a small bias, so three rounds are plenty if the sampling
    resolves the dynamics. Second, several random starts are averaged, which varies less than the
    best one: all starts whose corrected risk exceeds the lowest by at most the cost of estimating
    the weights, γ/n of it. The average is one network of `members` times the width.

    **Arguments:**

    - `windows`: from [`lagged_windows`][ndde_jax.lagged_windows]; one system. Central differences
        estimate the rate itself, so nothing is corrected.
    - `graph`: `[source target lag]`, or `"full"`, the default. A target without inputs gets its
        mean rate.
    - `key`: random key of the starts.
    - `members`: number of networks averaged per target, static; 4. One start in ten ends in a poor
        minimum, and the gain beyond four is small.
    - `rounds`: number of corrections, static; 0 keeps the bias.
    - `config`: [`StrengthConfig`][ndde_jax.fitting.StrengthConfig], of which only `steps`, `width`
        and `depth` are used.
    - `max_inputs`: as for [`signal_strengths`][ndde_jax.signal_strengths].
    - `family`: `"network"`, `"polynomial"`, or `"auto"`, the better one per target. Polynomials are
        of degree three in up to six inputs, two in up to twelve, otherwise one. With a hundred
        inputs or more there are networks only.
    - `simple_numbers`: fix coefficients of polynomials, in physical units, at whole numbers or at
        the magnitude of another coefficient, where that is likelier than not (False). For laws like
        x' = 10 (y − x), velocities, and couplings by differences. A coefficient fixed wrongly is
        off by about its standard error; one fixed rightly is exact.

    **Returns:** [`NeuralDDE`][ndde_jax.models.NeuralDDE], whose mask is the graph. Its drift is a
    [`MaskedDrift`][ndde_jax.models.MaskedDrift] for `"network"`, otherwise a
    [`PolynomialDrift`][ndde_jax.models.PolynomialDrift]. Forecast with a solver
    of higher order, `solve_sdde(model, solver=diffrax.Bosh3(), ...)`: this is a differential
    equation, not a one-step map. The drift is NaN for windows that [`fit`][ndde_jax.fit] would
    refuse.

    **Raises:** `ValueError` as for `fit_graph`, for `members` below 1, negative `rounds`, an
    unknown `family`, or polynomials of a hundred inputs or more.

    Deferred correction: Pereyra, *Numerische Mathematik* 10 (1967). Sparse polynomials: Brunton,
    Proctor and Kutz, *PNAS* 113 (2016).

    ```python
    import jax, numpy as np
    import ndde_jax as ndde

    t = np.arange(500) * 0.1
    windows = ndde.lagged_windows(np.stack([np.sin(t), np.cos(t)], 1), dt=0.1)
    model = ndde.fitting.fit_flow(windows, key=jax.random.key(0))
    print(model(np.array([[0.0, 1.0]])))  # close to [1, 0], which plain Euler misses by 5 %
    ```
    """
    config, key = checked_refit("fit_flow", windows, config, key, max_inputs)
    check_whole(members, "members")
    check_whole(rounds, "rounds", least=0)
    check_choice(family, "family", ("auto", "network", "polynomial"))
    check_flag(simple_numbers, "simple_numbers")
    kept, base = checked_graph(windows, graph)
    if windows.scheme != "euler":
        rounds = 0
    slots = input_slots(windows, graph, max_inputs)
    windows = _blank_where_refused(windows)
    if slots >= MAX_TERMS and family != "network":
        if family == "polynomial":
            raise ValueError(
                f"a polynomial may have at most {MAX_TERMS} terms; got a target with room for "
                f"{slots} inputs. Thin out the graph, or set max_inputs."
            )
        family = "network"
    drop_programs_if_many(windows, base, config, key)
    starts = None
    if family != "polynomial":
        dtype = windows.history.dtype
        starts = _starts(config, members, slots, dtype, jr.split(key, windows.dim))
    drift = _fit(windows, base, config, starts, slots, rounds, family, simple_numbers)
    mask = from_graph_axes(kept)
    return NeuralDDE(drift, mask, windows.scaling, windows.dt, windows.lags)


def _starts(config, members: int, slots: int, dtype, keys) -> tuple:
    """Return random networks `[target member ...]`."""

    def one(key):
        return config.random_networks(members, slots, dtype, key=key)

    if is_traced(keys):
        return jax.vmap(one)(keys)
    # Target by target, with one program for all numbers of targets and inputs.
    return jax.tree.map(lambda *leaves: to_jax(np.stack(leaves)), *map(one, keys))


@eqx.filter_jit
def _fit(windows, base, config, starts, slots, rounds, family, simple_numbers):
    data = FlatData(windows)
    index, used = jax.vmap(lambda mask: select_inputs(mask.astype(data.inputs.dtype), slots))(base)
    networks = None if starts is None else _Networks(data, base, index, used, starts)
    polynomials = None
    if family != "network":
        polynomials = _Polynomials(windows, data, index, used, simple_numbers)

    def drift(fits, inputs, outputs):
        if polynomials is None:
            return MaskedDrift(networks.averaged(fits))
        found = polynomials.fit(inputs, outputs)
        if networks is None:
            return polynomials.drift(found)
        score = _criterion(fits.risk, fits.n_effective, networks.n)
        score = jnp.min(jnp.where(jnp.isfinite(score), score, jnp.inf), axis=1)
        simple = _criterion(found.risk, found.count, networks.n) <= score
        *hidden, last = networks.averaged(fits)
        last = tuple(jnp.where(simple.reshape(-1, *(1,) * (a.ndim - 1)), 0, a) for a in last)
        coefficients = jnp.where(simple[:, None], found.coefficients, 0)
        found = eqx.tree_at(lambda f: f.coefficients, found, coefficients)
        return polynomials.drift(found, MaskedDrift((*hidden, last)))

    def corrected(fits, inputs, outputs, model):
        mask = base.reshape(data.dim, windows.n_lags, data.dim)
        model = NeuralDDE(model, mask, windows.scaling, windows.dt, windows.lags)
        met = FlatData(correct_at_midpoints(windows, model))
        if networks is not None:
            fits = networks.train(
                fits.network, fits.decay, met.inputs, met.outputs, STEPS_PER_ROUND
            )
        return fits, met.inputs, met.outputs

    def turn(now, goes_on):
        model = drift(*now)
        return jax.lax.cond(goes_on, corrected, lambda *now: now[:-1], *now, model), model

    seen = data.inputs, data.outputs
    fits = None if networks is None else networks.train(*networks.start(), *seen, config.steps)
    if rounds:
        # The last iteration corrects nothing: a fit after the loop would be compiled again.
        _, every = jax.lax.scan(turn, (fits, *seen), jnp.arange(rounds + 1) < rounds)
        found = jax.tree.map(lambda a: a[-1], every)
    else:
        found = drift(fits, *seen)
    return _nan_where(data.refused, found)


def _criterion(risk, count, n):
    """Return the Bayesian information criterion."""
    return n * jnp.log(risk + FLOOR) + count * jnp.log(n)


class _Polynomials:
    """The sparse polynomials, one per target."""

    def __init__(self, windows, data, index, used, simple_numbers):
        self.data, self.index, self.used = data, index, used > 0
        self.scaling, self.simple_numbers = windows.scaling, simple_numbers
        self.exponents = all_exponents(index.shape[1])
        self.origin = jnp.tile(natural_origin(windows.scaling), windows.n_lags)
        self.box = bounds(data.inputs, data.weight)
        # Standardised rates are centred, which hides that a law has no constant.
        scale = windows.scaling.rate_scale
        self.constant = windows.scaling.rate_center / jnp.where(scale > 0, scale, 1)

    def fit(self, inputs, outputs) -> PolynomialFit:
        inputs = inputs + self.origin[None]

        def target(args):
            j, output, index, used = args
            units = None
            if self.simple_numbers:
                units = physical_units(self.scaling, index, j, self.exponents)
            return fit_polynomial(
                inputs[:, index], used, output, self.data.weight, self.exponents, units
            )

        outputs = (outputs + self.constant[None]).T
        found = jax.lax.map(target, (jnp.arange(len(outputs)), outputs, self.index, self.used))
        first = found.coefficients[:, 0] - self.constant
        return eqx.tree_at(lambda f: f.coefficients, found, found.coefficients.at[:, 0].set(first))

    def drift(self, found: PolynomialFit, networks: MaskedDrift | None = None) -> PolynomialDrift:
        low, high = self.box
        return PolynomialDrift(
            networks, found.coefficients, self.index, self.origin, low, high, self.exponents
        )


class _Networks:
    """The networks, several per target, `[target member ...]`."""

    def __init__(self, data, base, index, used, starts):
        self.data, self.base, self.index, self.used = data, base, index, used
        self.slots, self.starts, self.members = index.shape[1], starts, starts[0][0].shape[1]
        self.n, self.dtype = data.total, data.inputs.dtype

    def start(self):
        """Return random weights, and initial decays."""
        shape = (self.data.dim, self.members, 2 * len(self.starts))
        return self.starts, jnp.full(shape, 1e-2, self.dtype)

    def train(self, networks, decays, inputs, outputs, n_iterations) -> NetworkFit:
        """Train every member of every target, one after the other."""

        def target(args):
            networks, decays, output, index, used = args
            seen = inputs[:, index] * used[None]

            def one(member):
                network, decay = member
                given = (network, seen, output, self.data.weight)
                options = dict(decay=decay, decay_per_layer=True)
                return fit_network(*given, n_iterations=n_iterations, **options)

            return jax.lax.map(one, (networks, decays))

        return jax.lax.map(target, (networks, decays, outputs.T, self.index, self.used))

    def averaged(self, fits: NetworkFit) -> tuple[Layer, ...]:
        def target(args):
            fits, mask = args
            risk = jax.vmap(lambda f: f.corrected_risk(self.n))(fits)
            risk = jnp.where(jnp.isfinite(risk), risk, jnp.inf)
            best = jnp.argmin(risk)
            allowed = risk[best] * (1 + fits.n_effective[best] / self.n)
            share = (risk <= allowed).astype(self.dtype)
            alone = (jnp.arange(self.members) == best).astype(self.dtype)
            share = jnp.where(jnp.isfinite(risk[best]), share, alone)
            spread = lambda network: spread_network(network, mask, self.slots)  # noqa: E731
            return _merge_networks(jax.vmap(spread)(fits.network), share / jnp.sum(share))

        return jax.lax.map(target, (fits, self.base))


def _merge_networks(networks: tuple, share: Float[Array, "member"]) -> tuple:
    """Return the weighted mean of networks `[member ...]` as one network with block-diagonal
    layers.
    """
    (weight, bias), *hidden, (out_weight, out_bias) = networks
    members, width, n_inputs = weight.shape
    layers = [(weight.reshape(members * width, n_inputs), bias.reshape(-1))]
    eye = jnp.eye(members, dtype=weight.dtype)
    for weight, bias in hidden:
        blocks = eye[:, None, :, None] * weight[:, :, None, :]
        layers.append((blocks.reshape(members * width, members * width), bias.reshape(-1)))
    last = (share[:, None] * out_weight[:, 0]).reshape(1, -1)
    return (*layers, (last, jnp.sum(share[:, None] * out_bias, axis=0)))


class Flow(Settings):
    """The correction of forward differences for the motion of the fitted drift during a step.

    - `rounds`: corrections, each followed by a fit; 6. In a linear system each leaves at most
        (h‖A‖)²/6 of a small bias, so three are plenty if the sampling resolves the dynamics.
    """

    rounds: Checked[int] = setting(6, check_whole, least=0)


def fit_drift(
    windows: Checked[Windows],
    graph: Any = "full",
    family: Checked[Family | None] = None,
    *,
    flow: Checked[Flow | None] = Flow(),  # noqa: B008, a frozen value
    key: Checked[PRNGKeyArray],
) -> AbstractDelayModel:
    """Fit the drift of a given graph.

    Pure: supports `jit`, `vmap`, and `grad` with respect to the numbers of the windows. The finite
    step biases a fit to forward differences of a smooth system. `flow` removes this bias; it does
    nothing for windows of central differences or midpoints, whose rates are those of the drift.

    **Arguments:**

    - `windows`: windows of one system.
    - `graph`: `[source target lag]`, or `"full"` for all edges allowed. A target without inputs
        gets its mean rate.
    - `family`: [`Networks`][ndde_jax.models.Networks],
        [`Polynomials`][ndde_jax.models.Polynomials] or [`Best`][ndde_jax.models.Best], the default;
        or one of your own, see [`AbstractFamily`][ndde_jax.models.AbstractFamily].
    - `flow`: [`Flow`][ndde_jax.fitting.Flow]; None fits the one-step map as it is.
    - `key`: random key of the starts.

    **Returns:** a model whose mask is the graph and whose weights are NaN for windows that
    [`fit`][ndde_jax.fit] would refuse. If the flow was corrected, it is a differential equation,
    not a one-step map: forecast with a solver of higher order.

    **Raises:** `ValueError` for a graph of another shape, an unknown family, and polynomials of a
    hundred inputs or more.

    ```python
    import jax, numpy as np
    import ndde_jax as ndde

    t = np.arange(500) * 0.1
    windows = ndde.lagged_windows(np.stack([np.sin(t), np.cos(t)], 1), dt=0.1)
    polynomials = ndde.models.Polynomials()
    model = ndde.fit_drift(windows, "full", polynomials, key=jax.random.key(0))
    print(ndde.equations(model, ["x", "y"]))
    ```
    """
    family = Best() if family is None else family
    if not isinstance(family, Family):
        raise argument_error(
            "family", "a family such as ndde_jax.models.Networks()", family, "Mind the parentheses."
        )
    if flow is not None and not isinstance(flow, Flow):
        raise argument_error("flow", "a ndde_jax.fitting.Flow or None", flow)
    if isinstance(family, AbstractFamily):
        return _fit_custom_family(windows, graph, family, flow, key)
    names = {Networks: "network", Polynomials: "polynomial", Best: "auto"}
    name = next(name for kind, name in names.items() if isinstance(family, kind))
    networks = family.networks if isinstance(family, Best) else family
    polynomials = family.polynomials if isinstance(family, Best) else family
    options: dict[str, Any] = {"rounds": 0 if flow is None else flow.rounds}
    if isinstance(networks, Networks):
        size = dict(width=networks.width, depth=networks.depth, steps=networks.steps)
        options |= {"members": networks.members, "config": StrengthConfig(**size)}
    if isinstance(polynomials, Polynomials):
        options["simple_numbers"] = polynomials.simple_numbers
    return fit_flow(windows, graph, key=key, family=name, **options)


def _fit_custom_family(windows, graph, family: AbstractFamily, flow: Flow | None, key) -> NeuralDDE:
    """Return the drift of a family that has its own method `fit`, corrected in rounds."""
    _, key = checked_refit("fit_drift", windows, None, key)
    windows = _blank_where_refused(windows)
    mask = from_graph_axes(checked_graph(windows, graph)[0])
    rounds = 0 if flow is None or windows.scheme != "euler" else flow.rounds
    model = _fit_once(windows, windows, mask, family, key)
    for _ in range(rounds):
        model = _fit_once(windows, correct_at_midpoints(windows, model), mask, family, key)
    return model


def _fit_once(windows, corrected, mask, family: AbstractFamily, key) -> NeuralDDE:
    data = FlatData(corrected)
    histories = data.inputs.reshape(corrected.history.shape)
    drift = family.fit(histories, data.outputs, data.weight, mask, key=key)
    drift = _nan_where(FlatData(windows).refused, drift)
    return NeuralDDE(drift, mask, windows.scaling, windows.dt, windows.lags)


def _blank_where_refused(windows: Windows) -> Windows:
    """Return the windows, filled with zeros if they are refused. The drift is NaN then, and through
    shared inputs NaN times zero would reach the derivatives of other members of a batch.
    """
    refused = FlatData(windows).refused
    if not is_traced(refused) and not refused:
        return windows
    blank = _blank((windows.scaling, windows.history, windows.increment), refused)
    return eqx.tree_at(lambda w: (w.scaling, w.history, w.increment), windows, blank)


@on_host_or_traced
def _blank(xp, numbers: Any, refused: Any) -> Any:
    return jax.tree.map(lambda a: xp.where(refused, 0, a), numbers)


def _nan_where(refused: Bool[Array, ""], drift: Any) -> Any:
    """Return a drift, NaN if its windows are refused."""
    numbers, rest = eqx.partition(drift, eqx.is_inexact_array)
    return eqx.combine(jax.tree.map(lambda a: jnp.where(refused, jnp.nan, a), numbers), rest)
