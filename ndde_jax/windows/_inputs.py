"""Known inputs: variables that drive others and are not modelled."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from .._checks import check_names, check_real_array, refusal
from .._types import to_jax
from ..samples._samples import Samples
from ._prior import PriorKnowledge, read_prior

EXPECTED = (
    "names of variables of x, or a mapping from names of inputs to arrays [time] (a list of arrays "
    "for several trajectories)"
)


def with_inputs(samples: Samples, inputs: Any) -> tuple[Samples, tuple[str, ...]]:
    """Return the samples with the inputs as further variables, and the names of all inputs.

    **Raises:** `ValueError` for names that are not there or there twice, and for arrays of another
    length than the trajectories.
    """
    if inputs is None:
        return samples, ()
    if isinstance(inputs, str):
        inputs = (inputs,)
    if not isinstance(inputs, Mapping):
        names = check_names(inputs, None, "inputs")
        if unknown := [name for name in names if name not in samples.names]:
            raise ValueError(
                f"inputs names {unknown[0]!r}, which is no variable of x; these are "
                f"{', '.join(samples.names)}. Give a mapping to add one: {{name: values}}."
            )
        return samples, names
    names = check_names(tuple(inputs), None, "inputs")
    if clash := [name for name in names if name in samples.names]:
        raise ValueError(
            f"inputs holds {clash[0]!r}, which is a variable of x already: name it alone, inputs="
            f"({clash[0]!r},), or the new one otherwise."
        )
    columns = [_columns(name, inputs[name], samples) for name in names]
    values = tuple(
        np.column_stack([value, *(column[k] for column in columns)])
        for k, value in enumerate(samples.values)
    )
    return dataclasses.replace(samples, values=values, names=(*samples.names, *names)), names


def _columns(name: str, given: Any, samples: Samples) -> list[np.ndarray]:
    """Return one array per trajectory."""
    parts = list(given) if isinstance(given, list | tuple) and len(samples.values) > 1 else [given]
    lengths = [len(value) for value in samples.values]
    for part in parts:
        check_real_array(part, f"inputs: {name}", "[time]")
    parts = [np.asarray(part) for part in parts]
    if [part.shape for part in parts] != [(n,) for n in lengths]:
        raise refusal(
            f"inputs: {name}",
            f"one value per sample, [time] = {lengths if len(lengths) > 1 else lengths[0]}",
            parts[0] if len(parts) == 1 else [part.shape for part in parts],
        )
    return parts


def prior_of_inputs(
    prior: PriorKnowledge | None, names: tuple[str, ...], inputs: tuple[str, ...], n_lags: int
) -> PriorKnowledge | None:
    """Return the prior in which only themselves may drive the inputs. A prior may cover all
    variables, or only those without the added inputs.
    """
    if not inputs:
        return prior
    dim = len(names)
    if isinstance(prior, PriorKnowledge) and prior.allowed.shape[-2] == dim - len(inputs):
        wider = np.ones((dim, dim, n_lags), bool), np.zeros((dim, dim, n_lags), bool)
        for whole, part in zip(wider, (prior.allowed, prior.required), strict=True):
            whole[: dim - len(inputs), : dim - len(inputs)] = np.asarray(part)
        prior = PriorKnowledge(*map(to_jax, wider))
    prior = read_prior(prior, dim, n_lags)
    driven = np.isin(np.asarray(names), inputs)[None] & ~np.eye(dim, dtype=bool)
    allowed = np.asarray(prior.allowed) & ~driven[..., None]
    if clash := np.argwhere(np.asarray(prior.required) & ~allowed).tolist():
        i, j, _ = clash[0]
        raise ValueError(f"the prior requires {names[i]} -> {names[j]}, which is an input.")
    return PriorKnowledge(to_jax(allowed), prior.required)


def inputs_of(prior: PriorKnowledge, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the variables that nothing but themselves may drive."""
    others = ~np.eye(len(names), dtype=bool)[..., None]
    driven = (np.asarray(prior.allowed) & others).any(axis=(0, 2))
    return tuple(name for name, d in zip(names, driven, strict=True) if not d and len(names) > 1)
