"""python -m tapegrad."""

import sys

from tapegrad.cli import main

if __name__ == "__main__":
    sys.exit(main())
