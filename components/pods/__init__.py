"""Parts that pods of several components share."""
