"""How the tests run: phases of `make test`, what they took, the tests of GPU machines."""
