"""Finds the points of an axis: commits of a clone, releases on an index, wheels in a folder."""

from benchharness.bisect.discover.commits import Found, commits, entered
from benchharness.bisect.discover.index import releases
from benchharness.bisect.discover.wheels import in_folder

__all__ = ["Found", "commits", "entered", "in_folder", "releases"]
