"""Points of an axis in order."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version

from benchharness.bisect import order
from benchharness.bisect.order import Declared, Named, Point, Release
from benchharness.errors import UsageError
from benchharness.records import Model, Source, Stack

VERSIONS = st.builds(
    lambda release, pre, local: ".".join(map(str, release)) + pre + local,
    st.lists(st.integers(0, 12), min_size=1, max_size=4),
    st.sampled_from(["", "", "rc1", "a2", ".post1", ".dev3"]),
    st.sampled_from(["", "", "+cu128", "+cpu"]),
)


def labels(points: tuple[Point, ...]) -> list[str]:
    return [point.label for point in points]


def named(name: str, *versions: str) -> Named:
    return Named(name, tuple(Release(version) for version in versions))


def test_releases_run_in_version_order_not_in_that_of_text() -> None:
    found = order.releases("torch", [Release(text) for text in ("2.10.0", "2.9.1", "2.9.1.post1", "2.9.0")])
    assert labels(found) == ["2.9.0", "2.9.1", "2.9.1.post1", "2.10.0"]
    assert found[0].settings == {"packages.torch": "2.9.0"}


def test_yanked_and_prereleases_come_by_choice() -> None:
    given = [Release("1.0"), Release("1.1rc1"), Release("1.1", yanked="wrong kernels"), Release("rubbish")]
    assert labels(order.releases("x", given)) == ["1.0"]
    assert labels(order.releases("x", given, prereleases=True)) == ["1.0", "1.1rc1"]
    kept = order.releases("x", given, yanked=True)
    assert labels(kept) == ["1.0", "1.1"]
    assert kept[1].subject == "yanked: wrong kernels"


def test_the_engine_itself_is_set_as_source() -> None:
    (point,) = order.releases("sglang", [Release("0.5.12")], as_source=True)
    stack = Stack("base", "sglang", source=Source(repo="/clone", commit="abc", patch="p.diff"))
    assert order.on(stack, point).source == Source(release="0.5.12")


def test_one_axis_runs_through_a_rename() -> None:
    found = order.renamed(
        [named("sgl-kernel", "0.3.20", "0.3.9", "0.3.21"), named("sglang-kernel", "0.4.2", "0.3.21")]
    )
    assert labels(found) == ["0.3.9", "0.3.20", "0.3.21", "0.4.2"]
    old, new = {"packages.sgl-kernel": "0.3.20", "packages.sglang-kernel": None}, found[2].settings
    assert found[1].settings == old
    assert new == {"packages.sgl-kernel": None, "packages.sglang-kernel": "0.3.21"}


def test_a_name_that_counts_anew_comes_after() -> None:
    found = order.renamed([named("old", "1.0", "2.0"), named("new", "0.1", "1.0")])
    assert labels(found) == ["old==1.0", "2.0", "0.1", "new==1.0"]
    assert found[3].settings == {"packages.old": None, "packages.new": "1.0"}


@given(st.lists(VERSIONS, min_size=2, max_size=12, unique_by=Version))
def test_order_is_that_of_versions_and_each_stands_once(texts: list[str]) -> None:
    found = labels(order.releases("x", map(Release, texts), prereleases=True))
    assert sorted(found) == sorted(texts)
    assert all(Version(one) < Version(next_) for one, next_ in itertools.pairwise(found))


@given(st.integers(2, 30).flatmap(lambda n: st.tuples(st.just(n), st.permutations(range(n)))))
def test_between_is_a_slice_with_the_good_end_first(drawn: tuple[int, list[int]]) -> None:
    count, (good, bad, *_) = drawn
    points = order.listed("args.x", list(range(count)))
    found = order.between(points, str(good), str(bad))
    step = 1 if good < bad else -1
    assert labels(found) == [str(at) for at in range(good, bad + step, step)]
    assert labels(order.between(points, str(bad), str(good))) == labels(found)[::-1]


def test_ends_may_be_written_otherwise() -> None:
    versions = order.releases("x", [Release("0.5.9"), Release("0.5.10")])
    assert labels(order.between(versions, "v0.5.10", "0.5.9.0")) == ["0.5.10", "0.5.9"]
    hashes = [order.commit("/clone", "ab12" + "0" * 36), order.commit("/clone", "ab13" + "0" * 36)]
    assert order.between(hashes, "ab13", "ab12")[0] is hashes[1]
    with pytest.raises(UsageError, match="may be any of"):
        order.between([*hashes, order.commit("/clone", "ab12" + "1" * 36)], "ab12", "ab13")


@pytest.mark.parametrize(
    ("good", "bad", "said"),
    [
        ("0.5.9", "0.5.9", "both 0.5.9"),
        ("0.5.99", "0.5.9", r"good end '0.5.99' is not on the axis.*0\.5\.9.*runs from 0.5.9 to 0.5.10"),
        ("0.5.9", "nightly", "bad end 'nightly' is not on the axis"),
    ],
)
def test_bad_ends_are_named(good: str, bad: str, said: str) -> None:
    versions = order.releases("x", [Release("0.5.9"), Release("0.5.10")])
    with pytest.raises(UsageError, match=said):
        order.between(versions, good, bad)


@pytest.mark.parametrize(("count", "said"), [(0, "no point"), (1, "only 0")])
def test_an_axis_needs_two_points(count: int, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        order.between(order.listed("args.x", list(range(count))), "0", "1")


def test_listed_values_keep_their_order_and_kind() -> None:
    points = order.listed("args.batch", [8, 2, True])
    assert labels(points) == ["8", "2", "true"]
    stack = order.on(Stack("n=1", "standin"), points[2])
    assert (stack.name, stack.args) == ("n=1,true", {"batch": True})
    with pytest.raises(UsageError, match="'8' twice"):
        order.listed("args.batch", [8, "8"])
    with pytest.raises(UsageError, match=r"unknown path 'arg\.batch'"):
        order.listed("arg.batch", [8, 2])


def test_settings_reach_every_part_of_a_stack() -> None:
    stack = Stack(
        "base",
        "sglang",
        source=Source(repo="/clone", commit="old", patch="p.diff", diff_sha256="12", folder="/made"),
        packages={"Sgl_Kernel": "0.3.20", "torch": "2.9.0"},
        env={"A": "1", "B": "2"},
        model=Model(path="/m", tp=8),
        args={"x": 1},
    )
    found = order.applied(
        stack,
        {
            "source.commit": "new",
            "packages.sgl-kernel": None,
            "packages.torch": Declared.NOT,
            "env.A": 3,
            "env.B": None,
            "model.tp": "4",
            "model.path": "/n",
            "args.x": None,
            "args.y.z": [1, 2],
            "python": 3.12,
        },
    )
    assert found.source == Source(repo="/clone", commit="new", patch="p.diff")
    assert found.packages == {"sgl-kernel": None}
    assert found.env == {"A": "3"}
    assert found.model == Model(path="/n", tp=4)
    assert found.args == {"y.z": [1, 2]}
    assert found.python == "3.12"
    assert stack.env == {"A": "1", "B": "2"}


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("model.tp", "many", "needs a whole number"),
        ("model.paths", "/m", "no model.paths.*did you mean 'path'"),
        ("source.folder", "/m", "no source.folder"),
        ("find_links.x", "/m", "can't be an axis"),
        ("env", "/m", "names a whole section"),
    ],
)
def test_wrong_settings_are_refused(path: str, value: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        order.applied(Stack("base", "sglang"), {path: value})
