"""Figures; the only part that imports matplotlib.

`matplotlib.style.use("ndde_jax.plot.talk")` selects the style of the gallery for your own figures.
"""

from ._effects import (
    plot_effects as plot_effects,
    plot_forecast as plot_forecast,
    plot_interactions as plot_interactions,
    plot_intervention as plot_intervention,
    plot_trajectories as plot_trajectories,
)
from ._graphs import (
    plot_discovery as plot_discovery,
    plot_lag_matrix as plot_lag_matrix,
    plot_process_graph as plot_process_graph,
)
