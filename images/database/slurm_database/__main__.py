"""The database image's entry point: python3 -m slurm_database [further options of mariadbd]."""

import sys

from slurm_database import start

if __name__ == "__main__":
    start.main(sys.argv[1:])
