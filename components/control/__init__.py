"""Parts that serve the whole stack: keys, ledger, ownership, the operator and network policies."""
