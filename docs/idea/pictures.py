"""The pictures of two examples, of their commands; and those of the idea, of its ten lines.

`python docs/idea/pictures.py` draws them, the first two in docs and the others beside this file.
"""

import tempfile
from pathlib import Path

import jax
import numpy as np
from matplotlib import dates, style
from matplotlib.figure import Figure

import ndde_jax as ndde
from ndde_jax import cli

HERE = Path(__file__).parent
# Of Okabe and Ito: what drives, what is driven, and what was found.
DRIVER, FOLLOWER, FOUND = "#0072B2", "#009E73", "#D55E00"
LATE, DT = 5, 0.1


def simulated():
    """A driver that wanders, and a follower that hears of it five samples later."""
    rng, x = np.random.default_rng(0), np.zeros((2000, 2))
    for k in range(LATE, 1999):
        drift = np.array([-x[k, 0], 3 * np.tanh(x[k - LATE, 0]) - x[k, 1]])
        x[k + 1] = x[k] + DT * drift + np.sqrt(DT) * np.array([1.0, 0.2]) * rng.normal(size=2)
    return x


def discovered(x):
    """By closed forms, in a second or two."""
    names, lags = ("driver", "follower"), (0, 5, 10)
    recipe = ndde.Recipe.fast()
    return ndde.discover(x, dt=DT, lags=lags, names=names, recipe=recipe, key=jax.random.key(0))


def what_is_sought(x, found) -> Figure:
    """Driver, delay and drift: two series, and the curve from one to the rate of the other."""
    figure = Figure(figsize=(10, 3.6), layout="constrained")
    strips, law = figure.subplots(1, 2, width_ratios=(1.7, 1))
    # The stretch of eight units of time in which the driver swings most.
    first = max(range(100, 1900, 10), key=lambda k: x[k : k + 80, 0].std())
    time, (up, down) = DT * np.arange(80), (x[first : first + 80] / x.std(axis=0)).T
    strips.plot(time, up, color=DRIVER)
    strips.plot(time, down - 5, color=FOLLOWER)
    strips.text(-0.2, up[0], "driver", color=DRIVER, weight="bold", ha="right", va="center")
    strips.text(
        -0.2, down[0] - 5, "follower", color=FOLLOWER, weight="bold", ha="right", va="center"
    )
    for at in np.argsort(up[5:-10])[[0, -1]] + 5:
        start, end = (time[at], up[at]), (time[at + LATE], down[at + LATE] - 5)
        strips.annotate("", end, start, arrowprops={"arrowstyle": "-|>", "color": FOUND, "lw": 2})
        middle = (np.add(start, end) / 2).tolist()
        near = {"textcoords": "offset points", "color": FOUND, "va": "center"}
        strips.annotate("delay", middle, (7, 0), **near)
    strips.set(xlabel="time", yticks=[], title="who drives whom, and how much later?")
    strips.spines["left"].set_visible(False)

    rate = np.diff(x[:, 1])[LATE:] / DT + x[LATE:-1, 1]
    law.plot(x[: -LATE - 1, 0], rate, ".", color="0.7", ms=2, rasterized=True)
    past, y, low, high = found.effects().curve("driver", "follower", LATE)
    law.fill_between(past, low, high, color=FOUND, alpha=0.25, lw=0)
    law.plot(past, y, color=FOUND, lw=2.5, label="found")
    grid = np.linspace(past.min(), past.max(), 100)
    law.plot(grid, 3 * np.tanh(grid), color="black", lw=1.2, ls="--", label="true")
    law.set(xlabel=f"driver, {LATE * DT:g} before", ylabel="what it adds to the follower's rate")
    law.set(title="by which law?")
    law.legend()
    return figure


def how_it_is_judged(found) -> Figure:
    """Every candidate: how much worse the rate is explained without it, and what it costs."""
    figure = Figure(figsize=(10, 3.2), layout="constrained")
    price = np.asarray(found.strengths.price(ndde.select.EBIC()))
    for j, axis in enumerate(figure.subplots(1, 2, sharey=True)):
        kept = found.graph[:, j]
        # The score of what is not kept is what it is worth less the price.
        worth = found.scores[:, j] + np.where(kept, 0, price[j])
        words = [f"{name}\n{f'{lag * DT:g} before' if lag else 'now'}"
                 for name in found.names for lag in found.lags]  # fmt: skip
        colours = np.where(kept.ravel(), FOUND, "0.7")
        axis.bar(range(len(words)), worth.ravel(), color=colours, width=0.7)
        axis.axhline(price[j], color="black", lw=1.2, ls="--")
        axis.text(5.4, price[j] * 1.15, "price of an input", ha="right", va="bottom")
        axis.set_xticks(range(len(words)), words, fontsize=8)
        axis.set(yscale="log", ylim=(1e-4, 2), title=f"the {found.names[j]}'s rate")
    figure.axes[0].set_ylabel("share of its variance that\nonly this input explains")
    return figure


def found_by_command(example: str) -> ndde.Discovery:
    """What `ndde-jax discover --example` finds."""
    with tempfile.TemporaryDirectory() as folder:
        if cli.main(["discover", "--example", example, "--quiet", "--out", folder]):
            raise RuntimeError(f"the example {example} failed.")
        return ndde.Discovery.load(Path(folder) / "discovery")


def front_page() -> Figure:
    """Two rivers in flood, what is found, and what the map says."""
    found, example = found_by_command("elbe_flood"), ndde.load_example("elbe_flood")
    figure = Figure(figsize=(10, 3.8), layout="constrained")
    levels, answer, rivers = figure.subplots(1, 3, width_ratios=(1.5, 1, 1))
    own = dict(zip(example.names, (DRIVER, DRIVER, DRIVER, FOLLOWER, FOLLOWER), strict=True))
    days = slice(2 * 96, 12 * 96)  # 11 to 20 September
    for k, name in enumerate(example.names):
        height = example.values[days, k]
        height = (height - height.min()) / np.ptp(height)
        levels.plot(example.time[days], height - k, color=own[name], lw=1)
        levels.text(example.time[days][0], 0.06 - k, name, fontsize=9, va="bottom")
    levels.set(yticks=[], title="water levels", xlabel="September 2024")
    levels.xaxis.set_major_locator(dates.DayLocator(interval=2))
    levels.xaxis.set_major_formatter(dates.DateFormatter("%d"))
    between = {
        (example.names[i], example.names[j]): f"{np.nanmin(found.delays[i, j]):.1f} h"
        for i, j in np.argwhere(found.graph.any(axis=2))
        if i != j
    }
    _network(answer, own, between, FOUND)
    answer.set_title("found: who follows whom")
    _network(rivers, own, {(link.source, link.target): "" for link in example.known}, "0.3")
    rivers.set_title("the rivers on the map")
    return figure


def _network(axis, colours, links, colour):
    """Gauges from the hills down, a column per river."""
    places = dict(zip(colours, ((0, 2), (0, 1), (0, 0), (1, 1), (1, 0)), strict=True))
    for name, place in places.items():
        axis.text(*place, name, ha="center", va="center", color=colours[name], fontsize=10)
    for (source, target), label in links.items():
        ends = np.array([places[source], places[target]], float)
        start, end = ends + 0.22 * (ends[::-1] - ends) / np.linalg.norm(ends[1] - ends[0])
        axis.annotate("", end, start, arrowprops=dict(arrowstyle="-|>", color=colour, lw=2))
        axis.text(*(start + end) / 2 + [0.06, 0], label, color=colour, va="center", fontsize=10)
    axis.set(xlim=(-0.55, 1.5), ylim=(-0.4, 2.4), xticks=[], yticks=[])
    axis.spines[:].set_visible(False)


def main():
    """Draw all four."""
    style.use("ndde_jax.plot.talk")
    front_page().savefig(HERE.parent / "flood.png")
    found_by_command("tropical_pacific").plot().savefig(HERE.parent / "tropical_pacific.png")
    x = simulated()
    found = discovered(x)
    for name, figure in (("sought", what_is_sought(x, found)), ("judged", how_it_is_judged(found))):
        figure.savefig(HERE / f"{name}.png")
        print(name, figure.get_size_inches())
    print(np.round(found.scores, 4).tolist(), np.asarray(found.graph).tolist())


if __name__ == "__main__":
    main()
