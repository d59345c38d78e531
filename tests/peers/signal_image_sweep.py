"""tf.signal and tf.image, and some of tf.random, against TensorFlow's jit_compile.

    python -m tests.peers.signal_image_sweep [--only stft,resize] [--list FILE]

TensorFlow traces each function; xlanb compiles the trace. A function that TensorFlow's XLA rejects
must be rejected here with a reason, or agree with TensorFlow's own kernels. These are also the
reference for random numbers, as xlanb draws the same ones compiled or not; TensorFlow's XLA
converts the same bits to other floats.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.peers.op_runs import Outcome, tensorflow
from tests.peers.sweep_report import report

# What draws floats, which TensorFlow's XLA makes otherwise of the same bits.
DRAWN = {f"stateless_random_{n}" for n in "brightness contrast flip_left_right flip_up_down hue saturation".split()}

Build = Callable[..., Any]


def _rng(name: str) -> np.random.Generator:
    return np.random.default_rng(len(name))


def _signals() -> dict[str, tuple[Build, list[tuple[int, ...]]]]:
    import tensorflow as tf

    s = tf.signal

    def as_complex(x: Any) -> Any:
        return tf.complex(x, tf.sin(x))

    return {
        "dct 1": (lambda x: s.dct(x, type=1), [(3, 8)]),
        "dct 2": (lambda x: s.dct(x, type=2), [(3, 8)]),
        "dct 2 ortho": (lambda x: s.dct(x, type=2, norm="ortho", n=6), [(3, 8)]),
        "dct 3": (lambda x: s.dct(x, type=3), [(3, 8)]),
        "dct 4": (lambda x: s.dct(x, type=4), [(3, 8)]),
        "idct": (s.idct, [(3, 8)]),
        "idct ortho": (lambda x: s.idct(x, norm="ortho"), [(3, 8)]),
        "fft": (lambda x: s.fft(as_complex(x)), [(3, 8)]),
        "fft2d": (lambda x: s.fft2d(as_complex(x)), [(3, 8)]),
        "fft3d": (lambda x: s.fft3d(as_complex(x)), [(3, 4, 6)]),
        "fftnd": (lambda x: s.fftnd(as_complex(x), [4, 4], [0, 1]), [(4, 4)]),
        "ifft": (lambda x: s.ifft(as_complex(x)), [(3, 7)]),
        "ifft2d": (lambda x: s.ifft2d(as_complex(x)), [(3, 8)]),
        "ifft3d": (lambda x: s.ifft3d(as_complex(x)), [(3, 4, 6)]),
        "ifftnd": (lambda x: s.ifftnd(as_complex(x), [4, 4], [0, 1]), [(4, 4)]),
        "rfft": (s.rfft, [(3, 9)]),
        "rfft length": (lambda x: s.rfft(x, [12]), [(3, 9)]),
        "rfft2d": (s.rfft2d, [(3, 8)]),
        "rfft3d": (s.rfft3d, [(3, 4, 6)]),
        "rfftnd": (lambda x: s.rfftnd(x, [4, 4], [0, 1]), [(4, 4)]),
        "irfft": (lambda x: s.irfft(as_complex(x)), [(3, 5)]),
        "irfft length": (lambda x: s.irfft(as_complex(x), [7]), [(3, 5)]),
        "irfft2d": (lambda x: s.irfft2d(as_complex(x)), [(3, 5)]),
        "irfft3d": (lambda x: s.irfft3d(as_complex(x)), [(3, 4, 4)]),
        "irfftnd": (lambda x: s.irfftnd(as_complex(x), [4, 4], [0, 1]), [(4, 3)]),
        "fftshift": (s.fftshift, [(3, 5)]),
        "ifftshift": (lambda x: s.ifftshift(x, axes=1), [(3, 5)]),
        "frame": (lambda x: s.frame(x, 4, 2), [(3, 11)]),
        "frame padded": (lambda x: s.frame(x, 4, 3, pad_end=True, pad_value=1.0), [(3, 11)]),
        "frame axis": (lambda x: s.frame(x, 4, 3, axis=0), [(11, 2)]),
        "overlap_and_add": (lambda x: s.overlap_and_add(x, 2), [(3, 5, 4)]),
        "hamming_window": (lambda x: x * s.hamming_window(8), [(8,)]),
        "hann_window": (lambda x: x * s.hann_window(8, periodic=False), [(8,)]),
        "kaiser_window": (lambda x: x * s.kaiser_window(8), [(8,)]),
        "kaiser_bessel_derived_window": (lambda x: x * s.kaiser_bessel_derived_window(8), [(8,)]),
        "vorbis_window": (lambda x: x * s.vorbis_window(8), [(8,)]),
        "inverse_stft_window_fn": (lambda x: x * s.inverse_stft_window_fn(4)(8, tf.float32), [(8,)]),
        "stft": (lambda x: s.stft(x, 8, 4), [(2, 40)]),
        "stft padded": (lambda x: s.stft(x, 7, 3, fft_length=16, pad_end=True), [(2, 40)]),
        "inverse_stft": (lambda x: s.inverse_stft(as_complex(x), 8, 4), [(2, 6, 5)]),
        "inverse_stft fitted": (
            lambda x: s.inverse_stft(as_complex(x), 8, 4, window_fn=s.inverse_stft_window_fn(4)),
            [(2, 6, 5)],
        ),
        "linear_to_mel_weight_matrix": (
            lambda x: x @ s.linear_to_mel_weight_matrix(6, 9, 8000, 60.0, 3800.0),
            [(3, 9)],
        ),
        "mfccs_from_log_mel_spectrograms": (s.mfccs_from_log_mel_spectrograms, [(3, 9)]),
        "mdct": (lambda x: s.mdct(x, 8), [(2, 32)]),
        "inverse_mdct": (s.inverse_mdct, [(2, 6, 4)]),
    }


_IMAGE = (2, 7, 5, 3)
_BOXES = np.array([[0.1, 0.2, 0.8, 0.9], [0.0, 0.0, 1.0, 1.0], [0.3, 0.3, 0.4, 1.2]], np.float32)


def _images() -> dict[str, tuple[Build, list[tuple[int, ...]]]]:
    import tensorflow as tf

    i = tf.image
    methods = "bilinear nearest bicubic area lanczos3 lanczos5 gaussian mitchellcubic".split()
    boxes = tf.constant(_BOXES)
    scores = tf.constant([0.9, 0.8, 0.7])
    crowd = tf.constant([[0.0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, 2, 1, 3], [0, 2.1, 1, 3.05]])
    ranks = tf.constant([0.6, 0.9, 0.7, 0.8])
    made: dict[str, tuple[Build, list[tuple[int, ...]]]] = {}
    for method in methods:
        made[f"resize {method}"] = (lambda x, m=method: i.resize(x, [11, 3], method=m), [_IMAGE])
        made[f"resize {method} antialiased"] = (
            lambda x, m=method: i.resize(x, [3, 4], method=m, antialias=True),
            [_IMAGE],
        )
    for method in ("bilinear", "nearest", "bicubic"):
        old = getattr(tf.compat.v1.image, f"resize_{'nearest_neighbor' if method == 'nearest' else method}")
        made[f"resize {method} corners"] = (lambda x, o=old: o(x, [6, 9], align_corners=True), [_IMAGE])
        made[f"resize {method} legacy"] = (lambda x, o=old: o(x, [6, 9]), [_IMAGE])

        def slope(x: Any, w: Any, m: str = method) -> Any:
            return tf.gradients(tf.reduce_sum(i.resize(x, [11, 3], method=m) * w), x)[0]

        made[f"resize {method} gradient"] = (slope, [_IMAGE, (2, 11, 3, 3)])

    def lanczos_slope(x: Any, w: Any) -> Any:
        return tf.gradients(tf.reduce_sum(i.resize(x, [5, 3], method="lanczos3", antialias=True) * w), x)[0]

    def crop_slopes(x: Any, w: Any) -> Any:
        held = tf.identity(boxes)
        return tf.gradients(tf.reduce_sum(i.crop_and_resize(x, held, [0, 1, 0], [4, 3]) * w), [x, held])

    def nearest_slope(x: Any, w: Any) -> Any:
        return tf.gradients(tf.reduce_sum(i.crop_and_resize(x, boxes, [0, 1, 0], [4, 3], "nearest") * w), x)[0]

    made["resize lanczos3 gradient"] = (lanczos_slope, [_IMAGE, (2, 5, 3, 3)])
    made["crop_and_resize gradient"] = (crop_slopes, [_IMAGE, (3, 4, 3, 3)])
    made["crop_and_resize nearest gradient"] = (nearest_slope, [_IMAGE, (3, 4, 3, 3)])
    made.update(
        {
            "resize ratio": (lambda x: i.resize(x, [6, 9], preserve_aspect_ratio=True), [_IMAGE]),
            "resize_with_pad": (lambda x: i.resize_with_pad(x, 6, 9), [_IMAGE]),
            "resize_with_crop_or_pad": (lambda x: i.resize_with_crop_or_pad(x, 6, 9), [_IMAGE]),
            "crop_and_resize": (lambda x: i.crop_and_resize(x, boxes, [0, 1, 0], [4, 3]), [_IMAGE]),
            "crop_and_resize nearest": (
                lambda x: i.crop_and_resize(x, boxes, [0, 1, 0], [4, 3], "nearest", extrapolation_value=9.0),
                [_IMAGE],
            ),
            "crop_to_bounding_box": (lambda x: i.crop_to_bounding_box(x, 1, 0, 3, 4), [_IMAGE]),
            "pad_to_bounding_box": (lambda x: i.pad_to_bounding_box(x, 1, 0, 9, 8), [_IMAGE]),
            "central_crop": (lambda x: i.central_crop(x, 0.6), [_IMAGE]),
            "extract_glimpse": (lambda x: i.extract_glimpse(x, [3, 3], [[0.1, 0.2], [-0.5, 0.3]], noise="zero"), [_IMAGE]),
            "extract_patches": (
                lambda x: i.extract_patches(x, [1, 3, 2, 1], [1, 2, 1, 1], [1, 1, 2, 1], "VALID"),
                [_IMAGE],
            ),
            "adjust_brightness": (lambda x: i.adjust_brightness(x, 0.2), [_IMAGE]),
            "adjust_contrast": (lambda x: i.adjust_contrast(x, 2.0), [_IMAGE]),
            "adjust_gamma": (lambda x: i.adjust_gamma(x, 0.7, 2.0), [_IMAGE]),
            "adjust_hue": (lambda x: i.adjust_hue(x, 0.2), [_IMAGE]),
            "adjust_saturation": (lambda x: i.adjust_saturation(x, 0.6), [_IMAGE]),
            "per_image_standardization": (i.per_image_standardization, [_IMAGE]),
            "convert_image_dtype": (lambda x: i.convert_image_dtype(x, tf.uint8, saturate=True), [_IMAGE]),
            "convert_image_dtype back": (
                lambda x: i.convert_image_dtype(tf.cast(x * 255.0, tf.uint8), tf.float32),
                [_IMAGE],
            ),
            "rgb_to_grayscale": (i.rgb_to_grayscale, [_IMAGE]),
            "grayscale_to_rgb": (lambda x: i.grayscale_to_rgb(x[..., :1]), [_IMAGE]),
            "rgb_to_hsv": (i.rgb_to_hsv, [_IMAGE]),
            "hsv_to_rgb": (i.hsv_to_rgb, [_IMAGE]),
            "rgb_to_yiq": (i.rgb_to_yiq, [_IMAGE]),
            "yiq_to_rgb": (i.yiq_to_rgb, [_IMAGE]),
            "rgb_to_yuv": (i.rgb_to_yuv, [_IMAGE]),
            "yuv_to_rgb": (i.yuv_to_rgb, [_IMAGE]),
            "flip_left_right": (i.flip_left_right, [_IMAGE]),
            "flip_up_down": (i.flip_up_down, [_IMAGE]),
            "rot90": (lambda x: i.rot90(x, 3), [_IMAGE]),
            "transpose": (i.transpose, [_IMAGE]),
            "image_gradients": (i.image_gradients, [_IMAGE]),
            "sobel_edges": (i.sobel_edges, [_IMAGE]),
            "total_variation": (i.total_variation, [_IMAGE]),
            "psnr": (lambda x, y: i.psnr(x, y, 1.0), [_IMAGE, _IMAGE]),
            "ssim": (lambda x, y: i.ssim(x, y, 1.0), [(1, 16, 16, 3)] * 2),
            "ssim_multiscale": (lambda x, y: i.ssim_multiscale(x, y, 1.0, filter_size=3), [(1, 64, 64, 1)] * 2),
            "draw_bounding_boxes": (lambda x: i.draw_bounding_boxes(x, boxes[None, :2], [[1.0, 0, 0]]), [(1, 9, 9, 3)]),
            "non_max_suppression": (lambda x: i.non_max_suppression(crowd * x, ranks, 3), [()]),
            "non_max_suppression_padded": (
                lambda x: i.non_max_suppression_padded(crowd * x, ranks, 3, pad_to_max_output_size=True),
                [()],
            ),
            "non_max_suppression_with_scores": (
                lambda x: i.non_max_suppression_with_scores(crowd * x, ranks, 3, soft_nms_sigma=0.5),
                [()],
            ),
            "non_max_suppression_overlaps": (
                lambda x: i.non_max_suppression_overlaps(tf.eye(3) * x, scores, 3),
                [()],
            ),
            "combined_non_max_suppression": (
                lambda x: i.combined_non_max_suppression(crowd[None, :, None] * x, ranks[None, :, None], 3, 3),
                [()],
            ),
            "stateless_random_brightness": (lambda x: i.stateless_random_brightness(x, 0.2, (1, 2)), [_IMAGE]),
            "stateless_random_contrast": (lambda x: i.stateless_random_contrast(x, 0.2, 0.5, (1, 2)), [_IMAGE]),
            "stateless_random_crop": (lambda x: i.stateless_random_crop(x, [2, 3, 3, 3], (1, 2)), [_IMAGE]),
            "stateless_random_flip_left_right": (lambda x: i.stateless_random_flip_left_right(x, (1, 2)), [_IMAGE]),
            "stateless_random_flip_up_down": (lambda x: i.stateless_random_flip_up_down(x, (1, 2)), [_IMAGE]),
            "stateless_random_hue": (lambda x: i.stateless_random_hue(x, 0.2, (1, 2)), [_IMAGE]),
            "stateless_random_saturation": (lambda x: i.stateless_random_saturation(x, 0.5, 1.0, (1, 2)), [_IMAGE]),
            "stateless_random_jpeg_quality": (
                lambda x: i.stateless_random_jpeg_quality(x, 75, 95, (1, 2)),
                [(7, 5, 3)],
            ),
            "adjust_jpeg_quality": (lambda x: i.adjust_jpeg_quality(x, 75), [(7, 5, 3)]),
            "encode_png": (lambda x: i.decode_png(i.encode_png(tf.cast(x * 255.0, tf.uint8))), [(7, 5, 3)]),
            "sample_distorted_bounding_box": (
                lambda x: i.stateless_sample_distorted_bounding_box([7, 5, 3], boxes[None, :2] * x, (1, 2))[0],
                [()],
            ),
            "generate_bounding_box_proposals": (
                lambda x: i.generate_bounding_box_proposals(
                    tf.ones([1, 2, 2, 1]) * x, tf.zeros([1, 2, 2, 4]), [[9.0, 9, 1, 9, 9]], tf.ones([1, 2, 4])
                )[0],
                [()],
            ),
            "stateless_shuffle": (lambda x: tf.random.experimental.stateless_shuffle(x, (1, 2)), [(9, 2)]),
            "index_shuffle": (lambda x: tf.random.experimental.index_shuffle(tf.constant(5), tf.constant([1, 2]), 8) + tf.cast(x, tf.int32), [()]),
        }
    )  # fmt: skip
    return made


def cases() -> dict[str, tuple[Build, list[tuple[int, ...]]]]:
    """Functions by name, and the shapes of their float32 arguments in [0, 1)."""
    tensorflow()
    return {**_signals(), **_images()}


def compare(name: str) -> Outcome:
    """Compare one function and return the outcome.

    "ok", "wrong", "fails" (here only), "refused" (by both), "spare" (runs here only, and right).
    """
    import tensorflow as tf

    import xlanb
    from xlanb.errors import XlanbError

    build, shapes = cases()[name]
    rng = _rng(name)
    arrays = [np.asarray(rng.uniform(0, 1, s), np.float32) for s in shapes]
    given = [tf.constant(a) for a in arrays]
    function = tf.function(build)
    try:
        compiled = tf.function(build, jit_compile=True)
        expected = function(*given) if name in DRAWN else compiled(*given)
        compiles = True
    except Exception as error:  # noqa: BLE001 - whatever TensorFlow says no with
        reason, compiles = f"{type(error).__name__}: {str(error)[:120]!r}", False
        try:
            expected = function(*given)
        except Exception:  # noqa: BLE001 - it has no kernel at all
            expected = None
    try:
        got = xlanb.jit(function)(*arrays)
    except XlanbError as error:
        status = "fails" if compiles else "refused"
        return Outcome(status, f"{error}"[:400] if compiles else f"{str(error)[:300]} | {reason}")
    except Exception as error:  # noqa: BLE001 - the sweep goes on
        return Outcome("fails", f"{type(error).__name__}: {str(error)[:400]}")
    if expected is None:
        return Outcome("spare", f"runs here alone, so that nothing says whether it is right | {reason}")
    found = _judge(tf.nest.flatten(expected), tf.nest.flatten(got))
    return Outcome("spare", reason) if found.status == "ok" and not compiles else found


def _judge(expected: list[Any], got: list[Any]) -> Outcome:
    if len(expected) != len(got):
        return Outcome("wrong", f"{len(got)} results, not {len(expected)}")
    for number, (want, found) in enumerate(zip(expected, got, strict=True)):
        a, b = np.asarray(found), np.asarray(want)
        if a.shape != b.shape or a.dtype != b.dtype:
            return Outcome("wrong", f"result {number}: {a.dtype}{list(a.shape)}, not {b.dtype}{list(b.shape)}")
        near = np.isclose(a, b, rtol=1e-4, atol=1e-4, equal_nan=True)
        if not near.all():
            return Outcome("wrong", f"result {number}: {a[~near][:3]} is not {b[~near][:3]}")
    return Outcome("ok")


if __name__ == "__main__":
    report(cases(), compare, "functions")
