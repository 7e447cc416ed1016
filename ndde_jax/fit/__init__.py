"""How weights are found, for a given graph or together with gates."""
