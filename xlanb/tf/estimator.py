"""tf.estimator: train, evaluate and predict with a model function (TensorFlow 1's
python/estimator).

Each call builds a new graph with the model function and runs it in a monitored session, which saves
checkpoints to `model_dir` and continues from the last one. There is one process and no cluster.
"""

from __future__ import annotations

import inspect
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from xlanb.errors import ArgumentError
from xlanb.graph.builders.variables import GraphKeys
from xlanb.graph.default_graph import get_default_graph
from xlanb.graph.graph import Graph
from xlanb.runtime.resources import OutOfRangeError
from xlanb.runtime.session import Session
from xlanb.tf import logging
from xlanb.tf.data import Dataset
from xlanb.tf.metrics import mean
from xlanb.tf.monitored import (
    ChiefSessionCreator,
    MonitoredSession,
    MonitoredTrainingSession,
    NanTensorHook,
    Scaffold,
    SessionRunHook,
    StopAtStepHook,
)
from xlanb.tf.saver import latest_checkpoint, list_variables, load_variable
from xlanb.tf.steps import create_global_step, get_global_step


class ModeKeys:
    """The modes of a model function."""

    TRAIN = "train"
    EVAL = "eval"
    PREDICT = "infer"


class EstimatorSpec(NamedTuple):
    """A model function's return value: the fields that its mode needs.

    `predictions`: a tensor or a dictionary of tensors. `loss`: a scalar. `train_op`: runs one step.
    `eval_metric_ops`: {name: (value, update)}, as in tf.metrics.
    """

    mode: str
    predictions: Any = None
    loss: Any = None
    train_op: Any = None
    eval_metric_ops: Mapping[str, Any] | None = None
    export_outputs: Any = None
    training_chief_hooks: Any = None
    training_hooks: Any = None
    scaffold: Scaffold | None = None
    evaluation_hooks: Any = None
    prediction_hooks: Any = None


class RunConfig:
    """Settings of an estimator: where it saves, how often it logs and saves, the session's
    configuration.
    """

    def __init__(
        self,
        model_dir: str | None = None,
        tf_random_seed: int | None = None,
        save_summary_steps: int = 100,
        save_checkpoints_steps: int | None = None,
        save_checkpoints_secs: int | None = None,
        session_config: Any = None,
        keep_checkpoint_max: int = 5,
        keep_checkpoint_every_n_hours: float = 10000,
        log_step_count_steps: int | None = 100,
        **_others: Any,
    ) -> None:
        self.model_dir, self.tf_random_seed = model_dir, tf_random_seed
        self.save_summary_steps, self.session_config = save_summary_steps, session_config
        self.save_checkpoints_steps = save_checkpoints_steps
        both_open = save_checkpoints_steps is None and save_checkpoints_secs is None
        self.save_checkpoints_secs = 600 if both_open else save_checkpoints_secs
        self.keep_checkpoint_max = keep_checkpoint_max
        self.keep_checkpoint_every_n_hours = keep_checkpoint_every_n_hours
        self.log_step_count_steps = log_step_count_steps

    def replace(self, **changes: Any) -> RunConfig:
        """The same with other values."""
        made = RunConfig()
        made.__dict__.update({**self.__dict__, **changes})
        return made


class Estimator:
    """A model that is trained, evaluated and used for prediction through its model function.

    Args:
        model_fn: `model_fn(features, labels, mode, params, config)`, with any subset of these
            arguments; returns an EstimatorSpec.
        model_dir: folder of checkpoints; a temporary one by default.
        config: a RunConfig.
        params: a dictionary for the model function.
        warm_start_from: a checkpoint, or a folder of them, with initial variables for a first
            training.
    """

    def __init__(
        self,
        model_fn: Callable[..., EstimatorSpec],
        model_dir: str | None = None,
        config: RunConfig | None = None,
        params: Mapping[str, Any] | None = None,
        warm_start_from: str | None = None,
    ) -> None:
        self.config = config or RunConfig()
        found = model_dir or self.config.model_dir
        if found is None:
            found = tempfile.mkdtemp()
            logging.warning("Using temporary folder as model directory: %s", found)
        self.model_dir, self.params = found, dict(params or {})
        self._model_fn, self._warm = model_fn, warm_start_from

    @property
    def model_fn(self) -> Callable[..., EstimatorSpec]:
        """The model function."""
        return self._model_fn

    def train(
        self,
        input_fn: Callable[..., Any],
        hooks: Sequence[SessionRunHook] | None = None,
        steps: int | None = None,
        max_steps: int | None = None,
        saving_listeners: Any = None,
    ) -> Estimator:
        """Train on the input for `steps` more steps, up to step `max_steps`, or to the input's end.

        Raises:
            ArgumentError: both limits are given, or the model function returns no loss or train_op.
        """
        if steps is not None and max_steps is not None:
            raise ArgumentError("Estimator.train takes steps or max_steps, not both")
        if saving_listeners:
            raise ArgumentError("Estimator.train: saving_listeners are not supported; use hooks")
        with Graph().as_default():
            spec = self._build(input_fn, ModeKeys.TRAIN, ("loss", "train_op"))
            every = [NanTensorHook(spec.loss), *(hooks or ()), *(spec.training_hooks or ())]
            if steps is not None or max_steps is not None:
                every.append(StopAtStepHook(steps, max_steps))
            step, last = get_global_step(), (0, None)
            with MonitoredTrainingSession(
                checkpoint_dir=self.model_dir,
                scaffold=self._warmed(spec.scaffold or Scaffold()),
                hooks=every,
                chief_only_hooks=spec.training_chief_hooks,
                save_checkpoint_secs=self.config.save_checkpoints_secs,
                save_checkpoint_steps=self.config.save_checkpoints_steps,
                save_summaries_steps=self.config.save_summary_steps,
                config=self.config.session_config,
                log_step_count_steps=self.config.log_step_count_steps,
            ) as session:
                while not session.should_stop():
                    _, loss, at = session.run([spec.train_op, spec.loss, step])
                    last = at, loss
            logging.info("Loss for final step %s: %s.", *last)
        return self

    def evaluate(
        self,
        input_fn: Callable[..., Any],
        steps: int | None = None,
        hooks: Sequence[SessionRunHook] | None = None,
        checkpoint_path: str | None = None,
        name: str | None = None,
    ) -> dict[str, Any]:
        """Return the metrics over the input (`steps` batches of it): loss, global_step and the
        model's.

        Raises:
            ArgumentError: there is no checkpoint, or the model function returns no loss.
        """
        del name
        with Graph().as_default():
            spec = self._build(input_fn, ModeKeys.EVAL, ("loss",))
            metrics = {"loss": mean(spec.loss), **(spec.eval_metric_ops or {})}
            updates = [update for _, update in metrics.values()]
            values = {key: value for key, (value, _) in metrics.items()}
            values["global_step"] = get_global_step()
            every = [*(hooks or ()), *(spec.evaluation_hooks or ())]
            with self._restored(spec.scaffold, every, checkpoint_path) as session:
                done = 0
                while not session.should_stop() and (steps is None or done < steps):
                    try:
                        session.run(updates)
                    except OutOfRangeError:
                        break
                    done += 1
                raw: Session = session.raw_session()
                found: dict[str, Any] = raw.run(values)
        shown = ", ".join(f"{key} = {found[key]}" for key in sorted(found))
        logging.info("Saving dict for global step %s: %s", found["global_step"], shown)
        return found

    def predict(
        self,
        input_fn: Callable[..., Any],
        predict_keys: Sequence[str] | str | None = None,
        hooks: Sequence[SessionRunHook] | None = None,
        checkpoint_path: str | None = None,
        yield_single_examples: bool = True,
    ) -> Iterator[Any]:
        """Yield the model's predictions by example, or by batch without `yield_single_examples`.

        Raises:
            ArgumentError: there is no checkpoint, or the model function returns no predictions.
        """
        with Graph().as_default():
            spec = self._build(input_fn, ModeKeys.PREDICT, ("predictions",))
            wanted = _chosen(spec.predictions, predict_keys)
            every = [*(hooks or ()), *(spec.prediction_hooks or ())]
            with self._restored(spec.scaffold, every, checkpoint_path) as session:
                while not session.should_stop():
                    try:
                        batch = session.run(wanted)
                    except OutOfRangeError:
                        return
                    yield from _examples(batch) if yield_single_examples else (batch,)

    def latest_checkpoint(self) -> str | None:
        """The path of the last checkpoint; None before a first training."""
        return latest_checkpoint(self.model_dir)

    def get_variable_names(self) -> list[str]:
        """The names of the variables of the last checkpoint."""
        return [name for name, _ in list_variables(self._checkpoint(None))]

    def get_variable_value(self, name: str) -> np.ndarray[Any, Any]:
        """A variable of the last checkpoint."""
        return load_variable(self._checkpoint(None), name)

    def export_savedmodel(self, *_args: Any, **_options: Any) -> str:
        """Raise ArgumentError: not supported; the message names an alternative."""
        raise ArgumentError(
            "Estimator.export_savedmodel is not in xlanb: build the graph with the model function and write it "
            "with graph.save"
        )

    def _build(self, input_fn: Callable[..., Any], mode: str, needed: Sequence[str]) -> EstimatorSpec:
        """Call the model function on an input function's result, in the default graph."""
        create_global_step()
        given = _given(input_fn, {"params": self.params, "config": self.config, "mode": mode})
        features, labels = _features_and_labels(given, mode)
        options = {"labels": labels, "mode": mode, "params": self.params, "config": self.config}
        spec = _given(self._model_fn, options, features)
        if not isinstance(spec, EstimatorSpec):
            raise ArgumentError(f"the model function must return an EstimatorSpec, not {spec!r}")
        for field in needed:
            if getattr(spec, field) is None:
                raise ArgumentError(f"the model function returned no {field} in mode {mode!r}")
        return spec

    def _checkpoint(self, path: str | None) -> str:
        found = path or self.latest_checkpoint()
        if found is None:
            raise ArgumentError(f"no checkpoint in {self.model_dir}: train the model first")
        return found

    def _restored(
        self, scaffold: Scaffold | None, hooks: Sequence[SessionRunHook], path: str | None
    ) -> MonitoredSession:
        creator = ChiefSessionCreator(
            scaffold or Scaffold(),
            config=self.config.session_config,
            checkpoint_filename_with_path=self._checkpoint(path),
        )
        return MonitoredSession(creator, hooks)

    def _warmed(self, scaffold: Scaffold) -> Scaffold:
        """Return a scaffold that loads the warm-start variables before a first training."""
        if self._warm is None or self.latest_checkpoint() is not None:
            return scaffold
        path = latest_checkpoint(self._warm) or self._warm
        before = scaffold.init_fn

        def begin(made: Scaffold, session: Session) -> None:
            if before is not None:
                before(made, session)
            made.finalize().saver.restore(session, path)

        scaffold.init_fn = begin
        return scaffold


def _given(function: Callable[..., Any], options: Mapping[str, Any], *args: Any) -> Any:
    """A call with those options that the function takes."""
    taken = inspect.signature(function).parameters
    any_name = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in taken.values())
    return function(*args, **{k: v for k, v in options.items() if any_name or k in taken})


def _features_and_labels(given: Any, mode: str) -> tuple[Any, Any]:
    """Convert an input function's result: a data set, features, or features and labels."""
    if isinstance(given, Dataset):
        iterator = given.make_initializable_iterator()
        get_default_graph().add_to_collection(GraphKeys.TABLE_INITIALIZERS, iterator.initializer)
        given = iterator.get_next()
    if isinstance(given, tuple) and len(given) == 2:
        return given
    if mode != ModeKeys.PREDICT and isinstance(given, tuple):
        raise ArgumentError(f"an input function must return features, or features and labels, got {len(given)} values")
    return given, None


def _chosen(predictions: Any, keys: Sequence[str] | str | None) -> Any:
    if not keys:
        return predictions
    names = [keys] if isinstance(keys, str) else list(keys)
    if not isinstance(predictions, Mapping) or not set(names) <= set(predictions):
        raise ArgumentError(f"predict_keys {names}: the model predicts {predictions!r}")
    return {name: predictions[name] for name in names}


def _examples(batch: Any) -> Iterator[Any]:
    """The examples of a batch, one by one."""
    if not isinstance(batch, Mapping):
        yield from batch
        return
    for k in range(len(next(iter(batch.values())))):
        yield {name: values[k] for name, values in batch.items()}


def numpy_input_fn(
    x: Any,
    y: Any = None,
    batch_size: int = 128,
    num_epochs: int | None = 1,
    shuffle: bool | None = None,
    queue_capacity: int = 1000,
    num_threads: int = 1,
) -> Callable[[], Any]:
    """Make an input function over arrays: batches of `x` (an array or a dictionary of them) and of
    `y`.

    Args:
        x: features; arrays of one length.
        y: labels of that length, or None.
        batch_size: examples in a batch; the last one of all epochs may have fewer.
        num_epochs: the number of epochs; None for endless ones.
        shuffle: whether each epoch has another order; required.
        queue_capacity: how many examples are shuffled at once, as by TensorFlow's queue.
        num_threads: has no effect.

    Raises:
        ArgumentError: shuffle is not given, or the lengths differ.
    """
    del num_threads
    if not isinstance(shuffle, bool):
        raise ArgumentError(f"numpy_input_fn: shuffle must be True or False, not {shuffle!r}")
    arrays = x if isinstance(x, Mapping) else {"x": x}
    lengths = {name: len(a) for name, a in {**arrays, **({} if y is None else {"y": y})}.items()}
    if len(set(lengths.values())) != 1:
        raise ArgumentError(f"numpy_input_fn: the arrays differ in length: {lengths}")

    def input_fn() -> Any:
        features = {k: np.asarray(v) for k, v in x.items()} if isinstance(x, Mapping) else np.asarray(x)
        data = Dataset.from_tensor_slices(features if y is None else (features, np.asarray(y)))
        if shuffle:
            data = data.shuffle(max(queue_capacity, batch_size))
        return data.repeat(num_epochs).batch(batch_size)

    return input_fn


class TrainSpec(NamedTuple):
    """The training input of `train_and_evaluate`."""

    input_fn: Callable[..., Any]
    max_steps: int | None = None
    hooks: Any = None


class EvalSpec(NamedTuple):
    """The evaluation input of `train_and_evaluate`, `steps` batches of it (None: all)."""

    input_fn: Callable[..., Any]
    steps: int | None = 100
    name: str | None = None
    hooks: Any = None
    exporters: Any = None
    start_delay_secs: int = 120
    throttle_secs: int = 600


def train_and_evaluate(estimator: Estimator, train_spec: TrainSpec, eval_spec: EvalSpec) -> tuple[dict[str, Any], None]:
    """Train up to the spec's last step, then evaluate once; the metrics, and None for exports."""
    estimator.train(train_spec.input_fn, hooks=train_spec.hooks, max_steps=train_spec.max_steps)
    found = estimator.evaluate(eval_spec.input_fn, steps=eval_spec.steps, hooks=eval_spec.hooks)
    return found, None


inputs = SimpleNamespace(numpy_input_fn=numpy_input_fn)
