"""`python -m rrext`."""

from __future__ import annotations

import sys

from rrext.cli.main import main

sys.exit(main())
