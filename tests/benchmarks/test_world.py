"""The world's benchmarks: truths compared with effects, scores by hand, a small run."""

import inspect
import itertools
import math

import jax
import numpy as np
import pytest

from benchmarks import published
from benchmarks._store import Record as Result, Store, Unit
from benchmarks.world import data, flows, maps, methods, report, runner, scoring, transfer
from benchmarks.world.__main__ import main
from benchmarks.world.methods import METHODS, Prediction

MAPS = {
    "linear": maps.structural,
    "linear_at_once": lambda rng, dim: maps.structural(rng, dim, at_once=0.5),
    "nonlinear_at_once": lambda rng, dim: maps.structural(rng, dim, nonlinear=True, at_once=0.5),
    "sparse_var": maps.sparse_var,
    "threshold": maps.threshold,
    "bilinear": maps.bilinear,
    "logistic": maps.logistic,
    "henon": maps.henon,
    "ikeda": maps.ikeda,
}
FLOWS = {
    "lorenz96": flows.lorenz96,
    "lotka_volterra": flows.lotka_volterra,
    "kuramoto": flows.kuramoto,
    "neurons": flows.neurons,
}


def _reached(at_once):
    """Effects between variables within a sample, also through others."""
    reach = np.eye(len(at_once), dtype=bool) | at_once
    for k in range(len(reach)):
        reach |= reach[:, [k]] & reach[[k]]
    return reach


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("seed", (0, 1))
def test_a_map_reads_what_its_links_say_and_nothing_else(name, seed):
    rng, dim = np.random.default_rng(seed), 6
    system = MAPS[name](rng, dim)
    past, noise = rng.uniform(0.2, 0.8, (data.LAGS, dim)), rng.normal(size=dim)
    reach, here = _reached(system.at_once), system.step(past, noise)
    for lag, source in itertools.product(range(data.LAGS), range(dim)):
        moved = past.copy()
        moved[lag, source] += 0.05
        changed = system.step(moved, noise) != here
        np.testing.assert_array_equal(changed, system.links[source, :, lag] @ reach)
    for source in range(dim):
        changed = system.step(past, noise + 0.1 * np.eye(dim)[source]) != here
        np.testing.assert_array_equal(changed, reach[source])
    if "at_once" in name:
        assert system.at_once.any() and not np.diag(system.at_once).any()


@pytest.mark.parametrize("name", FLOWS)
def test_a_flow_reads_what_its_links_say_and_nothing_else(name):
    rng, dim = np.random.default_rng(3), 8
    system = FLOWS[name](rng, dim)
    x = rng.uniform(0.3, 0.9, dim)
    here = system.drift(0.1, x)
    for source in range(dim):
        changed = system.drift(0.1, x + 0.1 * np.eye(dim)[source]) != here
        apart = np.arange(dim) != source
        np.testing.assert_array_equal(changed[apart], system.links[source, apart])


def test_a_gene_reads_the_proteins_of_its_regulators():
    rng, dim = np.random.default_rng(4), 7
    system = flows.genes(rng, dim)
    x = rng.uniform(0.3, 0.9, 2 * dim)
    here = system.drift(0.0, x)
    for source in range(dim):
        changed = system.drift(0.0, x + 0.1 * np.eye(2 * dim)[dim + source]) != here
        apart = np.arange(dim) != source
        np.testing.assert_array_equal(changed[:dim][apart], system.links[source, apart])
        # A protein comes from its own transcript only.
        made = system.drift(0.0, x + 0.1 * np.eye(2 * dim)[source]) != here
        np.testing.assert_array_equal(np.flatnonzero(made), [source, dim + source])


def test_linear_maps_forget_where_they_began():
    for seed in range(10):
        system = maps.structural(np.random.default_rng(seed), 10, at_once=0.3)
        past = np.ones((data.LAGS, 10))
        for _ in range(1000):
            past = np.concatenate([system.step(past, np.zeros(10))[None], past[:-1]])
        assert np.abs(past).max() < 1e-6


def test_a_flow_is_integrated_and_its_noise_is_as_strong_as_it_says():
    decay = flows.Flow(lambda t, x: -x, np.eye(1, dtype=bool), np.ones(1), 0.0, 0.5)
    path = flows.integrated(decay, 5, np.random.default_rng(0), before=1)
    np.testing.assert_allclose(path[:, 0], np.exp(-0.5 * np.arange(2, 7)), rtol=1e-6)
    walk = decay._replace(drift=lambda t, x: 0 * x, noise=0.6)
    path = flows.integrated(walk, 3000, np.random.default_rng(0), substeps=4, before=1)
    assert np.diff(path[:, 0]).var() == pytest.approx(0.6**2 * 0.5, rel=0.1)


def test_what_diverges_is_refused():
    rng = np.random.default_rng(0)
    system = maps.sparse_var(rng, 3)._replace(step=lambda past, noise: 3 * past[0] + 1)
    with pytest.raises(ValueError, match="diverges"):
        maps.iterated(system, 50, rng)


CHEAP = "linear nonlinear_at_once threshold henon shares hidden independent stations".split()


@pytest.mark.parametrize(
    "family",
    [f if f in CHEAP else pytest.param(f, marks=pytest.mark.slow) for f in data.FAMILIES],
)
def test_records_have_their_size_and_repeat_themselves(family):
    p, n = data.FAMILIES[family][1][0]
    found = data.record(family, data.label(p, n), 0)
    again = inspect.unwrap(data.record)(family, data.label(p, n), 0)
    other = data.record(family, data.label(p, n), 1)
    assert found.x.shape == (n, p) and found.pairs.shape == (p, p)
    np.testing.assert_array_equal(found.x, again.x)
    assert not np.array_equal(found.x, other.x)
    if found.links is not None:
        np.testing.assert_array_equal(found.pairs, found.links.any(axis=2))


def test_stations_are_related_at_once_and_an_eighth_is_missing():
    found = data.record("stations", "6x1000", 2)
    assert 0.08 < np.isnan(found.x).mean() < 0.2
    assert not found.pairs[found.where].any() and found.at_once[found.where].all()
    # No past helps: the correlation of innovations at a lag is that of chance.
    step = found.x[1:] - 0.8 * found.x[:-1]
    a, b = step[1:, 0], step[:-1, 1]
    known = np.isfinite(a) & np.isfinite(b)
    assert abs(np.corrcoef(a[known], b[known])[0, 1]) < 4 / np.sqrt(known.sum())
    a, b = step[:, 0], step[:, 1]
    known = np.isfinite(a) & np.isfinite(b)
    assert np.corrcoef(a[known], b[known])[0, 1] > 0.2


def test_news_of_one_share_move_another():
    found = data.record("shares", "6x20000", 0)
    x, n = found.x, len(found.x)
    assert found.links.sum() == 6 + 3 and np.corrcoef(x.T).min() > 0.2
    # The residual of a share given all others at the same time is nearly its innovation.
    left = np.linalg.inv(np.cov(x.T)) @ (x - x.mean(axis=0)).T
    size = np.sqrt((left**2).mean(axis=1))
    for i, j, a in np.argwhere(found.where[..., None] & np.ones(data.LAGS, bool)):
        shared = np.mean(left[i, : n - 1 - a] * x[1 + a :, j]) / size[i] / x[:, j].std()
        assert (abs(shared) > 0.1) == found.links[i, j, a], (i, j, a, shared)


def test_blood_answers_late():
    """A pulse of activity is seen at most five seconds later, and undershoots."""
    activity = np.zeros((600, 1))
    activity[:10] = 1.0
    blood = flows.haemodynamic(activity, np.random.default_rng(0), step=0.1, every=10)[:, 0]
    assert 4 <= blood.argmax() <= 7 and 12 <= blood.argmin() <= 20 and blood.min() < 0


def test_plants_are_read_in_their_schemas(tmp_path):
    rng = np.random.default_rng(0)
    np.savetxt(tmp_path / "glassfurnace.dat", rng.normal(size=(20, 10)))
    text = "GasRate,CO2%\n" + "\n".join(f"{k},{k + 50}" for k in range(9))
    (tmp_path / "gasrate_co2.csv").write_text(text)
    assert data.plants(tmp_path) == ["glass_furnace", "gas_furnace"]
    glass, gas = (data.plant(tmp_path, name) for name in data.plants(tmp_path))
    assert glass.x.shape == (20, 9) and glass.pairs.sum() == 18
    # Sensors may drive each other; nothing drives an actuator.
    assert not glass.where[3:, 3:].any() and glass.where[3:, :3].all()
    assert gas.x.shape == (9, 2) and gas.dt == 9.0 and gas.lags is None
    np.testing.assert_array_equal(np.argwhere(gas.pairs), [[0, 1]])
    with pytest.raises(ValueError, match=r"none of the plants: dryer\.dat"):
        data.plants(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="does not exist"):
        data.plant(tmp_path, "dryer")


# ---- methods ----


def test_conditional_information_of_gaussians():
    rng = np.random.default_rng(0)
    given, e = rng.normal(size=2000), rng.normal(size=(2, 2000))
    a, b = given + e[0], given + 0.8 * e[0] + 0.6 * e[1]
    found = transfer.conditional_information(a, b, given, neighbours=4)
    assert found == pytest.approx(-0.5 * math.log(1 - 0.8**2), abs=0.05)
    nothing = transfer.conditional_information(a, given + e[1], given, neighbours=4)
    assert abs(nothing) < 0.04


def _follower(n=400):
    """The second of three variables follows the first, two samples before its increment."""
    rng, x = np.random.default_rng(1), np.zeros((n, 3))
    for k in range(3, n - 1):
        x[k + 1] = 0.5 * x[k] + [0, 0.9 * x[k - 2, 0], 0] + rng.normal(size=3)
    return x


@pytest.mark.parametrize(
    "name", ["var", "lasso", "transfer", "trees", "asymmetry", "pcmci_plus", "pcmci_robust"]
)
@pytest.mark.filterwarnings("ignore")  # theirs
def test_peers_find_one_strong_link(name):
    package = {"var": "statsmodels", "pcmci_plus": "tigramite", "pcmci_robust": "tigramite"}
    pytest.importorskip(package.get(name, "scipy"))
    found = METHODS[name](_follower(), 1.0, tuple(range(4)), key=jax.random.key(0))
    apart = np.where(np.eye(3, dtype=bool), -np.inf, found.scores)
    assert np.unravel_index(apart.argmax(), (3, 3)) == (0, 1)
    if found.graph is not None:
        assert found.graph.shape == (3, 3, 4) and found.graph[0, 1, 2]
        assert not found.graph[0, 1, [0, 3]].any() or name == "trees"


def test_permuted_columns_by_hand():
    """With one permutation of a column, the error is that of the model on the permuted table."""

    class Sum:
        def predict(self, inputs):
            return inputs.sum(axis=1)

    rng = np.random.default_rng(5)
    inputs = rng.normal(size=(30, 3))
    inputs[:, 2] = 1.0
    y = inputs[:, :2].sum(axis=1) + 1
    fall = methods._permuted(Sum(), inputs, y, 4, rng)
    assert fall.shape == (3, 4)
    np.testing.assert_allclose(fall[2], 0, atol=1e-12)
    # Two independent copies of a column differ by twice its variance.
    expected = 2 * inputs[:, :2].var(axis=0) / y.var()
    np.testing.assert_allclose(fall[:2].mean(axis=1), expected, rtol=0.5)


def test_missing_values_are_passed_over():
    pytest.importorskip("tigramite")
    x = _follower()
    x[::17, 2] = np.nan
    found = METHODS["pcmci_plus"](x, 1.0, tuple(range(4)), key=jax.random.key(0))
    assert np.isfinite(found.scores).all() and found.graph[0, 1, 2]


# ---- scores and tables ----


def _record(dim=3):
    links = np.zeros((dim, dim, data.LAGS), bool)
    links[np.arange(dim), np.arange(dim), 0] = True
    links[0, 1, 2] = links[1, 2, 0] = True
    at_once = np.zeros((dim, dim), bool)
    at_once[0, 2] = at_once[2, 0] = True
    return data.Record(np.zeros((20, dim)), links.any(axis=2), links, at_once)


def test_scores_by_hand():
    record = _record()
    graph = np.zeros((3, 3, 4), bool)
    graph[0, 0, 0] = graph[0, 1, 2] = graph[1, 2, 1] = graph[2, 0, 0] = True
    scores = np.array([[9, 3, 7], [1, 9, 2], [8, 0, 9.0]])
    found = scoring.score(Prediction(scores, graph, record.at_once, "supported"), record)
    # Of three kept and two true links one is right; links to itself and the diagonal do not count.
    assert found["f1"] == pytest.approx(2 / 5)
    assert (found["edges"], found["true"], found["false"], found["possible"]) == (3, 1, 1, 4)
    assert (found["summary_true"], found["verdict"], found["at_once.f1"]) == (2, 0, 1)
    # Contemporaneous relations alone are not ranked: 3 and 2 are above 1 and 0.
    assert found["auroc"] == 1.0
    failed = scoring.score(scoring.nothing(record), record)
    assert (failed["failed"], failed["f1"], failed["auroc"]) == (1, 0, 0.5)
    ranks = scoring.score(Prediction(scores), record)
    assert "f1" not in ranks and ranks["verdict"] == -1


def test_where_nothing_is_to_be_found_only_false_links_count():
    record = data.record("independent", "5x100", 0)
    graph = np.zeros((5, 5, 6), bool)
    graph[0, 1, :2] = graph[3, 2, 0] = graph[4, 4, 0] = True
    found = scoring.score(Prediction(np.zeros((5, 5)), graph), record)
    assert math.isnan(found["f1"]) and math.isnan(found["auroc"])
    assert report.FALSE.of(found) == 2 / 20


def test_how_far_the_reference_is_behind():
    def row(**of_method):
        return {m: {k: {"f1": v} for k, v in enumerate(f1)} for m, f1 in of_method.items()}

    gaps = np.array([0.1, 0.3, 0.2])
    winner, errors = report.behind(report.F1, row(discover=0.5 - gaps, var=[0.5] * 3, lasso=[0]))
    assert winner == "var"
    assert errors == pytest.approx(gaps.mean() / (gaps.std(ddof=1) / np.sqrt(3)))
    assert report.behind(report.F1, row(discover=[0.5, 0.6], var=[0.6, 0.5])) == ("discover", 0)
    assert report.behind(report.F1, row(discover=[0.4], var=[0.5])) == ("var", math.inf)
    assert report.behind(report.F1, row(var=[0.5])) is None


def _fixed(kept=True):
    """A method that ignores the record: one link, or none."""

    def method(x, dt, lags, *, key):
        dim = x.shape[1]
        graph = np.zeros((dim, dim, len(lags)), bool)
        graph[0, 1, 0] = kept
        return Prediction(graph.any(axis=2).astype(float), graph, None, "supported")

    return method


def test_a_run_is_resumed_and_the_table_counts(tmp_path, capsys, monkeypatch):
    calls = []

    def counted(x, dt, lags, **options):
        calls.append(x.shape)
        return _fixed()(x, dt, lags, **options)

    monkeypatch.setitem(METHODS, "discover", counted)
    monkeypatch.setitem(METHODS, "var", _fixed(kept=False))
    out = str(tmp_path / "r.sqlite")
    both = ["--method", "discover", "--method", "var"]
    for only in ("linear/3", "independent/5x100"):
        for _ in range(2):
            arguments = ["run", "--out", out, "--only", only, "--limit", "1", "--seeds", "2"]
            assert main([*arguments, *both, "--predictions", str(tmp_path / "p")]) == 0
    assert calls == [(100, 3)] * 2 + [(100, 5)] * 2
    saved = np.load(tmp_path / "p" / "discover" / "linear_3x100_seed1.npz")
    assert saved["graph"].shape == (3, 3, 6) and saved["scores"].shape == (3, 3)
    capsys.readouterr()
    assert main(["table", out]) == 0
    text = capsys.readouterr().out
    (line,) = (row for row in text.splitlines() if "| independent" in row and "±" in row)
    assert [cell.strip() for cell in line.split("|")[3:6]] == ["2", ".050±.000 !!", "**.000**±.000"]
    assert "false: `discover` is the best, or within one standard error of it, in 0 of 1" in text
    assert "more than two behind in 1: independent 5x100 (var)." in text
    assert main(["table", out, "--families"]) == 0
    text = capsys.readouterr().out
    assert "| linear processes" in text and "**.00**" in text
    picture = tmp_path / "p.png"
    assert main(["picture", out, "--out", str(picture)]) == 0 and picture.stat().st_size > 10_000
    assert main(["run", "--out", out, "--only", "nothing"]) == 2
    assert "lorenz96_f10/10x500" in capsys.readouterr().err


def test_plants_are_run_from_a_path(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(METHODS, "asymmetry", lambda x, dt, lags, *, key: Prediction(np.eye(2)))
    text = "GasRate,CO2%\n" + "\n".join(f"{k},{k + 50}" for k in range(9))
    (tmp_path / "gasrate_co2.csv").write_text(text)
    out = tmp_path / "r.sqlite"
    arguments = ["run", "--data", str(tmp_path), "--out", str(out), "--method", "asymmetry"]
    assert main([*arguments, "--seeds", "3"]) == 0
    with Store(out) as store:
        assert {(row.category, row.graph) for row in store.rows("world")} == {
            ("plants", "gas_furnace")
        }
        table = report.table(store)
    assert "| plants" in table and "| all" in table


def test_methods_run_on_what_they_suit():
    assert runner.suits("lpcmci", runner.Kind("hidden", "4x500"))
    assert not runner.suits("lpcmci", runner.Kind("linear", "3x100"))
    assert not runner.suits("trees", runner.Kind("linear", "20x1000"))
    assert runner.suits("trees", runner.Kind("plants", "dryer"))


def test_a_refusal_and_a_fault_have_a_status(monkeypatch):
    for error, status in ((ValueError("too short"), "refused: too"), (KeyError("k"), "error: Key")):

        def raises(*_, error=error, **__):
            raise error

        monkeypatch.setitem(METHODS, "it", raises)
        (found,) = runner.evaluate(runner.Task(runner.Kind("linear", "3x100"), "it", 0))
        assert isinstance(found, Result) and found.unit == Unit(
            "world", "linear", "3x100", 0, "it", 0
        )
        assert found.status.startswith(status) and found.metrics["failed"] == 1


def test_what_is_published_has_a_row_for_every_family():
    path = published.ROOT / "benchmarks" / "world" / "published" / "results.csv.gz"
    with published.read(path) as store:
        found = report.results(store)
    assert {row.family for row in found} == {*data.FAMILIES, data.PLANTS}
    assert all("discover" in methods for methods in found.values())
