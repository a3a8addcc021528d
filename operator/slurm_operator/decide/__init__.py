"""What should be done: pure functions of what is seen, without clients, clocks or files."""
