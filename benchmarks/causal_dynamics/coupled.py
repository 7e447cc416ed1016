"""The coupled tier: chaotic or periodic roots, and the nodes they drive through static maps."""

import functools
from collections.abc import Iterator
from dataclasses import dataclass

import jax
import jax.random as jr
import numpy as np

from . import networks
from .recipes import Arrays, Recipe, bounded, file_of, key_of, stream, without
from .trajectories import SAMPLES, random_series, systems_for_roots

# Number of systems tried for a root, until one is finite.
_ATTEMPTS = 40
# Number of networks whose roots are computed together: batches are full, and memory is bounded.
_BLOCK = 50


@dataclass(frozen=True)
class Variant:
    """A variant of the networks of a category; variants alternate."""

    activation: str
    driver: str
    lag: int


VARIANTS = (Variant("linear", "nonlinear", lag=1), Variant("mixed", "periodic", lag=5))


@dataclass
class _Plan:
    """A network and its inputs, some of which are not computed yet."""

    index: int
    variant: Variant
    lag: int
    network: networks.Network
    inputs: np.ndarray  # [series time node 3]
    chaotic: np.ndarray  # [input, (series node)]
    activations: np.ndarray


def graphs(
    category: str, recipe: Recipe, *, n_graphs: int, seed: int, n_series: int, n_nodes: int
) -> Iterator[tuple[str, Arrays]]:
    """Yield names and files of the networks."""
    for first in range(0, n_graphs, _BLOCK):
        indices = range(first, min(first + _BLOCK, n_graphs))
        plans = [_plan(category, recipe, i, seed, n_series, n_nodes) for i in indices]
        for lag in {plan.lag for plan in plans}:
            chosen = [plan for plan in plans if plan.lag == lag]
            keys = [_root_keys(key_of(stream(seed, category, p.index)), p.chaotic) for p in chosen]
            roots = _random_roots(np.concatenate(keys), recipe.noise, SAMPLES + lag)
            ends = np.cumsum([len(plan.chaotic) for plan in chosen])[:-1]
            for plan, series in zip(chosen, np.split(roots, ends), strict=True):
                plan.inputs[plan.chaotic[:, 0], :, plan.chaotic[:, 1]] = series
        for plan in plans:
            yield _coupled_graph(category, recipe, plan, seed, n_nodes)


def _plan(category, recipe, index, seed, n_series, n_nodes) -> _Plan:
    rng = np.random.default_rng(stream(seed, category, index))
    variant = VARIANTS[index % len(VARIANTS)]
    lag = variant.lag if recipe.lagged else 0
    network = networks.random_network(n_nodes, rng, confounded=recipe.hidden, lagged=recipe.lagged)
    # Half of the nodes are periodic, rounded up or down at random; each series draws which.
    n_periodic = np.zeros(n_series, int)
    if variant.driver == "periodic":
        n_periodic += n_nodes // 2 + rng.integers(0, 1 + n_nodes % 2, n_series)
    periodic = rng.permuted(np.arange(n_nodes) < n_periodic[:, None], axis=1)
    waves = networks.sinusoids((n_series, n_nodes, 3), SAMPLES + lag, rng)
    inputs = np.where(periodic[:, None, :, None], np.moveaxis(waves, 0, 1), 0.0)
    read = network.parentless.reshape(-1, n_nodes).any(axis=0)
    n_activations = len(networks.ACTIVATIONS) if variant.activation == "mixed" else 1
    activations = rng.integers(0, n_activations, (n_series, len(network.edges)))
    chaotic = np.argwhere(~periodic & read)
    return _Plan(index, variant, lag, network, inputs, chaotic, activations)


def _root_keys(key, places: np.ndarray) -> np.ndarray:
    """Return one key per series and node, as words."""
    words = [jr.key_data(jr.fold_in(jr.fold_in(key, i), j)) for i, j in places.tolist()]
    return np.array(words, np.uint32).reshape(-1, 2)


@functools.partial(jax.jit, static_argnums=1)
def _draws(keys, n_systems):
    """Return for each key the systems to try and a key for each try."""
    tries = jax.vmap(lambda key: jr.split(key, (_ATTEMPTS, 2)))(keys)
    choose = jax.vmap(jax.vmap(lambda key: jr.randint(key, (), 0, n_systems)))
    return choose(tries[..., 0]), jr.key_data(tries[..., 1])


def _random_roots(words: np.ndarray, noise: float, n_samples: int) -> np.ndarray:
    """Return finite series [key time 3] of systems chosen at random, each by its own key."""
    names = systems_for_roots()
    found = np.zeros((len(words), n_samples, 3))
    if len(words) == 0:
        return found
    systems, keys = map(np.asarray, _draws(jr.wrap_key_data(words), len(names)))
    missing = np.arange(len(words))
    for attempt in range(_ATTEMPTS):
        chosen, failed = systems[missing, attempt], []
        for system in np.unique(chosen):
            rows = missing[chosen == system]
            batch = jr.wrap_key_data(keys[rows, attempt])
            series = random_series(names[system], batch, noise=noise, n_samples=n_samples)
            fine = np.array([bounded(one) for one in series])
            found[rows[fine]] = series[fine]
            failed.append(rows[~fine])
        missing = np.sort(np.concatenate(failed))
        if missing.size == 0:
            return found
    raise ValueError(f"{missing.size} roots diverged with each of {_ATTEMPTS} systems.")


def _coupled_graph(category, recipe, plan: _Plan, seed, n_nodes) -> tuple[str, Arrays]:
    network, variant = plan.network, plan.variant
    inputs = plan.inputs[:, :SAMPLES]
    if recipe.lagged:
        later = plan.inputs[:, plan.lag : plan.lag + SAMPLES]
        inputs = np.concatenate([inputs, later], axis=2)
    states = networks.propagated(
        network, inputs, activations=plan.activations, standardise=recipe.standardise
    )
    published = networks.summary(network)
    hidden = networks.hidden_variable(published, tier="coupled") if recipe.hidden else None
    late = np.zeros_like(network.regular) if network.lagged is None else network.lagged
    published, plain, regular, late = without(
        hidden, published, networks.without_self_loops(network), network.regular, late
    )
    x = states[..., 0] if hidden is None else np.delete(states[..., 0], hidden, axis=2)
    name = (
        f"{category.replace('/', '_')}_D{n_nodes}_{variant.activation}_{variant.driver}"
        f"_lag{plan.lag}_seed{seed}-{plan.index}"
    )
    return name, file_of(
        category,
        seed,
        x,
        published,
        name=name,
        adjacency_noself=plain,
        adjacency_regular_edges=regular,
        adjacency_time_edges=late,
        adjacency_raw=published,
        raw_orientation="source_target",
        dt=1.0,
        lags=np.full(1 if plan.lag else 0, plan.lag),
        noise=recipe.noise,
        time_lag=plan.lag,
        standardize=recipe.standardise,
        activation=variant.activation,
        driver=variant.driver,
        dropped_variable=-1 if hidden is None else hidden,
    )
