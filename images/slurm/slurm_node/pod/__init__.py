"""Modules that every pod uses: paths, settings, system calls, daemons, safe files."""
