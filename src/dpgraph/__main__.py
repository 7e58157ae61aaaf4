"""`python -m dpgraph`."""

import sys

from dpgraph.cli import main

sys.exit(main())
