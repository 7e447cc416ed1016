"""Data with one fault at a time, each compared with its clean twin."""
