"""Flags are parsed strictly, nest by context, and leave the environment alone."""

from __future__ import annotations

import os

import pytest

from xlanb.debug_options import OLD_GRAPH_PATH, DebugOptions, current, flag_table, flags, parse_flags
from xlanb.errors import FlagError


def test_words_become_options() -> None:
    options = parse_flags("--tf_xla_auto_jit=2 --tf_xla_cpu_global_jit --xla_disable_hlo_passes=fusion,cse")
    assert (options.tf_xla_auto_jit, options.tf_xla_cpu_global_jit) == (2, True)
    assert options.xla_disable_hlo_passes == ("fusion", "cse")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("--tf_xla_auto_jitt=1", "did you mean --tf_xla_auto_jit"),
        ("--tf_xla_auto_jit=yes", "takes an integer"),
        ("--xla_hlo_profile=maybe", "takes true or false"),
        ("tf_xla_auto_jit=1", "does not start with --"),
        ("--xla_hlo_profile='", "cannot be read"),
    ],
)
def test_bad_flags_are_refused(text: str, message: str) -> None:
    with pytest.raises(FlagError, match=message):
        parse_flags(text)


def test_blocks_nest_and_do_not_touch_the_environment() -> None:
    before = dict(os.environ)
    with flags("--tf_xla_auto_jit=1"):
        with flags(tf_xla_min_cluster_size=1):
            assert (current().tf_xla_auto_jit, current().tf_xla_min_cluster_size) == (1, 1)
        assert current().tf_xla_min_cluster_size == DebugOptions().tf_xla_min_cluster_size
    assert current().tf_xla_auto_jit == 0
    assert dict(os.environ) == before


def test_flags_of_the_real_xla_in_the_environment_are_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_FLAGS", "--xla_some_flag_of_tomorrow=1 --xla_hlo_profile")
    assert current().xla_hlo_profile
    monkeypatch.setenv("XLANB_FLAGS", "--xla_some_flag_of_tomorrow=1")
    with pytest.raises(FlagError):
        current()


def test_old_names_mean_what_todays_mean() -> None:
    options = parse_flags("--xla_generate_hlo_graph=step --xla_hlo_graph_path=/tmp/d")
    assert options == parse_flags(
        "--xla_dump_hlo_as_dot --xla_dump_hlo_module_re=step --xla_dump_hlo_pass_re=.* --xla_dump_to=/tmp/d"
    )


def test_graphs_of_2018_go_where_they_went() -> None:
    assert parse_flags("--xla_generate_hlo_graph=.*").xla_dump_to == OLD_GRAPH_PATH
    assert parse_flags("--xla_generate_hlo_graph").xla_dump_hlo_module_re == ".*"
    named = parse_flags("--xla_hlo_graph_path=d")
    assert parse_flags("--xla_generate_hlo_graph=.*", named).xla_dump_to == "d"


def test_flags_that_only_the_real_xla_obeys_are_known() -> None:
    assert parse_flags("--xla_gpu_autotune_level=2 --xla_force_host_platform_device_count=8") == DebugOptions()


def test_a_misspelt_flag_in_the_environment_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_FLAGS", "--xla_dump_too=/tmp")
    with pytest.raises(FlagError, match="did you mean --xla_dump_to"):
        current()


def test_the_prefix_of_graphs_comes_from_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_DUMP_GRAPH_PREFIX", "graphs")
    assert current().tf_dump_graph_prefix == "graphs"


def test_the_table_says_what_every_flag_does() -> None:
    table = {name: meaning for name, _, meaning in flag_table()}
    assert all(table.values())
    assert "--xla_dump_hlo_as_dot" in table["--xla_generate_hlo_graph"]


def test_auto_jit_takes_tensorflows_words() -> None:
    fusible = parse_flags("--tf_xla_auto_jit=fusible")
    assert (fusible.tf_xla_auto_jit, fusible.tf_xla_ops_to_cluster) == (1, ("FUSIBLE",))
    assert parse_flags("--tf_xla_auto_jit=single-gpu(2)").tf_xla_auto_jit == 0
    with pytest.raises(FlagError, match="takes an integer, not 'on'"):
        parse_flags("--tf_xla_auto_jit=on")
