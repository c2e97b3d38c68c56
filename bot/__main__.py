"""`python -m bot` is the command `usher`."""

import sys

from bot.cli.main import main

sys.exit(main())
