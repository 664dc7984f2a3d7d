"""Suites: many runs planned, started and collected for one comparison."""
