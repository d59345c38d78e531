"""Contractions: register-tiled kernels that dots and convolutions share.

contraction   batch, rows, columns and depth as axes with strides, joined if contiguous
lanes         vectors of elements: loads, stores, conversions
tile          the micro-kernel, a function of its own: a block of the result in registers over the
              whole contraction, with vectors along columns or along depth
panel         columns of b, copied to the stack before the first tile, reused by the rows below
strips        few rows by a large b: strips of its columns, read in slices of a few lines
packing       operands packed into panels of lines
blocks        large products: which are packed, in slices of depth
slices        the slices, and how they are packed and divided into blocks
vector_blocks large products by a micro-kernel in vector registers
amx_tile      a micro-kernel in AMX's registers, for bytes and bf16
amx_blocks    large products by that micro-kernel
plan          which operands are copied first (see copies), and which micro-kernel is used
literals      constants of the program, packed at compile time
grid          loops over blocks that threads share
gemm          blocks of a contraction, and the loops over them that threads share
"""
