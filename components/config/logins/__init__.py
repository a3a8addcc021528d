"""Parts of the configuration of login nodes."""
