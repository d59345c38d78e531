"""The campaign itself: every failure of an input is found, counted, saved and reduced."""

from __future__ import annotations

import faulthandler
import os
import signal
import time
from itertools import cycle

import numpy as np
import pytest

from tests.fuzz import reduce, worker
from tests.fuzz.driver import BATCH, Campaign
from tests.fuzz.kinds import Kind
from tests.fuzz.mutate import change_bytes, change_json, change_text

# JAX warns of forks if another test has imported it; the children run no JAX code.
pytestmark = pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")


def check(item, _rng):
    if "die" in item:
        faulthandler.disable()  # no traceback in the test's output
        os.kill(os.getpid(), signal.SIGSEGV)
    elif "hang" in item:
        time.sleep(60)
    elif "stuck" in item:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
        time.sleep(60)
    elif "raise" in item:
        raise KeyError(item)
    elif "eat" in item:
        bytearray(worker.MEMORY)
    return "wrong: a result" if "wrong" in item else None


def kind_of(*items: str) -> Kind:
    return Kind("made", ".hlo", lambda _rng: cycle(items), check)


@pytest.fixture
def campaign(tmp_path, monkeypatch):
    monkeypatch.setattr(worker, "SECONDS", 0.2)
    monkeypatch.setattr("tests.fuzz.driver._GRACE", 4.0)

    def run(*items: str) -> Campaign:
        made = Campaign([kind_of(*items)], 1, tmp_path)
        made.run(60, count=BATCH, jobs=1)
        return made

    return run


@pytest.mark.parametrize(
    ("item", "what"),
    [
        ("die", "died of SIGSEGV"),
        ("stuck", "hang, killed"),
    ],
)
def test_what_ends_the_process_is_found(campaign, tmp_path, item, what):
    made = campaign("well", item, "well")
    assert made.tallies["made"].finds == {what: 1}
    assert made.tallies["made"].inputs == 2
    assert [p.read_text() for p in tmp_path.glob("made/*.hlo")] == [item]
    assert [p.read_text().partition(":")[0] for p in tmp_path.glob("made/*.why")] == [what]


def test_what_is_raised_or_returned_is_found_and_the_batch_goes_on(campaign):
    made = campaign("well", "raise", "wrong", "eat")
    tally = made.tallies["made"]
    assert tally.inputs == BATCH
    quarter = BATCH // 4
    assert sorted(tally.finds.values()) == [quarter] * 3
    assert {w.split(" at ")[0] for w in tally.finds} == {"foreign KeyError", "wrong: a result", "foreign MemoryError"}
    assert f"{BATCH} inputs" in made.report()


def test_what_takes_too_long_is_found():
    assert worker.judge(kind_of("hang"), "hang", np.random.default_rng(0), 0.1) == "hang: took longer than 0.1 s"


@pytest.mark.parametrize(
    ("again", "what"), [("", "hang that did not repeat"), ("hang: took longer than 0.2 s", "hang")]
)
def test_a_hang_is_judged_again(tmp_path, monkeypatch, again, what):
    """Other processes may have used the machine in the meantime."""
    monkeypatch.setattr("tests.fuzz.driver.find_of", lambda _kind, _item: again)
    kind = kind_of("hang")
    made = Campaign([kind], 1, tmp_path)
    made._count(kind, "hang: took longer than 0.2 s", b"hang")
    assert made.tallies["made"].finds == {what: 1}


def test_a_batch_is_the_same_for_the_same_seed():
    kind = kind_of("well")
    drawn = [
        worker.random_of(kind, seed, batch).integers(0, 1 << 62) for seed, batch in ((1, 0), (1, 0), (1, 1), (2, 0))
    ]
    assert drawn[0] == drawn[1]
    assert len(set(drawn)) == 3


def test_a_find_is_reduced_to_the_lines_that_matter(monkeypatch):
    monkeypatch.setattr(reduce, "find_of", lambda kind, item: kind.check(item, None) or "")
    kind = kind_of("")
    text = "".join(f"line {k}\n" for k in range(40)) + "a wrong line\n" + "line\n" * 9
    assert reduce.reduced(kind, text, "wrong: a result", 20) == "a wrong line\n"


def test_a_find_is_judged_in_a_process_of_its_own():
    from tests.fuzz.kinds import kinds

    assert reduce.find_of(kinds()["executable"], b"no executable") == ""


def test_changes_are_changes():
    rng = np.random.default_rng(0)
    assert len({change_bytes(b"some bytes to change", rng) for _ in range(50)}) > 40
    assert len({change_text("some text to change", rng) for _ in range(50)}) > 40
    assert len({str(change_json({"a": [1, 2, {"b": "c"}]}, rng)) for _ in range(50)}) > 30
