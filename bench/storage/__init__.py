"""What the jail's storage takes: filling a root, small files, options of NFS."""
