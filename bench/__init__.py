"""Measurements, as ratios within one run, since their machines are noisy."""
