"""What an object is, how it differs, and what that means: decisions without a cluster."""
