"""Pictures; the only part that imports matplotlib."""

from ._matrix import (
    plot_discovery as plot_discovery,
    plot_lag_matrix as plot_lag_matrix,
    plot_process_graph as plot_process_graph,
    plot_trajectories as plot_trajectories,
)
from ._surfaces import plot_interactions as plot_interactions, plot_surface as plot_surface
from ._use import (
    plot_effects as plot_effects,
    plot_forecast as plot_forecast,
    plot_intervention as plot_intervention,
)
