"""Finding points: real repositories, an index that answers, a folder of wheels."""

from __future__ import annotations

import itertools
import json
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from benchharness.bisect import discover, order
from benchharness.bisect.discover import index
from benchharness.bisect.discover.wheels import Distribution, of_files
from benchharness.bisect.order import Release
from benchharness.errors import InfrastructureError, UsageError


class Repository:
    """A repository whose commits are known by one letter."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.made: dict[str, str] = {}
        self.git("init", "-q", "-b", "main")

    def git(self, *arguments: str) -> str:
        identity = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
        done = subprocess.run(
            ["git", *identity, *arguments], cwd=self.folder, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    def commit(self, letter: str, file: str = "code.py") -> None:
        path = self.folder / file
        path.parent.mkdir(exist_ok=True)
        path.write_text(letter)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", f"change {letter}")
        self._keep(letter)

    def merge(self, letter: str, *branches: str) -> None:
        self.git("merge", "-q", "--no-ff", "-s", "ours", "-m", f"merge {letter}", *branches)
        self._keep(letter)

    def _keep(self, letter: str) -> None:
        self.made[letter] = self.git("rev-parse", "HEAD")
        self.git("tag", letter)

    def letters(self, found: discover.Found) -> str:
        names = {sha: letter for letter, sha in self.made.items()}
        return "".join(names[point.label] for point in found.points)

    def between(self, good: str, bad: str, *paths: str) -> str:
        return self.letters(discover.commits(str(self.folder), good, bad, paths))


@pytest.fixture
def branched(tmp_path: Path) -> Repository:
    """Main line a b c M d e; side branch x y from b, merged by M; release branch r s from d."""
    made = Repository(tmp_path / "clone")
    for letter in "ab":
        made.commit(letter)
    made.git("checkout", "-q", "-b", "side")
    made.commit("x", "side/one.py")
    made.commit("y", "side/two.py")
    made.git("checkout", "-q", "main")
    made.commit("c")
    made.merge("M", "side")
    made.commit("d", "docs/read.md")
    made.git("checkout", "-q", "-b", "release")
    made.commit("r")
    made.commit("s")
    made.git("checkout", "-q", "main")
    made.commit("e")
    return made


def test_commits_follow_first_parents(branched: Repository) -> None:
    found = discover.commits(str(branched.folder), "a", "main")
    assert branched.letters(found) == "abcMde"
    assert found.notes == ()
    assert found.merges == {branched.made["M"]}
    point = found.points[3]
    assert (point.subject, point.date[:2]) == ("merge M", "20")
    settings = {"source.release": None, "source.repo": str(branched.folder), "source.commit": point.label}
    assert point.settings == settings


def test_the_good_end_may_be_the_newer(branched: Repository) -> None:
    found = discover.commits(str(branched.folder), "e", "c")
    assert branched.letters(found) == "edMc"
    assert found.notes == ("e is newer than c: the axis runs backwards in time",)


@pytest.mark.parametrize(
    ("good", "bad", "line"),
    [
        ("s", "e", "srde"),  # a release branch against the main line
        ("e", "s", "edrs"),
        ("y", "e", "yxbcMde"),  # an ancestor of the bad end, yet not on its line
        ("e", "y", "edMcbxy"),
        ("x", "c", "xbc"),
    ],
)
def test_ends_on_two_lines_meet_where_these_part(
    branched: Repository, good: str, bad: str, line: str
) -> None:
    found = discover.commits(str(branched.folder), good, bad)
    assert branched.letters(found) == line
    assert any("where they part" in note for note in found.notes)


def test_each_step_is_one_commit(branched: Repository) -> None:
    for good, bad in (("a", "e"), ("s", "e"), ("y", "e"), ("e", "y")):
        points = [point.label for point in discover.commits(str(branched.folder), good, bad).points]
        for one, other in itertools.pairwise(points):
            parents = [
                branched.git("rev-parse", f"{sha}^1") for sha in (one, other) if sha != branched.made["a"]
            ]
            assert one in parents or other in parents


def test_only_commits_below_paths(branched: Repository) -> None:
    assert branched.between("a", "e", "code.py") == "abce"
    found = discover.commits(str(branched.folder), "a", "e", ["docs"])
    assert branched.letters(found) == "ade"
    assert found.notes == ("the bad end changes nothing below docs: its step stands for all other commits",)
    with pytest.raises(UsageError, match="changes anything below nowhere"):
        branched.between("a", "e", "nowhere")


def test_a_merge_is_taken_apart(branched: Repository) -> None:
    found = discover.entered(str(branched.folder), "M")
    assert branched.letters(found) == "cbxyM"
    assert "before the merge's first parent" in found.notes[0]
    with pytest.raises(UsageError, match="d is not a merge"):
        discover.entered(str(branched.folder), "d")


def test_a_merge_that_could_have_been_none(tmp_path: Path) -> None:
    made = Repository(tmp_path / "clone")
    made.commit("a")
    made.git("checkout", "-q", "-b", "side")
    made.commit("x")
    made.git("checkout", "-q", "main")
    made.merge("M", "side")
    found = discover.entered(str(made.folder), "M")
    assert (made.letters(found), found.notes) == ("axM", ())


def test_a_merge_of_several_branches(branched: Repository) -> None:
    for name in "pq":
        branched.git("checkout", "-q", "-b", f"branch-{name}", "e")
        branched.commit(name, f"{name}/file")
    branched.git("checkout", "-q", "main")
    branched.commit("f")
    branched.merge("O", "branch-p", "branch-q")
    found = discover.entered(str(branched.folder), "O")
    assert branched.letters(found) == "fepqO"
    assert "merges 2 branches" in found.notes[-1]


def test_histories_with_nothing_in_common(branched: Repository) -> None:
    branched.git("checkout", "-q", "--orphan", "other")
    branched.commit("o")
    with pytest.raises(UsageError, match="no history in common"):
        branched.between("a", "o")


def test_a_shallow_clone_says_what_to_fetch(branched: Repository, tmp_path: Path) -> None:
    shallow = tmp_path / "shallow"
    address = branched.folder.as_uri()
    subprocess.run(["git", "clone", "-q", "--depth", "3", "--no-tags", address, str(shallow)], check=True)
    with pytest.raises(UsageError, match=r"no commit a, and its history was cut off.*fetch --unshallow"):
        discover.commits(str(shallow), "a", "main")
    found = discover.commits(str(shallow), branched.made["M"], "main")
    assert branched.letters(found) == "Mde"


def test_a_history_that_is_cut_off_between(branched: Repository, tmp_path: Path) -> None:
    shallow = tmp_path / "shallow"
    address = branched.folder.as_uri()
    subprocess.run(
        ["git", "clone", "-q", "--depth", "1", "--no-single-branch", address, str(shallow)], check=True
    )
    with pytest.raises(UsageError, match=r"was cut off at .*between the two commits.*fetch --unshallow"):
        discover.commits(str(shallow), "s", "e")


def test_uncommitted_work_is_told(branched: Repository) -> None:
    (branched.folder / "code.py").write_text("in the works")
    found = discover.commits(str(branched.folder), "a", "e")
    assert branched.letters(found) == "abcMde"
    assert "has uncommitted work, which is in no point" in found.notes[0]
    assert (branched.folder / "code.py").read_text() == "in the works"


def test_a_bare_clone_will_do(branched: Repository, tmp_path: Path) -> None:
    bare = tmp_path / "bare.git"
    subprocess.run(["git", "clone", "-q", "--bare", str(branched.folder), str(bare)], check=True)
    assert branched.letters(discover.commits(str(bare), "a", "main")) == "abcMde"


@pytest.mark.parametrize(
    ("good", "bad", "said"),
    [
        ("a", "relaese", "no commit, tag or branch 'relaese'.*did you mean 'release'"),
        ("e", "main", "e and main are the same commit"),
        ("--output=x", "main", "no commit, tag or branch '--output=x'"),
    ],
)
def test_wrong_revisions(branched: Repository, good: str, bad: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        branched.between(good, bad)


def test_a_place_that_is_no_clone(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a git repository"):
        discover.commits(str(tmp_path), "a", "b")
    with pytest.raises(UsageError, match=r"is an address.*clone it"):
        discover.commits("https://example.invalid/x.git", "a", "b")


def test_subjects_are_only_text(branched: Repository) -> None:
    branched.git("commit", "-q", "--allow-empty", "-m", "a\x1fb $(x) `y` 'z' \"é\"")
    (last,) = discover.commits(str(branched.folder), "e", "main").points[1:]
    assert last.subject == "a\x1fb $(x) `y` 'z' \"é\""


JSON = "application/vnd.pypi.simple.v1+json"
Serve = Callable[[Mapping[str, tuple[str, str]]], str]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """A package index on this machine: path -> content type, body; whatever else is not found."""
    servers = []

    def start(pages: Mapping[str, tuple[str, str]]) -> str:
        class Answer(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                kind, body = pages.get(self.path, ("", ""))
                self.send_response(int(kind) if kind.isdigit() else 200 if kind else 404)
                self.send_header("Content-Type", kind)
                self.end_headers()
                self.wfile.write(body.encode())

            def log_message(self, *_: object) -> None: ...

        server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}/simple"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture(autouse=True)
def no_index(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what a test names is asked."""
    for name in (*index.DEFAULT_VARIABLES, *index.EXTRA_VARIABLES, "PIP_NO_INDEX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def as_json(*files: dict[str, object]) -> tuple[str, str]:
    return JSON, json.dumps({"meta": {"api-version": "1.1"}, "name": "x", "files": files})


def test_releases_by_json(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    files = as_json(
        {
            "filename": "sgl_kernel-0.3.20-cp310-abi3-manylinux2014_x86_64.whl",
            "upload-time": "2025-11-02T01:02:03Z",
        },
        {
            "filename": "sgl_kernel-0.3.20-cp310-abi3-manylinux2014_aarch64.whl",
            "upload-time": "2025-11-01T01:02:03Z",
        },
        {"filename": "sgl_kernel-0.3.19-py3-none-any.whl", "yanked": "broken", "requires-python": ">=3.10"},
        {"filename": "sgl_kernel-0.3.18.tar.gz", "yanked": True},
        {"filename": "sgl_kernel-0.3.18-py3-none-any.whl", "yanked": False},
        {"filename": "other-1.0.tar.gz"},
        {"filename": "sgl_kernel-0.3.17.exe"},
    )
    monkeypatch.setenv("UV_DEFAULT_INDEX", serve({"/simple/sgl-kernel/": files}))
    found = discover.releases("SGL_kernel")
    assert {one.version: (one.yanked, one.date[:10]) for one in found} == {
        "0.3.20": (None, "2025-11-01"),
        "0.3.19": ("broken", ""),
        "0.3.18": (None, ""),
    }
    assert [point.label for point in order.releases("sgl-kernel", found)] == ["0.3.18", "0.3.20"]


def test_releases_by_a_page(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    page = """<!DOCTYPE html><html><body>
      <a href="../../x/torch-2.9.0%2Bcpu-cp311-cp311-linux_x86_64.whl#sha256=1"
         data-requires-python="&gt;=3.10">a</a>
      <a href="torch-2.9.1.tar.gz" data-yanked="">b</a> <a href="/">up</a></body></html>"""
    monkeypatch.setenv("PIP_INDEX_URL", serve({"/simple/torch/": ("text/html; charset=utf-8", page)}) + "/")
    found = {one.version: one for one in discover.releases("torch", python="3.9")}
    assert found["2.9.1"].yanked == "no reason given"
    assert found["2.9.0+cpu"].unbuildable == "2.9.0+cpu needs Python >=3.10, and the environment has 3.9"


def test_the_first_index_that_has_it_tells(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    own = serve({"/simple/x/": as_json({"filename": "x-1.0.tar.gz"})})
    monkeypatch.setenv("UV_DEFAULT_INDEX", serve({"/simple/x/": as_json({"filename": "x-2.0.tar.gz"})}))
    assert [one.version for one in discover.releases("x")] == ["2.0"]
    assert [one.version for one in discover.releases("x", extra_index_urls=[own])] == ["1.0"]
    assert [one.version for one in discover.releases("x", extra_index_urls=[serve({})])] == ["2.0"]
    monkeypatch.setenv("UV_INDEX", f"mine={own}")
    assert [one.version for one in discover.releases("x")] == ["1.0"]


def test_which_indexes_are_asked() -> None:
    assert index.indexes({}) == ("https://pypi.org/simple",)
    told = {
        "UV_INDEX_URL": "https://a/s/",
        "PIP_INDEX_URL": "https://b/s",
        "PIP_EXTRA_INDEX_URL": "https://c/s https://a/s",
    }
    assert index.indexes(told, ["https://d/s"]) == ("https://d/s", "https://c/s", "https://a/s")
    with pytest.raises(UsageError, match="PIP_NO_INDEX forbids"):
        index.indexes({"PIP_NO_INDEX": "1"})


def test_an_index_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "x-1.0-py3-none-any.whl").touch()
    (tmp_path / "y").mkdir()
    (tmp_path / "y" / "index.html").write_text('<a href="https://e/y-3.0.tar.gz">y</a>')
    monkeypatch.setenv("UV_DEFAULT_INDEX", tmp_path.as_uri())
    assert [one.version for one in discover.releases("x")] == ["1.0"]
    assert [one.version for one in discover.releases("y")] == ["3.0"]
    with pytest.raises(UsageError, match="no index has a release of z"):
        discover.releases("z")


@pytest.mark.parametrize(
    ("answer", "error", "said"),
    [
        (("403", ""), InfrastructureError, "refused .status 403.*user and password"),
        (("500", ""), InfrastructureError, "answered with status 500"),
        ((JSON, "{broken"), InfrastructureError, "doesn't answer as PEP 691"),
        ((JSON, '{"files": [3]}'), InfrastructureError, "doesn't answer as PEP 691"),
        (("text/html", "<p>nothing"), UsageError, "no index has a release of x"),
    ],
)
def test_an_index_in_trouble(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, answer: tuple[str, str], error: type[Exception], said: str
) -> None:
    monkeypatch.setenv("UV_DEFAULT_INDEX", serve({"/simple/x/": answer}))
    with pytest.raises(error, match=said):
        discover.releases("x")


def test_no_password_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://me:hidden@127.0.0.1:9/simple")
    with pytest.raises(InfrastructureError, match="can't be reached") as caught:
        discover.releases("x")
    assert "hidden" not in str(caught.value)
    assert "http://***@127.0.0.1:9/simple" in str(caught.value)


@pytest.mark.parametrize(
    ("names", "python", "fits"),
    [
        (["x-1-cp312-cp312-manylinux_2_17_x86_64.whl"], "3.12", True),
        (["x-1-cp312-cp312-manylinux_2_17_x86_64.whl"], "3.11", False),
        (["x-1-cp310-abi3-manylinux2014_x86_64.whl"], "3.12.4", True),
        (["x-1-cp313-abi3-manylinux2014_x86_64.whl"], "3.12", False),
        (["x-1-cp312-cp312-manylinux_2_17_s390x.whl"], "3.12", False),
        (["x-1-cp312-cp312-win_amd64.whl", "x-1.tar.gz"], "3.12", True),
        (["x-1-py3-none-any.whl"], "3.13", True),
        (["x-1-py313-none-any.whl"], "3.13", True),
        (["x-1-py313-none-any.whl"], "3.12", False),
        (["x-1-cp39-cp39-win_amd64.whl"], None, True),
        (["x-1-cp39-cp39-win_amd64.whl"], "/usr/bin/python3", True),
    ],
)
def test_wheels_for_another_interpreter_are_marked(
    names: list[str], python: str | None, fits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "packaging.tags.platform_tags", lambda: iter(["manylinux_2_17_x86_64", "manylinux2014_x86_64"])
    )
    (release,) = of_files("x", map(Distribution, names), python)
    assert (release.unbuildable == "") is fits
    if not fits:
        (point,) = order.releases("x", [release])
        assert "wheels for" in point.unbuildable


def test_a_folder_of_wheels(tmp_path: Path) -> None:
    for name in (
        "k-0.3.20+cu128-py3-none-any.whl",
        "k-0.3.20-py3-none-any.whl",
        "k-0.4.0-cp39-cp39-win32.whl",
        "j-1-py3-none-any.whl",
        "notes.txt",
    ):
        (tmp_path / name).touch()
    found = discover.in_folder(str(tmp_path), "K", "3.12")
    assert [point.label for point in order.releases("k", found)] == ["0.3.20", "0.3.20+cu128", "0.4.0"]
    assert [bool(one.unbuildable) for one in order.releases("k", found)] == [False, False, True]
    with pytest.raises(UsageError, match="has no wheel of z"):
        discover.in_folder(str(tmp_path), "z")
    with pytest.raises(UsageError, match="no folder"):
        discover.in_folder(str(tmp_path / "gone"), "k")


def test_only_a_release_with_every_file_withdrawn_is_yanked() -> None:
    (half,) = of_files("x", [Distribution("x-1.tar.gz", yanked="a"), Distribution("x-1-py3-none-any.whl")])
    (whole,) = of_files("x", [Distribution("x-1.tar.gz", yanked="a")])
    assert (half, whole) == (Release("1"), Release("1", yanked="a"))
