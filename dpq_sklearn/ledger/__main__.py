"""``python -m dpq_sklearn.ledger``."""

import sys

from dpq_sklearn.ledger.command_line import main

if __name__ == "__main__":
    sys.exit(main())
