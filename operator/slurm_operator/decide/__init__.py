"""Decides what to do: pure functions of the observed state, without clients, clocks or files."""
