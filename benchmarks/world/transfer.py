"""Transfer entropy of pairs by nearest neighbours, in a short form."""

import numpy as np
from jaxtyping import Bool, Float


def conditional_information(
    a: Float[np.ndarray, " row"],
    b: Float[np.ndarray, " row"],
    given: Float[np.ndarray, " row"],
    *,
    neighbours: int,
) -> float:
    """Return the information between two series given a third, in nats (Frenzel and Pompe 2007)."""
    from scipy.spatial import cKDTree
    from scipy.special import digamma

    all_three = np.column_stack([a, b, given])
    k = neighbours + 1  # the nearest point is the point itself
    radius = cKDTree(all_three).query(all_three, k=k, p=np.inf)[0][:, -1]
    # Strictly within the distance of the last neighbour.
    radius = np.nextafter(radius, 0)

    def around(columns):
        part = all_three[:, columns]
        return cKDTree(part).query_ball_point(part, radius, p=np.inf, return_length=True)

    counts = digamma(around([0, 2])) + digamma(around([1, 2])) - digamma(around([2]))
    return float(digamma(neighbours) - np.mean(counts))


def transfer_entropies(
    x: Float[np.ndarray, "time dim"],
    lags: range,
    *,
    neighbours: int,
    shifted: int,
    deviations: float,
    rng: np.random.Generator,
) -> tuple[Float[np.ndarray, "source target"], Bool[np.ndarray, "source target lag"]]:
    """Return the information of a source at a lag on the next sample of a target, given the
    target's present; the largest of all lags.

    A pair keeps its best lag if its information exceeds the mean of that of sources shifted in time
    by more than a given number of their standard deviations.
    """
    n, dim = x.shape
    longest = max(lags)
    ranks = x.argsort(axis=0).argsort(axis=0) / n
    rows = np.arange(longest, n - 1)

    def told(source, target, lag):
        now = ranks[:, target]
        late, here = source[rows - lag], now[rows]
        return conditional_information(late, now[rows + 1], here, neighbours=neighbours)

    scores, graph = np.zeros((dim, dim)), np.zeros((dim, dim, len(lags)), bool)
    for target in range(dim):
        others = [source for source in range(dim) if source != target]
        null = []
        for _ in range(shifted):
            other = np.roll(ranks[:, rng.choice(others)], rng.integers(n // 10, 9 * n // 10))
            null.append(told(other, target, int(rng.choice(lags))))
        least = np.mean(null) + deviations * np.std(null)
        for source in others:
            found = [told(ranks[:, source], target, lag) for lag in lags]
            best = int(np.argmax(found))
            scores[source, target] = found[best]
            graph[source, target, best] = found[best] > least
    return scores, graph
