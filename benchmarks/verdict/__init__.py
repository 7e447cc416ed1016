"""How far verdicts can be believed, by kind of record; see README.md."""
