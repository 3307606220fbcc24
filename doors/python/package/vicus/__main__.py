"""The command line: ``vicus``, and ``python -m vicus``."""

from __future__ import annotations

import os
import signal
import sys


def main() -> int:
    """Runs the command of this process's arguments; its exit status."""
    from . import _vicus

    # The command has handlers of its own.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    return _vicus.command(["vicus", *sys.argv[1:]], os.path.join(os.path.dirname(__file__), "lib"))


if __name__ == "__main__":
    sys.exit(main())
