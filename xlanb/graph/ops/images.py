"""Images, boxes and windows over them: rows of the op table.

Facts of tensorflow/core/ops; op_def describes the form.
"""

from __future__ import annotations

ROWS = r"""
AdjustContrast(images: T, contrast_factor: f32, min_value: f32, max_value: f32) -> (output: f32)
    [T: type in {u8, s8, s16, s32, s64, f32, f64}]
CombinedNonMaxSuppression(boxes: f32, scores: f32, max_output_size_per_class: s32, max_total_size: s32, iou_threshold: f32, score_threshold: f32) -> (nmsed_boxes: f32, nmsed_scores: f32, nmsed_classes: f32, valid_detections: s32)
    [pad_per_class: bool = false; clip_boxes: bool = true]
CropAndResizeGradBoxes(grads: f32, image: T, boxes: f32, box_ind: s32) -> (output: f32)
    [T: type in {u8, u16, s8, s16, s32, s64, f16, f32, f64}; method: string in {"bilinear"} = "bilinear"]
CropAndResizeGradImage(grads: f32, boxes: f32, box_ind: s32, image_size: s32) -> (output: T)
    [T: type in {f32, f16, f64}; method: string in {"bilinear", "nearest"} = "bilinear"]
DecodeAndCropJpeg(contents: string, crop_window: s32) -> (image: u8)
    [channels: int = 0; ratio: int = 1; fancy_upscaling: bool = true; try_recover_truncated: bool = false;
     acceptable_fraction: float = 1.0; dct_method: string = ""]
DecodeBmp(contents: string) -> (image: u8) [channels: int = 0]
DecodeGif(contents: string) -> (image: u8)
DecodeImage(contents: string) -> (image: dtype)
    [channels: int = 0; dtype: type in {u8, u16, f32} = u8; expand_animations: bool = true]
DecodeWebP(contents: string) -> (image: dtype) [channels: int = 0; dtype: type in {u8} = u8]
Dilation2DBackpropFilter(input: T, filter: T, out_backprop: T) -> (filter_backprop: T)
    [T: type in REAL; strides: list(int) >= 4; rates: list(int) >= 4; padding: string in {"SAME", "VALID"}]
Dilation2DBackpropInput(input: T, filter: T, out_backprop: T) -> (in_backprop: T)
    [T: type in REAL; strides: list(int) >= 4; rates: list(int) >= 4; padding: string in {"SAME", "VALID"}]
DrawBoundingBoxes(images: T, boxes: f32) -> (output: T) [T: type in {f32, f16} = f32]
DrawBoundingBoxesV2(images: T, boxes: f32, colors: f32) -> (output: T) [T: type in {f32, f16} = f32]
EncodeJpeg(image: u8) -> (contents: string)
    [format: string in {"", "grayscale", "rgb"} = ""; quality: int = 95; progressive: bool = false; optimize_size:
     bool = false; chroma_downsampling: bool = true; density_unit: string in {"in", "cm"} = "in"; x_density: int =
     300; y_density: int = 300; xmp_metadata: string = ""]
EncodeJpegVariableQuality(images: u8, quality: s32) -> (contents: string)
EncodePng(image: T) -> (contents: string) [compression: int = -1; T: type in {u8, u16} = u8]
ExtractGlimpseV2(input: f32, size: s32, offsets: f32) -> (glimpse: f32)
    [centered: bool = true; normalized: bool = true; uniform_noise: bool = true; noise: string = "uniform"]
ExtractJpegShape(contents: string) -> (image_shape: output_type) [output_type: type in INDEX = s32]
ExtractVolumePatches(input: T) -> (patches: T)
    [ksizes: list(int) >= 5; strides: list(int) >= 5; T: type in REAL; padding: string in {"SAME", "VALID"}]
FractionalAvgPool(value: T) -> (output: T, row_pooling_sequence: s64, col_pooling_sequence: s64)
    [pooling_ratio: list(float) >= 4; pseudo_random: bool = false; overlapping: bool = false; deterministic: bool =
     false; seed: int = 0; seed2: int = 0; T: type in {f32, f64, s32, s64}]
FractionalAvgPoolGrad(orig_input_tensor_shape: s64, out_backprop: T, row_pooling_sequence: s64, col_pooling_sequence: s64) -> (output: T)
    [overlapping: bool = false; T: type in {f32, f64, s32, s64}]
FractionalMaxPoolGrad(orig_input: T, orig_output: T, out_backprop: T, row_pooling_sequence: s64, col_pooling_sequence: s64) -> (output: T)
    [overlapping: bool = false; T: type in {f32, f64, s32, s64}]
FusedResizeAndPadConv2D(input: T, size: s32, paddings: s32, filter: T) -> (output: T)
    [T: type in {f16, f32, f64}; resize_align_corners: bool = false; mode: string in {"REFLECT", "SYMMETRIC"};
     strides: list(int); padding: string in {"SAME", "VALID"}]
GenerateBoundingBoxProposals(scores: f32, bbox_deltas: f32, image_info: f32, anchors: f32, nms_threshold: f32, pre_nms_topn: s32, min_size: f32) -> (rois: f32, roi_probabilities: f32)
    [post_nms_topn: int = 300]
ImageProjectiveTransformV2(images: dtype, transforms: f32, output_shape: s32) -> (transformed_images: dtype)
    [dtype: type in {u8, s32, s64, f16, bf16, f32, f64}; interpolation: string; fill_mode: string = "CONSTANT"]
ImageProjectiveTransformV3(images: dtype, transforms: f32, output_shape: s32, fill_value: f32) -> (transformed_images: dtype)
    [dtype: type in {u8, s32, s64, f16, bf16, f32, f64}; interpolation: string; fill_mode: string = "CONSTANT"]
MaxPoolGradGradWithArgmax(input: T, grad: T, argmax: Targmax) -> (output: T)
    [ksize: list(int) >= 4; strides: list(int) >= 4; padding: string in {"SAME", "VALID"}; include_batch_in_index:
     bool = false; Targmax: type in INDEX; T: type in REAL]
MaxPoolGradWithArgmax(input: T, grad: T, argmax: Targmax) -> (output: T)
    [ksize: list(int) >= 4; strides: list(int) >= 4; padding: string in {"SAME", "VALID"}; include_batch_in_index:
     bool = false; Targmax: type in INDEX; T: type in REAL]
NonMaxSuppressionV2(boxes: T, scores: T, max_output_size: s32, iou_threshold: T_threshold) -> (selected_indices: s32)
    [T: type in {f16, f32} = f32; T_threshold: type in {f16, f32} = f32]
NonMaxSuppressionV5(boxes: T, scores: T, max_output_size: s32, iou_threshold: T, score_threshold: T, soft_nms_sigma: T) -> (selected_indices: s32, selected_scores: T, valid_outputs: s32)
    [T: type in {f16, f32} = f32; pad_to_max_output_size: bool = false]
NonMaxSuppressionWithOverlaps(overlaps: f32, scores: f32, max_output_size: s32, overlap_threshold: f32, score_threshold: f32) -> (selected_indices: s32)
RandomCrop(image: T, size: s64) -> (output: T)
    [T: type in {u8, s8, s16, s32, s64, f32, f64}; seed: int = 0; seed2: int = 0] stateful
ResizeArea(images: T, size: s32) -> (resized_images: f32)
    [T: type in {s8, u8, s16, u16, s32, s64, f16, f32, f64, bf16}; align_corners: bool = false]
ResizeBicubic(images: T, size: s32) -> (resized_images: f32)
    [T: type in {s8, u8, s16, u16, s32, s64, f16, f32, f64, bf16}; align_corners: bool = false; half_pixel_centers:
     bool = false]
ResizeBicubicGrad(grads: f32, original_image: T) -> (output: T)
    [T: type in {f32, f64}; align_corners: bool = false; half_pixel_centers: bool = false]
ResizeNearestNeighborGrad(grads: T, size: s32) -> (output: T)
    [T: type in {u8, s8, s32, f16, f32, f64, bf16}; align_corners: bool = false; half_pixel_centers: bool = false]
SampleDistortedBoundingBox(image_size: T, bounding_boxes: f32) -> (begin: T, size: T, bboxes: f32)
    [T: type in {u8, s8, s16, s32, s64}; seed: int = 0; seed2: int = 0; min_object_covered: float = 0.100000001;
     aspect_ratio_range: list(float) = [0.75, 1.33000004]; area_range: list(float) = [0.0500000007, 1.0];
     max_attempts: int = 100; use_image_if_no_bounding_boxes: bool = false] stateful
SampleDistortedBoundingBoxV2(image_size: T, bounding_boxes: f32, min_object_covered: f32) -> (begin: T, size: T, bboxes: f32)
    [T: type in {u8, s8, s16, s32, s64}; seed: int = 0; seed2: int = 0; aspect_ratio_range: list(float) = [0.75,
     1.33000004]; area_range: list(float) = [0.0500000007, 1.0]; max_attempts: int = 100;
     use_image_if_no_bounding_boxes: bool = false] stateful
ScaleAndTranslate(images: T, size: s32, scale: f32, translation: f32) -> (resized_images: f32)
    [T: type in {s8, u8, s16, u16, s32, s64, bf16, f16, f32, f64}; kernel_type: string = "lanczos3"; antialias: bool
     = true]
ScaleAndTranslateGrad(grads: T, original_image: T, scale: f32, translation: f32) -> (output: T)
    [T: type in {f32}; kernel_type: string = "lanczos3"; antialias: bool = true]
StatelessSampleDistortedBoundingBox(image_size: T, bounding_boxes: f32, min_object_covered: f32, seed: Tseed) -> (begin: T, size: T, bboxes: f32)
    [T: type in {u8, s8, s16, s32, s64}; Tseed: type in INDEX; aspect_ratio_range: list(float) = [0.75, 1.33000004];
     area_range: list(float) = [0.0500000007, 1.0]; max_attempts: int = 100; use_image_if_no_bounding_boxes: bool =
     false]
"""
