"""Test runs: phases of `make test`, their times, the tests of GPU machines."""
