"""A cell on the GPU: compiled by NVRTC, launched through the CUDA driver."""
