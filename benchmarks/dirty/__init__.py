"""Data with one thing wrong at a time, each beside its clean twin."""
