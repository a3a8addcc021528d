"""When an object is ready, and why it is not."""
