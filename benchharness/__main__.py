"""`python -m benchharness` is the same as `benchharness`."""

from benchharness.cli import main

if __name__ == "__main__":
    main()
