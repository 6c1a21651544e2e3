"""Git, as the harness calls it: argument lists, no questions, and none of a hook's variables."""

from __future__ import annotations

import os
import re
from pathlib import Path
from types import ModuleType

from benchharness.errors import HarnessError, InfrastructureError, UsageError

LOCAL_VARIABLES = (
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_NAMESPACE",
    "GIT_PREFIX",
)
_NETWORK = re.compile(
    r"could not resolve host|connection (?:refused|reset|timed out)|timed out|network is unreachable"
    r"|unable to access|early eof|could not read from remote",
    re.IGNORECASE,
)
_DISK = re.compile(r"no space left|disk quota|read-only file system", re.IGNORECASE)


class GitFailure(Exception):  # noqa: N818 - not an error for people: it becomes one in `as_error`
    """A git command that failed, with what it said."""

    def __init__(self, arguments: tuple[str, ...], stderr: str) -> None:
        self.stderr = stderr
        super().__init__(f"git {arguments[0]}: {stderr}")

    def first_line(self) -> str:
        """The line that says why, without git's own label."""
        lines = [line.strip() for line in self.stderr.splitlines() if line.strip()]
        telling = (
            [line for line in lines if re.match(r"(?:error|fatal): ", line)] or lines or ["no reason given"]
        )
        return re.sub(r"^(?:error|fatal): ", "", telling[0])

    def as_error(self, repo: str) -> HarnessError:
        """What it means for whoever named the repository."""
        place = re.sub(r"^(\w+://)[^/@\s]+@", r"\1", repo)
        reason = re.sub(r"(\w://)[^/@\s]+@", r"\1", self.first_line())
        if _DISK.search(self.stderr):
            return InfrastructureError(f"git can't write: {reason}", "free some space in the cache folder")
        if "dubious ownership" in self.stderr:
            return UsageError(
                f"git refuses {place}, which belongs to another user",
                f"run `git config --global --add safe.directory {place}`",
            )
        if _NETWORK.search(self.stderr):
            return InfrastructureError(f"{place} can't be reached: {reason}", "check network and address")
        return UsageError(f"git can't use {place}: {reason}", "check that it is a whole git repository")


class Git:
    """Git commands in one folder; each raises GitFailure when it fails."""

    def __init__(self, folder: Path, variables: dict[str, str] | None = None) -> None:
        self.folder = folder
        self._variables = variables or {}

    def with_variables(self, **variables: str) -> Git:
        """The same folder with further environment variables."""
        return Git(self.folder, {**self._variables, **variables})

    def raw(self, *arguments: str) -> bytes:
        """Standard output, exactly."""
        library = _library()
        program = library.cmd.Git()
        variables = {
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_SSH_COMMAND": os.environ.get("GIT_SSH_COMMAND", "ssh -oBatchMode=yes"),
            "GIT_LFS_SKIP_SMUDGE": os.environ.get("GIT_LFS_SKIP_SMUDGE", "1"),
            "LC_ALL": "C",
            "LANGUAGE": "C",
            **self._variables,
        }
        for name in LOCAL_VARIABLES:
            # A hook that called us left them here: they would turn every command to the hook's repository.
            os.environ.pop(name, None)
        # No hook and no file watcher of the user's configuration has a part in a measurement.
        settings = ("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "gc.auto=0")
        try:
            out = program.execute(
                ["git", "-C", str(self.folder), *settings, *arguments],
                env=variables,
                stdout_as_string=False,
                strip_newline_in_stdout=False,
            )
        except library.exc.GitCommandError as error:
            stderr = re.sub(r"^\s*stderr: '|'\s*$", "", str(error.stderr))
            raise GitFailure(arguments, stderr) from None
        return bytes(out)

    def run(self, *arguments: str) -> None:
        """Carry it out."""
        self.raw(*arguments)

    def text(self, *arguments: str) -> str:
        """Standard output as text, without space at its ends."""
        return self.raw(*arguments).decode("utf-8", errors="replace").strip()

    def commit(self, wanted: str) -> str | None:
        """The full hash of what a name or a beginning of a hash stands for; None if there is none."""
        try:
            return (
                self.text("rev-parse", "--verify", "--quiet", "--end-of-options", f"{wanted}^{{commit}}")
                or None
            )
        except GitFailure:
            return None

    def fetch(self) -> None:
        """Bring a mirror up to date with its origin."""
        self.run("fetch", "--quiet", "--force", "--update-shallow", "origin", "+refs/*:refs/*")

    def diff(self, *options: str) -> bytes:
        """What differs from HEAD, in a form that `git apply` takes and that no user's setting changes."""
        fixed = ("--binary", "--no-ext-diff", "--no-textconv", "--no-color", "--full-index", "--no-renames")
        prefixes = ("--src-prefix=a/", "--dst-prefix=b/")
        return self.raw("diff", *options, *fixed, *prefixes, "HEAD")

    def differs(self) -> bool:
        """Whether a tracked file is not as it was staged; False where git can't tell."""
        try:
            return bool(self.raw("diff", "--name-only", "--no-ext-diff", "-z"))
        except GitFailure:
            return False

    def is_ambiguous(self, wanted: str) -> bool:
        """Whether several commits begin so."""
        try:
            self.run("rev-parse", "--verify", "--end-of-options", f"{wanted}^{{commit}}")
        except GitFailure as failure:
            return "ambiguous" in failure.stderr
        return False

    def is_shallow(self) -> bool:
        """Whether its history was cut off."""
        return self.text("rev-parse", "--is-shallow-repository") == "true"

    def is_bare(self) -> bool:
        """Whether it has no working tree."""
        return self.text("rev-parse", "--is-bare-repository") == "true"

    def top(self) -> Git:
        """The same repository at the top of its working tree."""
        return Git(Path(self.text("rev-parse", "--show-toplevel")), self._variables)

    def common_dir(self) -> Path:
        """The repository's own folder, shared by all its worktrees."""
        return (self.folder / self.text("rev-parse", "--git-common-dir")).resolve()

    def index_path(self) -> Path:
        """Its index file."""
        return (self.folder / self.text("rev-parse", "--git-path", "index")).resolve()

    def objects_path(self) -> Path:
        """Its objects."""
        return (self.folder / self.text("rev-parse", "--git-path", "objects")).resolve()


def repository_at(place: str) -> Git | None:
    """The local repository at a folder; None if the place is an address; raises UsageError if neither."""
    folder = Path(place).expanduser().absolute()
    if folder.is_dir():
        found = Git(folder)
        try:
            found.run("rev-parse", "--git-dir")
        except GitFailure as failure:
            if "not a git repository" not in failure.stderr:
                raise failure.as_error(place) from None
            raise UsageError(f"{place} is not a git repository", "name the folder of a clone") from None
        return found
    if re.match(r"\w+://", place) or re.match(r"[\w.-]+@[\w.-]+:", place):
        return None
    raise UsageError(f"there is no folder {place}", "name the folder of a clone, or an address git can clone")


def _library() -> ModuleType:
    """GitPython, loaded when first needed: it takes a tenth of a second and starts git."""
    try:
        import git
    except ImportError as error:
        raise InfrastructureError("the program git is missing", "install git") from error
    return git
