"""Neural-network ops: rows of the op table.

Facts of tensorflow/core/ops; op_def describes the form.
"""

from __future__ import annotations

ROWS = r"""
ApproxTopK(input: T) -> (values: T, indices: s32)
    [k: int >= 0; reduction_dimension: int = -1; recall_target: float = 0.95; is_max_k: bool = true;
     reduction_input_size_override: int = -1; aggregate_to_topk: bool = true; T: type in {f16, bf16, f32}]
    The k largest or smallest along a dimension, not all of them right.
AvgPool(value: T) -> (output: T)
    [ksize: list(int) >= 4; strides: list(int) >= 4; padding: string in {"SAME", "VALID"}; data_format: string in
     {"NHWC", "NCHW"} = "NHWC"; T: type in FLOAT]
    Mean of each window of images; padding does not count.
AvgPool3D(input: T) -> (output: T)
    [ksize: list(int) >= 5; strides: list(int) >= 5; padding: string in {"SAME", "VALID"}; data_format: string in
     {"NDHWC", "NCDHW"} = "NDHWC"; T: type in FLOAT]
    Mean of each window of volumes.
AvgPool3DGrad(orig_input_shape: s32, grad: T) -> (output: T)
    [ksize: list(int) >= 5; strides: list(int) >= 5; padding: string in {"SAME", "VALID"}; data_format: string in
     {"NDHWC", "NCDHW"} = "NDHWC"; T: type in FLOAT]
    Gradient of AvgPool3D by its input.
AvgPoolGrad(orig_input_shape: s32, grad: T) -> (output: T)
    [ksize: list(int) >= 4; strides: list(int) >= 4; padding: string in {"SAME", "VALID"}; data_format: string in
     {"NHWC", "NCHW"} = "NHWC"; T: type in FLOAT]
    Gradient of AvgPool by its input.
BatchNormWithGlobalNormalization(t: T, m: T, v: T, beta: T, gamma: T) -> (result: T)
    [T: type in NUMBER; variance_epsilon: float; scale_after_normalization: bool]
BiasAdd(value: T, bias: T) -> (output: T) [T: type in NUMBER; data_format: string in {"NHWC", "NCHW"} = "NHWC"]
    Adds a vector along the channels' dimension.
BiasAddGrad(out_backprop: T) -> (output: T) [T: type in NUMBER; data_format: string in {"NHWC", "NCHW"} = "NHWC"]
    Sum over all dimensions but the channels'.
BiasAddV1(value: T, bias: T) -> (output: T) [T: type in NUMBER]
    Adds a vector along the last dimension.
BlockLSTM(seq_len_max: s64, x: T, cs_prev: T, h_prev: T, w: T, wci: T, wcf: T, wco: T, b: T) -> (i: T, cs: T, f: T, o: T, ci: T, co: T, h: T)
    [forget_bias: float = 1.0; cell_clip: float = 3.0; use_peephole: bool = false; T: type in {f16, f32}]
BlockLSTMV2(seq_len_max: s64, x: T, cs_prev: T, h_prev: T, w: T, wci: T, wcf: T, wco: T, b: T) -> (i: T, cs: T, f: T, o: T, ci: T, co: T, h: T)
    [cell_clip: float = 0.0; use_peephole: bool = false; T: type in {f16, f32}]
CTCLoss(inputs: T, labels_indices: s64, labels_values: s32, sequence_length: s32) -> (loss: T, gradient: T)
    [preprocess_collapse_repeated: bool = false; ctc_merge_repeated: bool = true; ignore_longer_outputs_than_inputs:
     bool = false; T: type in {f32, f64} = f32]
Conv(input: T, filter: T) -> (output: T)
    [T: type in {f16, bf16, f32, f64, s32}; strides: list(int); padding: string in {"SAME", "VALID", "EXPLICIT"};
     explicit_paddings: list(int) = []; data_format: string in {"CHANNELS_FIRST", "CHANNELS_LAST"} = "CHANNELS_LAST";
     dilations: list(int) = []; batch_dims: int = 1; groups: int = 1]
Conv2D(input: T, filter: T) -> (output: T)
    [T: type in {f16, bf16, f32, f64, s32}; strides: list(int); use_cudnn_on_gpu: bool = true; padding: string in
     {"SAME", "VALID", "EXPLICIT"}; explicit_paddings: list(int) = []; data_format: string in {"NHWC", "NCHW"} =
     "NHWC"; dilations: list(int) = [1, 1, 1, 1]]
    Convolution (correlation) of images with a kernel [height, width, in / groups, out].
Conv2DBackpropFilter(input: T, filter_sizes: s32, out_backprop: T) -> (output: T)
    [T: type in FLOAT; strides: list(int); use_cudnn_on_gpu: bool = true; padding: string in {"SAME", "VALID",
     "EXPLICIT"}; explicit_paddings: list(int) = []; data_format: string in {"NHWC", "NCHW"} = "NHWC"; dilations:
     list(int) = [1, 1, 1, 1]]
    Gradient of Conv2D by its kernel.
Conv2DBackpropInput(input_sizes: s32, filter: T, out_backprop: T) -> (output: T)
    [T: type in {f16, bf16, f32, f64, s32}; strides: list(int); use_cudnn_on_gpu: bool = true; padding: string in
     {"SAME", "VALID", "EXPLICIT"}; explicit_paddings: list(int) = []; data_format: string in {"NHWC", "NCHW"} =
     "NHWC"; dilations: list(int) = [1, 1, 1, 1]]
    Gradient of Conv2D by its images: the transposed convolution.
Conv3D(input: T, filter: T) -> (output: T)
    [T: type in FLOAT; strides: list(int) >= 5; padding: string in {"SAME", "VALID"}; data_format: string in {"NDHWC",
     "NCDHW"} = "NDHWC"; dilations: list(int) = [1, 1, 1, 1, 1]]
    Convolution of volumes with a kernel.
Conv3DBackpropFilter(input: T, filter: T, out_backprop: T) -> (output: T)
    [T: type in {f16, f32, f64}; strides: list(int) >= 5; padding: string in {"SAME", "VALID"}; dilations: list(int) =
     [1, 1, 1, 1, 1]]
Conv3DBackpropFilterV2(input: T, filter_sizes: s32, out_backprop: T) -> (output: T)
    [T: type in FLOAT; strides: list(int) >= 5; padding: string in {"SAME", "VALID"}; data_format: string in {"NDHWC",
     "NCDHW"} = "NDHWC"; dilations: list(int) = [1, 1, 1, 1, 1]]
    Gradient of Conv3D by its kernel.
Conv3DBackpropInput(input: T, filter: T, out_backprop: T) -> (output: T)
    [T: type in {f16, f32, f64}; strides: list(int) >= 5; padding: string in {"SAME", "VALID"}; dilations: list(int) =
     [1, 1, 1, 1, 1]]
Conv3DBackpropInputV2(input_sizes: Tshape, filter: T, out_backprop: T) -> (output: T)
    [T: type in FLOAT; strides: list(int) >= 5; padding: string in {"SAME", "VALID"}; data_format: string in {"NDHWC",
     "NCDHW"} = "NDHWC"; dilations: list(int) = [1, 1, 1, 1, 1]; Tshape: type in INDEX = s32]
    Gradient of Conv3D by its volumes.
CudnnRNN(input: T, input_h: T, input_c: T, params: T) -> (output: T, output_h: T, output_c: T, reserve_space: T)
    [T: type in FLOAT; rnn_mode: string in {"rnn_relu", "rnn_tanh", "lstm", "gru"} = "lstm"; input_mode: string in
     {"linear_input", "skip_input", "auto_select"} = "linear_input"; direction: string in {"unidirectional",
     "bidirectional"} = "unidirectional"; dropout: float = 0.0; seed: int = 0; seed2: int = 0; is_training: bool =
     true] stateful
DataFormatDimMap(x: T) -> (y: T) [T: type in INDEX = s32; src_format: string = "NHWC"; dst_format: string = "NCHW"]
    A dimension's index in another image layout.
DataFormatVecPermute(x: T) -> (y: T)
    [T: type in INDEX = s32; src_format: string = "NHWC"; dst_format: string = "NCHW"]
    Sizes or strides reordered to another image layout.
DepthwiseConv2dNative(input: T, filter: T) -> (output: T)
    [T: type in FLOAT; strides: list(int); padding: string in {"SAME", "VALID", "EXPLICIT"}; explicit_paddings:
     list(int) = []; data_format: string in {"NHWC", "NCHW"} = "NHWC"; dilations: list(int) = [1, 1, 1, 1]]
    Convolution of each channel with its own kernels.
DepthwiseConv2dNativeBackpropFilter(input: T, filter_sizes: s32, out_backprop: T) -> (output: T)
    [T: type in FLOAT; strides: list(int); padding: string in {"SAME", "VALID", "EXPLICIT"}; explicit_paddings:
     list(int) = []; data_format: string in {"NHWC", "NCHW"} = "NHWC"; dilations: list(int) = [1, 1, 1, 1]]
    Gradient of the depthwise convolution by its kernel.
DepthwiseConv2dNativeBackpropInput(input_sizes: s32, filter: T, out_backprop: T) -> (output: T)
    [T: type in FLOAT; strides: list(int); padding: string in {"SAME", "VALID", "EXPLICIT"}; explicit_paddings:
     list(int) = []; data_format: string in {"NHWC", "NCHW"} = "NHWC"; dilations: list(int) = [1, 1, 1, 1]]
    Gradient of the depthwise convolution by its images.
Dilation2D(input: T, filter: T) -> (output: T)
    [T: type in REAL; strides: list(int) >= 4; rates: list(int) >= 4; padding: string in {"SAME", "VALID"}]
    Greyscale dilation: maximum of input + filter over each window.
Elu(features: T) -> (activations: T) [T: type in FLOAT]
    x where positive, exp(x) - 1 elsewhere.
EluGrad(gradients: T, outputs: T) -> (backprops: T) [T: type in FLOAT]
    Gradient of Elu by its input, from its result.
FractionalMaxPool(value: T) -> (output: T, row_pooling_sequence: s64, col_pooling_sequence: s64)
    [pooling_ratio: list(float) >= 4; pseudo_random: bool = false; overlapping: bool = false; deterministic: bool =
     false; seed: int = 0; seed2: int = 0; T: type in {f32, f64, s32, s64}]
FusedBatchNorm(x: T, scale: T, offset: T, mean: T, variance: T) -> (y: T, batch_mean: T, batch_variance: T, reserve_space_1: T, reserve_space_2: T)
    [T: type in {f32}; epsilon: float = 0.0001; exponential_avg_factor: float = 1.0; data_format: string in {"NHWC",
     "NCHW"} = "NHWC"; is_training: bool = true]
    Batch normalisation of float32 images; mean and variance of the batch when training.
FusedBatchNormGrad(y_backprop: T, x: T, scale: T, reserve_space_1: T, reserve_space_2: T) -> (x_backprop: T, scale_backprop: T, offset_backprop: T, reserve_space_3: T, reserve_space_4: T)
    [T: type in {f32}; epsilon: float = 0.0001; data_format: string in {"NHWC", "NCHW"} = "NHWC"; is_training: bool =
     true]
    Gradients of FusedBatchNorm.
FusedBatchNormGradV2(y_backprop: T, x: T, scale: f32, reserve_space_1: U, reserve_space_2: U) -> (x_backprop: T, scale_backprop: U, offset_backprop: U, reserve_space_3: U, reserve_space_4: U)
    [T: type in {f16, bf16, f32}; U: type in {f32}; epsilon: float = 0.0001; data_format: string in {"NHWC", "NCHW"} =
     "NHWC"; is_training: bool = true]
    Gradients of FusedBatchNormV2.
FusedBatchNormGradV3(y_backprop: T, x: T, scale: f32, reserve_space_1: U, reserve_space_2: U, reserve_space_3: U) -> (x_backprop: T, scale_backprop: U, offset_backprop: U, reserve_space_4: U, reserve_space_5: U)
    [T: type in {f16, bf16, f32}; U: type in {f32}; epsilon: float = 0.0001; data_format: string in {"NHWC", "NCHW",
     "NDHWC", "NCDHW"} = "NHWC"; is_training: bool = true]
    Gradients of FusedBatchNormV3.
FusedBatchNormV2(x: T, scale: U, offset: U, mean: U, variance: U) -> (y: T, batch_mean: U, batch_variance: U, reserve_space_1: U, reserve_space_2: U)
    [T: type in {f16, bf16, f32}; U: type in {f32}; epsilon: float = 0.0001; exponential_avg_factor: float = 1.0;
     data_format: string in {"NHWC", "NCHW"} = "NHWC"; is_training: bool = true]
    As FusedBatchNorm, images in half precision too.
FusedBatchNormV3(x: T, scale: U, offset: U, mean: U, variance: U) -> (y: T, batch_mean: U, batch_variance: U, reserve_space_1: U, reserve_space_2: U, reserve_space_3: U)
    [T: type in {f16, bf16, f32}; U: type in {bf16, f32}; epsilon: float = 0.0001; exponential_avg_factor: float =
     1.0; data_format: string in {"NHWC", "NCHW", "NDHWC", "NCDHW"} = "NHWC"; is_training: bool = true]
    As FusedBatchNormV2, with one more output kept for the gradient.
GRUBlockCell(x: T, h_prev: T, w_ru: T, w_c: T, b_ru: T, b_c: T) -> (r: T, u: T, c: T, h: T) [T: type in {f32}]
InTopK(predictions: f32, targets: T) -> (precision: pred) [k: int; T: type in INDEX = s32]
    Whether the target is among the k largest predictions.
InTopKV2(predictions: f32, targets: T, k: T) -> (precision: pred) [T: type in INDEX = s32]
    Whether the target is among the k largest predictions, k a tensor.
L2Loss(t: T) -> (output: T) [T: type in FLOAT]
    sum(t^2) / 2.
LRN(input: T) -> (output: T)
    [depth_radius: int = 5; bias: float = 1.0; alpha: float = 1.0; beta: float = 0.5; T: type in {f16, bf16, f32} =
     f32]
    Local response normalisation along the channels.
LRNGrad(input_grads: T, input_image: T, output_image: T) -> (output: T)
    [depth_radius: int = 5; bias: float = 1.0; alpha: float = 1.0; beta: float = 0.5; T: type in {f16, bf16, f32} =
     f32]
    Gradient of LRN.
LSTMBlockCell(x: T, cs_prev: T, h_prev: T, w: T, wci: T, wcf: T, wco: T, b: T) -> (i: T, cs: T, f: T, o: T, ci: T, co: T, h: T)
    [forget_bias: float = 1.0; cell_clip: float = 3.0; use_peephole: bool = false; T: type in {f16, f32}]
LeakyRelu(features: T) -> (activations: T) [alpha: float = 0.2; T: type in FLOAT = f32]
    x where positive, alpha * x elsewhere.
LeakyReluGrad(gradients: T, features: T) -> (backprops: T) [alpha: float = 0.2; T: type in FLOAT = f32]
    Gradient of LeakyRelu.
LogSoftmax(logits: T) -> (logsoftmax: T) [T: type in FLOAT]
    x - log(sum(exp(x))) along the last dimension.
MaxPool(input: T) -> (output: T)
    [T: type in {f16, bf16, f32, f64, s32, s64, u8, s16, s8, u16, qs8} = f32; ksize: list(int) >= 4; strides:
     list(int) >= 4; padding: string in {"SAME", "VALID", "EXPLICIT"}; explicit_paddings: list(int) = []; data_format:
     string in {"NHWC", "NCHW", "NCHW_VECT_C"} = "NHWC"]
    Largest element of each window of images.
MaxPool3D(input: T) -> (output: T)
    [ksize: list(int) >= 5; strides: list(int) >= 5; padding: string in {"SAME", "VALID"}; data_format: string in
     {"NDHWC", "NCDHW"} = "NDHWC"; T: type in {f16, bf16, f32}]
    Largest element of each window of volumes.
MaxPool3DGrad(orig_input: TInput, orig_output: TInput, grad: T) -> (output: T)
    [ksize: list(int) >= 5; strides: list(int) >= 5; padding: string in {"SAME", "VALID"}; data_format: string in
     {"NDHWC", "NCDHW"} = "NDHWC"; T: type in {f16, bf16, f32} = f32; TInput: type in {f16, bf16, f32} = f32]
    Gradient of MaxPool3D.
MaxPool3DGradGrad(orig_input: T, orig_output: T, grad: T) -> (output: T)
    [ksize: list(int) >= 5; strides: list(int) >= 5; padding: string in {"SAME", "VALID"}; data_format: string in
     {"NDHWC", "NCDHW"} = "NDHWC"; T: type in REAL]
    Gradient of MaxPool3DGrad by its gradient.
MaxPoolGrad(orig_input: T, orig_output: T, grad: T) -> (output: T)
    [ksize: list(int) >= 4; strides: list(int) >= 4; padding: string in {"SAME", "VALID", "EXPLICIT"};
     explicit_paddings: list(int) = []; data_format: string in {"NHWC", "NCHW"} = "NHWC"; T: type in REAL = f32]
    Gradient of MaxPool: to the first maximum of each window.
MaxPoolGradGrad(orig_input: T, orig_output: T, grad: T) -> (output: T)
    [ksize: list(int) >= 4; strides: list(int) >= 4; padding: string in {"SAME", "VALID"}; data_format: string in
     {"NHWC", "NCHW"} = "NHWC"; T: type in REAL]
    Gradient of MaxPoolGrad by its gradient.
MaxPoolGradGradV2(orig_input: T, orig_output: T, grad: T, ksize: s32, strides: s32) -> (output: T)
    [padding: string in {"SAME", "VALID"}; data_format: string in {"NHWC", "NCHW"} = "NHWC"; T: type in REAL]
    As MaxPoolGradGrad, windows as tensors.
MaxPoolGradV2(orig_input: T, orig_output: T, grad: T, ksize: s32, strides: s32) -> (output: T)
    [padding: string in {"SAME", "VALID"}; data_format: string in {"NHWC", "NCHW"} = "NHWC"; T: type in REAL = f32]
    As MaxPoolGrad, windows as tensors.
MaxPoolV2(input: T, ksize: s32, strides: s32) -> (output: T)
    [T: type in {f16, bf16, f32, f64, s32, s64, u8, s16, s8, u16, qs8} = f32; padding: string in {"SAME", "VALID"};
     data_format: string in {"NHWC", "NCHW", "NCHW_VECT_C"} = "NHWC"]
    As MaxPool, windows as tensors.
MaxPoolWithArgmax(input: T) -> (output: T, argmax: Targmax)
    [ksize: list(int) >= 4; strides: list(int) >= 4; Targmax: type in INDEX = s64; padding: string in {"SAME",
     "VALID"}; include_batch_in_index: bool = false; T: type in REAL]
NthElement(input: T, n: s32) -> (values: T) [reverse: bool = false; T: type in REAL]
Relu(features: T) -> (activations: T) [T: type in {f32, f64, s32, u8, s16, s8, s64, bf16, u16, f16, u32, u64, qs8}]
    max(x, 0).
Relu6(features: T) -> (activations: T) [T: type in REAL]
    min(max(x, 0), 6).
Relu6Grad(gradients: T, features: T) -> (backprops: T) [T: type in REAL]
    Gradient of Relu6.
ReluGrad(gradients: T, features: T) -> (backprops: T) [T: type in REAL]
    gradients where features are positive, 0 elsewhere.
Selu(features: T) -> (activations: T) [T: type in FLOAT]
    Scaled exponential linear unit.
SeluGrad(gradients: T, outputs: T) -> (backprops: T) [T: type in FLOAT]
    Gradient of Selu, from its result.
Softmax(logits: T) -> (softmax: T) [T: type in FLOAT]
    exp(x) / sum(exp(x)) along the last dimension.
SoftmaxCrossEntropyWithLogits(features: T, labels: T) -> (loss: T, backprop: T) [T: type in FLOAT]
    -sum(labels * log(softmax(features))) of each row, and its gradient by the features.
Softplus(features: T) -> (activations: T) [T: type in FLOAT]
    log(1 + exp(x)).
SoftplusGrad(gradients: T, features: T) -> (backprops: T) [T: type in FLOAT]
    dy / (1 + exp(-x)).
Softsign(features: T) -> (activations: T) [T: type in FLOAT]
    x / (1 + |x|).
SoftsignGrad(gradients: T, features: T) -> (backprops: T) [T: type in FLOAT]
    Gradient of Softsign.
SparseSoftmaxCrossEntropyWithLogits(features: T, labels: Tlabels) -> (loss: T, backprop: T)
    [T: type in FLOAT; Tlabels: type in INDEX = s64]
    Cross entropy of each row with the class of an index, and its gradient by the features.
TopK(input: T) -> (values: T, indices: s32) [k: int >= 0; sorted: bool = true; T: type in REAL]
    The k largest along the last dimension, with their indices.
TopKV2(input: T, k: Tk) -> (values: T, indices: index_type)
    [sorted: bool = true; T: type in REAL; Tk: type in {s16, s32, s64} = s32; index_type: type in {s16, s32, s64} =
     s32]
    The k largest along the last dimension, with their indices; k a tensor.
"""
