"""Replacements for hardware that most machines lack. Each says what it shares with the real one."""
