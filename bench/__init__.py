"""Measurements, as ratios within one run: the machines that they run on are noisy."""
