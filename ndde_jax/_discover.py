"""The main entry point: from a table of measurements to a graph, a drift and a report."""

import dataclasses
import functools
import os
import pathlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.random as jr
import numpy as np
from jaxtyping import PRNGKeyArray

from ._blas import one_blas_thread
from ._checks import (
    argument_error,
    check_choice,
    check_coefficient,
    check_concrete,
    check_flag,
    check_key,
)
from ._discovery import Discovery, with_samples
from ._recipe import SCHEMES, Recipe
from ._store import Stages
from ._types import Checked, RealScalarLike, concretely, to_jax
from ._wording import amount, listed
from .assess._assess import later_of
from .assess._passed_on import passed_on_p_values
from .fit._prices import as_price
from .measure._delays import candidate_lags, delays_of, of_either_reading, whole_lags
from .measure._events import read_events, travel_times
from .measure._law import FORWARD, fit_law, law_windows
from .measure._relevance import rank
from .models._confine import confine
from .models._families import Best, Family
from .regression._design import WIDTH
from .samples._chunks import Chunks, Part, as_chunks, part_of
from .samples._clock_inputs import without_clocks
from .samples._columns import is_pulse
from .samples._dates import dates_after, elapsed, written
from .samples._holds import held_inputs
from .samples._lag_times import has_unit, lags_in_samples
from .samples._noise import describe_errors
from .samples._prepare import (
    STEPS,
    prepare_samples,
    treated_columns,
    with_schedules,
    without_counters,
)
from .samples._reading import read_alike, read_samples
from .samples._samples import Samples, describe_mask
from .samples._trajectories import read_lags
from .samples._treatments import HELD, OFFSETS, SCHEDULE, TRANSFORM
from .select._between import Record
from .select._default import corrected_at_midpoints, recover
from .select._measured import Measured, fit_screened
from .select._partial import with_partial
from .select._reading import Chosen, choose_windows
from .select._returns import VARIANCE_WEIGHTED, variance_weighted
from .select._rhythm import with_own_rhythm
from .select._screened import Screened
from .select._strategies import AbstractStrategy
from .select._whole import Whole
from .use._impute import IMPUTE, Imputed, impute, missing
from .use._one_step import check_regular
from .windows._choose_lags import check_decidable, choose_lags, lags_up_to, with_a_quarter_more
from .windows._prior import (
    PriorKnowledge,
    check_prior,
    inputs_of,
    prior_at_each_lag,
    prior_of_inputs,
    prior_of_schedules,
    schedules_of,
    with_inputs,
)
from .windows._stencils import WIDEST_STENCIL
from .windows._windows import Windows

# For a record read in chunks: the number of spline terms (samples × variables × lags × terms of
# each) held in memory, the fewest samples, and the number of lags assumed if none are given.
IN_MEMORY, FEWEST, UNKNOWN = 4 * 10**6, 4000, 10


@concretely()
def discover(
    x: Any,
    *,
    dt: Checked[RealScalarLike | None] = None,
    t: Any = None,
    lags: Checked[Iterable | None] = None,
    names: Checked[Sequence[str] | None] = None,
    scheme: Checked[str | None] = None,
    prior: Checked[PriorKnowledge | None] = None,
    inputs: Any = None,
    mask: Any = None,
    transform: Any = None,
    time_unit: Checked[str] = "",
    treat: Checked[bool] = True,
    coefficient: Checked[RealScalarLike | None] = None,
    recipe: Checked[Recipe | None] = None,
    key: Checked[PRNGKeyArray],
    progress: bool = False,
    directory: str | os.PathLike | None = None,
) -> Discovery:
    """Find which variables drive which, at which delay, and fit the drift.

    Cuts the measurements into lagged windows and searches for the edges that lower the error by
    more than their price. The drift found so far then corrects the windows for the length of a
    step, and the search is repeated, with delays between the candidate lags where they explain
    more. Finally the strength of every edge is measured.

    **Arguments:**

    - `x`: `[time dim]` or `[time]`, with NaN for missing values. It may be a NumPy or JAX array, a
        pandas Series or DataFrame (column names and time index are used), or an xarray DataArray or
        Dataset. It may also be [`Samples`][ndde_jax.Samples], the result of
        [`load_example`][ndde_jax.load_example], or a file by its name. A list of arrays or frames
        is several trajectories of one system.
    - `dt`, `t`: sampling interval or time stamps, unless `x` has them.
    - `lags`: candidate lags in samples, ascending, or times with their unit, `"6h"`, `"0:24h:2h"`
        or a list of these. Nearly always include 0, the present state. By default they are chosen
        by [`choose_lags`][ndde_jax.windows.choose_lags], and the report says why. For a system
        known to have no delays use `lags=(0,)`.
    - `names`: names of the variables; by default those of `x`, or x0, x1, …
    - `scheme`: difference scheme, `"euler"`, `"central"`, `"central4"` or `"midpoint"`; by default
        that of the recipe, which chooses by the data.
    - `prior`: edges that cannot exist or must exist, from
        [`prior_knowledge`][ndde_jax.prior_knowledge], with the same lags. If `lags` are chosen, a
        prior without lags holds at all of them.
    - `inputs`: known variables that drive the system, such as a forcing, a stimulus or a regime.
        Names of columns of `x`, or a mapping from names to arrays `[time]`, which become variables
        too. So do clocks by their names, `"day"`, `"week"`, `"year"` or a period with its unit such
        as `"12.42h"`. They become a cosine and a sine, for seasons that drive the system. Nothing
        drives inputs, none of their seasons, trends or spikes is removed, and no verdict depends on
        how well they are explained. Exogenous variables of `prior` are inputs too.
    - `mask`: which samples may be the present of a window, such as those in winter. Booleans
        `[time]` (a list of arrays for several trajectories). Only rates at these samples are
        explained; the past that explains them may lie outside the mask.
        [`Samples`][ndde_jax.Samples] may have one.
    - `transform`: variables to read as their logarithm or as normal scores of their ranks, before
        anything else. `{"flow": "log", "level": "ranks"}`, or one of these for all; see
        [`prepare_samples`][ndde_jax.prepare_samples]. Slopes and effects then refer to the
        logarithm; forecasts and interventions use measured units.
    - `time_unit`: unit of `dt`, for labels and for known periods (the year, the day). Time stamps
        of `x` are converted to it.
    - `treat`: first treat seasons, trends, very uneven stamps, spikes and short gaps where a test
        finds them, as [`prepare_samples`][ndde_jax.prepare_samples] does. Also allow no driver of a
        schedule (a variable that repeats itself). The report says so.
    - `coefficient`: λ: keep an edge iff it is worth more than λ/F of its target's variance. The
        default is the rule of [`SignalStrengths.kept`][ndde_jax.measure.SignalStrengths.kept].
    - `recipe`: [`Recipe`][ndde_jax.Recipe], by default `Recipe()`;
        [`Recipe.fast()`][ndde_jax.Recipe.fast] fits no network,
        [`Recipe.paper()`][ndde_jax.Recipe.paper] is the method of the paper.
    - `key`: random key for all random numbers.
    - `progress`: show a progress bar over the stages.
    - `directory`: where to store the result of each stage as soon as it is finished. After an
        interruption the same call, with the same data, settings and key, resumes there. A different
        call starts from the beginning. The files may be deleted once the discovery is returned.

    **Returns:** [`Discovery`][ndde_jax.Discovery].

    **Raises:** `ValueError` for unusable data, as [`lagged_windows`][ndde_jax.lagged_windows].

    ```python
    import jax, numpy as np
    import ndde_jax as ndde

    rng, x = np.random.default_rng(0), np.zeros((500, 2))
    for k in range(3, 499):
        x[k + 1] = 0.5 * x[k] + [0.0, 0.8 * x[k - 3, 0]] + rng.normal(size=2)
    found = ndde.discover(x, dt=1.0, names=("driver", "follower"), key=jax.random.key(0))
    print(found.report())  # driver → follower after 4 samples
    ```
    """
    check_concrete(
        "discover",
        (x, dt, t, coefficient, key),
        "Make windows with lagged_windows; fit, recover and fit_drift work there.",
    )
    recipe = check_settings(coefficient, recipe, scheme, treat)
    key = check_key(key)
    check_prior(prior)
    chunks, part = as_chunks(x), None
    if chunks is not None:
        names = chunks.names if names is None else names
        part = _part(chunks, lags, dt, time_unit)
        x = part.values
        if part.whole:
            chunks, x = None, x[0]
        else:
            _check_chunked(t, mask, inputs, transform, recipe)
    samples = read_samples(x, dt=dt, t=t, names=names, time_unit=time_unit, mask=mask)
    columns = samples.names
    samples = samples if part is None else part.on_clock(samples)
    samples, given = with_inputs(samples, inputs)
    if chunks is not None and samples.dim > len(columns):
        raise ValueError(
            "inputs, as clocks, cannot be used on a record that is read in chunks. Add their "
            "cosine and sine as columns, or pass an array that fits into memory."
        )
    samples, prior, said = _without_counters(samples, prior, given, transform)
    recipe, more = _with_differences_for_pulses(samples, recipe)
    # Before long computations; lags that are chosen, or given as times, are not known yet.
    lags = lags if lags is None or has_unit(lags) else read_lags(lags)
    check_decidable(samples, lags if isinstance(lags, tuple) and not has_unit(lags) else (0,))
    # Samples treated before, and parts of a record, skip automatic preparation.
    steps = _steps(recipe) if treat and not samples.treatments and chunks is None else ("level",)
    steps = _with_offsets(steps, samples) if recipe.offsets else steps
    if HELD in steps and prior is not None and _required_targets(prior) & set(held_inputs(samples)):
        # A prior that requires a driver of a variable says that it is no input.
        steps = tuple(step for step in steps if step != HELD)
    known = {*given, *(() if prior is None else _exogenous(prior, samples.names))}
    known = tuple(name for name in samples.names if name in known)
    samples = prepare_samples(samples, steps, known, transform)
    held = tuple(samples.names[j] for j in treated_columns(samples, HELD))
    known = tuple(name for name in samples.names if name in {*known, *held})
    whole = None
    if chunks is not None and part is not None:
        kept = np.array([columns.index(name) for name in samples.names])
        whole = Whole(chunks, part.length, kept, samples.level, None)
        more = (*more, _describe_chunks(part, samples))
    schedules = schedules_of(samples) if treat else {}

    def at_lags(lags, *, prior, said, directory) -> Discovery:
        """Return the discovery of the prepared samples at the given lags."""
        check_decidable(samples, lags)
        for inputs in (given, held):
            prior = prior_of_inputs(prior, samples.names, inputs, len(lags))
        prior = prior_of_schedules(prior, schedules, samples.dim, lags)
        settled = with_own_rhythm(samples, steps, lags=lags, prior=prior, inputs=known)
        ready = with_schedules(settled.samples, schedules)
        if recipe.impute:
            check_regular(ready)
        search = functools.partial(
            _search,
            lags=lags,
            prior=prior,
            known=tuple(n for j, n in enumerate(ready.names) if n in known or j in schedules),
            said=said,
            coefficient=coefficient,
            recipe=recipe,
            key=key,
            progress=progress,
            directory=directory,
            whole=whole,
        )
        found = search(ready, chosen=settled.chosen)
        return _imputed(found, search, key) if recipe.impute else found

    said = (*said, *more)
    with one_blas_thread():
        if lags is None:
            return _at_chosen_lags(at_lags, samples, prior=prior, said=said, directory=directory)
        lags = read_lags(lags_in_samples(lags, samples))
        return at_lags(lags, prior=prior, said=said, directory=directory)


# Mean rise of the residual variance, as a share of the rates' variance, that a further correction
# may cause; chance causes .03 at most on populations that move half their way within a step.
MAX_RISK_RISE = 0.05
# How often longer lags are tried, where a residual or a last lag that was kept points to them.
MAX_EXTENSIONS = 2
# The most links in one sentence, and the sentence.
SHOWN = 10
PASSED_ON = (
    "These links are omitted because another variable, related to their target within a sampling "
    "interval, passes them on: given that variable at the same sample, they explain nothing more: "
    "{}. Forecasts use them."
)


def _at_chosen_lags(
    at_lags: Callable[..., Discovery],
    samples: Samples,
    *,
    prior: PriorKnowledge | None,
    said: tuple[str, ...],
    directory: str | os.PathLike | None,
) -> Discovery:
    """Return the discovery at chosen lags. Longer lags are tried while a residual is explained by
    an earlier state, or the last lag of a flow was kept. That lag may be a proxy for a later one.
    Longer lags are used if links are found at them.
    """
    lags, reason = choose_lags(samples)
    at_every = functools.partial(prior_at_each_lag, prior)
    found = at_lags(lags, prior=at_every(len(lags)), said=(*said, reason), directory=directory)
    for number in range(MAX_EXTENSIONS):
        if found.events or found.length is not None:
            break
        late = later_of(found.windows, found.graph | found.passed_on, found.model).lag
        kept = np.any(found.graph, axis=(0, 1)).reshape(-1)
        shown = [*late[late >= 0].tolist(), *np.asarray(lags)[kept].tolist()]
        more = lags_up_to(with_a_quarter_more(max(shown, default=0)), shown, samples)
        # The last lags of a map may be the tail of a response, and a coarse grid shows less.
        complete = len(more) == more[-1] + 1
        at_end = bool(kept[-1]) and len(lags) > 1 and found.reading == "flow" and complete
        if late.max() < 0 and not at_end:
            break
        why = (
            f"with lags up to {lags[-1]}, the residual of a rate was explained by a state before "
            "them"
            if late.max() >= 0
            else f"with lags up to {lags[-1]}, the last one was kept"
        )
        reason = f"Lags up to {amount(float(more[-1]), 'sample', 6)}: {why}."
        place = None if directory is None else pathlib.Path(directory) / f"longer_{number + 1}"
        longer = at_lags(more, prior=at_every(len(more)), said=(*said, reason), directory=place)
        beyond = longer.graph[:, :, np.asarray(more) > lags[-1]].any()
        stays = longer.graph[:, :, np.asarray(more) == lags[-1]].any()
        if not beyond and (stays or not at_end):
            break
        found, lags = longer, more
    return found


def update(found: Discovery, more: Any, *, key: PRNGKeyArray | None = None) -> Discovery:
    """Return the discovery of a longer record; see
    [`Discovery.update`][ndde_jax.Discovery.update].
    """
    if found.length is not None:
        raise ValueError(
            "update has only a part of a record read in chunks. Discover the longer record."
        )
    before, clocks = without_clocks(found.samples.as_measured())
    if not before.regular:
        raise ValueError(
            "update is for equally spaced samples; discover the joined record with its time stamps."
        )
    if before.mask:
        raise ValueError("update has no mask for the new samples; discover the joined record.")
    if not isinstance(more, Samples) and not np.size(more):
        return found
    new = read_alike(before, more, wanted_by="update")
    if new.t is not None:
        raise ValueError("update is for equally spaced samples; the new samples are not.")
    arrays = [array.astype(float) for array in new.values]
    values, times, starts = list(before.values), list(before.times), before.starts
    if (
        isinstance(more, list | tuple)
        or len(arrays) > 1
        or _is_separate_recording(before, new.starts)
    ):
        values += arrays
        times += [before.dt * np.arange(len(x)) for x in arrays]
        starts = starts and (*starts, *(new.starts or [""] * len(arrays)))
    else:
        added = times[-1][-1] + before.dt * np.arange(1, len(arrays[0]) + 1)
        values[-1] = np.concatenate([values[-1], arrays[0].astype(values[-1].dtype)])
        times[-1] = np.concatenate([times[-1], added])
    # Held variables and schedules are detected again with the new samples.
    columns = [*treated_columns(found.samples, HELD), *treated_columns(found.samples, SCHEDULE)]
    held, prior = {found.names[j] for j in columns}, found.windows.prior
    if held:
        allowed = np.array(prior.allowed)
        allowed[:, columns] = allowed[list(treated_columns(found.samples, SCHEDULE))] = True
        prior = PriorKnowledge(to_jax(allowed), prior.required)
    return discover(
        dataclasses.replace(before, values=tuple(values), times=tuple(times), starts=starts),
        lags=found.lags,
        prior=prior,
        inputs=(*(n for n in found.inputs if n in {*before.names} - held), *clocks) or None,
        transform=found.samples.transform or None,
        treat=bool(found.samples.treatments),
        coefficient=found.coefficient,
        recipe=found.recipe,
        key=jr.key(0) if key is None else key,
    )


def _is_separate_recording(before: Samples, starts: Sequence[str]) -> bool:
    """Return whether the new samples begin later than one interval after the last sample, as a
    separate recording; False where dates are not known.
    """
    if not (before.starts and before.starts[-1] and starts and starts[0]):
        return False
    begins = elapsed(before.starts[-1], starts[0], before.time_unit)
    after = (begins - before.times[-1][-1]) / before.dt
    if after < 0.5:
        begin = written(dates_after(starts[0], np.zeros(1), before.time_unit, before.dt)[0])
        raise ValueError(
            f"update expected samples after {before.when(-1, len(before.values) - 1)}; got "
            f"samples from {begin} on. Omit those that the discovery has."
        )
    return bool(after > 1.5)


def _part(chunks: Chunks, lags: Any, dt: Any, time_unit: str) -> Part:
    """Return the part of a record that is held in memory: as many samples as its settings say, or
    as fit into `IN_MEMORY` spline terms at all lags.
    """
    if lags is not None and has_unit(lags):
        lags = lags_in_samples(lags, read_samples(np.eye(2), dt=dt, time_unit=time_unit))
    lags = tuple(range(UNKNOWN)) if lags is None else read_lags(lags)
    dim = next(iter(chunks.blocks()), np.zeros((0, 1))).shape[1]
    most = chunks.in_memory or max(IN_MEMORY // (dim * len(lags) * WIDTH), FEWEST)
    return part_of(chunks, most, max(lags) + WIDEST_STENCIL)


def _check_chunked(t: Any, mask: Any, inputs: Any, transform: Any, recipe: Recipe) -> None:
    """Raise an error for settings that need the whole record in memory."""
    given = dict(t=t, mask=mask, transform=transform)
    given["inputs, as arrays,"] = inputs if isinstance(inputs, Mapping) else None
    given["recipe.impute"], given["recipe.offsets"] = recipe.impute or None, recipe.offsets or None
    for name, value in given.items():
        if value is not None:
            raise ValueError(
                f"{name} cannot be used on a record that is read in chunks. Omit it, or pass "
                "an array that fits into memory."
            )
    if not recipe.strategy.reads_sums:
        raise ValueError(
            "a record read in chunks needs a strategy that searches sums over windows, such "
            f"as select.Default; got the strategy {type(recipe.strategy).__name__}."
        )


def _describe_chunks(part: Part, samples: Samples) -> str:
    """Return the report's sentences on how a record read in chunks was used."""
    left_out = [step for step in STEPS if step != "level"]
    return (
        f"The record of {part.length} samples was read in chunks. Graph, strengths and splines use "
        f"the whole record, by sums over its windows. {sum(map(len, samples.values))} samples in "
        f"{len(samples.values)} stretches, evenly spaced, were held in memory for everything else: "
        "how windows are cut and scaled, map or flow, intervals of delays, lower bounds, held-out "
        "errors, networks and laws, p-values and the verdict. Windows with a missing value are "
        f"omitted, and no treatments are applied ({', '.join(left_out)})."
    )


def _without_counters(samples: Samples, prior: Any, given: Sequence[str], transform: Any):
    """Return samples and prior without variables that count rows or time, and remarks on them."""
    named = transform if isinstance(transform, Mapping) else ()
    kept = (*given, *(name for name in named if isinstance(name, str)))
    names = samples.names
    if prior is not None and prior.allowed.shape[-2] != samples.dim:
        return samples, prior, ()
    if prior is not None:
        needed = np.asarray(prior.required).max(axis=-1, initial=False)
        kept += tuple(n for j, n in enumerate(names) if needed[j].any() or needed[:, j].any())
    samples, gone = without_counters(samples, kept)
    if not gone:
        return samples, prior, ()
    if prior is not None:
        keep = np.flatnonzero(~np.isin(np.asarray(names), gone))
        prior = PriorKnowledge(prior.allowed[keep][:, keep], prior.required[keep][:, keep])
    verb, put, it = ("counts", "is", "it") if len(gone) == 1 else ("count", "are", "them")
    text = (
        f"{', '.join(gone[:10])} {verb} rows or time and {put} set aside: a straight line has no "
        f"drivers here, and would explain every trend. Add {it} to the inputs to keep {it}."
    )
    return samples, prior, (text,)


def _with_differences_for_pulses(
    samples: Samples, recipe: Recipe
) -> tuple[Recipe, tuple[str, ...]]:
    """Return the recipe, and a remark if it now uses forward differences because events last one
    sample: midpoints would read values between samples that do not exist.
    """
    pooled = np.concatenate(samples.values)
    pulses = [name for name, x in zip(samples.names, pooled.T, strict=True) if is_pulse(x)]
    if recipe.scheme != "auto" or not pulses:
        return recipe, ()
    text = f"{', '.join(pulses[:10])} has events of one sample, so forward differences are used."
    return dataclasses.replace(recipe, scheme="euler"), (text,)


def _imputed(found: Discovery, search: Callable, key: PRNGKeyArray) -> Discovery:
    """Repeat the discovery on samples whose missing values the model completed."""
    if not missing(found.samples):
        nothing = "No value is missing, so none was estimated by the model."
        return dataclasses.replace(found, choices=(*found.choices, nothing))
    made: Imputed | None = None
    told: tuple[str, ...] = ()
    for number in range(found.recipe.impute):
        rng = np.random.default_rng([number, *np.asarray(jr.key_data(key)).ravel().tolist()])
        # The centre of an ensemble does not depend on the number of halves.
        made = impute(found, found.resample(resamples=2), draws=0, rng=rng, before=made)
        found = search(made.treated)
        told = made.notes
    done = tuple(t.text for t in found.samples.treatments if t.name == IMPUTE)
    return dataclasses.replace(found, choices=(*found.choices, *done, *told))


def _search(
    samples: Samples,
    *,
    lags: tuple[int, ...],
    prior: PriorKnowledge | None,
    known: tuple[str, ...],
    said: tuple[str, ...],
    coefficient: Any,
    recipe: Recipe,
    key: PRNGKeyArray,
    progress: bool,
    directory: str | os.PathLike | None,
    whole: Whole | None,
    chosen: Chosen | None = None,
) -> Discovery:
    """Return the discovery from prepared samples: all of them, or a part of a `whole` record. Uses
    the windows in `chosen` if they were chosen before.
    """
    length = None if whole is None else whole.length
    # Candidate pairs are restricted before the search.
    wanted = recipe.events and not samples.mask
    events = read_events(samples, lags=lags, prior=prior) if wanted else None
    beforehand = prior
    if events is not None:
        prior, scheme = events.prior, "euler" if recipe.scheme == "auto" else recipe.scheme
        strategy = recipe.strategy.without_networks()
        recipe = dataclasses.replace(recipe, scheme=scheme, passes=1, strategy=strategy)
    partial = events is None and whole is None
    if chosen is None or events is not None or recipe.scheme != "auto":
        chosen = choose_windows(
            samples, lags=lags, scheme=recipe.scheme, prior=prior, partial=partial
        )
    screened, choices = chosen.screened, chosen.choices
    windows = screened.windows
    price_text = str(coefficient) if length is None else f"{coefficient} of {length} samples"
    inputs = (samples.values, samples.times, windows, samples.names, beforehand, price_text)
    # Sums over midpoint windows need the drift of one pass.
    passes = max(recipe.passes, 1 + (whole is not None)) if windows.scheme == "midpoint" else 1
    family = _family(recipe, windows)
    total = passes + recipe.delays + (family is not None)
    with Stages(
        total, progress=progress, directory=directory, inputs=(*inputs, recipe, key)
    ) as stage:
        # The choice of windows took two searches; every pass takes one, and so does the rest.
        stage.expect(chosen.seconds / 2 * (passes + 1))
        search_key, model_key = jr.split(key)
        before = None
        for number in range(1, passes):
            windows = stage(
                f"searching, pass {number}", functools.partial(_next_windows, screened, samples)
            )
            corrected = Screened(windows, steps=screened.steps, readings=screened.readings)
            if before is not None and _worse(corrected, screened):
                break
            before, screened = screened, corrected
        reading, evidence = _reading(screened, events is not None)
        if partial:
            screened = with_partial(screened, samples)
        screened = variance_weighted(screened) if whole is None else screened
        choices = choices if screened.inverse_variance is None else (*choices, VARIANCE_WEIGHTED)
        windows = screened.windows
        screened = with_samples(screened, samples, recipe, reading, events is not None)
        if whole is not None:
            drift = None if before is None else fit_screened(before, before.found.graph)
            screened = screened.knowing(whole=whole._replace(drift=drift))
        choices = (*choices, *said, *_describe_data(samples, screened, recipe))
        search = functools.partial(_measured, screened, recipe.strategy, coefficient, search_key)
        measured = stage("measuring edges", search)
        is_map = windows.scheme == "euler" and reading != "flow" and events is None
        if is_map and whole is None:
            measured = _without_passed_on(windows, measured, samples.names, reading == "undecided")
        strengths, model, graph = measured.strengths, measured.model, measured.graph
        choices = (*choices, *measured.remarks)
        if family is not None:
            # A scheme chosen by the user also decides what the drift is fitted to.
            chosen = recipe.scheme in ("auto", "midpoint")
            rates = law_windows(samples, windows) if chosen else windows
            if rates.scheme != windows.scheme != "midpoint":
                choices = (*choices, FORWARD)
            fitted = functools.partial(fit_law, rates, measured.reads, family, key=model_key)
            model = stage("fitting the drift", fitted)
        if is_map and samples.regular:
            estimate = functools.partial(whole_lags, screened, graph)
        elif not recipe.delays:
            estimate = functools.partial(candidate_lags, windows, graph)
        elif events is not None:
            estimate = functools.partial(travel_times, samples, windows, graph, key=search_key)
        else:
            estimate = functools.partial(delays_of, samples, screened, measured)
        late = stage("estimating delays", estimate) if recipe.delays else estimate()
    if reading == "undecided" and recipe.delays and events is None:
        late = of_either_reading(late, flow=windows.scheme != "euler")
    delays, intervals = (samples.dt * np.asarray(part) for part in late)
    if events is not None:
        ranking, reasons = events.ranking.value, (events.choice,)
    else:
        ranking, reasons = rank(samples, screened, strengths.source_value)
    if recipe.confine and windows.lags[0] == 0 and not _failed(model):
        model = confine(model, windows=windows)
    return Discovery(
        samples=samples,
        lags=windows.lags,
        coefficient=None if coefficient is None else float(coefficient),
        recipe=recipe,
        windows=windows,
        strengths=strengths,
        model=model,
        graph=graph,
        reads=measured.reads,
        scores=np.asarray(strengths.value),
        lower=np.asarray(strengths.lower),
        ranking=ranking,
        delays=delays,
        delay_intervals=intervals,
        networks=measured.networks,
        held_out=measured.held_out,
        reading=reading,
        evidence=evidence,
        events=events is not None,
        inputs=known,
        choices=(*choices, *reasons),
        length=length,
    )


def _reading(screened: Screened, events: bool) -> tuple[str, float]:
    """Return the reading, flow or map, and its evidence in nats, flow over map; NaN where the two
    were not compared: events, uneven samples, records without noise.
    """
    if screened.readings is not None:
        return screened.readings.name, screened.readings.evidence
    return "undecided" if events else "flow", np.nan


def _describe_data(samples: Samples, screened: Screened, recipe: Recipe) -> tuple[str, ...]:
    """Return remarks on requested treatments, the mask, and measurement errors."""
    said = tuple(t.text for t in samples.treatments if t.name in (TRANSFORM, OFFSETS))
    if samples.mask:
        windows = screened.windows
        said += describe_mask(samples.mask, len(windows.valid), int(windows.n_valid))
    if recipe.strategy.averages_out_errors:
        said += describe_errors(samples, screened.errors)
    return said


def _exogenous(prior: PriorKnowledge, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the inputs named by the prior; none if it is for another number of variables, an error
    that is raised later with the lags.
    """
    return inputs_of(prior, names) if prior.allowed.shape[-2] == len(names) else ()


def _required_targets(prior: PriorKnowledge) -> set[int]:
    """Return the indices of variables for which the prior requires another variable as driver."""
    required = np.asarray(prior.required)
    apart = ~np.eye(len(required), dtype=bool)[..., None]
    return set(np.flatnonzero((required & apart).any(axis=(0, 2))).tolist())


def _steps(recipe: Recipe) -> tuple[str, ...]:
    """Return the steps of treatment; with central differences, uneven time stamps stay as they
    are.
    """
    return tuple(step for step in STEPS if step != "clock" or recipe.scheme in ("auto", "euler"))


def _with_offsets(steps: tuple[str, ...], samples: Samples) -> tuple[str, ...]:
    """Return the steps with the removal of each recording's own mean added."""
    if len(samples.values) == 1:
        raise ValueError(
            "offsets=True is for several recordings, each with its own mean; got one recording. "
            "Pass a list of arrays (--trial on the command line), or omit it."
        )
    if samples.treatments and not any(t.name == OFFSETS for t in samples.treatments):
        raise ValueError(
            "offsets=True cannot be used on samples that are already treated. Add it there, "
            'prepare_samples(samples, ("spikes", "clock", "gaps", "offsets", "season")).'
        )
    return (*steps, OFFSETS)


def _family(recipe: Recipe, windows: Windows) -> Family | None:
    """Return the family of the final drift; None keeps the model that measured the edges."""
    if recipe.family is None and recipe.strategy.fits_networks and windows.lags == (0,):
        return Best()
    return recipe.family


def check_settings(coefficient: Any, recipe: Any, scheme: Any, treat: Any) -> Recipe:
    """Return the recipe, after checking the settings that do not depend on data."""
    check_coefficient(coefficient)
    recipe = Recipe() if recipe is None else recipe
    if not isinstance(recipe, Recipe):
        remedy = "Do not forget the parentheses: Recipe()."
        raise argument_error("recipe", "a ndde_jax.Recipe such as Recipe.fast()", recipe, remedy)
    if scheme is not None:
        check_choice(scheme, "scheme", SCHEMES)
        recipe = dataclasses.replace(recipe, scheme=scheme)
    check_flag(treat, "treat")
    return recipe


def _next_windows(screened: Screened, samples: Samples) -> Windows:
    """Return the windows of the next pass, corrected by what was found in these, with the samples
    between the candidate lags where the clock is regular.
    """
    if samples.regular:
        screened = screened.knowing(record=Record.of(samples, screened.windows))
    return corrected_at_midpoints(screened)


def _worse(corrected: Screened, before: Screened) -> bool:
    """Return whether windows that were corrected again are described worse: corrections diverge
    where a path turns within a step.
    """
    rise = np.asarray(corrected.found.risk) - np.asarray(before.found.risk)
    return bool(np.mean(rise) > MAX_RISK_RISE)


def _measured(screened: Screened, strategy: AbstractStrategy, coefficient, key) -> Measured:
    """Return the measured result of the strategy; with a coefficient of None it sets the price."""
    price = None if coefficient is None else as_price(coefficient, "coefficient")
    found = recover(screened.windows, strategy.on(screened), price, key=key)
    return found.measure(screened, as_price(price))


def _without_passed_on(
    windows: Windows, measured: Measured, names: tuple[str, ...], undecided: bool
) -> Measured:
    """Return the measured graph of a map without the links that other variables pass on within a
    sampling interval.
    """
    p = passed_on_p_values(windows, measured.graph, measured.model, undecided=undecided)
    edges = np.isfinite(p)
    if not edges.any():
        return measured
    pairs = [f"{names[i]} → {names[j]}" for i, j in np.argwhere(edges.any(axis=2))]
    return measured.without(edges, PASSED_ON.format(listed(pairs, SHOWN)))


def _failed(model) -> bool:
    """Return whether a parameter is not finite, or a variable does not vary. It reads the arrays,
    since calling the model would compile it.
    """
    numbers = jax.tree.leaves(eqx.filter(model, eqx.is_inexact_array))
    finite = all(np.isfinite(np.asarray(leaf)).all() for leaf in numbers)
    return not (finite and np.all(np.asarray(model.scaling.scale) > 0))
