"""Entry point of the database image."""
