"""Long checks: jobs of the operator that test idle nodes."""
