"""Code texts are generated in another thread while a page is made."""

from __future__ import annotations

import threading

import pytest

import xlanb
from xlanb.errors import XlanbError
from xlanb.explorer.stage import CODE_KINDS, Deferred
from xlanb.explorer.trace import Trace
from xlanb.view.read_ahead import reading_ahead

PROGRAM = """HloModule m
ENTRY main { x = f32[64,64] parameter(0) y = f32[64,64] add(x, x) ROOT r = f32[64,64] tanh(y) }
"""


def _texts(trace: Trace) -> list[Deferred]:
    given = [s.given_after for s in trace.stages if s.kind in CODE_KINDS]
    assert given
    return [g for g in given if isinstance(g, Deferred)]


def test_another_thread_reads_the_code():
    trace = xlanb.trace(PROGRAM)
    readers, done = set(), threading.Semaphore(0)
    texts = _texts(trace)
    for text in texts:

        def load(load=text.load):
            readers.add(threading.get_ident())
            found = load()
            done.release()
            return found

        text.load = load
    with reading_ahead([trace], 1 << 20):
        for _ in texts:
            assert done.acquire(timeout=60)
        assert all(t.get() is t.get() for t in texts)
    assert len(readers) == 1
    assert threading.get_ident() not in readers


def test_a_reader_waits_for_a_text_that_is_being_read():
    trace = xlanb.trace(PROGRAM)
    text = _texts(trace)[0]
    begun, go_on, loads = threading.Event(), threading.Event(), []

    def load(load=text.load):
        begun.set()
        go_on.wait(60)
        loads.append(threading.get_ident())
        return load()

    text.load = load
    with reading_ahead([trace], 1 << 20):
        assert begun.wait(60)
        threading.Timer(0.05, go_on.set).start()
        found = text.get()
    assert found is text.get()
    assert len(loads) == 1


def test_what_is_too_large_is_left():
    trace = xlanb.trace(PROGRAM)
    with reading_ahead([trace], 0):
        pass
    assert not any(t.is_read for t in _texts(trace))


def test_an_error_is_raised_where_the_text_is_read(tmp_path):
    trace = xlanb.trace(PROGRAM)
    text = _texts(trace)[0]
    failed = threading.Event()

    def load():
        failed.set()
        raise XlanbError("no such text")

    text.load = load
    with reading_ahead([trace], 1 << 20):
        assert failed.wait(60)
    with pytest.raises(XlanbError, match="no such text"):
        trace.to_html(tmp_path / "page.html")
