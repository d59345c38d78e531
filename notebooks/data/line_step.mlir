module @jit_step attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<f32>, %arg1: tensor<f32>, %arg2: tensor<100xf32>, %arg3: tensor<100xf32>) -> (tensor<f32> {jax.result_info = "result[0]"}, tensor<f32> {jax.result_info = "result[1]"}) {
    %0 = stablehlo.broadcast_in_dim %arg0, dims = [] : (tensor<f32>) -> tensor<100xf32>
    %1 = stablehlo.multiply %0, %arg2 : tensor<100xf32>
    %2 = stablehlo.broadcast_in_dim %arg1, dims = [] : (tensor<f32>) -> tensor<100xf32>
    %3 = stablehlo.add %1, %2 : tensor<100xf32>
    %4 = stablehlo.subtract %3, %arg3 : tensor<100xf32>
    %cst = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %5 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<100xf32>
    %6 = stablehlo.multiply %5, %4 : tensor<100xf32>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %cst_1 = stablehlo.constant dense<1.000000e+02> : tensor<f32>
    %7 = stablehlo.divide %cst_0, %cst_1 : tensor<f32>
    %8 = stablehlo.broadcast_in_dim %7, dims = [] : (tensor<f32>) -> tensor<100xf32>
    %9 = stablehlo.multiply %8, %6 : tensor<100xf32>
    %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %10 = stablehlo.reduce(%9 init: %cst_2) applies stablehlo.add across dimensions = [0] : (tensor<100xf32>, tensor<f32>) -> tensor<f32>
    %11 = stablehlo.multiply %9, %arg2 : tensor<100xf32>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %12 = stablehlo.reduce(%11 init: %cst_3) applies stablehlo.add across dimensions = [0] : (tensor<100xf32>, tensor<f32>) -> tensor<f32>
    %cst_4 = stablehlo.constant dense<2.500000e-02> : tensor<f32>
    %13 = stablehlo.multiply %cst_4, %12 : tensor<f32>
    %14 = stablehlo.subtract %arg0, %13 : tensor<f32>
    %cst_5 = stablehlo.constant dense<2.500000e-02> : tensor<f32>
    %15 = stablehlo.multiply %cst_5, %10 : tensor<f32>
    %16 = stablehlo.subtract %arg1, %15 : tensor<f32>
    return %14, %16 : tensor<f32>, tensor<f32>
  }
}
