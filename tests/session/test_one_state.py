"""P10 for sessions: the live state is the recovered one after whatever a harness did, and never
contradicts itself."""

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from durasess.session import selfcheck
from durasess.session.reducer import Reducer
from tests.support.chance_harness import Driver
from tests.support.harness import crash, fold, store_at

SLOWLY = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture
def place():
    """A directory for each example; both readers have other tests of session directories."""
    found = []

    def make():
        found.append(Path(tempfile.mkdtemp()))
        return found[-1]

    yield make
    for one in found:
        shutil.rmtree(one)


@SLOWLY
@given(st.integers(0, 2**32), st.sampled_from([2, 5, 200]), st.sampled_from([3, 1000]))
def test_live_state_is_the_recovered_state_after_every_reopening(place, seed, resident, every):
    store = store_at(place(), resident_messages=resident, snapshot_every=every)
    driver = Driver(store, seed)
    for _ in range(4):
        for _ in range(25):
            driver.step()
            assert selfcheck.findings(driver.session.state) == [], driver.done
        before, found = driver.reopen()
        assert found == before, driver.done
    driver.session.close()


@SLOWLY
@given(st.integers(0, 2**32), st.sampled_from([2, 5]))
def test_live_state_is_the_fold_of_every_prefix(place, seed, resident):
    driver = Driver(store_at(place(), resident_messages=resident), seed)
    lived = {}
    for _ in range(60):
        driver.step()
        lived[driver.session.last_seq] = driver.session.state
    driver.session.flush()
    events = list(driver.session.events())
    crash(driver.session)
    reducer = Reducer(resident_messages=resident)
    for seq, state in lived.items():
        partial = state.partial
        if partial is None or seq == events[-1].seq:
            assert fold(events[:seq], reducer) == state
