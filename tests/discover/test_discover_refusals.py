"""What `discover` refuses, with a reason, before anything is compiled."""

import jax
import numpy as np
import pytest

import ndde_jax as ndde
from ndde_jax.regression._design import check_room
from ndde_jax.regression._readings import COMPARED

NAMES = ("driven", "driver")
DT = 0.5
X = np.random.default_rng(0).normal(size=(200, 2)).cumsum(axis=0)


def discover(x, **options):
    return ndde.discover(x, key=jax.random.key(0), **{"lags": (0, 2), "scheme": "euler"} | options)


def changed(rows, columns, value):
    x = X.copy()
    x[rows, columns] = value
    return x


EVERY_OTHER = np.where(np.arange(200)[:, None] % 2, X, np.nan)

REFUSALS = {
    "nothing but NaN": (np.full((50, 2), np.nan), {}, "every sample has a missing value"),
    "a column of NaN": (changed(slice(None), 1, np.nan), {}, r"Nothing was measured of .*1.*leave"),
    "NaN in turns": (
        np.where((np.arange(200)[:, None] + [0, 1]) % 2, X, np.nan),
        {},
        "every sample has a missing value",
    ),
    "NaN at every other sample": (EVERY_OTHER, {}, r"only 0 valid windows remain"),
    "one of many hardly measured": (
        np.where(np.arange(3) == 2, np.where(np.arange(200)[:, None] % 2, np.nan, 1), 1)
        * np.random.default_rng(0).normal(size=(200, 3)),
        {"names": list("abc"), "lags": (0,), "treat": False},
        r"only 0 valid .* Without column 2 \('c'\), which miss most, 200 samples are complete",
    ),
    "infinite": (changed(7, 1, np.inf), {}, r"column 1 \('b'\) is infinite at sample 7"),
    "constant": (changed(slice(None), 0, 3.0), {}, r"column 0 \('a'\) of x is constant"),
    "too short": (X[:4], {"lags": (0,), "scheme": "central4"}, "too short for the largest lag"),
    "too few windows": (X[:4], {}, "not even a linear drift"),
    "lag as long as the data": (X[:20], {"lags": (0, 20)}, "too short for the largest lag of 20"),
    "transposed": (X.T, {"names": None}, r"transposed \(x.T\)"),
    "four axes": (X[None, None], {}, "x must be .*got shape"),
    "a number": (3.0, {}, "x must be .*got shape"),
    "empty": (np.zeros((0, 2)), {}, "is empty"),
    "no trajectories": (np.zeros((0, 9, 2)), {}, "is empty"),
    "ragged": ([[1.0, 2.0], [1.0]], {}, "rectangular"),
    "unlike trajectories": ([X, X[:, :1]], {}, "the same variables"),
    "text": (np.array([["a", "b"]] * 50), {}, "real numbers"),
    "complex": (X + 0j, {}, "real numbers"),
    "negative lag": (X, {"lags": (-1, 0)}, "ascending"),
    "lags out of order": (X, {"lags": (2, 0)}, "ascending"),
    "lags in units of time": (X, {"lags": (0, 0.5)}, "whole numbers of samples"),
    "no lags": (X, {"lags": ()}, "got none"),
    "no time": (X, {"dt": None}, "exactly one of dt .* got neither"),
    "two times": (X, {"t": np.arange(200)}, "exactly one of dt .* got both"),
    "negative dt": (X, {"dt": -1.0}, "dt must be one positive number"),
    "infinite dt": (X, {"dt": np.inf}, "dt must be one positive number"),
    "time standing still": (X, {"dt": None, "t": np.arange(200) // 2}, "strictly increasing"),
    "time running back": (X, {"dt": None, "t": -np.arange(200)}, "strictly increasing"),
    "time too short": (X, {"dt": None, "t": np.arange(9)}, "one stamp per sample"),
    "central differences of irregular data": (
        X,
        {"dt": None, "t": np.arange(200.0) ** 1.1, "scheme": "central"},
        "equally spaced",
    ),
    "unknown scheme": (X, {"scheme": "spline"}, "scheme must be one of"),
    "too few names": (X, {"names": ("a",)}, "names must be 2 different names.* 1 for 2"),
    "the same name twice": (X, {"names": ("a", "a")}, "different names"),
    "coefficient below zero": (X, {"coefficient": -0.1}, "coefficient must be positive"),
    "coefficient of zero": (X, {"coefficient": 0.0}, "coefficient must be positive"),
    "coefficient that is no number": (X, {"coefficient": np.nan}, "coefficient must be positive"),
}


@pytest.fixture
def no_fit(monkeypatch):
    """Refusals must come before anything is compiled."""

    def compiled(*args, **kwargs):
        raise AssertionError("reached the fit")

    for name in ("recover", "corrected_at_midpoints"):
        monkeypatch.setattr(f"ndde_jax._discover.{name}", compiled)


@pytest.mark.parametrize("case", REFUSALS)
def test_unusable_data_are_refused_before_compilation(case, no_fit):
    x, options, message = REFUSALS[case]
    with pytest.raises(ValueError, match=message):
        discover(x, **{"dt": DT, "names": ("a", "b")} | options)


def test_unusable_frames_are_refused_before_compilation(no_fit):
    pd = pytest.importorskip("pandas")
    x = pd.DataFrame(X, columns=NAMES)
    with pytest.raises(ValueError, match="real numbers; station do not"):
        discover(x.assign(station="Lima"), dt=DT)
    with pytest.raises(ValueError, match="different names"):
        discover(x.set_axis(["a", "a"], axis=1), dt=DT)
    with pytest.raises(ValueError, match="strictly increasing"):
        discover(x.set_axis(np.arange(200) // 2, axis=0))
    with pytest.raises(ValueError, match="exactly one of dt"):
        discover(x)  # a row count is not a time axis
    with pytest.raises(ValueError, match=r"column 1 \('driver'\) of x is constant"):
        discover(x.assign(driver=1.0), dt=DT)
    with pytest.raises(ValueError, match="is empty"):
        discover(x.iloc[:0], dt=DT)


@pytest.mark.parametrize(
    ("gigabytes", "options"),
    [(0.5, {}), (0.05, {"scheme": "central"}), (0.2, {"lags": range(0, 200, 2)})],
)
def test_lags_beyond_the_memory_are_refused_before_it_is_taken(gigabytes, options, monkeypatch):
    def made(*args, **kwargs):
        raise AssertionError("made the arrays")

    monkeypatch.setattr("ndde_jax.regression._design.machine_memory", lambda: gigabytes * 1e9)
    for name in ("_design._splines", "_readings._steps"):
        monkeypatch.setattr(f"ndde_jax.regression.{name}", made)
    x = np.random.default_rng(0).normal(size=(1500, 3))
    message = r"300 candidate inputs .* this machine has 0.\d+ GB\. Choose fewer lags"
    with pytest.raises(ValueError, match=message):
        discover(x, **{"dt": DT, "lags": range(100)} | options)


@pytest.mark.parametrize(("dim", "lags", "n"), [(3, 200, 1500), (100, 6, 2000)])
def test_what_takes_a_few_gigabytes_is_not_refused(dim, lags, n, monkeypatch):
    monkeypatch.setattr("ndde_jax.regression._design.machine_memory", lambda: 4e9)
    check_room(dim * lags, n, *COMPARED)
