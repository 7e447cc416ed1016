"""The front door: from a table of measurements to a graph, a drift and a report."""

import dataclasses
import json
import os
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import PRNGKeyArray

from ._checks import (
    check_coefficient,
    check_concrete,
    check_key,
    check_names,
    check_settings,
    refusal,
)
from ._drift import MaskedDrift
from ._equations import equations
from ._fit import FitConfig, FitResult, Status, fit
from ._flow import fit_flow
from ._identifiability import IdentifiabilityReport, identifiability_report
from ._labelled import read_labelled
from ._methods import L0NDDE, AbstractMethod
from ._midpoint import midpoint_windows, windows_by_scheme
from ._model import NeuralDDE
from ._prior import PriorKnowledge
from ._report import write_few_lines, write_report
from ._strength import (
    SignalStrengths,
    StrengthConfig,
    chosen_search,
    fit_graph,
    select_graph,
    signal_strengths,
)
from ._types import Checked, RealScalarLike
from ._windows import Scaling, Windows

# Of saved discoveries.
FORMAT = 2


@dataclasses.dataclass(frozen=True)
class Discovery:
    """What [`discover`][ndde_jax.discover] found; arrays are NumPy, `[source target lag]`.

    - `graph`: edges kept.
    - `scores`: signal strength of every candidate edge, a share of the variance of its target's
        rate of change.
    - `lower`: lower confidence bound of the strength on held-out blocks.
    - `names`, `lags` (samples), `dt`, `time_unit`: labels of the axes.
    - `coefficient`, `search`: how the graph was chosen.
    - `model`: [`NeuralDDE`][ndde_jax.NeuralDDE] fitted on `graph`.
    - `strengths`, `fit`, `windows`: where all of it comes from.
    """

    names: tuple[str, ...]
    lags: tuple[int, ...]
    dt: float
    time_unit: str
    coefficient: float | None
    search: str
    windows: Windows
    fit: FitResult
    strengths: SignalStrengths
    model: NeuralDDE
    graph: np.ndarray
    scores: np.ndarray
    lower: np.ndarray

    def __repr__(self) -> str:
        return write_few_lines(self)

    def report(self, identifiability: Checked[IdentifiabilityReport | None] = None) -> str:
        """Text for a methods section: data, choices, edges with their strength, warnings, and
        whether the data support them; give what `identifiability` found to include it.
        """
        return write_report(self, identifiability)

    def identifiability(self, *, key: PRNGKeyArray, **options) -> IdentifiabilityReport:
        """Refit on halves of the data, with edges replaced and with other differences, to see
        whether the data support the graph. Takes several times as long as the discovery.

        `options` are those of [`identifiability_report`][ndde_jax.identifiability_report]; give
        the `method`, `config` and `strength_config` of the discovery if it had any.
        """
        return identifiability_report(
            self.windows,
            key=key,
            strengths=self.strengths,
            model=self.model,
            coefficient=self.coefficient,
            names=self.names,
            search=self.search,
            **options,
        )

    def equations(self, *, key: PRNGKeyArray, digits: int = 3, **options) -> tuple[str, ...]:
        """The drift as formulas, one per variable, where a few polynomial terms explain a rate as
        well as these data can tell; `f(...)` elsewhere. See [`equations`][ndde_jax.equations].

        The graph is fitted once more for that, by [`fit_flow`][ndde_jax.fit_flow]; `options` are
        its own.
        """
        model = fit_flow(self.windows, self.graph, key=key, **options)
        return equations(model, self.names, digits=digits)

    def to_frame(self):
        """A pandas DataFrame with one row per candidate edge, strongest first; needs pandas."""
        import pandas as pd

        source, target, lag = np.indices(self.graph.shape).reshape(3, -1)
        frame = pd.DataFrame(
            {
                "source": np.asarray(self.names)[source],
                "target": np.asarray(self.names)[target],
                "lag": np.asarray(self.lags)[lag],
                "delay": np.asarray(self.lags)[lag] * self.dt,
                "kept": self.graph.ravel(),
                "score": self.scores.ravel(),
                "lower": self.lower.ravel(),
            }
        )
        order = np.lexsort((-frame["score"], ~frame["kept"]))
        return frame.iloc[order].reset_index(drop=True)

    def plot(self):
        """A matplotlib Figure: strengths by lag, and the graph; needs matplotlib."""
        from .plot import plot_discovery

        return plot_discovery(self)

    def save(self, directory: str | os.PathLike) -> None:
        """Write everything to a directory; [`Discovery.load`][ndde_jax.Discovery.load] reads it."""
        directory = Path(directory)
        directory.mkdir(parents=True, exist_ok=True)
        leaves = jax.tree.leaves((self.windows, self.fit, self.strengths, self.model))
        np.savez(
            directory / "arrays.npz", **{f"{i:03d}": np.asarray(a) for i, a in enumerate(leaves)}
        )
        about = {
            "format": FORMAT,
            "names": self.names,
            "lags": self.lags,
            "dt": self.dt,
            "time_unit": self.time_unit,
            "coefficient": self.coefficient,
            "search": self.search,
            "scheme": self.windows.scheme,
            "fit_layers": len(self.fit.model.drift.layers),
            "model_layers": len(self.model.drift.layers),
        }
        (directory / "about.json").write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, directory: str | os.PathLike) -> "Discovery":
        """Read what [`save`][ndde_jax.Discovery.save] wrote.

        **Raises:** `ValueError` if the directory does not hold a discovery of this format.
        """
        directory = Path(directory)
        try:
            about = json.loads((directory / "about.json").read_text(encoding="utf-8"))
            # Opened here: NumPy leaves a damaged file open.
            with open(directory / "arrays.npz", "rb") as raw, np.load(raw) as file:
                leaves = [jnp.asarray(file[name]) for name in sorted(file.files)]
        except (FileNotFoundError, NotADirectoryError) as error:
            raise ValueError(
                f"{directory} does not hold a saved discovery: {error.filename} is missing."
            ) from error
        except (json.JSONDecodeError, zipfile.BadZipFile) as error:
            raise ValueError(f"{directory} holds a damaged discovery: {error}.") from error
        if about.get("format") != FORMAT:
            raise ValueError(
                f"{directory} has format {about.get('format')!r}; this version reads format "
                f"{FORMAT}."
            )
        structure = jax.tree.structure(_skeleton(about))
        windows, result, strengths, model = jax.tree.unflatten(structure, leaves)
        return _discovery(
            tuple(about["names"]),
            about["time_unit"],
            about["coefficient"],
            about.get("search", "gates"),
            windows,
            result,
            strengths,
            model,
        )


def discover(
    x: Any,
    *,
    dt: Checked[RealScalarLike | None] = None,
    t: Any = None,
    lags: Checked[Iterable] = (0,),
    names: Checked[Sequence[str] | None] = None,
    scheme: Checked[str] = "auto",
    prior: Checked[PriorKnowledge | None] = None,
    time_unit: Checked[str] = "",
    coefficient: Checked[RealScalarLike | None] = None,
    search: Checked[str] = "auto",
    method: Checked[AbstractMethod | None] = None,
    config: Checked[FitConfig | None] = None,
    strength_config: Checked[StrengthConfig | None] = None,
    key: Checked[PRNGKeyArray],
    progress: bool = False,
) -> Discovery:
    """Find which variables drive which, at which delay, and the drift.

    Cuts the measurements into lagged windows, selects a graph with gates, improves it edge by edge,
    measures by refitting what every edge is worth relative to it, keeps the edges that are worth
    their parameters, and fits the drift on what is kept.

    **Arguments:**

    - `x`: `[time dim]` or `[time]`; NumPy or JAX array, pandas Series or DataFrame (column names
        and time index are used), xarray DataArray or Dataset; or a list of arrays, several
        trajectories of one system. NaN marks missing values.
    - `dt`, `t`: sampling interval or time stamps, unless `x` carries them.
    - `lags`: candidate lags in samples, ascending. The present state, 0, belongs in nearly always.
    - `names`: of the variables; by default those of `x`, or x0, x1, …
    - `scheme`: difference scheme, see [`lagged_windows`][ndde_jax.lagged_windows], or `"midpoint"`,
        see [`midpoint_windows`][ndde_jax.midpoint_windows]; then the search is repeated with what
        the first model says about the steps. `"auto"`, the default, decides by the noise and the
        lags ([`choose_scheme`][ndde_jax.choose_scheme]); the report says what and why.
    - `prior`: edges that cannot exist or must, from
        [`prior_knowledge`][ndde_jax.prior_knowledge].
    - `time_unit`: what `dt` counts, for labels only.
    - `coefficient`: λ: keep an edge iff it is worth more than λ/F of its target's variance. By
        default the rule of [`SignalStrengths.kept`][ndde_jax.SignalStrengths.kept].
    - `search`: `"gates"`, `"splines"` or `"auto"`, see [`select_graph`][ndde_jax.select_graph].
        With splines the gates are fitted for comparison only.
    - `method`, `config`: for the fit of the gates, by default [`L0NDDE`][ndde_jax.L0NDDE] and
        [`FitConfig`][ndde_jax.FitConfig] with their defaults.
    - `strength_config`: for the refits.
    - `key`: all randomness.
    - `progress`: show a progress bar over the stages.

    **Returns:** [`Discovery`][ndde_jax.Discovery].

    **Raises:** `ValueError` for unusable data, as [`lagged_windows`][ndde_jax.lagged_windows].

    ```python
    import jax, numpy as np
    import ndde_jax as ndde

    t = np.arange(500) * 0.1
    x = np.stack([np.sin(t), np.cos(t)], axis=1)
    found = ndde.discover(x, dt=0.1, names=("position", "velocity"), key=jax.random.key(0))
    print(found.report())
    ```
    """
    check_concrete(
        "discover",
        (x, dt, t, coefficient, key),
        "Make windows with lagged_windows; fit, search_lags and signal_strengths take them there.",
    )
    check_settings(method, config, strength_config, search)
    check_coefficient(coefficient)
    if not isinstance(time_unit, str):
        raise refusal("time_unit", "a word, such as 'day'", time_unit)
    key = check_key(key)
    own_time = dt is None and t is None
    values, own_names, own_dt, own_t, own_unit = read_labelled(x, time=own_time)
    if own_time:
        dt, t = own_dt, own_t
        time_unit = time_unit or own_unit
    names = own_names if names is None else check_names(names, None)
    windows = windows_by_scheme(
        values, dt=dt, t=t, lags=lags, scheme=scheme, names=names, prior=prior
    )
    names = tuple(f"x{i}" for i in range(windows.dim)) if names is None else names
    search = chosen_search(windows, search)

    fit_key, search_key, strength_key, model_key = jr.split(key, 4)
    with _Stages(progress, total=5 if windows.scheme == "midpoint" else 4) as stage:
        stage("selecting a graph")
        method = L0NDDE() if method is None else method
        result = jax.block_until_ready(fit(method, windows, config, key=fit_key))
        stage("searching for a better one")
        options = dict(search=search, config=strength_config, key=search_key)
        graph = select_graph(windows, result, **options)
        if windows.scheme == "midpoint":
            stage("searching again, between the samples")
            model = fit_graph(windows, graph, config=strength_config, key=model_key)
            given = dict(lags=windows.lags, names=names, prior=prior)
            windows = midpoint_windows(values, dt=float(windows.dt), model=model, **given)
            graph = select_graph(windows, result, **options)
        stage("measuring edges")
        strengths = signal_strengths(windows, graph=graph, config=strength_config, key=strength_key)
        kept = jax.block_until_ready(strengths.kept(coefficient))
        stage("fitting the drift")
        model = fit_graph(windows, kept, config=strength_config, key=model_key)
        jax.block_until_ready(model)
    return _discovery(names, time_unit, coefficient, search, windows, result, strengths, model)


def _discovery(
    names, time_unit, coefficient, search, windows, result, strengths, model
) -> Discovery:
    return Discovery(
        names=names,
        lags=windows.lags,
        dt=float(windows.dt),
        time_unit=time_unit,
        coefficient=None if coefficient is None else float(coefficient),
        search=search,
        windows=windows,
        fit=result,
        strengths=strengths,
        model=model,
        graph=np.asarray(strengths.kept(coefficient)),
        scores=np.asarray(strengths.value),
        lower=np.asarray(strengths.lower),
    )


class _Stages:
    """A progress bar over named stages, or nothing."""

    def __init__(self, show: bool, total: int = 4):
        self.bar = None
        if show:
            from tqdm import tqdm

            self.bar = tqdm(total=total, bar_format="{desc} {bar} {n_fmt}/{total_fmt} {elapsed}")
        self.started = False

    def __call__(self, text: str) -> None:
        if self.bar is not None:
            self.bar.update(int(self.started))
            self.bar.set_description_str(text)
        self.started = True

    def __enter__(self) -> "_Stages":
        return self

    def __exit__(self, *error) -> None:
        if self.bar is not None:
            self.bar.update(int(error[0] is None))
            self.bar.close()


def _skeleton(about: dict):
    """The saved objects for one variable and one window: what their structure is."""
    lags = tuple(about["lags"])
    n_lags = len(lags)
    zeros = jnp.zeros
    scaling = Scaling(zeros(1), zeros(1), zeros(1), zeros(1))
    count, edges = zeros((), int), zeros((1, 1, n_lags))
    prior = PriorKnowledge.nothing(1, n_lags)

    def model(n_layers):
        drift = MaskedDrift(tuple((zeros((1, 1, 1)), zeros((1, 1))) for _ in range(n_layers)))
        return NeuralDDE(drift, zeros((1, n_lags, 1), bool), scaling, zeros(()), lags)

    windows = Windows(
        history=zeros((1, n_lags, 1)),
        increment=zeros((1, 1)),
        valid=zeros(1, bool),
        weight=zeros(1),
        position=zeros(1, int),
        scaling=scaling,
        dt=zeros(()),
        noise_share=zeros(1),
        roll_off=zeros(1),
        ringing=zeros(1),
        dropped=count,
        prior=prior,
        lags=lags,
        scheme=about["scheme"],
    )
    result = FitResult(
        model=model(about["fit_layers"]),
        scores=zeros((1, n_lags, 1)),
        path_masks=zeros((1, 1, n_lags, 1), bool),
        risk=zeros(1),
        losses=zeros(1),
        steps=count,
        status=Status.converged,
    )
    strengths = SignalStrengths(
        value=edges,
        held_out=edges,
        lower=edges,
        source_value=zeros((1, 1)),
        source_held_out=zeros((1, 1)),
        graph=edges.astype(bool),
        risk=zeros(1),
        risk_in_sample=zeros(1),
        threshold=zeros(1),
        prior=prior,
    )
    return windows, result, strengths, model(about["model_layers"])
