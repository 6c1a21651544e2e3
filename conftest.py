"""What all tests need."""

from __future__ import annotations

import signal

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Started in the background of a shell, this process and its children would never see Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
