"""The self-test: it measures the client, notices when the client is bad, and its server tells the truth."""

from itertools import pairwise

import pytest

from benchharness.errors import InfrastructureError, UsageError
from benchharness.workload import selftest


def test_both_transports_are_measured_and_differ() -> None:
    """Both in one run: the kernel's stamps are closer to the truth than the user clock's."""
    kernel = selftest.measure(16, 4.0, 0.6)
    user = selftest.measure(16, 4.0, 0.6, user_clock=True)
    assert (kernel.transport, user.transport) == ("kernel-stamps", "aiohttp-user-clock")
    for one in (kernel, user):
        assert one.events == 16 * 150
        assert 0 < one.error_us_p50 <= one.error_us_p99 <= one.error_us_max
        assert one.events_per_s > 0
        assert one.cpu_s_per_million_events > 0
        assert 0 <= one.late_share <= 1
        assert one.itl_error_fraction >= 0
    assert kernel.error_us_p50 * 5 < user.error_us_p50
    assert kernel.unstamped_share < 0.1
    assert user.unstamped_share == 1.0


def test_a_client_that_stamps_late_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    real = selftest.Recording.stamp
    monkeypatch.setattr(selftest.Recording, "stamp", lambda self, i: (real(self, i)[0] + 7_000_000, 0))
    seen = selftest.measure(2, 5.0, 0.3)
    assert seen.error_us_p50 == pytest.approx(7000, rel=0.2)


def test_intervals_that_the_client_stretches_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    real = selftest.Recording.stamp
    monkeypatch.setattr(selftest.Recording, "stamp", lambda self, i: (round(real(self, i)[0] * 1.05), 0))
    seen = selftest.measure(2, 5.0, 0.3)
    assert seen.itl_error_fraction == pytest.approx(0.05, rel=0.1)
    assert seen.smallest_effect_fraction == pytest.approx(0.05, rel=0.1)


def test_the_null_server_keeps_its_schedule() -> None:
    with selftest.null_server() as url:
        seen = selftest.against(url, 4, 60, 5.0)
    for sent in seen.sent_ns:
        assert len(sent) == 60
        assert (sent[-1] - sent[0]) / 59 == pytest.approx(5e6, rel=0.05)
        assert all(b > a for a, b in pairwise(sent))


def test_values_out_of_range_and_a_server_that_does_not_start_are_told() -> None:
    for arguments in ((0, 5.0, 1.0), (8, 0.0, 1.0), (8, 5.0, 0.0), (10_000, 5.0, 1.0)):
        with pytest.raises(UsageError):
            selftest.measure(*arguments)
    with pytest.raises(InfrastructureError, match="didn't start"), selftest.null_server(["/bin/true"]):
        pass


def test_a_stream_that_breaks_is_no_measurement() -> None:
    with pytest.raises(InfrastructureError, match="broke"):
        selftest.against("http://127.0.0.1:9", 1, 3, 5.0)
