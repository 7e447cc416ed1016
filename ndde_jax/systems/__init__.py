"""Named delayed and ordinary systems as values, each with the graph its equations have.

```python
import ndde_jax as ndde

system = ndde.systems.get("mackey_glass")     # .drift .lags .sigma .history .graph .dt ...
print(ndde.systems.names("delay"))
```

`python -m ndde_jax.systems` prints a table of all of them.
"""

# Importing these files registers their systems.
from . import _biology as _biology, _physics as _physics, _reference as _reference
from ._system import Drift as Drift, System as System, get as get, names as names

__all__ = ["Drift", "System", "get", "names"]
