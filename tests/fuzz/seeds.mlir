#map = {x = 1 : i64, y = "a\22b"}
!t = tensor<4x4xf32>
module @seed attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<4x4xf32> {jax.arg_info = "x", tf.aliasing_output = 0 : i32} loc("x"), %arg1: !t, %arg2: tensor<3xi32>, %arg3: tensor<i1>) -> (tensor<4x4xf32> {jax.result_info = "r"}, tensor<?xf32>) {
    %c = stablehlo.constant dense<[1, -2, 0x3]> : tensor<3xi32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %cst_0 = stablehlo.constant dense<"0x0000803F000000400000404000008040"> : tensor<4xf32>
    %z = stablehlo.constant dense<[[(1.0, 2.0)], [(-1.0, 0x7FC00000)]]> : tensor<2x1xcomplex<f32>>
    %n = stablehlo.constant dense<0> : tensor<i32>
    %0:3 = stablehlo.while(%i = %n, %x = %arg0, %y = %arg1) : tensor<i32>, tensor<4x4xf32>, !t
    cond {
      %limit = stablehlo.constant dense<3> : tensor<i32>
      %p = stablehlo.compare LT, %i, %limit, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %one : tensor<i32>
      %w = func.call @inner(%x, %arg1) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      stablehlo.return %j, %w, %x : tensor<i32>, tensor<4x4xf32>, tensor<4x4xf32>
    }
    %1 = stablehlo.reduce(%0#1 init: %cst) applies stablehlo.add across dimensions = [0] : (tensor<4x4xf32>, tensor<f32>) -> tensor<4xf32> loc("sum"("f.py":3:7 to :9))
    %2:2 = stablehlo.reduce(%0#1 init: %cst), (%0#2 init: %cst) across dimensions = [1] : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>, tensor<f32>) -> (tensor<4xf32>, tensor<4xf32>)
     reducer(%a: tensor<f32>, %b: tensor<f32>) (%d: tensor<f32>, %e: tensor<f32>)  {
      %m = stablehlo.maximum %a, %b : tensor<f32>
      %k = stablehlo.minimum %d, %e : tensor<f32>
      stablehlo.return %m, %k : tensor<f32>, tensor<f32>
    }
    %3 = "stablehlo.if"(%arg3) ({
      %t = stablehlo.negate %1 : tensor<4xf32>
      stablehlo.return %t : tensor<4xf32>
    }, {
      stablehlo.return %cst_0 : tensor<4xf32>
    }) : (tensor<i1>) -> tensor<4xf32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [1] : (tensor<4xf32>) -> tensor<4x4xf32>
    %5 = stablehlo.dot_general %4, %0#1, contracting_dims = [1] x [0], precision = [HIGHEST, DEFAULT] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %6 = stablehlo.slice %5 [0:4:2, 1:3] : (tensor<4x4xf32>) -> tensor<2x2xf32>
    %7 = stablehlo.pad %6, %cst, low = [1, 0], high = [0, 1], interior = [1, 0] : (tensor<2x2xf32>, tensor<f32>) -> tensor<4x3xf32>
    %8 = stablehlo.concatenate %7, %7, dim = 1 : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x6xf32>
    %9 = "stablehlo.gather"(%8, %arg2) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 6>}> : (tensor<4x6xf32>, tensor<3xi32>) -> tensor<3x6xf32>
    %10 = "stablehlo.scatter"(%8, %c, %9) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}> ({
    ^bb0(%u: tensor<f32>, %v: tensor<f32>):
      %s = stablehlo.add %u, %v : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<4x6xf32>, tensor<3xi32>, tensor<3x6xf32>) -> tensor<4x6xf32>
    %11 = "stablehlo.sort"(%10) <{dimension = 1 : i64, is_stable = true}> ({
    ^bb0(%u: tensor<f32>, %v: tensor<f32>):
      %s = stablehlo.compare LT, %u, %v, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %s : tensor<i1>
    }) : (tensor<4x6xf32>) -> tensor<4x6xf32>
    %12 = "stablehlo.reduce_window"(%11, %cst) <{padding = dense<[[0, 0], [1, 0]]> : tensor<2x2xi64>, window_dimensions = array<i64: 2, 2>, window_strides = array<i64: 2, 1>}> ({
    ^bb0(%u: tensor<f32>, %v: tensor<f32>):
      %s = stablehlo.add %u, %v : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<4x6xf32>, tensor<f32>) -> tensor<2x6xf32>
    %13 = stablehlo.reshape %12 : (tensor<2x6xf32>) -> tensor<1x4x3x1xf32>
    %14 = stablehlo.constant dense<5.000000e-01> : tensor<2x2x1x2xf32>
    %15 = stablehlo.convolution(%13, %14) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[0, 1], [1, 0]], rhs_dilate = [1, 2]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x4x3x1xf32>, tensor<2x2x1x2xf32>) -> tensor<1x4x2x2xf32>
    %16, %17 = chlo.top_k(%5, k = 2) : tensor<4x4xf32> -> (tensor<4x2xf32>, tensor<4x2xi32>)
    %18 = chlo.broadcast_add %5, %3 : (tensor<4x4xf32>, tensor<4xf32>) -> tensor<4x4xf32>
    %19 = chlo.erf_inv %18 : tensor<4x4xf32> -> tensor<4x4xf32>
    %20 = stablehlo.constant dense<[2, 8]> : tensor<2xi64>
    %21 = stablehlo.dynamic_reshape %19, %20 : (tensor<4x4xf32>, tensor<2xi64>) -> tensor<?x?xf32>
    %22 = stablehlo.composite "my.op" %21 {composite_attributes = {n = 1 : i64}, decomposition = @open} : (tensor<?x?xf32>) -> tensor<?xf32>
    %23 = stablehlo.custom_call @Sharding(%5) {backend_config = "", mhlo.sharding = "{replicated}", mhlo.frontend_attributes = {a = "b"}} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %24:2 = stablehlo.optimization_barrier %23, %1 : tensor<4x4xf32>, tensor<4xf32>
    %25 = "stablehlo.transpose"(%24#0) {permutation = array<i64: 1, 0>} : (tensor<4x4xf32>) -> tensor<4x4xf32> loc(#loc1)
    %26 = stablehlo.iota dim = 0 : tensor<4x4xf32>
    %27 = stablehlo.multiply %25, %26 : tensor<4x4xf32> loc(callsite("f"("a.py":1:2) at fused<"m">[#loc, "g"]))
    return %27, %22 : tensor<4x4xf32>, tensor<?xf32>
  }
  func.func private @inner(%arg0: tensor<4x4xf32>, %arg1: tensor<4x4xf32>) -> tensor<4x4xf32> {
    %0 = stablehlo.tanh %arg0 {result_accuracy = #stablehlo.result_accuracy<mode = #stablehlo.result_accuracy_mode<DEFAULT>>} : tensor<4x4xf32>
    %p = stablehlo.compare GT, %0, %arg1 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xi1>
    %1 = stablehlo.select %p, %arg0, %arg1 : tensor<4x4xi1>, tensor<4x4xf32>
    return %1 : tensor<4x4xf32>
  }
  func.func private @open(%arg0: tensor<?x?xf32>) -> tensor<?xf32> {
    %0 = stablehlo.get_dimension_size %arg0, dim = 1 : (tensor<?x?xf32>) -> tensor<i32>
    %1 = stablehlo.constant dense<2> : tensor<i32>
    %2 = stablehlo.multiply %0, %1 : tensor<i32>
    %3 = stablehlo.reshape %2 : (tensor<i32>) -> tensor<1xi32>
    %4 = stablehlo.dynamic_reshape %arg0, %3 : (tensor<?x?xf32>, tensor<1xi32>) -> tensor<?xf32>
    return %4 : tensor<?xf32>
  }
}
#loc = loc(unknown)
#loc1 = loc("turn"(#loc2))
#loc2 = loc("a.py":4:5)
