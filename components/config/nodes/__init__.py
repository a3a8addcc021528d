"""Configuration of worker nodes."""
