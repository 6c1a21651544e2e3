"""Checkouts of real repositories: the right files, the exact record, and a clone that stays untouched."""

import hashlib
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from benchharness.errors import InfrastructureError, UsageError
from benchharness.records import Source
from benchharness.stack.sources import checkout

WHEN = "2026-03-04T05:06:07+01:00"
CHECKOUT = """
import json, sys
from pathlib import Path
from benchharness.records import Source
from benchharness.stack.sources import checkout
print(checkout(Source(**json.loads(sys.argv[1])), Path(sys.argv[2])).path)
"""


def git(folder, *arguments, **variables):
    settings = ("-c", "user.name=A", "-c", "user.email=a@b", "-c", "protocol.file.allow=always")
    done = subprocess.run(
        ["git", *settings, *arguments],
        cwd=folder,
        env={**os.environ, "GIT_COMMITTER_DATE": WHEN, "GIT_AUTHOR_DATE": WHEN, **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def commit(folder, text, message):
    (folder / "engine.py").write_text(text)
    git(folder, "add", "--all")
    git(folder, "commit", "-q", "-m", message)
    return git(folder, "rev-parse", "HEAD")


def contents(folder):
    """Every file of a folder with its digest: what "untouched" means."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.fixture
def repo(tmp_path):
    """Two commits and a tag, in a folder with every character that a shell would trip over (T24)."""
    folder = tmp_path / 'it\'s a: $repo "x"'
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    (folder / ".gitignore").write_text("*.o\n")
    commit(folder, "one\n", 'first: it\'s "one"')
    git(folder, "tag", "v1")
    commit(folder, "two\n", "second")
    return folder


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache with 'quote' and $dollar"


def test_a_commit_is_checked_out_and_recorded_in_full(repo, cache):
    first = git(repo, "rev-parse", "v1")
    made = checkout(Source(repo=str(repo), commit=first[:8]), cache)
    assert Path(made.path, "engine.py").read_text() == "one\n"
    assert cache in Path(made.path).parents
    assert (made.commit, made.subject, made.committed_at) == (first, 'first: it\'s "one"', WHEN)
    assert (made.diff, made.diff_sha256, made.repo) == ("", "", str(repo))


@pytest.mark.parametrize(("name", "text"), [("v1", "one\n"), ("main", "two\n"), ("HEAD~1", "one\n")])
def test_names_are_resolved(repo, cache, name, text):
    made = checkout(Source(repo=str(repo), commit=name), cache)
    assert Path(made.path, "engine.py").read_text() == text
    assert made.commit == git(repo, "rev-parse", name)


def test_a_branch_that_moved_gives_its_new_commit(repo, cache):
    old = checkout(Source(repo=str(repo), commit="main"), cache)
    new_hash = commit(repo, "three\n", "third")
    new = checkout(Source(repo=str(repo), commit="main"), cache)
    assert new.commit == new_hash
    assert Path(new.path, "engine.py").read_text() == "three\n"
    assert Path(old.path, "engine.py").read_text() == "two\n"


def test_the_clone_is_left_untouched(repo, cache):
    (repo / "engine.py").write_text("half done\n")
    (repo / "new.py").write_text("new\n")
    before = contents(repo)
    checkout(Source(repo=str(repo), commit="v1"), cache)
    checkout(Source(repo=str(repo)), cache)
    assert contents(repo) == before
    assert git(repo, "worktree", "list").count("\n") == 0


def test_a_checkout_is_reused(repo, cache):
    source = Source(repo=str(repo), commit="v1")
    first = checkout(source, cache)
    inode = Path(first.path, "engine.py").stat().st_ino
    Path(first.path, "built.o").write_text("an ignored product of a build")
    assert checkout(source, cache) == first
    assert Path(first.path, "engine.py").stat().st_ino == inode
    assert Path(first.path, "built.o").exists()


def test_a_checkout_changed_by_hand_is_refused(repo, cache):
    source = Source(repo=str(repo), commit="v1")
    made = checkout(source, cache)
    Path(made.path, "engine.py").write_text("tampered\n")
    with pytest.raises(UsageError, match="was changed since it was made"):
        checkout(source, cache)


def test_a_half_made_checkout_is_made_again(repo, cache):
    source = Source(repo=str(repo), commit="v1")
    made = checkout(source, cache)
    Path(made.path + ".json").unlink()  # the record is written last
    Path(made.path, "engine.py").unlink()
    assert checkout(source, cache) == made
    assert Path(made.path, "engine.py").read_text() == "one\n"


def test_a_removed_checkout_is_made_again(repo, cache):
    source = Source(repo=str(repo), commit="v1")
    made = checkout(source, cache)
    subprocess.run(["rm", "-r", made.path], check=True)
    assert Path(checkout(source, cache).path, "engine.py").exists()


def test_tags_come_along_for_tools_that_read_the_version_from_them(repo, cache):
    checkout(Source(repo=str(repo), commit="v1"), cache)
    git(repo, "tag", "v2", "main")
    made = checkout(Source(repo=str(repo), commit="v2"), cache)
    assert git(made.path, "describe", "--tags") == "v2"


def test_head_with_uncommitted_work(repo, cache):
    (repo / "engine.py").write_text("dirty\n")
    (repo / "new file.py").write_text("untracked\n")
    (repo / "built.o").write_text("ignored\n")
    (repo / "picture").write_bytes(bytes(range(256)))
    git(repo, "rm", "-q", ".gitignore", "--cached")
    made = checkout(Source(repo=str(repo)), cache)
    folder = Path(made.path)
    assert (folder / "engine.py").read_text() == "dirty\n"
    assert (folder / "new file.py").read_text() == "untracked\n"
    assert (folder / "picture").read_bytes() == bytes(range(256))
    assert not (folder / "built.o").exists()
    assert made.commit == git(repo, "rev-parse", "HEAD")
    assert "-two\n+dirty\n" in made.diff
    assert "new file.py" in made.diff
    assert len(made.diff_sha256) == 64
    (repo / "engine.py").write_text("dirtier\n")
    other = checkout(Source(repo=str(repo)), cache)
    assert (other.path != made.path, other.diff_sha256 != made.diff_sha256) == (True, True)


def test_a_clean_head_is_the_commit_itself(repo, cache):
    made = checkout(Source(repo=str(repo)), cache)
    assert made == checkout(Source(repo=str(repo), commit="main"), cache)
    assert made.diff == ""


def test_the_recorded_diff_makes_the_checkout_again(repo, cache, tmp_path):
    (repo / "engine.py").write_text("dirty\n")
    (repo / "new.py").write_text("n\n")
    made = checkout(Source(repo=str(repo)), cache)
    git(repo, "stash", "-q", "--include-untracked")
    patch = tmp_path / "recorded.diff"
    patch.write_text(made.diff)
    again = checkout(Source(repo=str(repo), commit=made.commit, patch=str(patch)), cache)
    assert again.diff_sha256 == made.diff_sha256
    assert Path(again.path, "new.py").read_text() == "n\n"


def test_too_many_untracked_bytes_are_refused(repo, cache):
    with (repo / "model.bin").open("wb") as file:
        file.truncate(17 << 20)
    with pytest.raises(UsageError, match="17 MiB of untracked files"):
        checkout(Source(repo=str(repo)), cache)


def test_a_patch_is_applied_and_is_part_of_the_identity(repo, cache, tmp_path):
    (repo / "engine.py").write_text("two and a half\n")
    patch = tmp_path / "it's a $patch.diff"
    patch.write_text(git(repo, "diff") + "\n")
    git(repo, "checkout", "-q", "engine.py")
    source = Source(repo=str(repo), commit="main", patch=str(patch))
    made = checkout(source, cache)
    plain = checkout(replace(source, patch=None), cache)
    assert Path(made.path, "engine.py").read_text() == "two and a half\n"
    assert Path(plain.path, "engine.py").read_text() == "two\n"
    assert "+two and a half" in made.diff
    assert made == checkout(source, cache)
    with pytest.raises(UsageError, match=r"patch\.diff does not apply to \w{12}: patch failed: engine\.py:1"):
        checkout(replace(source, commit="v1"), cache)


def test_a_patch_that_failed_leaves_nothing_to_be_reused(repo, cache, tmp_path):
    patch = tmp_path / "bad.diff"
    patch.write_text("this is no patch\n")
    source = Source(repo=str(repo), commit="v1", patch=str(patch))
    for _ in range(2):
        with pytest.raises(UsageError, match=r"bad\.diff does not apply"):
            checkout(source, cache)


def test_a_patch_that_is_not_there(repo, cache):
    with pytest.raises(UsageError, match="patch /none can't be read: No such file"):
        checkout(Source(repo=str(repo), commit="v1", patch="/none"), cache)


def test_an_unknown_commit_has_advice(repo, cache):
    with pytest.raises(UsageError, match="no commit, tag or branch nonesuch") as caught:
        checkout(Source(repo=str(repo), commit="nonesuch"), cache)
    assert "fetch" in caught.value.advice


def test_a_commit_that_looks_like_an_option(repo, cache):
    with pytest.raises(UsageError, match="no commit, tag or branch --help"):
        checkout(Source(repo=str(repo), commit="--help"), cache)


def test_a_shallow_clone_that_lacks_the_commit_says_so(repo, cache, tmp_path):
    shallow = tmp_path / "shallow"
    git(tmp_path, "clone", "-q", "--depth", "1", repo.as_uri(), str(shallow))
    old = git(repo, "rev-parse", "v1")
    with pytest.raises(UsageError, match="shallow clone that lacks") as caught:
        checkout(Source(repo=str(shallow), commit=old), cache)
    assert "--unshallow" in caught.value.advice
    made = checkout(Source(repo=str(shallow), commit="main"), cache)
    assert Path(made.path, "engine.py").read_text() == "two\n"


def test_a_shallow_clone_that_moved_on(repo, cache, tmp_path):
    shallow = tmp_path / "shallow"
    git(tmp_path, "clone", "-q", "--depth", "1", repo.as_uri(), str(shallow))
    checkout(Source(repo=str(shallow)), cache)
    commit(repo, "three\n", "third")
    fourth = commit(repo, "four\n", "fourth")
    git(shallow, "fetch", "-q", "--depth", "1")
    git(shallow, "reset", "-q", "--hard", "origin/main")
    git(shallow, "tag", "v3")
    made = checkout(Source(repo=str(shallow)), cache)
    assert made.commit == fourth
    assert git(made.path, "describe", "--tags") == "v3"


def test_a_folder_without_git(tmp_path, cache):
    with pytest.raises(UsageError, match="is not a git repository"):
        checkout(Source(repo=str(tmp_path), commit="main"), cache)


def test_no_folder_at_all(tmp_path, cache):
    with pytest.raises(UsageError, match="there is no folder"):
        checkout(Source(repo=str(tmp_path / "none"), commit="main"), cache)


def test_a_repository_without_commits(tmp_path, cache):
    git(tmp_path, "init", "-q")
    with pytest.raises(UsageError, match="has no commit yet"):
        checkout(Source(repo=str(tmp_path)), cache)


def test_no_repository_named(cache):
    with pytest.raises(UsageError, match="names no repository"):
        checkout(Source(release="1"), cache)


def test_a_subfolder_stands_for_its_repository(repo, cache):
    (repo / "python").mkdir()
    (repo / "python" / "a.py").write_text("a\n")
    made = checkout(Source(repo=str(repo / "python")), cache)
    assert Path(made.path, "python", "a.py").exists()
    assert Path(made.path, "engine.py").exists()


def test_a_linked_worktree_has_its_own_head_and_index(repo, cache, tmp_path):
    linked = tmp_path / "linked"
    git(repo, "worktree", "add", "-q", "--detach", str(linked), "v1")
    (linked / "engine.py").write_text("in the linked tree\n")
    made = checkout(Source(repo=str(linked)), cache)
    assert made.commit == git(repo, "rev-parse", "v1")
    assert Path(made.path, "engine.py").read_text() == "in the linked tree\n"


def test_a_commit_on_no_branch(repo, cache):
    git(repo, "checkout", "-q", "--detach")
    lone = commit(repo, "lone\n", "lone")
    git(repo, "checkout", "-q", "main")
    made = checkout(Source(repo=str(repo), commit=lone[:10]), cache)
    assert Path(made.path, "engine.py").read_text() == "lone\n"


def test_an_address_is_cloned_and_fetched_when_it_moved(repo, cache):
    source = Source(repo=repo.as_uri(), commit="main")
    first = checkout(source, cache)
    assert Path(first.path, "engine.py").read_text() == "two\n"
    third = commit(repo, "three\n", "third")
    assert checkout(source, cache).commit == third
    assert checkout(replace(source, commit="v1"), cache).subject.startswith("first")


def test_a_known_hash_needs_no_network(repo, cache):
    source = Source(repo=repo.as_uri(), commit=git(repo, "rev-parse", "HEAD"))
    made = checkout(source, cache)
    repo.rename(repo.with_name("gone"))
    assert checkout(source, cache) == made


def test_an_address_that_does_not_answer_is_infrastructure(cache):
    with pytest.raises(InfrastructureError, match=r"http://127\.0\.0\.1:9/x\.git can't be reached") as caught:
        checkout(Source(repo="http://user:secret@127.0.0.1:9/x.git", commit="main"), cache)
    assert "secret" not in str(caught.value)


def test_a_hook_s_variables_do_not_lead_astray(repo, cache, tmp_path, monkeypatch):
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "-q")
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / "index"))
    made = checkout(Source(repo=str(repo), commit="main"), cache)
    monkeypatch.undo()
    assert Path(made.path, "engine.py").read_text() == "two\n"


def test_the_user_s_hooks_do_not_run(repo, cache, tmp_path, monkeypatch):
    hooks = tmp_path / "template" / "hooks"
    hooks.mkdir(parents=True)
    (hooks / "post-checkout").write_text(f"#!/bin/sh\ntouch '{tmp_path}/ran'\n")
    (hooks / "post-checkout").chmod(0o755)
    monkeypatch.setenv("GIT_TEMPLATE_DIR", str(tmp_path / "template"))
    checkout(Source(repo=str(repo), commit="main"), cache)
    assert not (tmp_path / "ran").exists()


def test_two_at_once_make_one_checkout(repo, cache):
    orders = json.dumps({"repo": str(repo), "commit": "main"})
    both = [
        subprocess.Popen(
            [sys.executable, "-c", CHECKOUT, orders, str(cache)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for _ in range(3)
    ]
    answers = [process.communicate(timeout=120) for process in both]
    assert [process.returncode for process in both] == [0, 0, 0], answers
    assert len({out for out, _ in answers}) == 1
