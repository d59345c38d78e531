"""Some of tf.signal, tf.image and tf.random against TensorFlow.

`python -m tests.peers.signal_image_sweep` tests all of them.
"""

from __future__ import annotations

import pytest

pytest.importorskip("tensorflow")

from tests.peers.signal_image_sweep import compare

pytestmark = pytest.mark.peer
COMPILED = (
    "dct 2", "irfft length", "frame padded", "overlap_and_add", "stft", "inverse_stft", "mfccs_from_log_mel_spectrograms", "inverse_mdct",
    "resize bilinear", "resize nearest corners", "extract_patches", "adjust_hue", "rot90", "ssim", "non_max_suppression_padded",
    "stateless_random_crop", "stateless_random_brightness",
)  # fmt: skip
ALONE = (
    "resize bicubic", "resize area", "resize lanczos3 antialiased", "resize bicubic gradient", "resize lanczos3 gradient", "crop_and_resize",
    "crop_and_resize nearest", "stateless_shuffle",
)  # fmt: skip
REFUSED = ("fftnd", "draw_bounding_boxes", "combined_non_max_suppression", "encode_png")


@pytest.mark.parametrize("name", COMPILED)
def test_compiled_as_by_tensorflow(name: str) -> None:
    assert compare(name).status == "ok", compare(name).text


@pytest.mark.parametrize("name", ALONE)
def test_compiled_here_alone(name: str) -> None:
    """TensorFlow's own kernels are the reference if its XLA has none."""
    assert compare(name).status == "spare", compare(name).text


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_the_reason_of_tensorflow(name: str) -> None:
    outcome = compare(name)
    assert outcome.status == "refused"
    assert "TensorFlow: No registered" in outcome.text
