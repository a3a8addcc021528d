"""The CRDs of the operator, made from the models of the configuration."""
