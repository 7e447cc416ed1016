"""Readings of the paper's objective: prices by differentiating each, and the table."""

import jax
import jax.numpy as jnp
import pytest

import ndde_jax as ndde
from benchmarks import readings
from benchmarks._store import Record, Store, Unit

# The objectives as they are written, from errors [target sample] and gates [target input].
OBJECTIVES = {
    "all edges, mean risk": lambda e, z, c: jnp.mean(e) + c * jnp.sum(z),
    "edges of a target": lambda e, z, c: jnp.sum(jnp.mean(e, axis=1)) + c * jnp.sum(z),
    "mean over gates": lambda e, z, c: jnp.sum(jnp.mean(e, axis=1) + c * jnp.mean(z, axis=1)),
    "summed risk, mean over all gates": lambda e, z, c: (
        jnp.sum(jnp.mean(e, axis=1)) + c * jnp.mean(z)
    ),
    "summed over the batch": lambda e, z, c: jnp.sum(e) + c * jnp.sum(z),
}


@pytest.mark.parametrize("name", readings.READINGS)
def test_the_price_of_an_edge_is_the_exchange_rate_of_its_objective(name):
    """By how much the mean squared error of one target must fall to pay for one more gate."""
    dim, inputs, batch, coefficient = 3, 6, 20, 0.05
    errors, gates = jnp.ones((dim, batch)), jnp.full((dim, inputs), 0.5)
    by_error, by_gate = jax.grad(OBJECTIVES[name], argnums=(0, 1))(errors, gates, coefficient)
    # One unit of a target's mean squared error is one unit of each of its squared errors.
    rate = float(by_gate[0, 0] / jnp.sum(by_error[0]))
    price = readings.READINGS[name].price(coefficient, dim, inputs, batch)
    assert price == pytest.approx(rate, rel=1e-9)


def test_the_method_charges_that_price():
    price = 0.02
    method = ndde.L0NDDE(coefficient=price * 3)
    open_gates, closed = jnp.full((1, 3), 30.0), jnp.array([[30.0, 30.0, -30.0]])
    paid = [method.penalty((z,), (), jnp.array([price * 3]))[0] for z in (open_gates, closed)]
    assert float(paid[0] - paid[1]) == pytest.approx(price, rel=1e-6)


def test_a_run_goes_on_where_it_stopped_and_its_table_has_every_reading(tmp_path, monkeypatch):
    done = []

    def score(setup, reading, start, system, seed):
        done.append((setup, reading, start, system, seed))
        names = ("price", "kept", "true", "wrong", "dense", "auroc", "risk", "steps", "limit")
        return dict.fromkeys(names, 0.5)

    monkeypatch.setattr(readings, "score", score)
    file = tmp_path / "readings.sqlite"
    for systems in (["Lorenz"], ["Lorenz", "Rossler"]):
        readings.run(file, systems=systems, seeds=1, setups=["dysts"])
    assert len(done) == len(set(done)) == 2 * 2 * len(readings.READINGS)
    with Store(file) as store:
        text = readings.table(store)
    assert all(reading.objective in text for reading in readings.READINGS.values())
    assert text.count("undecided") == len(readings.READINGS) and "every edge kept" in text


def test_the_table_of_a_file_by_hand(tmp_path, capsys):
    file = tmp_path / "readings.sqlite"
    metrics = dict(price=0.1, kept=7.0, true=6.0, dense=1 / 3, auroc=0.8, risk=0.01, steps=100.0)
    with Store(file) as store:
        for seed, wrong in enumerate((0.1, 0.3)):
            unit = Unit(readings.BENCHMARK, "dysts", "Lorenz", 0, "mean over gates, open", seed)
            store.write([Record(unit, metrics | {"wrong": wrong, "limit": 0.0}, "ok", 1.0)])
    readings.main(["table", str(file)])
    row = next(line for line in capsys.readouterr().out.splitlines() if "mean_i" in line)
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[3:] == ["0.1", "7.0 of 6.0", ".20 ± .10", ".80", "0.010", "100"]


@pytest.mark.slow
def test_a_high_price_closes_gates_and_a_low_one_none():
    changes = dict(max_steps=3000, patience=None)
    dear = readings.score("dysts", "all edges, mean risk", "undecided", "Rossler", 0, **changes)
    free = readings.score("dysts", "summed over the batch", "undecided", "Rossler", 0, **changes)
    assert dear["kept"] < free["kept"] <= 9 and dear["true"] == 6
    assert dear["risk"] > free["risk"]
