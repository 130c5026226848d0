/* cuda_fp8.h -- an error: fp8 is not simulated. */
#error "cuda_fp8.h: numbers of 8 bits are not simulated on the CPU"
