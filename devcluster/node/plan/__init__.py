"""The node of an instance, decided: its components' command lines and configuration files."""
