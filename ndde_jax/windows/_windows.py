"""Trajectories cut into lagged windows, the training data of a drift; also parts of windows and
coarser windows, to test how a result depends on the data.
"""

import copy
import dataclasses
import itertools
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from types import ModuleType
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float, Int, PRNGKeyArray

from .._axes import flat_inputs
from .._checks import (
    argument_error,
    check_choice,
    check_concrete,
    check_sizes,
    check_whole,
    check_windows,
    is_traced,
    short_repr,
)
from .._types import Checked, RealScalarLike, Scaling, TrajectoryLike, divisor, namespace_of, to_jax
from .._wording import amount, listed
from ..samples._noise import pooled_noise_share, pooled_ringing, pooled_roll_off
from ..samples._reading import read_clocked
from ..samples._trajectories import (
    NONE_COMPLETE,
    Trajectories,
    column_name,
    read_lags,
    transposed_hint,
)
from ._prior import PriorKnowledge, read_prior
from ._stencils import RINGING_ENDS, STENCILS, WIDEST_STENCIL, choose_scheme, explain_scheme, rings


class PartialWindows(eqx.Module):
    """The windows with missing values, which supplement the complete ones of
    [`Windows`][ndde_jax.Windows].

    A missing value affects only the variables that need it. A window counts for a target if the
    rate of the target and the inputs it is fitted on are measured. Other inputs that are missing
    there, with which a search compares, are set to their expectation given all measured states of
    the window (multivariate normal, Little and Rubin, *Statistical Analysis with Missing Data*,
    2019, section 11.2). None of these states is later than the present, so the expectation contains
    no noise of the rate, and matrices of products stay positive semidefinite.

    - `history`: standardised states, expected values where they are not measured.
    - `increment`: standardised rates, 0 where they are not measured.
    - `known`, `rated`: which states and which rates are measured.
    """

    history: Float[Array, "window lag dim"]
    increment: Float[Array, "window dim"]
    known: Bool[Array, "window lag dim"]
    rated: Bool[Array, "window dim"]

    def count(self, graph: Bool[ArrayLike, "source target lag"]) -> Int[Array, "target"]:
        """Return the number of windows that count for each target, given its inputs: those in which
        its rate and all its inputs are measured.
        """
        xp = namespace_of((self, graph))
        counted = (~xp.asarray(self.known)).astype(xp.int32), xp.asarray(graph).astype(xp.int32)
        lost = xp.einsum("wls,stl->wt", *counted, optimize=True)
        return to_jax(xp.sum(xp.asarray(self.rated) & (lost == 0), axis=0))


class Windows(eqx.Module):
    """The training data of a drift: each row pairs a rate of change with the states it may depend
    on.

    Made by [`lagged_windows`][ndde_jax.lagged_windows]. All arrays are leaves, so windows pass
    through `jit`, `vmap` and `grad`. [`stack_windows`][ndde_jax.stack_windows] adds a leading batch
    axis to every leaf.

    - `history`: standardised states at samples k − lags[l].
    - `increment`: standardised rate of change at sample k, per unit of time.
    - `valid`: False for rows that touch a missing value and for padding. They hold zeros.
    - `weight`: length of the step over its mean, 1 on a regular grid; 0 where not valid.
    - `position`: sample k. Positions of later trajectories continue after a gap wider than the
        largest lag plus the difference stencil, so rows whose positions are further apart than that
        share no sample.
    - `scaling`: conversion to physical units.
    - `dt`: mean sampling interval.
    - `noise_share`: estimated share of white noise in the variance of one-step increments: about 0
        for a smooth signal, and near 1 where dynamical noise or measurement errors dominate. It has
        no gradient.
    - `roll_off`: power of the increments in the top quarter of frequencies, relative to the quarter
        below: 0.9 to 1 for white noise, less for noise that was filtered or averaged before
        sampling; NaN if made inside `jit`.
    - `ringing`: how much stronger high frequencies are at both ends than elsewhere: above 1.5 for
        data resampled by Fourier transform; NaN if made inside `jit`.
    - `dropped`: number of rows that are not valid because a value is missing.
    - `prior`: allowed and required edges, see [`prior_knowledge`][ndde_jax.prior_knowledge].
    - `lags`: candidate lags, in samples. Static.
    - `scheme`: `"euler"`, `"central"`, `"central4"` or, from
        [`midpoint_windows`][ndde_jax.select.midpoint_windows], `"midpoint"`; never `"auto"`.
        Static.
    - `step`: distance, in samples, between neighbouring samples of a difference: 1, or more after
        [`thin_windows`][ndde_jax.windows.thin_windows]. Static.
    - `partial`: rows with missing values, for use by the variables that do not need these, see
        [`PartialWindows`][ndde_jax.windows.PartialWindows]; added by
        [`discover`][ndde_jax.discover]. None if there is nothing to gain, for example if no value
        is missing.
    """

    history: Float[Array, "window lag dim"]
    increment: Float[Array, "window dim"]
    valid: Bool[Array, "window"]
    weight: Float[Array, "window"]
    position: Int[Array, "window"]
    scaling: Scaling
    dt: Float[Array, ""]
    noise_share: Float[Array, "dim"]
    roll_off: Float[Array, "dim"]
    ringing: Float[Array, "dim"]
    dropped: Int[Array, ""]
    prior: PriorKnowledge
    lags: tuple[int, ...] = eqx.field(static=True)
    scheme: str = eqx.field(static=True)
    step: int = eqx.field(static=True, default=1)
    partial: PartialWindows | None = None

    @property
    def n_valid(self) -> Int[Array, "*batch"]:
        """The number of valid rows."""
        xp = namespace_of(self.valid)
        return to_jax(xp.sum(xp.asarray(self.valid), axis=-1))

    def count(self, graph: Bool[ArrayLike, "source target lag"]) -> Int[Array, "target"]:
        """Return the number of windows that count for each target, given its inputs: all valid
        ones or, with `partial`, those in which its rate and its inputs are measured.
        """
        if self.partial is not None:
            return self.partial.count(graph)
        xp = namespace_of(self.valid)
        return to_jax(xp.broadcast_to(xp.asarray(self.n_valid), (self.dim,)))

    @property
    def dim(self) -> int:
        """The number of variables."""
        return self.history.shape[-1]

    @property
    def n_lags(self) -> int:
        """The number of candidate lags."""
        return len(self.lags)

    @property
    def reach(self) -> int:
        """The reach of a row: the largest lag plus the widest difference stencil. Rows whose
        positions are further apart share no sample.
        """
        return self.lags[-1] + WIDEST_STENCIL * self.step

    def explain(self) -> str:
        """Return a few sentences on the data and the choices made, for a report.

        **Raises:** `ValueError` for stacked windows, because the sentences describe one system.
        """
        if self.valid.ndim != 1:
            raise ValueError("explain() describes one system; select one with unstack_windows.")
        s, regular = self.scaling, is_regular(self)
        noise = map(np.asarray, (self.noise_share, self.roll_off, self.ringing))
        delayed = self.lags[-1] > 0
        return (
            f"{int(self.n_valid)} windows of {amount(self.dim, 'variable', 9)} at lags "
            f"{self.lags} samples, "
            f"{'' if regular else 'mean '}dt = {float(self.dt):.6g}; {int(self.dropped)} left out "
            "for missing values. "
            + (f"Differences span {self.step} samples instead of one. " if self.step > 1 else "")
            + explain_scheme(self.scheme, *noise, regular=regular, delayed=delayed)
            + " Standardised per variable: states by mean "
            f"{_numbers(s.center)} and standard deviation {_numbers(s.scale)}, rates by mean "
            f"{_numbers(s.rate_center)} and standard deviation {_numbers(s.rate_scale)}."
        )


def is_regular(windows: Windows) -> bool:
    """Return whether all steps are equally long."""
    return bool(np.all(np.asarray(windows.weight)[np.asarray(windows.valid)] == 1))


def over_rows(windows: Windows, function: Callable[[Any], Any]) -> Windows:
    """Return windows with a function applied to every array with one entry per row; without
    `partial`.
    """
    rows = lambda w: (w.history, w.increment, w.valid, w.weight, w.position)  # noqa: E731
    windows = dataclasses.replace(windows, partial=None)
    return eqx.tree_at(rows, windows, tuple(map(function, rows(windows))))


def lagged_windows(
    x: TrajectoryLike,
    *,
    dt: Checked[RealScalarLike | None] = None,
    t: Any = None,
    lags: Checked[Iterable] = (0,),
    scheme: Checked[str] = "euler",
    names: Checked[Sequence[str] | None] = None,
    prior: Checked[PriorKnowledge | None] = None,
) -> Windows:
    """Cut trajectories into pairs (lagged states, rate of change), standardised.

    Row k holds the states X[k − lag] of all variables at all lags, and the rate of change dX/dt at
    sample k, as a difference quotient. Both are standardised per variable: states by their mean and
    standard deviation over all complete samples, rates by their mean and standard deviation over
    the valid rows, weighted by the length of the step. A constant prediction thus has risk 1 for
    every variable, and slow variables are not ignored.

    **Arguments:**

    - `x`: measurements `[time dim]` or `[time]`; several trajectories of one system as
        `[series time dim]` or as a list of arrays, whose lengths may differ. Names and time axis of
        pandas and xarray objects are used. The mask of [`Samples`][ndde_jax.Samples] is obeyed: a
        row is valid only if every step that its difference measures begins in the mask, while its
        past may lie outside. NaN marks missing values: a sample with one missing variable counts as
        missing, and exactly the rows whose history or difference touches it are not valid. Nested
        lists of numbers are read as one array.
    - `dt`: sampling interval, in any unit of time. `dt` and `t` may be omitted if `x` has them.
    - `t`: time stamps `[time]`, one vector for each trajectory (or one for all of them), instead of
        `dt`. Stamps equally spaced to 1e-6 count as a regular grid. Others allow only the forward
        difference, and rows are weighted by their time steps.
    - `lags`: candidate lags in samples, ascending. The default, 0, is the present state; it need
        not be among the lags.
    - `scheme`: how dX/dt is approximated.
        `"euler"`, the default and the scheme of the paper: (X[k+1] − X[k]) / dt. It estimates the
        drift for any noise, with an error of order dt that can cause false edges.
        `"central"`, `"central4"`: second and fourth order, for data with little noise. If noise
        drives the system they estimate the current velocity (the mean of forward and backward
        drift), not the drift.
        `"auto"`: selected from the estimated noise. `"central4"` if its mean share is below 0.001,
        if it was filtered before sampling (a roll-off below 0.83 and a share below 0.7), or if a
        trajectory rings at both ends, where up to 20 samples then count as missing; `"central"` if
        the share is below 0.03; otherwise `"euler"`. `explain()` of the result states the reason.
    - `names`: names of the variables, for error messages.
    - `prior`: forbidden and required edges, from [`prior_knowledge`][ndde_jax.prior_knowledge];
        every fit to these windows obeys it.

    **Returns:** [`Windows`][ndde_jax.Windows] with one row, valid or not, per sample that has a
    past of the largest lag and the neighbours its difference needs, so shapes depend only on
    shapes. Computed in double precision and rounded at the end: a floating JAX array keeps its
    type, anything else gets JAX's default. Inside `jit`, `vmap` and `grad`, computed in JAX in the
    type of `x`, without checks of values: a constant variable becomes zeros.

    **Raises:** `ValueError` for arrays of the wrong shape or type, values that are infinite or
    exceed the floating type, constant variables, fewer valid rows than variables plus one (not
    even a linear drift is determined), lags that are not ascending whole numbers or exceed a
    trajectory, unusable `dt` or `t`, an unknown scheme, a central scheme on an irregular grid, a
    prior of another shape, and `"auto"` inside `jit`.

    ```python
    import numpy as np
    import ndde_jax as ndde

    time = 0.1 * np.arange(500)
    x = np.stack([np.sin(time), np.cos(time)], axis=1)
    windows = ndde.lagged_windows(x, dt=0.1, lags=(0, 5, 10), scheme="auto")
    print(windows.history.shape)  # (488, 3, 2)
    print(windows.explain())
    ```
    """
    lags = read_lags(lags)
    check_choice(scheme, "scheme", (*STENCILS, "auto"))
    if scheme not in ("euler", "auto") and is_traced(t):
        raise ValueError(
            f"scheme={scheme!r} needs equally spaced samples, which cannot be checked for traced "
            "times; pass dt instead of t."
        )
    return cut_windows(read_measurements(x, dt=dt, t=t, names=names), lags, scheme, prior)


class Measurements(NamedTuple):
    """The measurements, read once for windows of any lags and schemes: trajectories, estimates of
    their noise, `[dim]`.
    """

    data: Trajectories
    names: tuple[str, ...] | None
    mask: tuple[np.ndarray, ...]
    noise_share: Any
    roll_off: Any
    ringing: Any


def read_measurements(
    x: TrajectoryLike, *, dt: Any = None, t: Any = None, names: Any = None
) -> Measurements:
    """Return measurements as [`lagged_windows`][ndde_jax.lagged_windows] reads them."""
    labelled, data = read_clocked(x, dt, t, names)
    names = labelled.names
    if data.xp is np:
        check_sizes(data.dt, data.dtype, "dt")
        for j, value in itertools.product(range(data.dim), data.values):
            check_sizes(value[:, j], data.dtype, f"{column_name(j, names)} of x")
    unknown = data.xp.full((data.dim,), data.xp.nan)
    roll_off = pooled_roll_off(data) if data.regular else unknown
    ringing = pooled_ringing(data) if data.regular else unknown
    return Measurements(data, names, labelled.mask, pooled_noise_share(data), roll_off, ringing)


def cut_windows(measured: Measurements, lags: tuple[int, ...], scheme: str, prior: Any) -> Windows:
    """Return [`lagged_windows`][ndde_jax.lagged_windows] of measurements already read."""
    data, names, xp = measured.data, measured.names, measured.data.xp
    noise = measured.noise_share, measured.roll_off, measured.ringing
    prior = read_prior(prior, data.dim, len(lags))
    if scheme == "auto":
        if xp is jnp:
            raise ValueError(
                "scheme='auto' needs to see the data and cannot run inside jit, vmap or grad; make "
                "windows outside and pass their scheme."
            )
        scheme = choose_scheme(*noise, regular=data.regular)
        if data.regular and rings(measured.ringing):
            data = data._replace(present=[_without_ends(p) for p in data.present])
    if scheme != "euler" and not data.regular:
        raise ValueError(
            f"scheme={scheme!r} needs equally spaced samples; use scheme='euler' with irregular "
            "time stamps, or interpolate to a regular grid."
        )
    check_lengths(data, lags, scheme)

    standardised, center, scale, resolution = _standardised(data, names)
    ends = np.cumsum([len(value) for value in data.values])[:-1]
    masks = measured.mask or (None,) * len(data.values)
    parts = zip(xp.split(standardised, ends), data.present, data.intervals, masks, strict=True)
    cuts = [_cut_rows(*part, lags, STENCILS[scheme], xp) for part in parts]
    history, rate, valid, step, missing = map(xp.concatenate, zip(*cuts, strict=True))
    if xp is np:
        what = "valid windows remain" + (" inside the mask" if measured.mask else "")
        hint = _mask_hint(measured.mask) if measured.mask else _missing_hint(data, names)
        check_count(int(valid.sum()), data, what, hint)
    weight = xp.where(valid, step / data.dt, 0)
    rate_center, rate_scale = moments(rate, weight, xp)
    # A variable that grows by a constant step has no spread of rates: all its increments are 0.
    varies = rate_scale * scale * data.dt > resolution
    rate_scale = xp.where(varies, rate_scale, 1 / data.dt)
    if xp is np:
        check_sizes(rate_scale * scale, data.dtype, "x / dt, the rate of change,")
    standardised_rate = (rate - rate_center[None]) / rate_scale[None]
    increment = xp.where(valid[:, None] & varies[None], standardised_rate, 0)

    cast = partial(to_jax, dtype=data.dtype)
    share, roll_off, ringing = (jax.lax.stop_gradient(cast(each)) for each in noise)
    return Windows(
        history=cast(history),
        increment=cast(increment),
        valid=to_jax(valid),
        weight=cast(weight),
        position=to_jax(_positions(data, lags, STENCILS[scheme])),
        scaling=Scaling(*map(cast, (center, scale, rate_center * scale, rate_scale * scale))),
        dt=cast(data.dt),
        noise_share=share,
        roll_off=roll_off,
        ringing=ringing,
        dropped=to_jax(xp.sum(missing)),
        prior=prior,
        lags=lags,
        scheme=scheme,
    )


def _standardised(data: Trajectories, names: Any) -> tuple:
    """Return all samples standardised, their mean and standard deviation, and rounding errors."""
    xp = data.xp
    samples, present = xp.concatenate(data.values), xp.concatenate(data.present)
    if xp is np and not present.any():
        raise ValueError(NONE_COMPLETE + _missing_hint(data, names))
    resolution = data.epsilon * xp.max(xp.abs(samples), axis=0)
    # Centred twice, because the first mean has the rounding error of a large offset. Differences
    # are taken of standardised states, because the offset would cost their digits as well.
    offset, _ = moments(samples, present, xp)
    centred = xp.where(present[:, None], samples - offset[None], 0)
    center, scale = moments(centred, present, xp)
    varies = scale > resolution
    if xp is np and not varies.all():
        culprits = ", ".join(column_name(int(j), names) for j in np.flatnonzero(~varies))
        raise ValueError(
            f"{culprits} of x is constant: it can neither drive nor be driven. Drop it."
        )
    scale = xp.where(varies, scale, 1)
    there = present[:, None] & varies[None]
    standardised = xp.where(there, (centred - center[None]) / scale[None], 0)
    return standardised, offset + center, scale, resolution


def _without_ends(present: np.ndarray) -> np.ndarray:
    """Return which samples are present, with the ends of a ringing trajectory missing."""
    n = min(RINGING_ENDS, len(present) // 20)
    inner = np.arange(len(present))
    return present & (inner >= n) & (inner < len(present) - n)


def _numbers(values: Array) -> str:
    return ", ".join(f"{v:.3g}" for v in np.asarray(values).tolist())


# ---- rows, and checks of their number ----


def row_range(n: int, lags: tuple[int, ...], stencil: dict[int, float]) -> tuple[int, int]:
    """Return the first sample with all neighbours it needs, and the sample after the last one."""
    return max(lags[-1], -min(stencil)), n - max(stencil)


def _cut_rows(
    z: Any, present: Any, interval: Any, inside: Any, lags: tuple[int, ...], stencil: dict, xp: Any
) -> tuple[Any, Any, Any, Any, Any]:
    """Return history, rate, validity and step length of every row of one trajectory, and which rows
    miss a value. With `inside` [time], only rows count for which every step that the difference
    measures begins there.
    """
    start, stop = row_range(len(z), lags, stencil)
    history = xp.stack([z[start - lag : stop - lag] for lag in lags], axis=1)
    step = interval[start:stop]
    difference = sum(c * z[start + o : stop + o] for o, c in stencil.items())
    touched = {-lag for lag in lags} | set(stencil)
    valid = xp.all(xp.stack([present[start + o : stop + o] for o in sorted(touched)]), axis=0)
    asked = np.ones(stop - start, bool)
    if inside is not None:
        steps = range(min(stencil), max(stencil))
        asked = np.all([inside[start + o : stop + o] for o in steps], axis=0)
    missing, valid = asked & ~valid, asked & valid
    history = xp.where(valid[:, None, None], history, 0)
    return history, difference / step[:, None], valid, step, missing


def _positions(data: Trajectories, lags: tuple[int, ...], stencil: dict[int, float]) -> Any:
    """Return the sample indices of all rows, with gaps between trajectories."""
    gap = lags[-1] + max(stencil) - min(stencil) + 1
    positions, offset = [], 0
    for value in data.values:
        positions.append(offset + np.arange(*row_range(len(value), lags, stencil)))
        offset += len(value) + gap
    return np.concatenate(positions)


def moments(values: Any, weight: Any, xp: ModuleType) -> tuple[Any, Any]:
    """Return weighted mean and standard deviation over the first axis."""
    weight = xp.asarray(weight, values.dtype)
    total = xp.sum(weight)
    share = (weight / xp.where(total > 0, total, 1))[:, None]
    mean = xp.sum(share * values, axis=0)
    variance = xp.sum(share * (values - mean[None]) ** 2, axis=0)
    spread = variance > 0
    # The inner where keeps the derivative of the square root at 0 from being NaN.
    return mean, xp.where(spread, xp.sqrt(xp.where(spread, variance, 1)), 0)


def check_lengths(data: Trajectories, lags: tuple[int, ...], scheme: str) -> None:
    """Raise an error unless every trajectory has a row, and all together have enough rows."""
    rows = 0
    for i, value in enumerate(data.values):
        start, stop = row_range(len(value), lags, STENCILS[scheme])
        if stop <= start:
            raise ValueError(
                f"trajectory {i} has {len(value)} samples, too short for the largest lag of "
                f"{lags[-1]} samples and {scheme!r} differences; it needs at least "
                f"{start + len(value) - stop + 1}." + transposed_hint(*value.shape)
            )
        rows += stop - start
    check_count(rows, data, "windows can be built")


# Samples per variable that suffice to suggest which variables to leave out.
ENOUGH = 10


def _mask_hint(mask: Sequence[np.ndarray]) -> str:
    """Return a hint for an error message when a mask leaves too few windows."""
    inside, every = sum(int(part.sum()) for part in mask), sum(map(len, mask))
    what = f"holds {inside} of {every} samples; include more samples"
    return f" The mask (also set by --only and --months) {what}."


def _missing_hint(data: Trajectories, names: Sequence[str] | None) -> str:
    """Return a hint for an error message when values are missing: the variables without which many
    samples are complete.
    """
    there = np.concatenate([np.isfinite(np.asarray(x)) for x in data.complete])
    order = np.argsort(there.mean(axis=0), kind="stable")
    for count in range(1, data.dim - 1):
        whole = int(there[:, order[count:]].all(axis=1).sum())
        if whole >= ENOUGH * data.dim:
            some = listed([column_name(int(j), names) for j in order[:count]])
            return (
                f" Without {some}, which miss most, {whole} samples are complete: leave variables "
                "out, or estimate missing values first."
            )
    return ""


def check_count(rows: int, data: Trajectories, what: str, hint: str = "") -> None:
    """Raise an error for too few rows: a linear drift of the present state has dim + 1 coefficients
    per target.
    """
    if rows < data.dim + 1:
        raise ValueError(
            f"only {rows} {what}, fewer than dim + 1 = {data.dim + 1}: not even a linear drift is "
            "determined. Use longer data, smaller lags, or fill short gaps first."
            + (hint or transposed_hint(sum(len(v) for v in data.values), data.dim))
        )


# ---- several systems side by side, and windows padded to a length ----


def stack_windows(windows: Checked[Sequence[Windows]]) -> Windows:
    """Return windows of several systems as one `Windows` with a leading batch axis on every array.

    Shorter ones are padded with rows that are not valid: zeros with weight 0, at positions that
    continue past the end. Padding does not affect any computation that respects `valid` or
    `weight`, and `dropped` does not count it.

    **Arguments:**

    - `windows`: at least one `Windows`; lags, scheme, step and number of variables must agree.

    **Returns:** `Windows` whose arrays have one more axis, `[batch window lag dim]` and so on; for
    use under `jax.vmap`.

    **Raises:** `ValueError` if there are none, if one is already stacked, or if they differ in
    lags, scheme, step or number of variables.

    ```python
    import jax
    import numpy as np
    import ndde_jax as ndde

    rng = np.random.default_rng(0)
    systems = [rng.normal(size=(n, 2)).cumsum(axis=0) for n in (100, 80)]
    batch = ndde.stack_windows([ndde.lagged_windows(x, dt=1.0) for x in systems])
    print(batch.history.shape, batch.n_valid)  # (2, 99, 1, 2) [99 79]
    spread = jax.vmap(lambda w: (w.weight @ w.increment**2) / w.weight.sum())(batch)  # all ones
    ```
    """
    if isinstance(windows, Windows) or not isinstance(windows, Iterable):
        raise argument_error("windows", "a list of Windows", windows)
    windows = list(windows)
    if not windows:
        raise ValueError("windows must hold at least one Windows; got an empty sequence.")
    first = windows[0]
    for i, w in enumerate(windows):
        if not isinstance(w, Windows):
            raise argument_error(f"windows[{i}]", "what lagged_windows returns", w)
        if w.history.ndim != 3:
            raise ValueError(
                f"windows {i} already has a batch axis (history of shape {w.history.shape}); pass "
                "unstacked windows."
            )
        for what in ("lags", "scheme", "step", "dim"):
            if getattr(w, what) != getattr(first, what):
                raise ValueError(
                    f"windows to stack must agree in lags, scheme, step and dim; {what} of windows "
                    f"{i} is {getattr(w, what)!r}, of windows 0 {getattr(first, what)!r}."
                )
    # In NumPy if possible: JAX would compile once for every length.
    xp = namespace_of(windows)
    length = max(w.valid.shape[0] for w in windows)
    padded = [_pad(w, length, xp) for w in windows]
    return jax.tree.map(lambda *leaves: to_jax(xp.stack(leaves)), *padded)


def unstack_windows(windows: Checked[Windows]) -> list[Windows]:
    """Return a list of windows, the inverse of [`stack_windows`][ndde_jax.stack_windows]; rows of
    padding stay.

    **Raises:** `ValueError` if there is no batch axis.
    """
    if not isinstance(windows, Windows) or windows.history.ndim != 4:
        raise ValueError(
            "unstack_windows needs one batch axis, windows with history [batch, window, lag, dim]; "
            f"got {short_repr(getattr(getattr(windows, 'history', windows), 'shape', windows))}."
        )
    xp = namespace_of(windows)
    windows = jax.tree.map(xp.asarray, windows)
    n = windows.history.shape[0]
    return [jax.tree.map(lambda a, i=i: to_jax(a[i]), windows) for i in range(n)]


def pad_windows(windows: Windows, length: int) -> Windows:
    """Return windows of one system, padded to a length with rows that are not valid."""
    return jax.tree.map(to_jax, _pad(windows, length, namespace_of(windows)))


def _pad(w: Windows, length: int, xp: ModuleType) -> Windows:
    """Return rows padded to a length."""
    n = w.valid.shape[0]

    def zeros(a: Any) -> Any:
        a = xp.asarray(a)
        return xp.concatenate([a, xp.zeros((length - n, *a.shape[1:]), a.dtype)])

    position = xp.asarray(w.position)
    beyond = position[-1] + 1 + xp.arange(length - n, dtype=position.dtype)
    position = xp.concatenate([position, beyond])
    return eqx.tree_at(lambda w: w.position, over_rows(w, zeros), position)


# ---- parts of windows, and coarser ones ----


def thin_windows(
    windows: Checked[Windows], factor: Checked[int] = 2, *, scheme: Checked[str | None] = None
) -> Windows:
    """Return windows of the same data with differences over a step that is `factor` times longer.

    Every `factor`-th row is kept with the same history: candidate lags and their unit stay.
    Results that change with the step are artefacts of it. With `factor` 1 and another `scheme`, all
    rows stay and only the differences change.

    **Arguments:**

    - `windows`: windows of one system, regularly sampled; outside `jit`, because which rows remain
        depends on missing values.
    - `factor`: 1 or more; windows that were already thinned are thinned further.
    - `scheme`: scheme of the new differences; by default that of the windows.

    **Returns:** [`Windows`][ndde_jax.Windows] with valid rows only and rates standardised again.
    Their `step` is the span of the differences. Their `dt`, the unit of the lags, and their
    `noise_share` are still those of the samples.

    **Raises:** `ValueError` for a batch, irregular sampling, midpoint windows, an unknown scheme,
    or too few rows.

    ```python
    import numpy as np
    import ndde_jax as ndde

    x = np.sin(0.1 * np.arange(500))
    windows = ndde.lagged_windows(x, dt=0.1, lags=(0, 5))
    print(windows.n_valid)  # 494
    print(ndde.windows.thin_windows(windows, 2).n_valid)  # 246
    ```
    """
    check_windows(windows, "thin_windows", "select one with unstack_windows")
    check_concrete("thin_windows", windows, "Which rows remain depends on missing values.")
    check_whole(factor, "factor")
    scheme = windows.scheme if scheme is None else scheme
    if windows.scheme == "midpoint":
        raise ValueError(
            "windows of scheme midpoint hold states between samples, which cannot be thinned."
        )
    check_choice(scheme, "scheme", STENCILS)
    if not is_regular(windows):
        raise ValueError("windows must be of equally spaced samples to be thinned.")
    samples, first = standardised_samples(windows)
    position = np.asarray(windows.position) - first
    step = factor * windows.step
    stencil = {offset * step: c / step for offset, c in STENCILS[scheme].items()}
    inside = (position + min(stencil) >= 0) & (position + max(stencil) < len(samples))
    used = np.flatnonzero(np.asarray(windows.valid) & inside & (position % step == 0))
    difference = sum(c * samples[position[used] + offset] for offset, c in stencil.items())
    known = np.isfinite(difference).all(axis=1) if len(used) else np.zeros(0, bool)
    used, difference = used[known], difference[known]
    if len(used) < windows.dim + 1:
        raise ValueError(
            f"factor={factor} leaves only {len(used)} rows, fewer than dim + 1 = "
            f"{windows.dim + 1}. Use a smaller factor."
        )
    rows = dataclasses.replace(_rows(windows, used), scheme=scheme, step=step)
    return _with_rates(rows, difference / float(windows.dt))


def half_blocks(windows: Windows) -> list[Windows]:
    """Return the first, middle and last half of the valid rows, all of the same length.

    Scaling stays that of the whole, so that risks are comparable.
    """
    used = np.flatnonzero(np.asarray(windows.valid))
    half = len(used) // 2
    starts = (0, (len(used) - half) // 2, len(used) - half)
    return [_rows(windows, used[start : start + half]) for start in starts]


def first_rows(windows: Windows, n: int) -> Windows:
    """Return the first `n` rows, with rows of padding if there are fewer."""
    return pad_windows(_rows(windows, np.arange(min(n, windows.valid.shape[0]))), n)


def standardised_samples(windows: Windows) -> tuple[np.ndarray, int]:
    """Return the samples in standardised units, NaN where no valid row holds them, and the position
    of the first. Trajectories follow one another with NaN in between. Thinned rows, which are whole
    numbers of steps apart, are whole numbers of steps from the first.
    """
    valid = np.asarray(windows.valid)
    position = np.asarray(windows.position)[valid]
    history = np.asarray(windows.history, np.float64)[valid]
    first = int(position.min()) - -(-max(windows.lags) // windows.step) * windows.step
    samples = np.full((int(position.max()) - first + windows.step + 1, windows.dim), np.nan)
    if windows.scheme == "euler" and 0 in windows.lags:
        # The later sample of the difference; overwritten where it is known as a state.
        scaling = windows.scaling
        ratio, offset = scaling.rate_scale / scaling.scale, scaling.rate_center / scaling.scale
        rate = np.asarray(windows.increment, np.float64)[valid] * np.asarray(ratio)[None]
        step = (rate + np.asarray(offset)[None]) * (windows.step * float(windows.dt))
        samples[position + windows.step - first] = history[:, windows.lags.index(0)] + step
    for k, lag in enumerate(windows.lags):
        samples[position - lag - first] = history[:, k]
    return samples, first


def _rows(windows: Windows, index: np.ndarray) -> Windows:
    return over_rows(windows, lambda a: to_jax(np.asarray(a)[index]))


def _with_rates(windows: Windows, rate: np.ndarray) -> Windows:
    """Return windows with new rates, in standardised states per unit of time."""
    center, scale = moments(rate, np.ones(len(rate)), np)
    scale, state_scale = divisor(scale), np.asarray(windows.scaling.scale, np.float64)
    new = (rate - center) / scale, center * state_scale, scale * state_scale
    return eqx.tree_at(
        lambda w: (w.increment, w.scaling.rate_center, w.scaling.rate_scale),
        windows,
        tuple(to_jax(a, windows.increment.dtype) for a in new),
    )


# ---- as flat arrays, for training loops and closed forms ----


class _Arrays:
    """The data of windows as flat arrays, zero for unusable rows; `xp` is NumPy or JAX NumPy."""

    def __init__(self, windows: Windows, xp: Any):
        given = jax.tree.map(xp.asarray, windows)
        n, dim = given.history.shape[0], given.history.shape[2]
        scaling = given.scaling
        constant = xp.any(~(scaling.scale > 0)) | xp.any(~(scaling.rate_scale > 0))
        finite = xp.all(xp.isfinite(given.history)) & xp.all(xp.isfinite(given.increment))
        varies = xp.all(xp.any(given.increment != 0, axis=0))
        self.valid = given.valid
        self.refused = constant | ~finite | ~varies | (xp.sum(given.valid) < dim + 1)
        use = given.valid & ~self.refused
        self.inputs = xp.where(use[:, None], given.history.reshape(n, -1), 0)
        self.outputs = xp.where(use[:, None], given.increment, 0)
        self.weight = xp.where(use, given.weight, 0)
        self.allowed, self.required = map(flat_inputs, (given.prior.allowed, given.prior.required))


class FlatPartial(NamedTuple):
    """The windows with missing values as flat arrays; NumPy or JAX.

    - `inputs`, `outputs`: as in `FlatData`, `[window input]` and `[window target]`.
    - `known`, `rated`: which inputs and which outputs are measured.
    """

    inputs: Any
    outputs: Any
    known: Any
    rated: Any

    @classmethod
    def of(cls, windows: Windows, xp: Any) -> "FlatPartial | None":
        """Return the partial windows of `windows`; None if there are none."""
        if windows.partial is None:
            return None
        given = jax.tree.map(xp.asarray, windows.partial)
        states, known = (a.reshape(len(a), -1) for a in (given.history, given.known))
        return cls(states, given.increment, known, given.rated)

    def weight(self, rated: Any, inputs: Any) -> Any:
        """Return the weight of every window for a target with measured rates `rated`, fitted on
        `inputs`: 1 where all of these are measured, else 0.
        """
        there = rated & (self.known | ~inputs[None]).all(axis=1)
        return there.astype(self.inputs.dtype)


class FlatData(eqx.Module):
    """The windows as flat arrays, valid rows first so that padding changes no draw."""

    inputs: Float[Array, "window input"]
    outputs: Float[Array, "window target"]
    weight: Float[Array, "window"]
    order: Int[Array, "window"]
    n_valid: Int[Array, ""]
    refused: Bool[Array, ""]
    allowed: Bool[Array, "target input"]
    required: Bool[Array, "target input"]
    dim: int = eqx.field(static=True)

    def __init__(self, windows: Windows):
        # In NumPy unless traced, because otherwise a dozen programs would be compiled.
        xp = namespace_of(windows)
        known, dtype = _Arrays(windows, xp), windows.history.dtype
        self.dim = windows.history.shape[2]
        self.inputs, self.outputs = to_jax(known.inputs, dtype), to_jax(known.outputs, dtype)
        self.weight, self.refused = to_jax(known.weight, dtype), to_jax(known.refused)
        self.allowed, self.required = to_jax(known.allowed), to_jax(known.required)
        self.n_valid = to_jax(xp.sum(known.valid))
        self.order = to_jax(xp.argsort(~known.valid, stable=True))

    @property
    def total(self) -> Float[Array, ""]:
        """The sum of the weights, at least 1."""
        return jnp.maximum(jnp.sum(self.weight), 1)

    @property
    def undecided(self) -> Bool[Array, "target input"]:
        """The inputs decided by the data and not by the prior."""
        return self.allowed & ~self.required

    def each_target(self, function: Callable, key: PRNGKeyArray, *rows: Any) -> Any:
        """Return `function(output, key, *row)` for every target, one after the other, with one row
        of each array in `rows`.
        """
        given = (self.outputs.T, jr.split(key, self.dim), *rows)
        return jax.lax.map(lambda args: function(*args), given)

    def apply_prior(self, mask: Bool[Array, "target *more input"]) -> Bool[Array, "..."]:
        """Return the masks with inputs that are not allowed closed and required ones open."""
        shape = (self.dim,) + (1,) * (mask.ndim - 2) + mask.shape[-1:]
        return (mask & self.allowed.reshape(shape)) | self.required.reshape(shape)

    def minibatches(self, key, n_steps: int, size: int):
        """Return `n_steps` batches with the window axis last, drawn with replacement."""
        dtype = self.inputs.dtype
        u = jr.uniform(key, (n_steps * size,), dtype)
        last = jnp.maximum(self.n_valid - 1, 0).astype(jnp.int32)
        # u < 1, but u * n may round up to n in float32.
        draw = jnp.minimum((u * self.n_valid.astype(dtype)).astype(jnp.int32), last)
        index = self.order[draw]
        split = lambda a: jnp.swapaxes(a[index].reshape(n_steps, size, -1), 1, 2)  # noqa: E731
        return split(self.inputs), split(self.outputs), self.weight[index].reshape(n_steps, size)


class KnownData:
    """The windows as flat NumPy arrays, for closed forms that compile nothing."""

    def __init__(self, windows: Windows):
        known = _Arrays(windows, np)
        self.dim, self.dtype = windows.history.shape[2], windows.history.dtype
        self.inputs, self.outputs = (a.astype(np.float64) for a in (known.inputs, known.outputs))
        self.weight, self.refused = known.weight.astype(np.float64), bool(known.refused)
        self.allowed, self.required = known.allowed, known.required
        self.partial = None if self.refused else FlatPartial.of(windows, np)
        # Windows that count for at least one target.
        self.some = self.weight > 0 if self.partial is None else self.partial.rated.any(axis=1)
        if self.partial is not None:
            self.inputs, self.outputs = (a.astype(np.float64) for a in self.partial[:2])
            self.partial = self.partial._replace(inputs=self.inputs, outputs=self.outputs)

    def numbers(self, values: Any) -> Array:
        """Return results in the precision of the data; NaN if the data are refused."""
        values = np.asarray(values, float)
        return to_jax(np.full_like(values, np.nan) if self.refused else values, self.dtype)

    def of_target(self, j: int, inputs: Bool[np.ndarray, " input"]) -> "KnownData":
        """Return the data for one target, fitted on some inputs; if values are missing, only the
        windows in which its rate and these inputs are measured have weight.
        """
        if self.partial is None:
            return self
        return self.weighing(self.partial.weight(self.partial.rated[:, j], np.asarray(inputs)))

    def weighing(self, weight: Float[np.ndarray, " window"]) -> "KnownData":
        """Return the data with new weights of the windows."""
        other = copy.copy(self)
        other.weight = weight
        return other

    def on_rows(self, outputs: Float[np.ndarray, "row target"]) -> "KnownData":
        """Return the data with other rows, of weight one, in place of the windows."""
        other = copy.copy(self)
        other.outputs, other.weight = outputs, np.ones(len(outputs))
        return other

    def allowing(self, among: Bool[np.ndarray, "target input"]) -> "KnownData":
        """Return the data with only these inputs and required ones allowed."""
        other = copy.copy(self)
        other.allowed = self.allowed & (among | self.required)
        return other
