"""Measurements of the jail's storage: filling a root, small files, options of NFS."""
