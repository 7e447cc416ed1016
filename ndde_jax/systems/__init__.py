"""Named delayed and ordinary systems as values, each with the graph its equations have.

```python
import ndde_jax as ndde

system = ndde.systems.get("mackey_glass")     # .drift .lags .sigma .history .graph .dt ...
print(ndde.systems.names("delay"))
```

`python -m ndde_jax.systems` prints a table of all of them.
"""

# Importing a file of systems registers them.
from . import (
    _climate as _climate,
    _coupled as _coupled,
    _ecology_genes as _ecology_genes,
    _lasers as _lasers,
    _mechanics as _mechanics,
    _neuro as _neuro,
    _physiology as _physiology,
    _reference as _reference,
)
from ._registry import get as get, names as names
from ._system import Drift as Drift, System as System

__all__ = ["Drift", "System", "get", "names"]
