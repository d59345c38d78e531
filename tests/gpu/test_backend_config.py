"""The backend config text that XLA:GPU writes for an instruction."""

from xlanb.gpu import backend_config
from xlanb.hlo import parse


def _root(config: str):
    return parse(
        f"HloModule m\nENTRY e {{ p = f32[8] parameter(0)\n ROOT n = f32[8] negate(p){config} }}"
    ).entry_computation.root


def test_fields_stand_in_the_order_of_the_message() -> None:
    text = backend_config.changed(
        native_emitter_backend_config={"unroll_factor": 0}, fusion_backend_config={"kind": "__triton"}
    )
    assert text == (
        '{"operation_queue_id":"0","fusion_backend_config":{"kind":"__triton"},"force_earliest_schedule":false,'
        '"reification_cost":[],"device_type":"DEVICE_TYPE_INVALID","native_emitter_backend_config":{"unroll_factor":0}}'
    )


def test_other_fields_are_kept_and_none_takes_one_out() -> None:
    root = _root(', backend_config={"operation_queue_id":"3","fusion_backend_config":{"kind":"a"},"x":1}')
    assert backend_config.fusion_config(root) == {"kind": "a"}
    text = backend_config.changed(root, fusion_backend_config=None)
    assert text == (
        '{"operation_queue_id":"3","force_earliest_schedule":false,"reification_cost":[],'
        '"device_type":"DEVICE_TYPE_INVALID","x":1}'
    )


def test_what_is_no_object_has_no_fields() -> None:
    assert backend_config.read(_root("")) == {}
    assert backend_config.read(_root(', backend_config="{not json"')) == {}
