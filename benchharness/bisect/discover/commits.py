"""Commits between two revisions of a local clone, in first-parent order.

Only one line of development is walked: the first parents. A merge is then one step, whatever it brought;
`entered` takes such a step apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchharness.bisect import order
from benchharness.bisect.order import Point
from benchharness.errors import UsageError, nearest
from benchharness.stack.git import Git, GitFailure, repository_at

FORMAT = "--format=%H%x1f%P%x1f%cI%x1f%s"
SHORT = 12
"""Characters of a hash in a sentence."""


@dataclass(frozen=True)
class Found:
    """An axis of commits.

    Attributes:
        points: the good end first, the bad end last.
        notes: what somebody should know of it, one sentence each.
        merges: hashes of those points that are merges: `entered` takes them apart.
    """

    points: tuple[Point, ...]
    notes: tuple[str, ...] = ()
    merges: frozenset[str] = frozenset()


@dataclass(frozen=True)
class _Commit:
    sha: str
    parents: tuple[str, ...]
    date: str
    subject: str


def commits(repo: str, good: str, bad: str, paths: Sequence[str] = ()) -> Found:
    """All commits from the good revision to the bad one.

    Where the good one is no ancestor on the bad one's line (a release branch, or the newer of the two),
    the axis runs back from it to the commit where both lines part, and from there to the bad one: each
    step is still one commit, so the change can be found on either side.

    Args:
        repo: folder of a local clone; its worktree is not touched.
        good, bad: hashes, tags or branches.
        paths: only commits that change something below these; the ends are always there.

    Raises:
        UsageError: no such clone or revision, unrelated histories, a history that was cut off between
            the two, paths that no commit touches, both revisions the same commit.
    """
    git = _clone(repo)
    ends = [_resolved(git, repo, revision) for revision in (good, bad)]
    if ends[0] == ends[1]:
        raise UsageError(f"{good} and {bad} are the same commit, {ends[0][:SHORT]}", "name two commits")
    try:
        fork = _fork(git, repo, *ends)
        back = [] if fork == ends[0] else [*_line(git, fork, ends[0], paths)[::-1]]
        forth = [] if fork == ends[1] else _line(git, fork, ends[1], paths)
        found = _with_ends(git, ends, fork, back, forth)
        if paths:
            _refuse_untouched(paths, back + forth)
        notes = [*_way(ends, fork, good, bad), *_state(git, repo), *_apart(paths, back + forth, ends)]
    except GitFailure as failure:
        raise failure.as_error(repo) from None
    return _as_found(repo, found, notes)


def entered(repo: str, merge: str) -> Found:
    """A merge taken apart: its first parent, then the commits that it brought, then the merge itself.

    The commits of the side branch stand on the commit where it began. Whatever the main line got since
    then is missing in them, so the second point is that commit: if it is as good as the first parent, the
    main line's part plays no role.

    Raises:
        UsageError: no such clone or commit, or it is no merge.
    """
    git = _clone(repo)
    sha = _resolved(git, repo, merge)
    try:
        (last,) = _read(git, "-1", sha)
        if len(last.parents) < 2:
            raise UsageError(f"{merge} is not a merge", "name a commit with several parents")
        found = _read(git, "-1", last.parents[0])
        notes = []
        for side in last.parents[1:]:
            begin = _merge_base(git, last.parents[0], side)
            if begin is not None and begin != last.parents[0]:
                found += _read(git, "-1", begin)
                notes.append(
                    f"the side branch began at {begin[:SHORT]}, before the merge's first parent: its commits "
                    "lack what the main line got since"
                )
            found += _read(git, "--reverse", "--first-parent", side, f"^{last.parents[0]}")
        if len(last.parents) > 2:
            notes.append(f"{merge} merges {len(last.parents) - 1} branches, which follow one after another")
    except GitFailure as failure:
        raise failure.as_error(repo) from None
    return _as_found(repo, [*found, last], notes)


def _clone(repo: str) -> Git:
    found = repository_at(repo)
    if found is None:
        raise UsageError(
            f"{repo} is an address, and commits are looked up in a clone on this machine",
            "clone it, and name the folder as `source.repo`",
        )
    return found


def _resolved(git: Git, repo: str, revision: str) -> str:
    sha = git.commit(revision)
    if sha is not None:
        return sha
    if git.is_ambiguous(revision):
        raise UsageError(f"several commits of {repo} begin with {revision}", "write more of the hash")
    if git.is_shallow():
        raise UsageError(
            f"{repo} has no commit {revision}, and its history was cut off (a shallow clone)",
            f"run `git -C {repo} fetch --unshallow --tags`",
        )
    names = git.text("for-each-ref", "--format=%(refname:short)", "refs/tags", "refs/heads").split()
    raise UsageError(
        f"{repo} has no commit, tag or branch {revision!r}{nearest(revision, names)}", "or fetch it first"
    )


def _fork(git: Git, repo: str, good: str, bad: str) -> str:
    """The last commit on the bad one's first-parent line that the good one holds, itself included.

    Where the bad one is itself held by the good one, the same with the roles exchanged.
    """
    new = _read(git, "--first-parent", bad, f"^{good}")
    if not new:
        newer, older = good, bad
        new = _read(git, "--first-parent", good, f"^{bad}")
    else:
        newer, older = bad, good
    if new[-1].parents:
        return new[-1].parents[0]
    if git.is_shallow():
        raise UsageError(
            f"the history of {repo} was cut off at {new[-1].sha[:SHORT]}, between the two commits",
            f"run `git -C {repo} fetch --unshallow`",
        )
    raise UsageError(
        f"{newer[:SHORT]} and {older[:SHORT]} have no history in common",
        "name two commits of one history, or compare the two stacks with `--factors`",
    )


def _line(git: Git, begin: str, end: str, paths: Sequence[str]) -> list[_Commit]:
    """Commits after `begin` up to `end` along first parents, oldest first."""
    below = ("--", *paths) if paths else ()
    return _read(git, "--reverse", "--first-parent", end, f"^{begin}", *below)


def _with_ends(
    git: Git, ends: Sequence[str], fork: str, back: list[_Commit], forth: list[_Commit]
) -> list[_Commit]:
    """Good end, commits back to the fork, the fork, commits on to the bad end: none twice."""
    wanted = [ends[0], *(one.sha for one in back), fork, *(one.sha for one in forth), ends[1]]
    known = {one.sha: one for one in (*back, *forth)}
    missing = [sha for sha in dict.fromkeys((*ends, fork)) if sha not in known]
    known |= {sha: _read(git, "-1", sha)[0] for sha in missing}
    return [known[sha] for sha in dict.fromkeys(wanted)]


def _way(ends: Sequence[str], fork: str, good: str, bad: str) -> list[str]:
    if fork == ends[0]:
        return []
    if fork == ends[1]:
        return [f"{good} is newer than {bad}: the axis runs backwards in time"]
    return [
        f"{good} is not on the line of {bad}: the axis runs back to {fork[:SHORT]}, where they part, and on "
        f"to {bad} from there"
    ]


def _state(git: Git, repo: str) -> list[str]:
    if not git.is_bare() and git.text("status", "--porcelain", "--untracked-files=no"):
        return [f"{repo} has uncommitted work, which is in no point: commits are checked out elsewhere"]
    return []


def _apart(paths: Sequence[str], found: Sequence[_Commit], ends: Sequence[str]) -> list[str]:
    if paths and not any(one.sha == ends[1] for one in found):
        return [
            f"the bad end changes nothing below {', '.join(paths)}: its step stands for all other commits"
        ]
    return []


def _refuse_untouched(paths: Sequence[str], found: Sequence[_Commit]) -> None:
    if not found:
        raise UsageError(
            f"no commit between the two ends changes anything below {', '.join(paths)}", "correct the path"
        )


def _merge_base(git: Git, one: str, other: str) -> str | None:
    try:
        return git.text("merge-base", one, other) or None
    except GitFailure:
        return None


def _read(git: Git, *arguments: str) -> list[_Commit]:
    text = git.text("log", "--no-color", "--no-show-signature", FORMAT, *arguments)
    rows = [line.split("\x1f", 3) for line in text.split("\n") if line]
    return [_Commit(sha, tuple(parents.split()), date, subject) for sha, parents, date, subject in rows]


def _as_found(repo: str, found: Sequence[_Commit], notes: Sequence[str]) -> Found:
    points = tuple(
        order.commit(repo, one.sha, date=one.date, subject=one.subject)
        for one in {one.sha: one for one in found}.values()
    )
    return Found(points, tuple(notes), frozenset(one.sha for one in found if len(one.parents) > 1))
