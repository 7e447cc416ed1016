"""Pictures of records that raise a finding of the report, beside records that do not.

`python docs/problems/pictures.py` draws all of them beside this file; the pages show them, and
tests/test_problems.py asks of every pair that the left raises its finding and the right does not.
"""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
from records import (
    DT,
    Data,
    N,
    averaged,
    between,
    blood,
    bursts,
    changed,
    chaos,
    cycle,
    delayed,
    driven_apart,
    driven_by,
    fading,
    gone,
    graded,
    hidden,
    oscillator,
    plain,
    recalibrated,
    recordings,
    sensors,
    spiked,
    stretch,
    stuck,
    uneven,
    waves,
    with_copy,
    within,
)

HERE = Path(__file__).parent
# Of records that step from sample to sample.
STEPS = {"dt": 1.0, "scheme": "euler"}
# Of Okabe and Ito, safe for colour-blind readers: what raises a finding, and what does not.
BAD, GOOD, OTHERS = "#D55E00", "#0072B2", ("#009E73", "#CC79A7", "#555555")


@dataclasses.dataclass(frozen=True)
class Pair:
    """Data that raise a finding and data that do not; `draw` shows either on axes."""

    bad: Data
    good: Data
    draw: Callable
    said: tuple[str, str]
    discovered: bool = False  # whether the finding needs a discovery, or the samples will do


# ---- pictures of one side ----


def series(columns=(0,), last=160, style="-"):
    """Values over time; later columns are thin and in other colours."""

    def draw(ax, data, colour):
        shown, x = slice(None, last, max(1, last // 400)), data.x.reshape(-1, data.x.shape[-1])
        t = np.asarray(data.options.get("t", np.arange(len(x))))[shown]
        for place, column in enumerate(columns):
            own = colour if place == 0 else OTHERS[place - 1]
            wide = 0.8 if place or "." in style else 1.4
            ax.plot(t, x[shown, column], style, color=own, lw=wide, ms=4)
        ax.set_xlabel("time" if "t" in data.options else "sample")

    return draw


def against(i, j, last=200):
    """One variable over another."""

    def draw(ax, data, colour):
        j_here = min(j, data.x.shape[1] - 1)
        ax.plot(data.x[:last, i], data.x[:last, j_here], ".", color=colour, ms=2.5)
        ax.set(xlabel="one variable", ylabel="another")

    return draw


def past(ax, data, colour):
    """A variable over itself one candidate lag before."""
    late = data.lags[1]
    ax.plot(data.x[: 300 - late, 0], data.x[late:300, 0], ".", color=colour, ms=2.5)
    ax.set(xlabel=f"{late} sample{'s' if late > 1 else ''} before", ylabel="now")


def sums(ax, data, colour):
    """The last variable over the difference of the first two."""
    ax.plot(data.x[:200, 0] - data.x[:200, 1], data.x[:200, -1], ".", color=colour, ms=2.5)
    ax.set(xlabel="first minus second", ylabel="last")


def lagged(ax, data, colour):
    """Weights of the driver at each lag in the follower's rate, midway between two samples."""
    lags, x = np.arange(6), (data.x[1:] + data.x[:-1]) / 2
    rows = np.arange(8, len(x))
    inputs = [np.ones(len(rows)), x[rows, 1], *(x[rows - lag, 0] for lag in lags)]
    rate = np.diff(data.x[:, 1])[rows]
    weights = np.linalg.lstsq(np.stack(inputs, axis=1), rate, rcond=None)[0][2:]
    ax.bar(lags, weights, width=0.6, color=colour)
    ax.axhline(0, color="#555555", lw=0.6)
    ax.set(xlabel="lag of the driver (samples)", ylabel="weight")


def later(ax, data, colour):
    """What the driver at each lag has in common with what the candidates leave of the rate."""
    lags, x = np.arange(15), (data.x[1:] + data.x[:-1]) / 2
    rows = np.arange(20, len(x))
    now = np.stack([np.ones(len(rows)), data.x[rows, 1]])
    given = np.concatenate([now, [x[rows - a, 0] for a in data.lags]]).T

    def left(column):
        return column - given @ np.linalg.lstsq(given, column, rcond=None)[0]

    rest, free = left(np.diff(data.x[:, 1])[rows]), [a for a in lags if a not in data.lags]
    shared = [np.corrcoef(left(x[rows - lag, 0]), rest)[0, 1] for lag in free]
    ax.bar(free, shared, width=0.6, color=colour)
    ax.plot(data.lags, np.zeros(len(data.lags)), "|", color="#555555", ms=8)
    ax.axhline(0, color="#555555", lw=0.6)
    ax.set(xlabel="lag of the driver (samples), | candidates", ylabel="correlation", ylim=(-0.4, 1))


def coarsely(ax, data, colour):
    """What the follower's rate has in common with the driver at each lag; candidates stand out."""
    lags, x = np.arange(1, 19), (data.x[1:] + data.x[:-1]) / 2
    rows, change = np.arange(20, len(x)), np.diff(data.x[:, 1])
    rest = change[rows] - np.polyval(np.polyfit(x[rows, 1], change[rows], 1), x[rows, 1])
    shared = np.array([np.corrcoef(x[rows - lag, 0], rest)[0, 1] for lag in lags])
    ax.plot(lags, shared, color="#555555", lw=0.8)
    at = np.array([lag for lag in data.lags if lag])
    ax.plot(at, shared[at - 1], "o", color=colour)
    ax.set(xlabel="lag of the driver (samples); dots are candidates", ylabel="correlation")


def memory(ax, data, colour):
    """Correlation of what a linear drift leaves with itself later."""
    x = data.x
    design = np.column_stack([np.ones(len(x) - 1), x[:-1]])
    change = np.diff(x[:, -1])
    rest = change - design @ np.linalg.lstsq(design, change, rcond=None)[0]
    later = [np.corrcoef(rest[:-k], rest[k:])[0, 1] for k in range(1, 13)]
    ax.bar(np.arange(1, 13), later, width=0.6, color=colour)
    ax.axhline(0, color="#555555", lw=0.6)
    ax.set(xlabel="samples later", ylabel="correlation of what is left", ylim=(-0.2, 0.7))


def own_past(ax, data, colour):
    """Weights of the variables' own past in their rates, beside the present of all."""
    x, lags = data.x, np.arange(1, 6)
    rows = np.arange(6, len(x) - 1)
    weights = []
    for j in range(x.shape[1]):
        past = np.stack([x[rows - lag, j] for lag in lags], axis=1)
        design = np.column_stack([np.ones(len(rows)), x[rows], past])
        weights.append(np.linalg.lstsq(design, x[rows + 1, j] - x[rows, j], rcond=None)[0][-5:])
    ax.bar(lags, np.mean(weights, axis=0), width=0.6, color=colour)
    ax.axhline(0, color="#555555", lw=0.6)
    ax.set(xlabel="samples before", ylabel="weight of own past", ylim=(-0.22, 0.08))


def pairs_of_news(ax, data, colour):
    """What is new in one variable over what is new in the other at the same sample."""
    now, before = data.x[3:], np.column_stack([data.x[3 - k : -k] for k in (1, 2, 3)])
    design = np.column_stack([np.ones(len(now)), before])
    left = now - design @ np.linalg.lstsq(design, now, rcond=None)[0]
    ax.plot(left[:400, 0], left[:400, 1], ".", color=colour, ms=2.5)
    ax.set(xlabel="what is new in one", ylabel="in the other")


def one_step_later(ax, data, colour):
    """What polynomials of the present leave of a change over what they left of the one before."""
    x = (data.x - data.x.mean(axis=0)) / data.x.std(axis=0)
    now = x[:-1]
    pairs = [now[:, i] * now[:, j] for i in range(now.shape[1]) for j in range(i + 1)]
    design = np.column_stack([np.ones(len(now)), now, *pairs])
    change = np.diff(x[:, 1])
    left = change - design @ np.linalg.lstsq(design, change, rcond=None)[0]
    ax.plot(left[:400], left[1:401], ".", color=colour, ms=2.5)
    ax.set(xlabel="what is left of a change", ylabel="of the next")


def by_parts(ax, data, colour):
    """Slope of the follower on the driver two samples before, in eighths of the record."""
    x = data.x
    design = np.column_stack([np.ones(len(x) - 2), x[1:-1, 1], x[:-2, 0]])
    parts = np.array_split(np.arange(len(design)), 8)
    slope = [np.linalg.lstsq(design[p], x[2:, 1][p], rcond=None)[0][2] for p in parts]
    ax.bar(np.arange(1, 9), slope, width=0.6, color=colour)
    ax.axhline(0, color="#555555", lw=0.6)
    ax.set(xlabel="eighth of the record", ylabel="slope")


def slopes(ax, data, colour):
    """Share of the target's change that each driver explains beside the others."""
    x = data.x
    design = np.column_stack([np.ones(len(x) - 1), x[:-1]])
    change = np.diff(x[:, -1])

    def left(columns):
        rest = change - columns @ np.linalg.lstsq(columns, change, rcond=None)[0]
        return rest.var()

    full = left(design)
    worth = [
        (left(np.delete(design, 1 + i, axis=1)) - full) / change.var()
        for i in range(x.shape[1] - 1)
    ]
    ax.bar(np.arange(len(worth)), worth, width=0.6, color=colour)
    ax.set(xlabel="driver", ylabel="strength", xticks=np.arange(len(worth)), ylim=(0, 0.14))


def drift(ax, data, colour):
    """A drift along a record, with what is not a number left out."""
    ax.plot(data.x[:120, 0], color=colour, lw=1.4)
    ax.set(xlabel="time", ylabel="drift", xlim=(0, 120))


# ---- the pairs ----


def pairs():
    """By the name of the finding."""
    wave = np.sin(2 * np.pi * np.arange(N) / 12)
    pieces = gone(plain(n=1500), (10, 26, 42)), gone(plain(n=1500), (10, 10, 10))
    found = {
        "season": (*changed(lambda x, _: x + 2 * wave[:, None]), series((0, 1)),
            ("one clock moves both", "oscillations whose phase wanders")),
        "trend": (*changed(lambda x, _: x + np.linspace(0, 5, len(x))[:, None]),
            series((0, 1), last=N), ("both rise all the while", "no trend")),
        "change of regime": (
            *changed(lambda x, _: x + 2.5 * (np.arange(len(x)) > 700)[:, None]),
            series((0,), last=N), ("another level from 700 on", "the same throughout")),
        "shifted level": (*(Data(recalibrated(s), {"dt": 1.0}) for s in (1.5, 0.0)),
            series((0, 1), last=N), ("one reads higher from 700 on", "one sensor throughout")),
        "baselines": (*recordings(), series((0,), last=N),
            ("each has a level of its own", "all have one")),
        "random walk": (*changed(lambda x, rng: np.cumsum(rng.normal(size=x.shape), axis=0)),
            series((0, 1), last=N), ("nothing pulls back", "pulled back")),
        "irregular clock": (Data(plain(), uneven(), treat=False),
            Data(plain(), {"dt": DT}), series((0,), last=50, style=".-"),
            ("intervals from 0.1 to 1.9", "one interval")),
        "missing rows": (Data(np.delete(plain(), np.arange(20, N, 9), axis=0),
            {"t": np.delete(np.arange(float(N)), np.arange(20, N, 9))}), Data(plain()),
            series((0,), last=50, style=".-"), ("every ninth row is not there", "all rows")),
        "duplicate": (*changed(with_copy(0.0, scale=3.0))[:1], driven_apart(), against(0, 3),
            ("the same in another unit", "two variables")),
        "near duplicate": (*changed(with_copy(0.03))[:1], driven_apart(), against(0, 3),
            ("the same with a little error", "two variables")),
        "linear combination": (*changed(lambda x, _: np.column_stack([x, x[:, 0] - x[:, 1]]))[:1],
            driven_apart(), sums, ("the last is the difference", "the last is its own")),
        "missing values": (*changed(lambda x, rng: np.where(rng.random(x.shape) < 0.05, np.nan, x)),
            series((0,), last=100, style=".-"), ("one in twenty is missing", "all are there")),
        "missing stretch": (*changed(stretch), series((0,), last=500),
            ("a hundred in a row are missing", "all are there")),
        "spikes": (*changed(spiked), series(), ("single values far off", "nothing stands out")),
        "wrapped angle": (*changed(lambda x, _: np.cumsum(x, axis=0) % (2 * np.pi)),
            series(last=80, style=".-"), ("starts again after each turn", "no jumps")),
        "quantised": (*changed(lambda x, _: np.round(x / x.std() * 2)), series(last=80, style=".-"),
            ("a few values in all", "fine resolution")),
        "clipped": (*changed(lambda x, _: np.minimum(x, x.std())), series(),
            ("cut off at its limit", "within the range")),
        "stuck sensor": (*changed(stuck), series(), ("one value for sixty samples", "it moves")),
        "held values": (*changed(lambda x, _: np.repeat(x[::4], 4, axis=0)[: len(x)]),
            series(last=60, style=".-"), ("each value four times", "each value once")),
        "interpolated": (*changed(between), series(last=60, style=".-"),
            ("straight between every fourth", "measured at every time")),
        "measurement error": (
            *changed(lambda x, rng: x + 0.2 * x.std(axis=0) * rng.normal(size=x.shape), n=4000),
            series(last=60, style=".-"), ("an error at every sample", "a path")),
        "no noise, one cycle": (Data(cycle(0.0)), Data(cycle(0.1)), against(0, 1),
            ("one closed orbit", "noise moves it off")),
    }  # fmt: skip
    discovered = {
        "short record": (Data(plain(n=80)), Data(plain()), series(last=300),
            ("80 samples for nine inputs", "1200 samples")),
        "lost windows": (Data(pieces[0], lags=(0, 4)), Data(pieces[1], lags=(0, 4)),
            series((0, 1, 2), last=110), ("gaps one after another", "gaps at the same times")),
        "no edge": (Data(np.cumsum(np.random.default_rng(5).normal(size=(N, 2)), axis=0)),
            Data(delayed(2)), series((0, 1), last=N), ("every step is new", "drift and noise")),
        "weak edges": (Data(graded((0.02, 0.04, 0.05, 0.06, 0.07, 0.08)), lags=(0,)),
            Data(graded((0.0, 0.0, 0.0, 0.4, 0.4, 0.4)), lags=(0,)), slopes,
            ("many hardly worth their price", "clear or nothing")),
        "neighbouring lags": (
            Data(delayed(2.7), lags=(0, 1, 2, 3, 4)), Data(delayed(2), lags=(0, 1, 2, 3, 4)),
            lagged,
            ("a delay between 2 and 3", "a delay of 2")),
        "replaceable edges": (Data(sensors(0.15), STEPS),
            Data(sensors(None), STEPS),
            against(0, 2), ("two sensors of one driver", "two variables")),
        "delay between lags": (
            Data(delayed(8), lags=(0, 5, 10, 15)), Data(delayed(10), lags=(0, 5, 10, 15)),
            coarsely, ("a delay of 8 samples", "a delay of 10")),
        "residual memory": (Data(hidden()[:, 1:], lags=(0,)), Data(hidden(), lags=(0,)), memory,
            ("its driver was not measured", "its driver is there")),
        "persistent rates": (
            Data(averaged(True), {"dt": 1.0}), Data(averaged(False), {"dt": 1.0}), own_past,
            ("means over an interval", "values at its end")),
        "later delay": (
            Data(delayed(8), lags=tuple(range(5))), Data(delayed(8), lags=tuple(range(11))), later,
            ("a delay of 8, candidates up to 4", "candidates up to 10")),
        "proportional changes": (
            Data(np.exp(0.3 * plain()), STEPS, lags=(0, 1)), Data(20 + plain(), STEPS, lags=(0, 1)),
            series((0,), last=200),
            ("changes grow with the level", "changes are alike everywhere")),
        "hidden driver": (
            Data(bursts(), STEPS, lags=tuple(range(6))),
            Data(bursts(seen=True), STEPS, lags=tuple(range(6))), series((0, 1), last=150),
            ("something unseen moves both", "one moves the other")),
        "hidden driver possible": (
            Data(driven_by(0.0), STEPS, lags=tuple(range(4))),
            Data(driven_by(0.6), STEPS, lags=tuple(range(4))), series((0, 1), last=80),
            ("nothing measured moves the source", "its own past does")),
        "derived variable": (*changed(lambda x, _: np.column_stack([x, x[:, 0] ** 2]))[:1],
            driven_apart(), against(0, 3), ("a function of another", "a variable of its own")),
        "links at once": (Data(within(True), STEPS), Data(within(False), STEPS),
            pairs_of_news, ("moved within the sample", "moved a sample later")),
        "no noise, lags": (
            Data(blood(0.0), {"dt": 1.0}, lags=(0, 1, 2, 15, 16, 17, 18)),
            Data(blood(0.02), {"dt": 1.0}, lags=(0, 1, 2, 15, 16, 17, 18)), series(last=250),
            ("no noise: neighbours tell all", "noise tells lags apart")),
        "sensor noise": (
            Data(chaos(0.0, 0.02), {"dt": 0.02}, lags=(0, 1, 2, 3)),
            Data(chaos(2.0, 0.0), {"dt": 0.02}, lags=(0, 1, 2, 3)), one_step_later,
            ("errors turn back", "noise is new at every step")),
        "no foresight": (
            Data(np.random.default_rng(6).normal(size=(N, 2)), STEPS, lags=(0, 1)),
            Data(within(False), STEPS, lags=(0, 1)), series((0,), last=80, style=".-"),
            ("forgotten at the next sample", "remembered for a while")),
        "drifting link": (Data(fading(-0.9), STEPS), Data(fading(0.9), STEPS), by_parts,
            ("an effect that turns around", "an effect that stays")),
        "passing events": (Data(waves(), lags=(0, 3, 6)), Data(plain(), lags=(0, 3, 6)),
            series((0, 1, 2), last=800), ("a few floods pass all", "never at rest")),
        "rhythm": (Data(oscillator(), lags=(0, 2, 4, 6, 8)),
            Data(plain() + 2 * wave[:, None], lags=(0, 2, 4, 6, 8)), series((0, 1)),
            ("the feedback keeps time", "a clock moves both")),
        "drift not finite": (Data(np.where(np.arange(N) < 60, plain()[:, 0], np.nan)[:, None]),
            Data(plain()[:, :1]), drift, ("no number from here on", "a number everywhere")),
    }  # fmt: skip
    return {name: Pair(*pair) for name, pair in found.items()} | {
        name: Pair(*pair, discovered=True) for name, pair in discovered.items()
    }


def collinear():
    """Candidate inputs that are nearly the same number, and some that are not."""
    t = np.linspace(0, 60, 2400)
    waves = np.stack([np.sin(t) + np.sin(0.618 * t), np.cos(1.3 * t)], axis=1)
    return Pair(
        Data(waves, lags=(0, 1, 2)),
        Data(waves, lags=(0, 40, 80)),
        past,
        ("neighbouring lags of a slow variable", "lags as far apart as it takes to move"),
    )


def slug(name):
    """Of its page and picture."""
    return name.replace(",", "").replace(" ", "_")


def picture(pair):
    """Both sides, and what there is to see in each."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, 2.3), layout="constrained")
    sides = zip(figure.subplots(1, 2), (pair.bad, pair.good), (BAD, GOOD), pair.said, strict=True)
    for ax, data, colour, said in sides:
        pair.draw(ax, data, colour)
        ax.set_title(said, fontsize=9, color=colour, loc="left")
        ax.tick_params(labelsize=7)
        ax.xaxis.label.set_size(8)
        ax.yaxis.label.set_size(8)
        ax.spines[["top", "right"]].set_visible(False)
    return figure


def main():
    """Draw all."""
    import matplotlib

    # The same file from the same data: no date, no random names within.
    matplotlib.rcParams |= {"svg.hashsalt": "ndde", "svg.fonttype": "none"}
    for name, pair in (pairs() | {"identifiability": collinear()}).items():
        file = HERE / f"{slug(name)}.svg"
        picture(pair).savefig(file, metadata={"Date": None, "Creator": None})
        print(file.relative_to(HERE.parents[1]))


if __name__ == "__main__":
    main()
