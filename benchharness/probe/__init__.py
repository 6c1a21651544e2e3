"""The probe: goes into the engine's own processes and times every decode cycle there.

It imports nothing of benchharness and nothing outside the standard library; torch is used only where
the engine has imported it. It has to run on whatever Python the engine runs on (3.9 and later). The
engine's processes load it as a package named `benchharness_probe`: see `sitecustomize.py`.
"""

VERSION = "1"
