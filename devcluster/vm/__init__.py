"""A User-Mode Linux guest: a kernel with cgroup v2, all its controllers and NFS, on a machine that has neither.

The guest is one ordinary process. Its root is the machine's own, read-only, with a disk of its own laid over it. So
checkout, virtual environment and caches have the same paths inside. See docs/adr/0014.
"""
