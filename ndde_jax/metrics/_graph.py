"""Scores of recovered graphs against the true one.

Every function takes whole arrays of edges of any shape (`[source target]`, `[source target lag]`,
a stack over series, ...), pools all entries and returns one number. For one number per series use
`jax.vmap`. All functions work under `jit` and `vmap` and exclude the entries where `where` is
False, for instance self-edges: `where=~jnp.eye(dim, dtype=bool)`.
"""

from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float, Int, Shaped

from .._checks import argument_error, check_flag, check_real_array, is_traced
from .._types import Checked

# Scores of edges, or edges as booleans or numbers, of any shape; and which entries count.
Edges: TypeAlias = Checked[Shaped[ArrayLike, "..."]]
Where: TypeAlias = Checked[Bool[ArrayLike, "..."] | None]


def auroc(scores: Edges, truth: Edges, *, where: Where = None) -> Float[Array, ""]:
    """Return the area under the receiver operating characteristic of edge scores.

    This is the probability that a random true edge scores higher than a random absent one, where a
    tie counts one half: 1 for a perfect ranking, .5 for an uninformed one. Equal to
    `sklearn.metrics.roc_auc_score`, ties included.

    **Arguments:**

    - `scores`: real numbers of any shape; higher means more likely an edge.
    - `truth`: same shape; boolean, or 0 and 1.
    - `where`: entries to score, broadcast to that shape; all of them by default.

    **Returns:** a scalar, NaN if the scored entries of `truth` are all edges or all non-edges
    (nothing can be ranked then), or if a scored entry of `scores` is NaN.

    **Raises:** `ValueError` if the shapes differ, or `truth` holds other numbers than 0 and 1.

    ```python
    import jax.numpy as jnp
    from ndde_jax import metrics

    scores = jnp.array([[0.9, 0.2], [0.4, 0.7]])
    truth = jnp.array([[True, True], [False, True]])
    print(metrics.auroc(scores, truth))  # 0.6666667: of three true edges one ranks below 1 -> 0
    ```
    """
    return _auroc(*_ranked(scores, truth, where))


@jax.jit
def _auroc(scores: Array, truth: Array, keep: Array) -> Array:
    ranked = _Ranking(scores, truth, keep)
    # Mann-Whitney: non-edges below each edge, ties counting half.
    beaten = ranked.negatives_below.astype(float) + 0.5 * ranked.negatives_tied.astype(float)
    value = _ratio(jnp.sum(jnp.where(ranked.positive, beaten, 0.0)), ranked.n_positive)
    return _nan_unless_ranked(_ratio(value, ranked.n_negative), scores, keep, ranked)


def auprc(scores: Edges, truth: Edges, *, where: Where = None) -> Float[Array, ""]:
    """Return the area under the precision-recall curve of edge scores (average precision).

    This is the mean, over true edges, of the precision of the graph that keeps every entry with at
    least the same score. An uninformed score gets the share of true edges. Equal to
    `sklearn.metrics.average_precision_score` (a step function, no interpolation), ties included.

    **Arguments:** as for [`auroc`][ndde_jax.metrics.auroc].

    **Returns:** a scalar, NaN if the scored entries of `truth` are all edges or all non-edges
    (scikit-learn gives 1 and 0 there, which would compare nothing), or if a scored entry of
    `scores` is NaN.

    **Raises:** `ValueError` if the shapes differ, or `truth` holds other numbers than 0 and 1.

    ```python
    import jax.numpy as jnp
    from ndde_jax import metrics

    scores = jnp.array([0.9, 0.4, 0.7, 0.2])
    truth = jnp.array([True, False, True, True])
    print(metrics.auprc(scores, truth))  # 0.9166667 = (1 + 1 + 3/4) / 3
    ```
    """
    return _auprc(*_ranked(scores, truth, where))


@jax.jit
def _auprc(scores: Array, truth: Array, keep: Array) -> Array:
    ranked = _Ranking(scores, truth, keep)
    precision = _ratio(ranked.positives_from, ranked.positives_from + ranked.negatives_from)
    value = _ratio(jnp.sum(jnp.where(ranked.positive, precision, 0.0)), ranked.n_positive)
    return _nan_unless_ranked(value, scores, keep, ranked)


def structural_hamming_distance(
    graph: Edges, truth: Edges, *, where: Where = None, normalize: Checked[bool] = False
) -> Int[Array, ""] | Float[Array, ""]:
    """Return the number of entries in which two directed graphs differ.

    A reversed edge counts twice, as in the CausalDynamics benchmark, and self-edges count like any
    other entry unless `where` excludes them.

    **Arguments:**

    - `graph`, `truth`: same shape; boolean, or numbers that count as an edge from 0.5 up.
    - `where`: entries to compare, broadcast to that shape; all of them by default.
    - `normalize`: divide by the number of compared entries. Off by default, since most papers print
        the count.

    **Returns:** an integer scalar, or a float in [0, 1] if `normalize`.

    **Raises:** `ValueError` if the shapes differ.

    ```python
    import jax.numpy as jnp
    from ndde_jax import metrics

    graph = jnp.array([[True, True], [False, True]])
    print(metrics.structural_hamming_distance(graph, graph.T))  # 2
    ```
    """
    check_flag(normalize, "normalize")
    graph, truth, keep = _flat(graph, truth, where, "graph")
    distance = jnp.sum((_edges(graph) != truth) & keep)
    return _ratio(distance, jnp.sum(keep)) if normalize else distance


def precision(graph: Edges, truth: Edges, *, where: Where = None) -> Float[Array, ""]:
    """Return the share of the edges of `graph` that are true; NaN if `graph` has none.

    Arguments and errors as for
    [`structural_hamming_distance`][ndde_jax.metrics.structural_hamming_distance].

    ```python
    import jax.numpy as jnp
    from ndde_jax import metrics

    truth = jnp.array([[True, True], [False, True]])
    print(metrics.precision(jnp.ones((2, 2), bool), truth))  # 0.75
    ```
    """
    graph, truth, keep = _flat(graph, truth, where, "graph")
    found = _edges(graph) & keep
    return _ratio(jnp.sum(found & truth), jnp.sum(found))


def recall(graph: Edges, truth: Edges, *, where: Where = None) -> Float[Array, ""]:
    """Return the share of the true edges that `graph` contains; NaN if there are none.

    Arguments and errors as for
    [`structural_hamming_distance`][ndde_jax.metrics.structural_hamming_distance].

    ```python
    import jax.numpy as jnp
    from ndde_jax import metrics

    truth = jnp.array([[True, True], [False, True]])
    print(metrics.recall(jnp.eye(2, dtype=bool), truth))  # 0.6666667
    ```
    """
    graph, truth, keep = _flat(graph, truth, where, "graph")
    present = truth & keep
    return _ratio(jnp.sum(_edges(graph) & present), jnp.sum(present))


def f1_score(graph: Edges, truth: Edges, *, where: Where = None) -> Float[Array, ""]:
    """Return the harmonic mean of precision and recall; NaN if neither graph has an edge.

    Arguments and errors as for
    [`structural_hamming_distance`][ndde_jax.metrics.structural_hamming_distance].

    ```python
    import jax.numpy as jnp
    from ndde_jax import metrics

    truth = jnp.array([[True, True], [False, True]])
    print(metrics.f1_score(jnp.eye(2, dtype=bool), truth))  # 0.8
    ```
    """
    graph, truth, keep = _flat(graph, truth, where, "graph")
    found, present = _edges(graph) & keep, truth & keep
    return _ratio(2 * jnp.sum(found & present), jnp.sum(found) + jnp.sum(present))


class _Ranking:
    """The counts of edges and non-edges around every score, in ascending order of score."""

    def __init__(self, scores, truth, keep):
        order = jnp.argsort(scores)
        ascending = scores[order]
        self.positive = (truth & keep)[order]
        negative = (~truth & keep)[order]
        self.n_positive, self.n_negative = jnp.sum(self.positive), jnp.sum(negative)
        # Entries with one score form one group: it starts at `first` and ends before `end`.
        first = jnp.searchsorted(ascending, ascending, side="left")
        end = jnp.searchsorted(ascending, ascending, side="right")
        positives_before = jnp.pad(jnp.cumsum(self.positive), (1, 0))
        negatives_before = jnp.pad(jnp.cumsum(negative), (1, 0))
        self.negatives_below = negatives_before[first]
        self.negatives_tied = negatives_before[end] - self.negatives_below
        self.positives_from = self.n_positive - positives_before[first]
        self.negatives_from = self.n_negative - self.negatives_below


def _nan_unless_ranked(value, scores, keep, ranked):
    defined = (ranked.n_positive > 0) & (ranked.n_negative > 0) & ~jnp.any(jnp.isnan(scores) & keep)
    return jnp.where(defined, value, jnp.nan)


def _ranked(scores, truth, where):
    flat = _flat(_ranks_of_doubles(scores), truth, where, "scores")
    told = jnp.ravel(jnp.asarray(truth))
    if not is_traced(told, flat):
        other = np.asarray(told)[np.asarray(flat[2]) & ~np.isin(told, (0, 1))]
        if len(other):
            raise ValueError(
                f"truth must be boolean, or 0 and 1; it holds {float(other[0]):.4g}. Scores come "
                "first, then the truth."
            )
    return flat


def _ranks_of_doubles(scores):
    """Return scores that JAX would round to single precision as positions in their order, since
    small p-values, or 1 less these, would be tied.
    """
    rounded = not isinstance(scores, jax.Array) and jnp.result_type(float) == jnp.float32
    if not rounded or np.asarray(scores).dtype != np.float64:
        return scores
    scores = np.asarray(scores)
    _, places = np.unique(scores, return_inverse=True)
    return np.where(np.isnan(scores), np.nan, places.reshape(scores.shape)).astype(np.float32)


def _flat(values, truth, where, name):
    for label, array in ((name, values), ("truth", truth)):
        check_real_array(array, label, "one per edge")
    values, truth = jnp.asarray(values), jnp.asarray(truth)
    if values.shape != truth.shape:
        raise ValueError(
            f"{name} and truth must have one shape; got {values.shape} and a truth of "
            f"{truth.shape}. Reduce lags first (for instance by a maximum), or broadcast the truth "
            "over series."
        )
    if where is not None:
        check_real_array(where, "where", "booleans, which entries count")
        where = where if hasattr(where, "dtype") else np.asarray(where)
        if not jnp.issubdtype(where.dtype, np.bool_):
            raise argument_error("where", "booleans, which entries count", where)
    keep = jnp.ones((), bool) if where is None else jnp.asarray(where)
    try:
        keep = jnp.broadcast_to(keep, values.shape)
    except ValueError:
        raise ValueError(
            f"`where` must broadcast to the shape {values.shape} of the edges; got {keep.shape}."
        ) from None
    return jnp.ravel(values), _edges(jnp.ravel(truth)), jnp.ravel(keep)


def _edges(values):
    return values if values.dtype == bool else values.astype(float) >= 0.5


def _ratio(part, whole):
    dtype = jnp.result_type(float)
    part, whole = jnp.asarray(part, dtype), jnp.asarray(whole, dtype)
    return jnp.where(whole > 0, part / jnp.maximum(whole, 1), jnp.nan)
