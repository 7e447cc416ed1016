"""How graphs are found."""
