"""The reliability of verdicts by kind of record; see README.md."""
