"""`python3 -m slurm_operator`: runs the operator for the namespace named by POD_NAMESPACE."""

import logging
import os
import sys

import kopf

from contract import pod_variables
from slurm_operator import handlers


def main() -> int:
    """Run until a signal ends it."""
    namespace = os.environ.get(pod_variables.POD_NAMESPACE, "")
    if not namespace:
        print("POD_NAMESPACE is not set: name the namespace of the Slurm cluster", file=sys.stderr)
        return 2
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    for noisy in ("httpx", "httpcore", "kopf"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    handlers.log.info("serving namespace %s", namespace)
    kopf.run(standalone=True, namespaces=[namespace])
    return 0


if __name__ == "__main__":
    sys.exit(main())
