"""Convolutions as contractions.

numbers   a convolution's operands, window and groups by name
padded    the input copied into scratch where the window leaves it: padding, base dilation, narrow types
phases    base dilation taken apart into convolutions without it
lowering  the axes of the contraction, over the input or its padded copy
"""
