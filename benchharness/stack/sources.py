"""The engine's code at one git commit, as a folder of its own: checked out once, kept by content.

The user's clone is only read. Its objects are shared (`git clone --shared`), so a checkout of a large
repository costs the files of one tree and nothing else. If the clone later forgets a commit (rebased and
pruned), checkouts that stand stay as they are.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from benchharness.errors import InfrastructureError, UsageError
from benchharness.records import Source
from benchharness.stack.git import Git, GitFailure, repository_at

UNTRACKED_LIMIT_BYTES = 16 << 20
PATCHED_CHARACTERS = 10


@dataclass(frozen=True)
class Checkout:
    """A commit of a repository as a folder.

    Attributes:
        path: the folder.
        repo: where it comes from, without passwords.
        commit: full hash.
        subject: first line of the commit's message.
        committed_at: ISO 8601 with offset.
        diff: all that differs from the commit, as git prints it (uncommitted work, then the patch);
            empty if nothing does. Bytes that are not UTF-8 are replaced.
        diff_sha256: digest of the exact diff; empty if there is none.
    """

    path: str
    repo: str
    commit: str
    subject: str
    committed_at: str
    diff: str = ""
    diff_sha256: str = ""


def checkout(source: Source, cache: Path) -> Checkout:
    """The code of `source` in a folder under `cache/sources`, made once and reused.

    Args:
        source: `repo` is a folder or anything that git can clone. `commit` is a hash, tag or branch; None
            is the repository's HEAD together with its uncommitted work (untracked files that git doesn't
            ignore included). `patch` is a file for `git apply`.
        cache: the harness's cache folder.

    Raises:
        UsageError: no such repository, commit or patch, the patch doesn't apply, or the checkout that
            stands was changed by hand.
        InfrastructureError: git is missing, the network or the disk failed.
    """
    if source.repo is None:
        raise UsageError("the source names no repository", "set `source.repo`, or use `source.release`")
    folder = cache.absolute() / "sources"
    local = repository_at(source.repo)
    name = _name(source.repo, local)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        patch = _patch(source)
        with _locked(folder / f"{name}.lock"):
            mirror = _mirror(folder / f"{name}.git", source.repo, local)
            commit = _resolve(mirror, local, source)
            work = _uncommitted(local) if source.commit is None and local is not None else b""
            path = folder / name / _folder_name(commit, work, patch)
            found = _standing(path)
            if found is not None:
                return found
            if local is not None:
                mirror.fetch()  # build tools read the version from tags that the clone may have got meanwhile
            return _make(mirror, path, source, commit, work, patch)
    except GitFailure as failure:
        raise failure.as_error(source.repo) from None
    except OSError as error:
        raise InfrastructureError(
            f"the checkout under {folder} can't be written: {error.strerror}",
            "free some space or choose another cache folder",
        ) from error


def pinned(source: Source, cache: Path) -> Source:
    """The same source by its full hash, and with the digest of what differs from that commit.

    Raises as `checkout` does.
    """
    made = checkout(source, cache)
    return replace(source, commit=made.commit, diff_sha256=made.diff_sha256)


def of_pinned(source: Source, cache: Path) -> Checkout:
    """The code of a source that `pinned` gave, made again where its folder is gone.

    Raises UsageError where it can't be made as it was: uncommitted work that is no longer there.
    """
    for record in sorted(_standing_records(source, cache)):
        found = _standing(record.with_suffix(""))
        if found and (found.commit, found.diff_sha256) == (source.commit, source.diff_sha256):
            return found
    made = checkout(source, cache)
    if made.diff_sha256 != source.diff_sha256:
        raise UsageError(
            f"what differed from {str(source.commit)[:12]} in {without_password(str(source.repo))} can't be "
            "found any more",
            "give the diff that the run's folder keeps under sources/ as `source.patch`",
        )
    return made


def _standing_records(source: Source, cache: Path) -> Iterator[Path]:
    """Records of checkouts of that commit."""
    name = _name(str(source.repo), repository_at(str(source.repo)))
    return (cache.absolute() / "sources" / name).glob(f"{str(source.commit)[:12]}*.json")


def without_password(repo: str) -> str:
    """The repository's address without user name and password."""
    return re.sub(r"^(\w+://)[^/@\s]+@", r"\1", repo)


def _name(repo: str, local: Git | None) -> str:
    """Name of the repository's folders in the cache: readable, and different for different places."""
    place = str(local.common_dir()) if local is not None else without_password(repo)
    readable = re.sub(r"[^\w.-]+", "-", Path(place.removesuffix("/.git").rstrip("/")).name).strip("-.")
    return f"{readable.removesuffix('.git') or 'repo'}-{hashlib.sha256(place.encode()).hexdigest()[:10]}"


def _patch(source: Source) -> bytes:
    if source.patch is None:
        return b""
    try:
        return Path(source.patch).expanduser().read_bytes()
    except OSError as error:
        raise UsageError(f"the patch {source.patch} can't be read: {error.strerror}") from None


def _mirror(path: Path, repo: str, local: Git | None) -> Git:
    """Our own bare clone, from which checkouts are made."""
    if path.exists():
        return Git(path)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix="clone-") as draft:
        place = str(local.common_dir()) if local is not None else repo
        options = ("--mirror", "--shared") if local is not None else ("--mirror",)
        Git(path.parent).run("clone", "--quiet", *options, "--", place, f"{draft}/mirror")
        (Path(draft) / "mirror").rename(path)
    return Git(path)


def _resolve(mirror: Git, local: Git | None, source: Source) -> str:
    """The full hash of the commit asked for."""
    wanted = source.commit or "HEAD"
    if local is not None:
        commit = local.commit(wanted)
    else:
        commit = mirror.commit(wanted) if _is_hash(wanted) else None
        if commit is None:
            mirror.fetch()
            commit = mirror.commit(wanted)
    if commit is None:
        raise _unknown(source, wanted, local)
    return commit


def _is_hash(wanted: str) -> bool:
    return re.fullmatch(r"[0-9a-f]{7,40}", wanted) is not None


def _unknown(source: Source, wanted: str, local: Git | None) -> UsageError:
    repo = without_password(str(source.repo))
    if source.commit is None:
        return UsageError(f"{repo} has no commit yet", "commit something first")
    if local is None:
        return UsageError(f"{repo} has no commit, tag or branch {wanted}", "check its spelling")
    if local.is_shallow():
        return UsageError(
            f"{repo} is a shallow clone that lacks {wanted}", f"run `git -C {repo} fetch --unshallow --tags`"
        )
    if local.is_ambiguous(wanted):
        return UsageError(f"{wanted} is the beginning of several commits of {repo}", "write more of the hash")
    return UsageError(
        f"{repo} has no commit, tag or branch {wanted}",
        f"check its spelling, or run `git -C {repo} fetch --all --tags`",
    )


def _uncommitted(local: Git) -> bytes:
    """What the working tree has beyond HEAD, as a diff; the clone itself stays untouched."""
    if local.is_bare():
        return b""
    top = local.top()
    untracked = top.raw("ls-files", "--others", "--exclude-standard", "-z").split(b"\0")
    size = sum((top.folder / os.fsdecode(name)).lstat().st_size for name in untracked if name)
    if size > UNTRACKED_LIMIT_BYTES:
        raise UsageError(
            f"{top.folder} has {size >> 20} MiB of untracked files, too much to record",
            "commit them, remove them, or have git ignore them",
        )
    with tempfile.TemporaryDirectory() as scratch:
        index = Path(scratch) / "index"
        own_index = local.index_path()
        if own_index.exists():
            shutil.copy2(own_index, index)
        staging = top.with_variables(
            GIT_INDEX_FILE=str(index),
            GIT_OBJECT_DIRECTORY=scratch,
            GIT_ALTERNATE_OBJECT_DIRECTORIES=_quoted(str(local.objects_path())),
        )
        staging.run("add", "--all")
        return staging.diff("--cached")


def _quoted(path: str) -> str:
    """As git reads a path in a list of paths, whatever characters it has."""
    escaped = path.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _folder_name(commit: str, work: bytes, patch: bytes) -> str:
    if not work and not patch:
        return commit[:12]
    digest = hashlib.sha256(len(work).to_bytes(8, "big") + work + patch)
    return f"{commit[:12]}+{digest.hexdigest()[:PATCHED_CHARACTERS]}"


def _record_path(path: Path) -> Path:
    """Beside the folder, so that the folder holds the commit and nothing else."""
    return path.with_name(f"{path.name}.json")


def _make(mirror: Git, path: Path, source: Source, commit: str, work: bytes, patch: bytes) -> Checkout:
    """Check the commit out anew, with the changes; what a killed harness left half made is removed."""
    record = _record_path(path)
    record.unlink(missing_ok=True)
    if path.exists():
        shutil.rmtree(path)
    mirror.run("worktree", "prune")
    mirror.run("worktree", "add", "--quiet", "--detach", "--force", str(path), commit)
    tree = Git(path)
    try:
        _apply(tree, work, f"the uncommitted work of {source.repo}", commit)
        _apply(tree, patch, f"the patch {source.patch}", commit)
    except UsageError:
        # Without a record nothing would ever clean it up.
        shutil.rmtree(path)
        raise
    tree.run("add", "--all")
    diff = tree.diff("--cached")
    subject, committed_at = tree.text("log", "-1", "--format=%s%n%cI").split("\n")
    made = Checkout(
        path=str(path),
        repo=without_password(str(source.repo)),
        commit=commit,
        subject=subject,
        committed_at=committed_at,
        diff=diff.decode("utf-8", errors="replace"),
        diff_sha256=hashlib.sha256(diff).hexdigest() if diff else "",
    )
    draft = record.with_suffix(".new")
    draft.write_text(json.dumps(asdict(made), indent=1), encoding="utf-8")
    draft.replace(record)
    return made


def _standing(path: Path) -> Checkout | None:
    try:
        fields: dict[str, Any] = json.loads(_record_path(path).read_text(encoding="utf-8"))
        found = Checkout(**fields)
    except (OSError, ValueError, TypeError):
        return None
    if not path.is_dir():
        return None
    if Git(path).differs():
        raise UsageError(
            f"the checkout {path} was changed since it was made, so it is not {found.commit[:12]} any more",
            "remove that folder and it will be made again; use `source.patch` for changes",
        )
    with suppress(OSError):
        os.utime(_record_path(path))  # by which `env gc` knows what is no longer used
    return found


def _apply(tree: Git, change: bytes, what: str, commit: str) -> None:
    if not change.strip():
        return
    with tempfile.NamedTemporaryFile(suffix=".diff") as file:
        file.write(change)
        file.flush()
        try:
            tree.run("apply", "--whitespace=nowarn", "--", file.name)
        except GitFailure as failure:
            reason = failure.first_line()
            raise UsageError(
                f"{what} does not apply to {commit[:12]}: {reason}", "make it again against that commit"
            ) from None


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
