"""Prior knowledge: edges that cannot exist, and edges that must."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Bool

from .._checks import (
    argument_error,
    check_flag,
    check_names,
    check_real_array,
    check_whole,
    is_traced,
    short_repr,
)
from .._types import Checked, Graph, to_jax
from ..samples._clock_inputs import is_clock, with_clocks
from ..samples._columns import period_of
from ..samples._gaps import linearly_interpolated
from ..samples._samples import Samples
from ..samples._trajectories import read_lags

# Maximum number of candidate edges: several arrays of this size must fit in memory.
MOST_EDGES = 10**8


class PriorKnowledge(eqx.Module):
    """The allowed and the required edges, used by every method.

    Made by [`prior_knowledge`][ndde_jax.prior_knowledge]. Both arrays are leaves, so a batch of
    priors is a `vmap` axis. Windows hold the prior, and every fit to them obeys it: an edge that is
    not allowed is never open and scores 0; a required edge is always open, scores 1 and pays no
    penalty.

    - `allowed`: candidate edges, `[source target lag]`.
    - `required`: edges of every graph, `[source target lag]`; also allowed.
    """

    allowed: Checked[Graph]
    required: Checked[Graph]

    def __check_init__(self):
        for name in ("allowed", "required"):
            value = getattr(self, name)
            if not isinstance(value, jax.Array) or value.dtype != bool or value.ndim < 3:
                remedy = "prior_knowledge makes both from names."
                raise argument_error(name, "a boolean JAX array [source target lag]", value, remedy)
        shape, other = self.allowed.shape, self.required.shape
        if shape != other:
            raise ValueError(f"required must have the same shape as allowed, {shape}; got {other}.")
        if not is_traced(self.allowed, self.required):
            clash = np.argwhere(np.asarray(self.required) & ~np.asarray(self.allowed)).tolist()
            if clash:
                where = f"the one at [source target lag] = {clash[0]} is not."
                raise ValueError(f"required must hold edges that are also allowed; {where}")

    @classmethod
    def nothing(cls, dim: int, n_lags: int) -> "PriorKnowledge":
        """Return a prior in which every edge is a candidate and none is required."""
        shape = (dim, dim, n_lags)
        return cls(to_jax(np.ones(shape, bool)), to_jax(np.zeros(shape, bool)))

    @property
    def undecided(self) -> Graph:
        """The edges decided by the data, `[source target lag]`."""
        return self.allowed & ~self.required

    def apply(self, graph: Bool[Array | np.ndarray, "*batch source target lag"]) -> Any:
        """Return the graph without edges that are not allowed and with all required edges."""
        lead = (1,) * (graph.ndim - self.allowed.ndim)
        allowed = self.allowed.reshape(lead + self.allowed.shape)
        return (graph & allowed) | self.required.reshape(allowed.shape)


def prior_knowledge(
    names: Checked[int | Sequence[str]],
    *,
    lags: Checked[Iterable] = (0,),
    forbidden: Checked[Iterable] = (),
    required: Checked[Iterable] = (),
    exogenous: Checked[str | Iterable] = (),
    self_edges: Checked[bool] = True,
) -> PriorKnowledge:
    """Return prior knowledge about a system, stated before its data are seen.

    **Arguments:**

    - `names`: names of the variables, or their number. Edges refer to variables by name or index.
    - `lags`: candidate lags in samples, the same as those of the windows.
    - `forbidden`: edges that do not exist: (source, target) at all lags, (source, target, lag) at
        one lag.
    - `required`: edges that exist: (source, target, lag), or (source, target) if there is only one
        lag. With several lags the lag must be given, because all of them are rarely meant.
    - `exogenous`: one or several variables that are driven by nothing except themselves, such as
        the season or a stimulus.
    - `self_edges`: False forbids that a variable's rate depends on its own state, at any lag.

    **Returns:** [`PriorKnowledge`][ndde_jax.windows.PriorKnowledge], for the argument `prior` of
    [`lagged_windows`][ndde_jax.lagged_windows] and [`discover`][ndde_jax.discover].

    **Raises:** `ValueError` for unknown names or lags, and for edges that are both required and
    forbidden.

    ```python
    import ndde_jax as ndde

    prior = ndde.prior_knowledge(
        ("sun", "ocean", "wind"),
        lags=(0, 6),
        exogenous=("sun",),
        forbidden=[("sun", "wind")],
        required=[("wind", "ocean", 0)],
    )
    print(prior.allowed[:, :, 0])
    ```
    """
    if isinstance(names, int | np.integer):
        check_whole(names, "names")
        names = tuple(str(i) for i in range(names))
    names, lags = check_names(names, None), read_lags(lags)
    check_flag(self_edges, "self_edges")
    dim = len(names)
    if dim**2 * len(lags) > MOST_EDGES:
        raise ValueError(
            f"names must be of fewer variables: {dim} variables at {len(lags)} lags give "
            f"{dim**2 * len(lags):.1e} candidate edges, more than the {MOST_EDGES:.0e} that fit in "
            "memory. If the variables are in rows, transpose the data."
        )
    exogenous = (exogenous,) if isinstance(exogenous, str) else _listed(exogenous, "exogenous")
    forbidden, required = _listed(forbidden, "forbidden"), _listed(required, "required")
    allowed = np.ones((dim, dim, len(lags)), bool)
    must = np.zeros_like(allowed)
    if not self_edges:
        allowed[np.diag_indices(dim)] = False
    for variable in exogenous:
        j = _index(variable, names, "exogenous")
        allowed[np.arange(dim) != j, j] = False
    for edge in forbidden:
        allowed[_edge(edge, names, lags, "forbidden")] = False
    for edge in required:
        where = _edge(edge, names, lags, "required")
        if len(edge) == 2 and len(lags) > 1:
            said = f"say at which lag, (source, target, lag); the candidates are {lags}."
            raise ValueError(f"required edge {edge!r}: {said}")
        must[where] = True
    if clash := np.argwhere(must & ~allowed).tolist():
        i, j, a = clash[0]
        where = f"{names[i]} -> {names[j]} at lag {lags[a]}"
        raise ValueError(f"the edge {where} is both required and forbidden.")
    return PriorKnowledge(to_jax(allowed), to_jax(must))


def read_prior(prior: Any, dim: int, n_lags: int) -> PriorKnowledge:
    """Return the prior, checked for its shape; None means that nothing is known."""
    if prior is None:
        return PriorKnowledge.nothing(dim, n_lags)
    check_prior(prior)
    if prior.allowed.shape != (dim, dim, n_lags):
        raise ValueError(
            f"the prior has shape {prior.allowed.shape}, but the data have [source target lag] = "
            f"{(dim, dim, n_lags)}; make the prior with the same variables and lags."
        )
    return prior


def prior_at_each_lag(prior: PriorKnowledge | None, n_lags: int) -> PriorKnowledge | None:
    """Return a prior with only the present as a prior with several lags: edges forbidden there are
    forbidden at all lags, and edges required there are required at the first lag.
    """
    if prior is None:
        return None
    if prior.allowed.shape[-1] != 1:
        raise ValueError(
            f"the prior has {prior.allowed.shape[-1]} lags, but discover is to choose them. Pass "
            "the lags of the prior, lags=..., or make the prior without lags."
        )
    later = np.zeros((*prior.required.shape[:-1], n_lags - 1), bool)
    required = np.concatenate([np.asarray(prior.required), later], axis=-1)
    allowed = np.repeat(np.asarray(prior.allowed), n_lags, axis=-1)
    return PriorKnowledge(to_jax(allowed), to_jax(required))


def check_prior(prior: Any) -> None:
    """Raise an error unless the argument is a prior of any size or None."""
    if prior is not None and not isinstance(prior, PriorKnowledge):
        raise argument_error("prior", "what prior_knowledge returns, or None", prior)


def _listed(edges: Any, name: str) -> tuple:
    if isinstance(edges, str) or not isinstance(edges, Iterable):
        raise argument_error(name, "a list of edges such as ('a', 'b')", edges)
    return tuple(edges)


def _index(variable: Any, names: tuple[str, ...], what: str) -> int:
    known = names if isinstance(variable, str) else range(len(names))
    if isinstance(variable, bool) or not isinstance(variable, str | int | np.integer):
        raise argument_error(what, "variables by name or by index", variable)
    if variable not in known:
        there = f"the variables are {short_repr(', '.join(names))}."
        raise ValueError(f"{what}: there is no variable {variable!r}; {there}")
    return known.index(variable)


def _edge(edge: Any, names: tuple[str, ...], lags: tuple[int, ...], what: str) -> tuple:
    if not isinstance(edge, tuple | list) or len(edge) not in (2, 3):
        expected = "expected an edge (source, target) or (source, target, lag)"
        raise ValueError(f"{what}: {expected}; got {short_repr(edge)}.")
    ends = tuple(_index(variable, names, what) for variable in edge[:2])
    if len(edge) == 2:
        return ends
    if edge[2] not in lags:
        said = f"lag {edge[2]!r} is not a candidate; candidates are {short_repr(lags)}."
        raise ValueError(f"{what} edge {edge!r}: {said}")
    return (*ends, lags.index(edge[2]))


def with_inputs(samples: Samples, inputs: Any) -> tuple[Samples, tuple[str, ...]]:
    """Return the samples with added inputs as further variables, and the names of all inputs. A
    clock, such as "year", becomes two variables, its cosine and sine.

    **Raises:** `ValueError` for names that do not exist or exist already, for arrays whose length
    differs from that of the trajectories, and for clocks of records without a unit of time.
    """
    if inputs is None:
        return samples, ()
    if isinstance(inputs, str):
        inputs = (inputs,)
    if not isinstance(inputs, Mapping):
        names = check_names(inputs, None, "inputs")
        unknown = [name for name in names if name not in samples.names]
        if wrong := [name for name in unknown if not is_clock(name)]:
            raise ValueError(
                f"inputs names {wrong[0]!r}, which is not a variable of x; variables are "
                f"{', '.join(samples.names)}. Pass a mapping to add one, {{name: values}}, or name "
                'a clock: "day", "week", "year" or a period with its unit, such as "12.42h".'
            )
        added = with_clocks(samples, unknown)
        given = tuple(name for name in names if name not in unknown)
        return added, (*given, *added.names[samples.dim :])
    names = check_names(tuple(inputs), None, "inputs")
    if clash := [name for name in names if name in samples.names]:
        raise ValueError(
            f"inputs holds {clash[0]!r}, which is already a variable of x. Pass only its name, "
            f"inputs=({clash[0]!r},), or rename the new one."
        )
    columns = [_columns(name, inputs[name], samples) for name in names]
    values = tuple(map(np.column_stack, zip(samples.values, *columns, strict=True)))
    return dataclasses.replace(samples, values=values, names=(*samples.names, *names)), names


def _columns(name: str, given: Any, samples: Samples) -> list[np.ndarray]:
    """Return one array per trajectory."""
    parts = list(given) if isinstance(given, list | tuple) and len(samples.values) > 1 else [given]
    for part in parts:
        check_real_array(part, f"inputs: {name}", "[time]")
    parts, lengths = list(map(np.asarray, parts)), list(map(len, samples.values))
    shapes = [part.shape for part in parts]
    if shapes != [(n,) for n in lengths]:
        expected = f"one value per sample, [time] = {lengths if len(lengths) > 1 else lengths[0]}"
        raise argument_error(f"inputs: {name}", expected, parts[0] if len(parts) == 1 else shapes)
    return parts


def prior_of_inputs(
    prior: PriorKnowledge | None, names: tuple[str, ...], inputs: tuple[str, ...], n_lags: int
) -> PriorKnowledge | None:
    """Return the prior in which inputs are driven only by themselves. The given prior may cover all
    variables, or those without the added inputs, which are the last ones.
    """
    if not inputs:
        return prior
    dim = len(names)
    added = names[prior.allowed.shape[-2] :] if isinstance(prior, PriorKnowledge) else ()
    if isinstance(prior, PriorKnowledge) and added and {*added} <= {*inputs}:
        covered = dim - len(added)
        wider = np.ones((dim, dim, n_lags), bool), np.zeros((dim, dim, n_lags), bool)
        for whole, part in zip(wider, (prior.allowed, prior.required), strict=True):
            whole[:covered, :covered] = np.asarray(part)
        prior = PriorKnowledge(*map(to_jax, wider))
    prior = read_prior(prior, dim, n_lags)
    driven = np.isin(np.asarray(names), inputs)[None] & ~np.eye(dim, dtype=bool)
    allowed = np.asarray(prior.allowed) & ~driven[..., None]
    if clash := np.argwhere(np.asarray(prior.required) & ~allowed).tolist():
        i, j, _ = clash[0]
        raise ValueError(
            f"the prior requires {names[i]} -> {names[j]}, but the target is an input."
        )
    return PriorKnowledge(to_jax(allowed), prior.required)


def schedules_of(samples: Samples) -> dict[int, int]:
    """Return the numbers of variables whose measurements repeat themselves, with their periods in
    samples; empty if all variables do, or for unequally spaced samples.
    """
    measured = samples.as_measured()
    if not measured.regular:
        return {}
    x = linearly_interpolated(max(measured.values, key=len))
    periods = [period_of(column) for column in x.T]
    # If all variables repeat themselves, they are an oscillation of the system itself.
    return {j: period for j, period in enumerate(periods) if period and None in periods}


def prior_of_schedules(
    prior: PriorKnowledge | None, schedules: Mapping[int, int], dim: int, lags: tuple[int, ...]
) -> PriorKnowledge | None:
    """Return the prior in which schedules are driven only by themselves, and drive others only at
    lags below their period, because later lags are copies. Required edges stay.
    """
    for j, period in schedules.items():
        prior = read_prior(prior, dim, len(lags))
        allowed, others = np.array(prior.allowed), np.arange(dim) != j
        allowed[others, j] = False
        allowed[j] &= ~others[:, None] | (np.asarray(lags) < period)[None]
        prior = PriorKnowledge(to_jax(allowed | np.asarray(prior.required)), prior.required)
    return prior


def inputs_of(prior: PriorKnowledge, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the variables that only themselves may drive."""
    others = ~np.eye(len(names), dtype=bool)[..., None]
    driven = (np.asarray(prior.allowed) & others).any(axis=(0, 2))
    return tuple(name for name, d in zip(names, driven, strict=True) if not d and len(names) > 1)
