"""Trajectories of one system: a noisy one for training, noise-free ones for tests."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float

_REQUIRED = ("train", "train_mean", "train_std", "dt", "graph", "test_ic", "test0", "test0_long")


@dataclass(frozen=True)
class Problem:
    """One system of the benchmark, in coordinates standardised by the training trajectory.

    - `train`: noisy, `dt` apart. `mean`, `std` undo the standardisation.
    - `tests`: noise-free, at full resolution, the initial state first; `long_tests` the same,
        longer and only every `stride`-th sample.
    - `starts`: initial states of the tests, in double precision.
    - `lyapunov`: the exponent whose inverse is one Lyapunov time in the metrics, per unit of time.
    - `spectra`: Lyapunov spectrum of the true system along each test; None if the data lack it.
    - `regime`: `chaotic` or another one.
    """

    name: str
    train: Float[np.ndarray, "time dim"]
    mean: Float[np.ndarray, "dim"]
    std: Float[np.ndarray, "dim"]
    tests: Float[np.ndarray, "test time dim"]
    long_tests: Float[np.ndarray, "test time dim"]
    stride: int
    starts: Float[np.ndarray, "test dim"]
    dt: float
    lyapunov: float
    graph: Bool[np.ndarray, "source target"]
    spectra: Float[np.ndarray, "test dim"] | None
    regime: str

    @property
    def dim(self) -> int:
        """The number of variables."""
        return self.train.shape[1]

    @property
    def n_forecast(self) -> int:
        """The number of samples of a forecast, including the start."""
        long = (self.long_tests.shape[1] - 1) * self.stride + 1
        return max(self.tests.shape[1], long)


def read_problem(path: str | Path) -> Problem:
    """Read one `.npz` file; the name of the system is the name of the file.

    `graph` is stored [target, source] and transposed here. Keys: `train`, `train_mean`,
    `train_std`, `dt`, `lyap_unit` (or `lyap_meta`), `graph`, `test_ic`, and for every test k
    `testk` and `testk_long`, of which the latter holds every `stride`-th sample; optionally
    `lyap_tests` and `regime`.

    **Raises:** `ValueError` if keys are missing or shapes are inconsistent.
    """
    path = Path(path)
    with np.load(path, allow_pickle=False) as file:
        arrays = dict(file)
    missing = [key for key in _REQUIRED if key not in arrays]
    if missing:
        raise ValueError(f"{path} lacks {', '.join(missing)}; it has {', '.join(arrays)}.")
    train, starts = arrays["train"], np.asarray(arrays["test_ic"], float)
    dim = train.shape[-1]
    if train.ndim != 2 or starts.ndim != 2 or starts.shape[1] != dim:
        raise ValueError(
            f"{path}: expected train [time, dim] and test_ic [test, dim]; got {train.shape} and "
            f"{starts.shape}."
        )
    if arrays["graph"].shape != (dim, dim):
        raise ValueError(f"{path}: expected a graph {(dim, dim)}; got {arrays['graph'].shape}.")
    tests = range(len(starts))
    unit = arrays.get("lyap_unit", arrays.get("lyap_meta"))
    if unit is None:
        raise ValueError(f"{path} lacks lyap_unit, the exponent that defines a Lyapunov time.")
    return Problem(
        name=path.stem,
        train=train,
        mean=np.asarray(arrays["train_mean"], float),
        std=np.asarray(arrays["train_std"], float),
        tests=np.stack([arrays[f"test{k}"] for k in tests]),
        long_tests=np.stack([arrays[f"test{k}_long"] for k in tests]),
        stride=int(arrays.get("stride", 1)),
        starts=starts,
        dt=float(arrays["dt"]),
        lyapunov=float(unit),
        graph=arrays["graph"].astype(bool).T,
        spectra=np.asarray(arrays["lyap_tests"], float) if "lyap_tests" in arrays else None,
        regime=str(arrays.get("regime", "chaotic")),
    )
