"""What holds the stack together: keys, ledger, ownership, the operator and who may connect to whom."""
