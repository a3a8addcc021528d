"""What pods of several components share."""
