"""A seeded schedule of faults against a running dev cluster, a sampler of what follows, and an offline judge.

`kinds`, `schedule`, `history`, `health` and `judge` are pure; the others reach the cluster.
"""
