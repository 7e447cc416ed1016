"""Variables given to programs of the pages that begin with a discovery or with data."""

import ast
import builtins

import jax
import numpy as np

import ndde_jax as ndde
from tests.use import small

# Replacements for clusters and schedulers that are not available here.
ELSEWHERE = tuple(f"many_systems.md[{k}]" for k in range(1, 5))
# By page: what the lines before state in words is made by `given`.
CONTINUED = (
    "guides/differentiate.md[3]",
    "guides/differentiate.md[4]",
    "guides/forcing_and_seasons.md[1]",
    "guides/recordings.md[1]",
    "guides/recordings.md[2]",
    "guides/simulate_forecast_intervene.md[3]",
    "guides/simulate_forecast_intervene.md[4]",
    "guides/simulate_forecast_intervene.md[5]",
    "guides/simulate_forecast_intervene.md[6]",
    "many_systems.md[0]",
    "use.md[0]",
    "use.md[1]",
)

# Programs that continue the previous one on their page.
AFTER = {
    "README.md[1]": "README.md[0]",
    "guides/simulate_forecast_intervene.md[2]": "guides/simulate_forecast_intervene.md[1]",
}


def unknown(program):
    """Names that a program reads and does not define."""
    made, read = set(dir(builtins)), set()
    for node in ast.walk(ast.parse(program)):
        if isinstance(node, ast.Name):
            (read if isinstance(node.ctx, ast.Load) else made).add(node.id)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            made |= {(name.asname or name.name).partition(".")[0] for name in node.names}
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            made.add(node.name)
        elif isinstance(node, ast.arg):
            made.add(node.arg)
    return read - made


def given(directory):
    """A discovery whose truth is known, also in `directory`, and data of each kind."""
    a = small.A.copy()
    a[1, 0, 2] = 0.5  # the third variable acts on the second at once
    graph = np.moveaxis(a != 0, (0, 1, 2), (1, 2, 0))
    x = small.linear_path(1200, a=a)
    found = small.discovery(x[:1000], graph, names=("sun", "heat", "wind"))
    (directory / "result").mkdir()
    found.save(directory / "result" / "discovery")
    short = [small.linear_path(300, seed=seed, a=a)[:, :2] for seed in range(3)]
    return {
        **{"jax": jax, "np": np, "ndde": ndde, "key": jax.random.key(0)},
        **{"found": found, "x": x, "held_back": x[1000:], "dt": small.DT, "lags": (0, 2)},
        **{"trials": short, "systems": short[:2], "month": np.arange(1200) // 30 % 12 + 1},
    }
