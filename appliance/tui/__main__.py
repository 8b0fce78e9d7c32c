"""`python -m appliance.tui FD`: the screen's process, started by `run_screen` with a connected socket."""

import asyncio
import sys

from appliance.tui.child import run_client

if __name__ == "__main__":
    sys.exit(asyncio.run(run_client(fd=int(sys.argv[1]))))
