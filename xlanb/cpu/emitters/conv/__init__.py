"""Convolutions as contractions.

numbers   a convolution's operands, window and groups by name
padded    a copy of the input in scratch memory with padding, base dilation, or a wider type
phases    split base dilation into convolutions without it
lowering  the axes of the contraction, over the input or its padded copy
"""
