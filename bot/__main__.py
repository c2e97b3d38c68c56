"""`python -m bot` is the command `usher`."""

import sys

from bot.cli import main

sys.exit(main())
