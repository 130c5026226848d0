"""What ran on a GPU, and when.

timeline       streams, and the gaps in them; names for profilers
torch_kernels  the kernels that PyTorch ran
kernel_names   what their names say
"""
