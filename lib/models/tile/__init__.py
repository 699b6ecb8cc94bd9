"""The network for tile sizes of fused kernels: late fusion."""
