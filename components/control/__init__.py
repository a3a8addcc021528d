"""Parts that serve the whole stack: keys, ledger, ownership, the operator with its CRDs, and network policies."""
