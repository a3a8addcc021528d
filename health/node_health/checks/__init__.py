"""The checks: each module reads one thing (`look`, at the edge) and judges what it read (`judge`, pure)."""
