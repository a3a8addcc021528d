"""The jail: its volume, and the Job that fills a root."""
