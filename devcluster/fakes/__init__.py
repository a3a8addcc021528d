"""What the dev cluster has in place of hardware that most machines lack. Each says what it shares with the real one."""
