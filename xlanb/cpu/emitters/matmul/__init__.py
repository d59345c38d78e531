"""Contractions: register-tiled kernels that dots and convolutions share.

contraction   what is summed over what: axes with strides, joined where memory allows
lanes         vectors of elements: loads, stores, conversions
tile          the micro-kernel, a function of its own: a block of the result held in registers over the whole contraction, its vectors along columns or along depth
panel         columns of b written to the stack as the first tile reads them, for the tiles of the rows below
packing       operands packed into panels of lines
blocks        large products: packed operands, stretches of depth, blocks of tiles that threads share
plan          which operand is copied first (see copies), and which micro-kernel computes
literals      constants of the program, packed when it is compiled
grid          loops over the blocks of something, which threads share
gemm          blocks of a contraction, and the loops over them that threads share
"""
