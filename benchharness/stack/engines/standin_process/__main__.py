"""Start-up by path: `python -I .../standin_process PORT '{"start_s": 0, ...}'`."""

import sys
from importlib import import_module
from pathlib import Path

# Run by path, this file belongs to no package; its parent on the search path makes the folder one.
sys.path[0] = str(Path(__file__).resolve().parent.parent)

if __name__ == "__main__":
    sys.exit(import_module("standin_process.server").main(sys.argv[1:]))
