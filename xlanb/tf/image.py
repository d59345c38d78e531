"""tf.image: image preprocessing (python/ops/image_ops_impl.py).

Image files are not decoded here: read them with NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xlanb.errors import GraphValueError
from xlanb.graph import dtypes
from xlanb.graph.builders import math_ops
from xlanb.graph.builders.array_ops import pad, reshape, reverse, shape, slice_, stack, tile, transpose
from xlanb.graph.builders.clip_ops import clip_by_value
from xlanb.graph.builders.control_flow import cond
from xlanb.graph.builders.name_scope import name_scope
from xlanb.graph.builders.random_ops import random_uniform
from xlanb.graph.convert import constant, convert_to_tensor
from xlanb.graph.dtypes import as_dtype
from xlanb.graph.op_library import call, call_op
from xlanb.graph.operation import Tensor
from xlanb.tf.generated import IMAGE as _IMAGE
from xlanb.tf.generated import functions as _functions
from xlanb.tf.missing import naming_the_nearest as _naming_the_nearest


class ResizeMethod:
    """Methods of image resizing."""

    BILINEAR = 0
    NEAREST_NEIGHBOR = 1
    BICUBIC = 2
    AREA = 3


_RESIZE = {0: "ResizeBilinear", 1: "ResizeNearestNeighbor", 2: "ResizeBicubic", 3: "ResizeArea"}


def _picture(value: Any, name: str = "image") -> Tensor:
    found = convert_to_tensor(value, name=name)
    if found.shape.rank not in {None, 3, 4}:
        raise GraphValueError(f"{found.name!r} (shape {found.shape}) must have either 3 or 4 dimensions.")
    return found


def _resize(op_type: str) -> Callable[..., Tensor]:
    def resize(
        images: Any, size: Any, align_corners: bool = False, name: str | None = None, half_pixel_centers: bool = False
    ) -> Tensor:  # fmt: skip
        options = {} if op_type == "ResizeArea" else {"half_pixel_centers": half_pixel_centers}
        made = call(
            op_type,
            images,
            convert_to_tensor(size, dtypes.int32, "size"),
            align_corners=align_corners,
            name=name,
            **options,
        )
        found = convert_to_tensor(images)
        if found.shape.rank == 4:
            sizes = (
                list(size) if isinstance(size, list | tuple) and all(isinstance(s, int) for s in size) else [None, None]
            )
            made.set_shape([found.shape.as_list()[0], *sizes, found.shape.as_list()[3]])
        return made

    resize.__doc__ = f"Resize images [batch, height, width, channels] ({op_type})."
    return resize


resize_bilinear, resize_nearest_neighbor = _resize("ResizeBilinear"), _resize("ResizeNearestNeighbor")
resize_bicubic, resize_area = _resize("ResizeBicubic"), _resize("ResizeArea")


def resize_images(
    images: Any, size: Any, method: Any = ResizeMethod.BILINEAR, align_corners: bool = False,
    preserve_aspect_ratio: bool = False,
    name: str | None = None,
) -> Tensor:  # fmt: skip
    """Resize images, or a single one. Raises GraphValueError for an unknown method."""
    if preserve_aspect_ratio:
        raise GraphValueError("resize_images: leave out preserve_aspect_ratio, and pass the size that keeps the ratio")
    if method not in _RESIZE:
        raise GraphValueError("Resize method is not implemented.")
    with name_scope(name, "resize", [images, size]):
        found = _picture(images, "images")
        alone = found.shape.rank == 3
        batch = call("ExpandDims", found, 0) if alone else found
        known = batch.shape.as_list()[1:3] if batch.shape.rank == 4 else [None, None]
        if isinstance(size, list | tuple) and list(size) == known:
            return found
        made = _resize(_RESIZE[method])(batch, size, align_corners)
        return call("Squeeze", made, squeeze_dims=[0]) if alone else made


resize = resize_images


def _flip(axis: int, name: str) -> Callable[..., Tensor]:
    def flip(image: Any) -> Tensor:
        with name_scope(None, name, [image]):
            found = _picture(image)
            return reverse(found, [axis + (1 if found.shape.rank == 4 else 0)])

    flip.__doc__ = f"Mirror one image, or each of a batch ({name})."
    return flip


flip_left_right, flip_up_down = _flip(1, "flip_left_right"), _flip(0, "flip_up_down")


def _random_flip(axis: int, name: str) -> Callable[..., Tensor]:
    def flip(image: Any, seed: int | None = None) -> Any:
        with name_scope(None, name, [image]):
            found = _picture(image)
            if found.shape.rank == 4:
                count = shape(found)[0]
                chance = call("Round", random_uniform(shape(found)[:1], 0, 1.0, dtypes.float32, seed))
                flipped = reverse(found, [axis + 1])
                chosen = math_ops.cast(reshape(chance, stack([count, 1, 1, 1])), found.dtype)
                return chosen * flipped + (1 - chosen) * found
            uniform = random_uniform([], 0, 1.0, dtypes.float32, seed)
            result = cond(uniform < 0.5, lambda: reverse(found, [axis]), lambda: found, name=name)
            made: Tensor = result
            made.set_shape(found.shape)
            return made

    flip.__doc__ = f"Mirror at random ({name})."
    return flip


random_flip_left_right, random_flip_up_down = (
    _random_flip(1, "random_flip_left_right"),
    _random_flip(0, "random_flip_up_down"),
)


def transpose_image(image: Any) -> Tensor:
    """Rows and columns exchanged."""
    found = _picture(image)
    return transpose(found, [1, 0, 2] if found.shape.rank == 3 else [0, 2, 1, 3])


def rot90(image: Any, k: int = 1, name: str | None = None) -> Tensor:
    """Rotate counter-clockwise by k times 90 degrees."""
    with name_scope(name, "rot90", [image]):
        found = _picture(image)
        for _ in range(k % 4):
            found = flip_up_down(transpose_image(found))
        return found


def crop_to_bounding_box(
    image: Any, offset_height: int, offset_width: int, target_height: int, target_width: int
) -> Tensor:
    """A part of the picture."""
    with name_scope(None, "crop_to_bounding_box", [image]):
        found = _picture(image)
        lead = [0] if found.shape.rank == 4 else []
        return slice_(
            found, [*lead, offset_height, offset_width, 0], [*([-1] if lead else []), target_height, target_width, -1]
        )  # fmt: skip


def pad_to_bounding_box(
    image: Any, offset_height: int, offset_width: int, target_height: int, target_width: int
) -> Tensor:
    """Pad an image with zeros. Raises GraphValueError if it does not fit."""
    with name_scope(None, "pad_to_bounding_box", [image]):
        found = _picture(image)
        height, width = _size(found)
        below, right = target_height - offset_height - height, target_width - offset_width - width
        if min(below, right, offset_height, offset_width) < 0:
            raise GraphValueError(
                f"an image of {height} x {width} at ({offset_height}, {offset_width}) does not fit into "
                f"{target_height} x {target_width}"
            )
        lead = [[0, 0]] if found.shape.rank == 4 else []
        return pad(found, [*lead, [offset_height, below], [offset_width, right], [0, 0]])


def _size(found: Tensor) -> tuple[int, int]:
    dims = found.shape.as_list() if found.shape.rank else [None] * 3
    height, width = dims[-3], dims[-2]
    if height is None or width is None:
        raise GraphValueError(f"{found.name!r}: height and width must be known, not {found.shape}")
    return height, width


def resize_image_with_crop_or_pad(image: Any, target_height: int, target_width: int) -> Any:
    """Cut or filled up around the middle to a size."""
    with name_scope(None, "resize_image_with_crop_or_pad", [image]):
        found = _picture(image)
        height, width = _size(found)
        cut = crop_to_bounding_box(
            found, max((height - target_height) // 2, 0), max((width - target_width) // 2, 0),
            min(height, target_height), min(width, target_width)
        )  # fmt: skip
        return pad_to_bounding_box(
            cut, max((target_height - height) // 2, 0), max((target_width - width) // 2, 0), target_height, target_width
        )


resize_with_crop_or_pad = resize_image_with_crop_or_pad


def central_crop(image: Any, central_fraction: float) -> Any:
    """The middle part. Raises GraphValueError for a fraction not in (0, 1]."""
    if not 0 < central_fraction <= 1:
        raise GraphValueError("central_fraction must be within (0, 1]")
    found = _picture(image)
    if central_fraction == 1:
        return found
    height, width = _size(found)
    top, left = int((height - height * central_fraction) / 2), int((width - width * central_fraction) / 2)
    return crop_to_bounding_box(found, top, left, height - 2 * top, width - 2 * left)


def per_image_standardization(image: Any) -> Any:
    """Normalize each image to mean 0 and variance 1; the deviation is at least 1 /
    sqrt(elements).
    """
    with name_scope(None, "per_image_standardization", [image]) as scope:
        found = math_ops.cast(_picture(image), dtypes.float32)
        count = math_ops.reduce_prod(shape(found)[-3:])
        mean = math_ops.reduce_mean(found, [-1, -2, -3], keepdims=True)
        variance = math_ops.reduce_mean(call("Square", found), [-1, -2, -3], keepdims=True) - call("Square", mean)
        deviation = call("Sqrt", call("Relu", variance))
        least = call("Rsqrt", math_ops.cast(count, dtypes.float32))
        return call("RealDiv", found - mean, call("Maximum", deviation, least), name=scope)


def convert_image_dtype(image: Any, dtype: Any, saturate: bool = False, name: str | None = None) -> Any:
    """Another element type: integers span their range, floats [0, 1]."""
    wanted = as_dtype(dtype)
    found = convert_to_tensor(image, name="image")
    have = found.dtype.base_dtype
    if have is wanted:
        return found
    with name_scope(name, "convert_image", [found]) as scope:
        if have.is_integer and wanted.is_integer:
            if have.max > wanted.max:
                return math_ops.cast(found // ((have.max + 1) // (wanted.max + 1)), wanted, scope)
            return math_ops.cast(found, wanted) * ((wanted.max + 1) // (have.max + 1))
        if have.is_floating and wanted.is_floating:
            return math_ops.cast(found, wanted, scope)
        if have.is_integer:
            return call("Mul", math_ops.cast(found, wanted), 1.0 / have.max, name=scope)
        scaled = found * (wanted.max + 0.5)
        if saturate:
            scaled = clip_by_value(scaled, float(wanted.min), float(wanted.max))
        return math_ops.cast(scaled, wanted, scope)


def _in_float(image: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """`change` of the picture as float32, in the type it had."""
    found = convert_to_tensor(image, name="image")
    have = found.dtype.base_dtype
    as_float = found if have.is_floating else convert_image_dtype(found, dtypes.float32)
    return convert_image_dtype(change(as_float), have, saturate=True)


def adjust_brightness(image: Any, delta: Any) -> Any:
    """Brighter by a number."""
    with name_scope(None, "adjust_brightness", [image, delta]):
        return _in_float(image, lambda x: x + math_ops.cast(delta, x.dtype))


def random_brightness(image: Any, max_delta: float, seed: int | None = None) -> Any:
    """Brighter or darker by chance."""
    return adjust_brightness(image, random_uniform([], -max_delta, max_delta, seed=seed))


def adjust_contrast(images: Any, contrast_factor: Any) -> Any:
    """Each channel's distance from its mean times a factor."""
    with name_scope(None, "adjust_contrast", [images, contrast_factor]):
        return _in_float(images, lambda x: _contrast(x, contrast_factor))


def _contrast(x: Tensor, factor: Any) -> Any:
    mean = math_ops.reduce_mean(x, [-3, -2], keepdims=True)
    return mean + (x - mean) * math_ops.cast(factor, x.dtype)


def random_contrast(image: Any, lower: float, upper: float, seed: int | None = None) -> Any:
    """More or less contrast by chance. Raises GraphValueError unless 0 <= lower < upper."""
    if not 0 <= lower < upper:
        raise GraphValueError("lower must be non-negative and less than upper")
    return adjust_contrast(image, random_uniform([], lower, upper, seed=seed))


def adjust_gamma(image: Any, gamma: Any = 1, gain: Any = 1) -> Any:
    """gain * image ** gamma."""
    return _in_float(image, lambda x: gain * x**gamma)


def rgb_to_grayscale(images: Any, name: str | None = None) -> Any:
    """Luma: 0.2989 R + 0.587 G + 0.114 B."""
    with name_scope(name, "rgb_to_grayscale", [images]):
        return _in_float(
            images, lambda x: math_ops.reduce_sum(x * constant([0.2989, 0.587, 0.114]), [-1], keepdims=True)
        )


def grayscale_to_rgb(images: Any, name: str | None = None) -> Tensor:
    """The one channel three times."""
    with name_scope(name, "grayscale_to_rgb", [images]):
        found = _picture(images)
        return tile(found, [*[1] * ((found.shape.rank or 3) - 1), 3])


def rgb_to_hsv(images: Any, name: str | None = None) -> Tensor:
    """Hue, saturation and value, all in [0, 1]."""
    with name_scope(name, "RGBToHSV", [images]):
        found = convert_to_tensor(images)
        red, green, blue = (found[..., i] for i in range(3))
        top = math_ops.reduce_max(found, -1)
        spread = top - math_ops.reduce_min(found, -1)
        flat = call("Equal", spread, constant(0.0, found.dtype))
        safe = call("SelectV2", flat, constant(1.0, found.dtype), spread)
        sector = call(
            "SelectV2", call("Equal", top, red), (green - blue) / safe,
            call("SelectV2", call("Equal", top, green), (blue - red) / safe + 2.0, (red - green) / safe + 4.0),
        )  # fmt: skip
        hue = call(
            "SelectV2", flat, constant(0.0, found.dtype), call("FloorMod", sector / 6.0, constant(1.0, found.dtype))
        )
        saturation = call("DivNoNan", spread, top)
        return stack([hue, saturation, top], axis=-1)


def hsv_to_rgb(images: Any, name: str | None = None) -> Tensor:
    """Red, green and blue of hue, saturation and value."""
    with name_scope(name, "HSVToRGB", [images]):
        found = convert_to_tensor(images)
        hue, saturation, value = (found[..., i] for i in range(3))
        parts = []
        for offset in (5.0, 3.0, 1.0):
            k = call("FloorMod", offset + hue * 6.0, constant(6.0, found.dtype))
            ramp = clip_by_value(call("Minimum", k, 4.0 - k), 0.0, 1.0)
            parts.append(value - value * saturation * ramp)
        return stack(parts, axis=-1)


def adjust_saturation(image: Any, saturation_factor: Any, name: str | None = None) -> Any:
    """The saturation times a factor."""
    with name_scope(name, "adjust_saturation", [image]):
        return _in_float(image, lambda x: _hsv(x, 0.0, saturation_factor))


def adjust_hue(image: Any, delta: Any, name: str | None = None) -> Any:
    """Shift the hue by a fraction of the colour circle."""
    with name_scope(name, "adjust_hue", [image]):
        return _in_float(image, lambda x: _hsv(x, delta, 1.0))


def _hsv(x: Tensor, turn: Any, factor: Any) -> Tensor:
    found = rgb_to_hsv(x)
    hue = call("FloorMod", found[..., 0] + turn, constant(1.0, x.dtype))
    return hsv_to_rgb(stack([hue, clip_by_value(found[..., 1] * factor, 0.0, 1.0), found[..., 2]], axis=-1))


def random_saturation(image: Any, lower: float, upper: float, seed: int | None = None) -> Any:
    """More or less saturation by chance."""
    return adjust_saturation(image, random_uniform([], lower, upper, seed=seed))


def random_hue(image: Any, max_delta: float, seed: int | None = None) -> Any:
    """Shift the hue at random."""
    return adjust_hue(image, random_uniform([], -max_delta, max_delta, seed=seed))


def total_variation(images: Any, name: str | None = None) -> Any:
    """Sum the absolute differences of neighbouring pixels."""
    with name_scope(name, "total_variation"):
        found = _picture(images)
        lead = (slice(None),) if found.shape.rank == 4 else ()
        down = (
            found[(*lead, slice(1, None), slice(None), slice(None))]
            - found[(*lead, slice(None, -1), slice(None), slice(None))]
        )
        right = (
            found[(*lead, slice(None), slice(1, None), slice(None))]
            - found[(*lead, slice(None), slice(None, -1), slice(None))]
        )
        axes = [1, 2, 3] if lead else None
        return math_ops.reduce_sum(math_ops.abs(down), axes) + math_ops.reduce_sum(math_ops.abs(right), axes)


def psnr(a: Any, b: Any, max_val: Any, name: str | None = None) -> Any:
    """Peak signal-to-noise ratio in dB, of each picture."""
    with name_scope(name, "PSNR", [a, b]):
        top = math_ops.cast(max_val, dtypes.float32)
        error = math_ops.reduce_mean(
            call("SquaredDifference", math_ops.cast(a, dtypes.float32), math_ops.cast(b, dtypes.float32)), [-3, -2, -1]
        )
        return (20.0 * call("Log", top) - 10.0 * call("Log", error)) / 2.302585092994046


def image_gradients(image: Any) -> tuple[Tensor, Tensor]:
    """Differences to the next row and column, 0 at the ends."""
    found = _picture(image)
    dy = found[:, 1:, :, :] - found[:, :-1, :, :]
    dx = found[:, :, 1:, :] - found[:, :, :-1, :]
    return pad(dy, [[0, 0], [0, 1], [0, 0], [0, 0]]), pad(dx, [[0, 0], [0, 0], [0, 1], [0, 0]])


def non_max_suppression(
    boxes: Any, scores: Any, max_output_size: Any, iou_threshold: float = 0.5, score_threshold: float = float("-inf"),
    name: str | None = None
) -> Tensor:  # fmt: skip
    """Select boxes [y1, x1, y2, x2] by descending score.

    Boxes that overlap a better one by more than iou_threshold are left out.
    """
    return call(
        "NonMaxSuppressionV3",
        boxes,
        scores,
        max_output_size,
        iou_threshold,
        score_threshold,
        name=name or "non_max_suppression",
    )


def non_max_suppression_overlaps(
    overlaps: Any, scores: Any, max_output_size: Any, overlap_threshold: float = 0.5,
    score_threshold: float = float("-inf"), name: str | None = None
) -> Tensor:  # fmt: skip
    """Select indices by descending score.

    overlaps [n, n] says how much each pair overlaps. What overlaps a better one by more than
    overlap_threshold is left out.
    """
    given = (overlaps, scores, max_output_size, overlap_threshold, score_threshold)
    return call("NonMaxSuppressionWithOverlaps", *given, name=name or "non_max_suppression_overlaps")


def combined_non_max_suppression(
    boxes: Any, scores: Any, max_output_size_per_class: Any, max_total_size: Any, iou_threshold: float = 0.5,
    score_threshold: float = float("-inf"), pad_per_class: bool = False, clip_boxes: bool = True,
    name: str | None = None
) -> tuple[Tensor, ...]:  # fmt: skip
    """Select boxes for each class of each image, and keep the best of all classes.

    Args:
        boxes: [batch, n, classes or 1, 4], float32.
        scores: [batch, n, classes], float32.

    Returns:
        Boxes [batch, size, 4], their scores and classes [batch, size], and the number of valid
        boxes [batch].
    """
    given = (boxes, scores, max_output_size_per_class, max_total_size, iou_threshold, score_threshold)
    attrs = {"pad_per_class": pad_per_class, "clip_boxes": clip_boxes}
    named = name or "combined_non_max_suppression"
    return tuple(call_op("CombinedNonMaxSuppression", *given, name=named, **attrs).outputs)


def extract_image_patches(
    images: Any, ksizes: Any = None, strides: Any = None, rates: Any = None, padding: str | None = None,
    name: str | None = None, sizes: Any = None
) -> Tensor:  # fmt: skip
    """Windows of pictures as vectors of channels."""
    return call(
        "ExtractImagePatches", images, ksizes=ksizes or sizes, strides=strides, rates=rates, padding=padding, name=name
    )


globals().update(_functions(_IMAGE))
__getattr__ = _naming_the_nearest(__name__)
