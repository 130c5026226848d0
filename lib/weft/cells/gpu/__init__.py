"""Cells on the GPU: compiled by NVRTC, launched through the CUDA driver.

nvrtc   NVIDIA's compiler as a library: CUDA C text to machine code
loader  loads machine code into torch's CUDA context, and launches it
launch  turns Python's arguments into a launch, in a few microseconds
driver  the CUDA driver API, through cffi
"""
