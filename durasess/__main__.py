"""`python -m durasess` is the `durasess` command."""

import sys

from durasess.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
