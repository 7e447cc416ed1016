"""The dysts benchmark on short trajectories: making data, scoring, running, resuming, drawing."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize

import ndde_jax as ndde
from benchmarks._store import Store, Unit
from benchmarks.dysts import anchors, forecast, generate, methods, report, runner, scoring
from benchmarks.dysts.__main__ import main
from benchmarks.dysts.data import read_problem
from benchmarks.dysts.methods import METHODS, Learned
from benchmarks.dysts.settings import Protocol, Recipe, protocol, recipes

pytestmark = pytest.mark.slow  # of a benchmark that seldom changes and takes long to compile

SHORT = Protocol(
    noise=0.05,
    train_lyapunov_times=1,
    min_samples=60,
    max_samples=70,
    test_lyapunov_times=8,
    n_tests=3,
    substeps=3,
)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    for name in ("Lorenz", "SprottB"):
        generate.generate(name, folder / f"{name}.npz", seed=3, settings=SHORT)
    return sorted(folder.glob("*.npz"))


@pytest.fixture(scope="module")
def lorenz(files):
    return read_problem(files[0])


# Data


def test_generated_data_follow_the_protocol(files, lorenz):
    assert [f.stem for f in files] == ["Lorenz", "SprottB"]
    with np.load(files[0]) as file:
        raw = dict(file)
    n = int(raw["n_train"])
    assert lorenz.train.shape == (n, 3)
    assert lorenz.tests.shape == (3, int(1.2 * n), 3)
    assert lorenz.long_tests.shape == (3, -(-int(raw["n_test"]) // 5), 3)
    # The training trajectory is cut to the largest number of samples allowed; tests have their
    # stated lengths.
    assert n == SHORT.max_samples
    assert lorenz.n_forecast * lorenz.dt * lorenz.lyapunov == pytest.approx(8, abs=0.1)
    np.testing.assert_allclose(lorenz.train.mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(lorenz.train.std(axis=0), 1, rtol=1e-5)
    np.testing.assert_allclose(lorenz.tests[:, 0], lorenz.starts, rtol=1e-6)
    thinned = lorenz.tests[:, ::5]
    np.testing.assert_allclose(thinned, lorenz.long_tests[:, : thinned.shape[1]])
    # x1 drives x3 through a product, x3 does not drive x1: [source, target].
    assert lorenz.graph[0, 2] and not lorenz.graph[2, 0]


def test_tests_obey_the_equations_and_the_training_trajectory_is_noisier(lorenz):
    sigma, rho, beta = 10, 28, 2.667
    dt = lorenz.dt

    def rate(x):
        x, y, z = np.moveaxis(x, -1, 0)
        return np.stack([sigma * (y - x), x * (rho - z) - y, x * y - beta * z], axis=-1)

    def residual(z):
        x = z * lorenz.std + lorenz.mean
        # Eighth-order central differences of noise-free data against the published equations.
        weights = np.array([1 / 280, -4 / 105, 1 / 5, -4 / 5, 0, 4 / 5, -1 / 5, 4 / 105, -1 / 280])
        slope = sum(w * x[i : len(x) - 8 + i] for i, w in enumerate(weights)) / dt
        return np.abs(slope - rate(x[4:-4])).max()

    clean = [residual(np.asarray(test, float)) for test in lorenz.tests]
    assert max(clean) < 0.1
    assert residual(np.asarray(lorenz.train, float)) > 10 * max(clean)


def test_data_are_deterministic_in_the_seed(files, tmp_path):
    for seed, same in ((3, True), (4, False)):
        generate.generate("Lorenz", tmp_path / "Lorenz.npz", seed=seed, settings=SHORT)
        with np.load(tmp_path / "Lorenz.npz") as new, np.load(files[0]) as old:
            assert np.array_equal(new["train"], old["train"]) == same
            assert np.array_equal(new["test2"], old["test2"]) == same


def test_a_system_that_noise_drives_away_is_left_out_and_named(files, capsys):
    folder = files[0].parent
    wild = dataclasses.replace(SHORT, noise=1e3)
    kept = generate.generate_all(["Lorenz", "SprottE"], folder, seed=3, settings=wild)
    assert kept == [files[0]] and not (folder / "SprottE.npz").exists()
    assert (
        "SprottE escapes even with 0.0625 of the noise. It is omitted." in capsys.readouterr().err
    )
    with pytest.raises(ValueError, match="none of SprottE stays on its attractor"):
        generate.generate_all(["SprottE"], folder, seed=3, settings=wild)


def test_a_folder_of_another_seed_is_not_mixed(files):
    kept = generate.generate_all(["Lorenz"], files[0].parent, seed=3)
    assert kept == [files[0]]
    with pytest.raises(ValueError, match="made with seed 3, not 5"):
        generate.generate_all(["Lorenz"], files[0].parent, seed=5)
    other = protocol(noise_of="variance")
    with pytest.raises(ValueError, match="share of the std, not of the variance"):
        generate.generate_all(["Lorenz"], files[0].parent, seed=3, settings=other)


def test_noise_is_a_share_of_the_standard_deviation_or_of_the_variance(files, tmp_path):
    generate.generate(
        "Lorenz",
        tmp_path / "Lorenz.npz",
        seed=3,
        settings=dataclasses.replace(SHORT, noise_of="variance"),
    )
    with np.load(files[0]) as std, np.load(tmp_path / "Lorenz.npz") as variance:
        # σ = .05 s, or σ² = .05 s².
        np.testing.assert_allclose(variance["sigma"] / std["sigma"], 0.05**-0.5)
        np.testing.assert_array_equal(variance["test_ic"].shape, std["test_ic"].shape)
        assert (std["noise_of"], variance["noise_of"]) == ("std", "variance")
    with pytest.raises(ValueError, match="noise_of must be one of"):
        protocol(noise_of="range")


def test_broken_files_are_refused(files, tmp_path):
    with np.load(files[0]) as file:
        arrays = dict(file)
    np.savez(tmp_path / "A.npz", **{k: v for k, v in arrays.items() if k != "graph"})
    np.savez(tmp_path / "B.npz", **{**arrays, "graph": np.ones((2, 2))})
    np.savez(tmp_path / "C.npz", **{**arrays, "train": arrays["train"][:, :2]})
    for name, message in (("A", "lacks graph"), ("B", "expected a graph"), ("C", "expected train")):
        with pytest.raises(ValueError, match=message):
            read_problem(tmp_path / f"{name}.npz")


@pytest.mark.slow
def test_the_true_system_reproduces_its_own_tests(lorenz):
    model = anchors.true_system(lorenz)
    (path,) = forecast.forecasts([model], [lorenz], "flow", [lorenz.starts])
    assert path.shape == (3, lorenz.n_forecast, 3)
    np.testing.assert_allclose(path[:, :60], lorenz.tests[:, :60], atol=1e-3)
    (spectra,) = forecast.exponents([model], [lorenz], "flow")
    # The sum is the divergence of the Lorenz system, a constant.
    np.testing.assert_allclose(spectra.sum(axis=1), -(10 + 1 + 2.667), rtol=2e-3)
    assert forecast.one_step_error(model, lorenz, "flow") < 0.05


def test_scores_of_the_truth_and_of_anchors(lorenz):
    tests = np.repeat(lorenz.long_tests, lorenz.stride, axis=1)[:, : lorenz.n_forecast]
    tests[:, : lorenz.tests.shape[1]] = lorenz.tests
    perfect = scoring.score(lorenz, tests, lorenz.spectra, lorenz.graph, lorenz.spectra)
    for metric in ("nrmse", "flee", "dky", "lsd", "lsd_squared", "shd", "escaped"):
        assert perfect[metric] == 0
    np.testing.assert_allclose(perfect["dstsp"], 0, atol=1e-5)
    steps = lorenz.tests.shape[1]
    np.testing.assert_allclose(perfect["vlpt"], steps * lorenz.dt * lorenz.lyapunov, rtol=1e-9)

    constant = scoring.score(lorenz, 0 * tests, None, None, lorenz.spectra)
    distance = np.linalg.norm(lorenz.tests, axis=-1)
    first = np.argmax(distance > 1, axis=1).mean()
    np.testing.assert_allclose(constant["vlpt"], first * lorenz.dt * lorenz.lyapunov, rtol=1e-9)
    assert constant["lsd"] > 10
    # Twice as large: (ln 4)² everywhere.
    louder = scoring.score(lorenz, 2 * tests, None, None, None)
    np.testing.assert_allclose(louder["lsd_squared"], np.log(4) ** 2, rtol=1e-3)
    assert math.isnan(constant["flee"]) and math.isnan(constant["shd"])

    # Exponents in any order; NaN where one is.
    wrong = lorenz.spectra[:, ::-1] + np.array([0.0, 0.0, 0.1])
    other = scoring.score(lorenz, tests, wrong, None, lorenz.spectra)
    np.testing.assert_allclose(other["flee"], 0.01, rtol=1e-6)
    assert other["dky"] > 0
    unknown = scoring.score(lorenz, tests, np.nan * wrong, None, lorenz.spectra)
    assert math.isnan(unknown["flee"]) and math.isnan(unknown["dky"])

    gone = tests.copy()
    gone[1, 20:] = np.inf
    broken = scoring.score(lorenz, gone, None, ~lorenz.graph, None)
    assert broken["escaped"] == pytest.approx(1 / 3)
    assert broken["shd"] == 1
    assert np.isfinite([broken[m] for m in ("nrmse", "lsd", "dstsp")]).all()


def test_the_oracle_recovers_the_parameters(lorenz):
    (found,) = anchors.oracle([lorenz], keys=[None])
    (floor,) = anchors.floor([lorenz], keys=[None])
    published = floor.model.drift.parameters
    for name, value in found.model.drift.parameters.items():
        # 60 noisy samples: a tenth, not exactly.
        assert 0 < abs(value / published[name] - 1) < 0.1


def test_true_terms_are_the_equations(lorenz):
    found = anchors.true_terms(lorenz)
    terms = {
        (target, power): round(float(value), 6)
        for target, row in enumerate(found.coefficients)
        for power, value in zip(found.powers, row, strict=True)
        if value
    }
    assert terms == {
        (0, (1, 0, 0)): -10,
        (0, (0, 1, 0)): 10,
        (1, (1, 0, 0)): 28,
        (1, (0, 1, 0)): -1,
        (1, (1, 0, 1)): -1,
        (2, (0, 0, 1)): round(-8 / 3, 3),
        (2, (1, 1, 0)): 1,
    }
    assert anchors.true_terms(dataclasses.replace(lorenz, name="Thomas")) is None


def test_true_terms_are_refitted(lorenz):
    """One more Gauss–Newton step, by SciPy, does not lower the error."""
    (found,) = anchors.terms([lorenz], keys=[None])
    polynomial, published = found.model.drift, anchors.true_terms(lorenz)
    which = np.nonzero(published.coefficients)
    np.testing.assert_array_equal(np.nonzero(polynomial.coefficients), which)
    numbers = np.asarray(polynomial.coefficients)[which]
    assert 1e-4 < np.abs(numbers / published.coefficients[which] - 1).max() < 0.5

    @jax.jit
    def residual(numbers):
        moved = jnp.zeros(published.coefficients.shape).at[which].set(numbers)
        drift = anchors.Polynomial(moved, published.powers)
        model = anchors.TrueSystem(drift, jnp.asarray(lorenz.mean), jnp.asarray(lorenz.std))
        x = jnp.asarray(lorenz.train, float)
        return (anchors._runge_kutta(model, x[:-1], lorenz.dt) - x[1:]).ravel()

    best = scipy.optimize.least_squares(
        lambda x: np.asarray(residual(x)), numbers, x_scale=np.abs(numbers)
    )
    np.testing.assert_allclose(numbers, best.x, rtol=1e-4)


# Running


def still(problems, *, keys):
    """Forecasts that stay at the mean, with a complete graph; fails on SprottB."""
    if any(p.name == "SprottB" for p in problems):
        raise RuntimeError("cannot")
    return [Learned(None, "euler", np.ones((p.dim, p.dim), bool), "ok") for p in problems]


@pytest.fixture(scope="module")
def pilot(lorenz):
    """Polynomials, in the units of the equations."""
    windows = ndde.lagged_windows(lorenz.train * lorenz.std + lorenz.mean, dt=lorenz.dt)
    return ndde.fitting.fit_flow(windows, key=jax.random.key(0), family="polynomial", rounds=1)


def test_a_model_in_standardised_coordinates_is_the_same_model(lorenz, pilot):
    moved = methods.standardised(pilot, lorenz)
    z = np.array([[0.3, -0.5, 0.8]])
    expected = np.asarray(pilot(z * lorenz.std + lorenz.mean)) / lorenz.std
    np.testing.assert_allclose(moved(z), expected, rtol=1e-9)
    # Confined as well, inside and outside the box.
    windows = methods.windows_of(lorenz)
    held = methods.confined(Recipe("node", confine=True), pilot, windows, lorenz)
    np.testing.assert_allclose(held(z), expected, rtol=1e-9)
    far = 50 * np.ones((1, 3))
    physical = ndde.confine(pilot, windows=windows)(far * lorenz.std + lorenz.mean)
    np.testing.assert_allclose(held(far), np.asarray(physical) / lorenz.std, rtol=1e-9)
    assert not np.allclose(held(far), moved(far), rtol=0.1)


@pytest.mark.slow
def test_recipes_are_verbs_of_the_library(lorenz, monkeypatch):
    """The graph of a penalty, or the complete one; a drift by its flow."""
    key, polynomials = jax.random.key(0), ndde.models.Polynomials()
    monkeypatch.setattr(methods, "family", lambda recipe: polynomials)  # quick
    # A price so large that no edge remains.
    gates = Recipe("l0ndde", coefficient=1e6, drift="best")
    (nothing,) = methods.learned(gates, [lorenz], keys=[key])
    assert nothing.solver == "flow" and not nothing.graph.any()
    np.testing.assert_allclose(
        nothing.model(np.zeros((1, 3))), nothing.model(np.ones((1, 3))), atol=1e-6
    )
    (full,) = methods.learned(
        Recipe("node", graph="full", drift="best", confine=True), [lorenz], keys=[key]
    )
    assert full.solver == "flow" and full.graph.all() and full.status == "ok"
    expected = ndde.fit_drift(methods.windows_of(lorenz), "full", polynomials, key=key)
    expected = ndde.confine(expected, windows=methods.windows_of(lorenz))
    z = np.array([[0.3, -0.5, 0.8]])
    np.testing.assert_allclose(
        full.model(z), expected(z * lorenz.std + lorenz.mean) / lorenz.std, rtol=1e-6
    )


def test_ablations_of_discover_are_recipes_of_the_library(lorenz, monkeypatch):
    asked = {}
    for name in ("l0ndde_network", "l0ndde_round", "l0ndde_free"):
        monkeypatch.setattr(
            methods, "discover", lambda _, *, keys, recipe, name=name: asked.update({name: recipe})
        )
        methods.learned(recipes()[name], [lorenz], keys=[None])
    families = {name: recipe.family for name, recipe in asked.items()}
    rounded = ndde.models.Best(polynomials=ndde.models.Polynomials(simple_numbers=True))
    assert list(families.values()) == [ndde.models.Networks(), rounded, ndde.models.Best()]
    assert [recipe.confine for recipe in asked.values()] == [True, True, False]


@pytest.mark.slow
def test_run_stores_scores_statuses_and_predictions(files, store, tmp_path, monkeypatch, lorenz):
    monkeypatch.setitem(METHODS, "still", still)
    runner.run(files, ["floor", "still"], store, predictions=tmp_path / "preds", progress=False)
    rows = list(store.rows("dysts"))
    values = report.read(rows)
    assert values["floor"]["vlpt"]["Lorenz"] > values["still"]["vlpt"]["Lorenz"] > 0
    assert values["floor"]["flee"]["Lorenz"] < 1
    np.testing.assert_allclose(values["still"]["shd"]["Lorenz"], 1 - lorenz.graph.mean())
    status = {(r.method, r.graph): r.status for r in rows}
    assert status["still", "SprottB"] == "error: RuntimeError: cannot"
    assert status["still", "Lorenz"] == "ok"

    with np.load(tmp_path / "preds" / "floor" / "Lorenz.npz") as file:
        assert file["test1"].shape == (lorenz.n_forecast, 3)
        np.testing.assert_array_equal(file["graph"], lorenz.graph.T)
        assert file["lyap"].shape == (3, 3)
        np.testing.assert_allclose(file["test0"][0], lorenz.starts[0] + 1e-3, rtol=1e-5)

    text = report.table(store)
    # Lorenz is one of the five systems on which settings may be tuned, and not part of the
    # headline.
    headline, tuning = text.index("Chaotic test systems (1)"), text.index("Tuning systems (1)")
    assert headline < text.index("Test systems (1)") < tuning and "floor" in text
    assert "Tests last 8 (" in text
    assert "error: RuntimeError: cannot 1" in text


def test_finished_systems_are_not_repeated_unless_their_predictions_are_missing(
    files, store, tmp_path, monkeypatch
):
    calls = []

    def counted(problems, *, keys):
        calls.append([p.name for p in problems])
        return anchors.mean(problems, keys=keys)

    monkeypatch.setitem(METHODS, "counted", counted)
    folder = tmp_path / "preds"
    runner.run(files[:1], ["counted"], store, predictions=folder, progress=False)
    runner.run(files, ["counted"], store, predictions=folder, progress=False)
    (folder / "Lorenz.npz").unlink()
    runner.run(files, ["counted"], store, predictions=folder, progress=False)
    assert calls == [["Lorenz"], ["SprottB"], ["Lorenz"]]
    assert {unit.graph for unit in store.done("dysts")} == {"Lorenz", "SprottB"}
    with pytest.raises(ValueError, match="unknown method magic"):
        runner.run(files, ["magic"], store)


def test_command_line(files, tmp_path, capsys):
    out, data = tmp_path / "r.sqlite", files[0].parent
    arguments = ["run", "--data", str(data), "--method", "mean", "--out", str(out), "--limit", "1"]
    assert main(arguments) == 0
    assert main(["table", str(out)]) == 0
    assert "| mean" in capsys.readouterr().out
    # Results with another noise are another category.
    assert main(["table", str(out), "--noise", "variance"]) == 2
    assert "category variance" in capsys.readouterr().err
    assert main(["table", str(tmp_path / "none.sqlite")]) == 2
    assert "does not exist" in capsys.readouterr().err
    with Store(out) as store:
        assert store.done("dysts") == {Unit("dysts", "data", "Lorenz", 0, "mean", 0)}


def wobbling(problems, *, keys):
    """The true system from a wrong start, with a wrong graph in one of two systems."""
    found = anchors.floor(problems, keys=keys)
    return [one._replace(graph=one.graph | (i == 0), shift=0.1) for i, one in enumerate(found)]


@pytest.mark.slow
def test_figures_are_drawn(files, tmp_path, store, monkeypatch):
    from benchmarks.dysts import figures

    runner.run(files, ["mean"], store, progress=False)
    written = figures.draw_all(store, files[0].parent, tmp_path / "anchors")
    assert [p.name for p in written] == ["trajectories.png", "spectra.png"]
    monkeypatch.setitem(METHODS, "wobbling", wobbling)
    runner.run(files, ["wobbling"], store, progress=False)
    written = figures.draw_all(store, files[0].parent, tmp_path / "figures")
    assert [p.name for p in written] == ["trajectories.png", "spectra.png", "associations.png"]
    assert all(p.stat().st_size > 5000 for p in written)


@pytest.mark.slow
def test_a_learned_flow_beats_standing_still(tmp_path):
    longer = dataclasses.replace(SHORT, min_samples=800, max_samples=800)
    generate.generate("SprottB", tmp_path / "SprottB.npz", settings=longer)
    problem = read_problem(tmp_path / "SprottB.npz")
    recipe = Recipe(penalty="l0ndde", graph="discover", drift="best", confine=True)
    (found,) = methods.learned(recipe, [problem], keys=[jax.random.key(0)])
    (path,) = forecast.forecasts([found.model], [problem], found.solver, [problem.starts])
    values = scoring.score(problem, path, None, found.graph, None)
    constant = scoring.score(problem, 0 * path, None, None, None)
    assert values["escaped"] == 0
    assert values["vlpt"] > 4 * constant["vlpt"]
    assert values["shd"] <= 0.12
