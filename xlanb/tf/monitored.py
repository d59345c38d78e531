"""Monitored sessions and their hooks, in one process.

Source: python/training/{monitored_session,session_run_hook,basic_session_run_hooks,supervisor}.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, Self

import numpy as np

from xlanb.errors import ArgumentError, GraphError, GraphValueError
from xlanb.graph.builders.control_ops import group
from xlanb.graph.builders.variables import (
    GraphKeys,
    global_variables,
    global_variables_initializer,
    local_variables_initializer,
)
from xlanb.graph.default_graph import get_default_graph
from xlanb.graph.operation import Operation
from xlanb.runtime.resources import OutOfRangeError
from xlanb.runtime.session import Session
from xlanb.tf import logging
from xlanb.tf.coordinator import Coordinator, start_queue_runners
from xlanb.tf.saver import Saver, latest_checkpoint
from xlanb.tf.steps import get_global_step
from xlanb.tf.summary import FileWriter, merge_all

_DEFAULT = object()


class NanLossDuringTrainingError(RuntimeError):
    """The loss is not a number."""

    def __str__(self) -> str:
        return "NaN loss during training."


class SessionRunArgs(NamedTuple):
    """Additional fetches and feeds of a hook."""

    fetches: Any = None
    feed_dict: Any = None
    options: Any = None


class SessionRunValues(NamedTuple):
    """The results of a hook's fetches."""

    results: Any
    options: Any = None
    run_metadata: Any = None


class SessionRunContext:
    """One run, as hooks see it.

    Attributes:
        original_args: the program's fetches and feeds. session: runs it. stop_requested: whether a
            hook requested a stop.
    """

    def __init__(self, original_args: SessionRunArgs, session: Session) -> None:
        self.original_args = original_args
        self.session = session
        self.stop_requested = False

    def request_stop(self) -> None:
        """Let `should_stop` be True from now on."""
        self.stop_requested = True


class SessionRunHook:
    """Callbacks around the runs of a monitored session; by default they do nothing."""

    def begin(self) -> None:
        """Before the session is made: the graph may still grow."""

    def after_create_session(self, session: Session, coord: Coordinator) -> None:
        """When the session is made."""

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:
        """Called before each run; returns additional fetches."""
        return None

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """After each run."""

    def end(self, session: Session) -> None:
        """At the end, unless a run failed."""


def _step_of(graph: Any) -> Any:
    found = get_global_step(graph)
    if found is None:
        raise GraphValueError(
            "the hook counts steps, but the graph has no global step: tf.train.get_or_create_global_step()"
        )
    return found


class StopAtStepHook(SessionRunHook):
    """Stops after `num_steps` steps from the beginning, or at step `last_step`."""

    def __init__(self, num_steps: int | None = None, last_step: int | None = None) -> None:
        if (num_steps is None) == (last_step is None):
            raise GraphValueError("exactly one of num_steps and last_step must be specified")
        self._num_steps, self._last_step = num_steps, last_step
        self._step: Any = None

    def begin(self) -> None:
        """Find the step counter."""
        self._step = _step_of(get_default_graph())

    def after_create_session(self, session: Session, coord: Coordinator) -> None:
        """Say at which step it ends."""
        if self._last_step is None:
            self._last_step = int(session.run(self._step)) + int(self._num_steps or 0)

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Fetch the counter."""
        return SessionRunArgs(self._step)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Request a stop once the step is reached."""
        if int(run_context.session.run(self._step)) >= int(self._last_step or 0):
            run_context.request_stop()


class _Every:
    """Whether it is time again: each so many runs, or seconds."""

    def __init__(self, steps: int | None, seconds: float | None) -> None:
        self._steps, self._seconds = steps, seconds
        self._last = float("-inf")

    def is_due(self, run: int) -> bool:
        now = time.monotonic() if self._seconds else float(run)
        if now - self._last < float(self._seconds or self._steps or 1):
            return False
        self._last = now
        return True


def _one_output(tensor: Any) -> Any:
    """Return the single output of an operation or its name; return anything else unchanged.

    Raises:
        GraphValueError: the operation has no output, or several.
    """
    graph = get_default_graph()
    is_name = isinstance(tensor, str) and ":" not in tensor
    op = graph.get_operation_by_name(tensor) if is_name else tensor
    if not isinstance(op, Operation):
        return tensor
    if len(op.outputs) != 1:
        raise GraphValueError(
            f"operation {op.name!r} has {len(op.outputs)} outputs: name one of them, as in '{op.name}:0'"
        )
    return op.outputs[0]


class LoggingTensorHook(SessionRunHook):
    """Logs tensors each `every_n_iter` runs or `every_n_secs` seconds."""

    def __init__(
        self, tensors: Any, every_n_iter: int | None = None, every_n_secs: float | None = None, at_end: bool = False,
        formatter: Callable[[dict[str, Any]], str] | None = None,
    ) -> None:  # fmt: skip
        self._tensors = dict(tensors) if isinstance(tensors, dict) else {getattr(t, "name", t): t for t in tensors}
        self._every = _Every(every_n_iter, every_n_secs)
        self._at_end, self._formatter = at_end, formatter
        self._runs = 0
        self._is_due = False

    def begin(self) -> None:
        """Find tensors that were given by the names of their operations."""
        self._tensors = {k: _one_output(t) for k, t in self._tensors.items()}

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:
        """Fetch the tensors if they are due."""
        self._is_due = self._every.is_due(self._runs)
        self._runs += 1
        return SessionRunArgs(self._tensors) if self._is_due else None

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Log them."""
        if self._is_due:
            self._log(run_values.results)

    def end(self, session: Session) -> None:
        """Log the tensors again, if requested."""
        if self._at_end:
            self._log(session.run(self._tensors))

    def _log(self, values: dict[str, Any]) -> None:
        text = self._formatter(values) if self._formatter else ", ".join(f"{k} = {v}" for k, v in values.items())
        logging.info(text)


class NanTensorHook(SessionRunHook):
    """Stop, or fail, if the loss is NaN."""

    def __init__(self, loss_tensor: Any, fail_on_nan_loss: bool = True) -> None:
        self._loss, self._fails = loss_tensor, fail_on_nan_loss

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Fetch the loss."""
        return SessionRunArgs(self._loss)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Raise NanLossDuringTrainingError, or stop."""
        if np.isnan(run_values.results).any():
            if self._fails:
                raise NanLossDuringTrainingError
            logging.warning("NaN loss during training.")
            run_context.request_stop()


class CheckpointSaverHook(SessionRunHook):
    """Saves the variables each `save_steps` runs or `save_secs` seconds, and at the end."""

    def __init__(
        self, checkpoint_dir: str, save_secs: float | None = None, save_steps: int | None = None, saver: Any = None,
        checkpoint_basename: str = "model.ckpt", scaffold: Any = None, listeners: Any = None,
    ) -> None:  # fmt: skip
        self._path = str(Path(checkpoint_dir) / checkpoint_basename)
        self._saver, self._scaffold = saver, scaffold
        self._every = _Every(save_steps, save_secs)
        self._runs = 0

    def begin(self) -> None:
        """Find a saver."""
        if self._saver is None:
            self._saver = getattr(self._scaffold, "saver", None) or Saver()

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Save if it is due."""
        if self._every.is_due(self._runs):
            self._save(run_context.session)
        self._runs += 1

    def end(self, session: Session) -> None:
        """Save once more."""
        self._save(session)

    def _save(self, session: Session) -> None:
        step = get_global_step(session.graph)
        Path(self._path).parent.mkdir(parents=True, exist_ok=True)
        self._saver.save(session, self._path, global_step=None if step is None else int(session.run(step)))


class StepCounterHook(SessionRunHook):
    """Logs steps a second, each `every_n_steps` runs."""

    def __init__(
        self, every_n_steps: int | None = 100, every_n_secs: float | None = None, output_dir: Any = None,
        summary_writer: Any = None
    ) -> None:  # fmt: skip
        self._every, self._runs, self._since = _Every(every_n_steps, every_n_secs), 0, time.monotonic()
        self._done = 0

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Log if it is due."""
        self._runs += 1
        if self._every.is_due(self._runs) and self._runs > self._done + 1:
            now = time.monotonic()
            logging.info("global_step/sec: %g", (self._runs - self._done) / max(now - self._since, 1e-9))
            self._done, self._since = self._runs, now


class SummarySaverHook(SessionRunHook):
    """Writes summaries each `save_steps` runs or `save_secs` seconds, with the global step.

    `summary_op` is one or several; without it, and by `scaffold`, all summaries of the graph.
    """

    def __init__(
        self, save_steps: int | None = None, save_secs: float | None = None, output_dir: str | None = None,
        summary_writer: Any = None,
        scaffold: Scaffold | None = None, summary_op: Any = None,
    ) -> None:  # fmt: skip
        if summary_writer is None and output_dir is None:
            raise ArgumentError("SummarySaverHook: expected an output_dir or a summary_writer")
        self._every = _Every(save_steps, save_secs)
        self._folder, self._writer = output_dir, summary_writer
        self._scaffold, self._given = scaffold, summary_op
        self._runs, self._is_due, self._ops = 0, False, list[Any]()

    def begin(self) -> None:
        """Find the summaries, and open the file with the graph in it."""
        given = self._given if self._given is not None else getattr(self._scaffold, "summary_op", None)
        given = given if given is not None else merge_all()
        self._ops = [] if given is None else list(given) if isinstance(given, list | tuple) else [given]
        if self._writer is None:
            self._writer = FileWriter(str(self._folder), get_default_graph())

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:
        """Fetch the summaries if they are due."""
        self._is_due = bool(self._ops) and self._every.is_due(self._runs)
        self._runs += 1
        return SessionRunArgs([self._ops, _step_of(get_default_graph())]) if self._is_due else None

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Write them."""
        if self._is_due:
            summaries, step = run_values.results
            for summary in summaries:
                self._writer.add_summary(summary, int(step))

    def end(self, session: Session) -> None:
        """Write buffered events."""
        self._writer.close()


class FeedFnHook(SessionRunHook):
    """Feed each run with the result of a function."""

    def __init__(self, feed_fn: Callable[[], Any]) -> None:
        self._feed_fn = feed_fn

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """The feeds."""
        return SessionRunArgs(None, self._feed_fn())


class FinalOpsHook(SessionRunHook):
    """Run operations at the end; `final_ops_values` has the results."""

    def __init__(self, final_ops: Any, final_ops_feed_dict: Any = None) -> None:
        self._ops, self._feeds = final_ops, final_ops_feed_dict
        self.final_ops_values: Any = None

    def end(self, session: Session) -> None:
        """Run it."""
        self.final_ops_values = session.run(self._ops, self._feeds)


class Scaffold:
    """A monitored session's initializers and saver; missing ones are made."""

    def __init__(
        self, init_op: Any = None, init_feed_dict: Any = None, init_fn: Any = None, ready_op: Any = None,
        ready_for_local_init_op: Any = None,
        local_init_op: Any = None, summary_op: Any = None, saver: Any = None, copy_from_scaffold: Any = None,
    ) -> None:  # fmt: skip
        self.init_op, self.init_feed_dict, self.init_fn = init_op, init_feed_dict, init_fn
        self.local_init_op, self.summary_op, self.saver = local_init_op, summary_op, saver

    def finalize(self) -> Self:
        """Make missing parts."""
        if self.init_op is None:
            self.init_op = group(global_variables_initializer())
        if self.local_init_op is None:
            tables = get_default_graph().get_collection(GraphKeys.TABLE_INITIALIZERS)
            self.local_init_op = group(local_variables_initializer(), *tables)
        if self.saver is None and global_variables():
            self.saver = Saver()
        return self


class MonitoredSession:
    """A session with hooks: initialized, restored from the last checkpoint if any, queue runners
    started.

    Attributes:
        graph: the graph that it runs.
    """

    def __init__(
        self,
        session_creator: Any = None,
        hooks: Sequence[SessionRunHook] | None = None,
        stop_grace_period_secs: int = 120,
    ) -> None:
        creator = session_creator or ChiefSessionCreator()
        self.graph = get_default_graph()
        self._hooks = list(hooks or [])
        for hook in self._hooks:
            hook.begin()
        self._coord = Coordinator()
        self._session = creator.create_session()
        self._scope = self._session.as_default()
        self._scope.__enter__()
        start_queue_runners(self._session, self._coord)
        for hook in self._hooks:
            hook.after_create_session(self._session, self._coord)
        self._stops = False

    def run(self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None) -> Any:
        """As a session's run, between the hooks. Raises GraphValueError where two feed the same."""
        context = SessionRunContext(SessionRunArgs(fetches, feed_dict, options), self._session)
        asked = [hook.before_run(context) or SessionRunArgs() for hook in self._hooks]
        feeds = dict(feed_dict or {})
        for args in asked:
            twice = [k for k in (args.feed_dict or {}) if k in feeds]
            if twice:
                raise GraphValueError(f"a hook feeds {twice[0]!r}, which is already fed")
            feeds.update(args.feed_dict or {})
        wanted = {str(i): a.fetches for i, a in enumerate(asked) if a.fetches is not None}
        found = self._session.run({"caller": fetches, "hooks": wanted}, feeds, options, run_metadata)
        for index, hook in enumerate(self._hooks):
            hook.after_run(context, SessionRunValues(found["hooks"].get(str(index)), options, run_metadata))
        self._stops = self._stops or context.stop_requested
        return found["caller"]

    def should_stop(self) -> bool:
        """Whether a hook, a queue runner or the end of the data wants an end."""
        return self._stops or self._coord.should_stop()

    def raw_session(self) -> Session:
        """The session within."""
        return self._session

    def run_step_fn(self, step_fn: Callable[[Any], Any]) -> Any:
        """`step_fn` of a context that has the session, `run_with_hooks` and `request_stop`."""
        return step_fn(SimpleNamespace(session=self._session, run_with_hooks=self.run, request_stop=self._stop))

    def _stop(self) -> None:
        self._stops = True

    def close(self) -> None:
        """Hooks' ends, then the session's."""
        self._finish(None)

    def _finish(self, error: BaseException | None) -> None:
        try:
            if error is None or isinstance(error, OutOfRangeError):
                for hook in self._hooks:
                    hook.end(self._session)
        finally:
            self._coord.request_stop()
            self._scope.__exit__(None, None, None)
            self._session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        """Suppress the end of the data, which is not an error."""
        self._finish(error)
        return isinstance(error, OutOfRangeError)


SingularMonitoredSession = MonitoredSession


class ChiefSessionCreator:
    """Makes the session of a monitored session."""

    def __init__(
        self, scaffold: Scaffold | None = None, master: str = "", config: Any = None, checkpoint_dir: str | None = None,
        checkpoint_filename_with_path: str | None = None,
    ) -> None:  # fmt: skip
        if master:
            raise GraphError(f"a session runs in this process, not at {master!r}")
        self._scaffold, self._config = scaffold or Scaffold(), config
        self._checkpoint = checkpoint_filename_with_path or (
            latest_checkpoint(checkpoint_dir) if checkpoint_dir else None
        )

    def create_session(self) -> Session:
        """A session with initialised or restored variables."""
        scaffold = self._scaffold.finalize()
        session = Session(config=self._config)
        session.run(scaffold.init_op, scaffold.init_feed_dict)
        if scaffold.init_fn is not None:
            scaffold.init_fn(scaffold, session)
        if self._checkpoint and scaffold.saver is not None:
            scaffold.saver.restore(session, self._checkpoint)
        session.run(scaffold.local_init_op)
        return session


def MonitoredTrainingSession(  # noqa: N802 - TensorFlow's name
    master: str = "", is_chief: bool = True, checkpoint_dir: str | None = None, scaffold: Scaffold | None = None,
    hooks: Any = None,
    chief_only_hooks: Any = None, save_checkpoint_secs: Any = 600, save_summaries_steps: Any = _DEFAULT,
    save_summaries_secs: Any = _DEFAULT,
    config: Any = None, stop_grace_period_secs: int = 120, log_step_count_steps: int | None = 100,
    max_wait_secs: int = 7200,
    save_checkpoint_steps: int | None = None, summary_dir: str | None = None,
) -> MonitoredSession:  # fmt: skip
    """Make a monitored session that saves to `checkpoint_dir`, if given, and continues from there.

    Summaries are written to `summary_dir`, or there, every 100 steps unless another period is given
    (None: never).
    """
    used = scaffold or Scaffold()
    every = list(hooks or []) + list(chief_only_hooks or [])
    if checkpoint_dir:
        seconds = None if save_checkpoint_steps else save_checkpoint_secs
        every.append(CheckpointSaverHook(checkpoint_dir, seconds, save_checkpoint_steps, scaffold=used))
        if log_step_count_steps:
            every.append(StepCounterHook(log_step_count_steps))
    folder = summary_dir or checkpoint_dir
    seconds = None if save_summaries_secs is _DEFAULT else save_summaries_secs
    steps = save_summaries_steps
    if steps is _DEFAULT:
        steps = 100 if seconds is None else None
    if folder and (steps or seconds):
        every.append(SummarySaverHook(steps, seconds, folder, scaffold=used))
    return MonitoredSession(ChiefSessionCreator(used, master, config, checkpoint_dir), every)


class Supervisor:
    """TensorFlow 1.0's self-saving sessions: `managed_session`, `should_stop`, `saver`."""

    def __init__(
        self, graph: Any = None, logdir: str | None = None, init_op: Any = None, saver: Any = None,
        global_step: Any = None,
        save_model_secs: float = 600, is_chief: bool = True, init_fn: Any = None, **_options: Any,
    ) -> None:  # fmt: skip
        self._logdir, self._every = logdir, _Every(None, save_model_secs)
        self._scaffold = Scaffold(
            init_op, init_fn=(lambda _s, session: init_fn(session)) if init_fn else None, saver=saver
        )
        self._scaffold.finalize()
        self.saver = self._scaffold.saver
        self.coord = Coordinator()

    @contextmanager
    def managed_session(
        self, master: str = "", config: Any = None, start_standard_services: bool = True
    ) -> Iterator[Session]:
        """Open a session, initialized or restored; it is saved at the end if there is a logdir."""
        session = ChiefSessionCreator(self._scaffold, master, config, self._logdir).create_session()
        with session.as_default():
            start_queue_runners(session, self.coord)
            try:
                yield session
            except OutOfRangeError:
                self.coord.request_stop()
            finally:
                self.coord.request_stop()
                if self._logdir and self.saver is not None:
                    Path(self._logdir).mkdir(parents=True, exist_ok=True)
                    self.saver.save(session, str(Path(self._logdir) / "model.ckpt"))
                session.close()

    def should_stop(self) -> bool:
        """Whether an end was asked for."""
        return self.coord.should_stop()

    def request_stop(self, ex: Any = None) -> None:
        """Ask for an end."""
        self.coord.request_stop(ex)

    def summary_computed(self, sess: Any, summary: Any, global_step: Any = None) -> None:
        """Do nothing: no summaries are written here."""

    def stop(self, threads: Any = None, close_summary_writer: bool = True) -> None:
        """Ask for an end."""
        self.coord.request_stop()
