/* cuda_fp8.h -- gives an error, since fp8 is not simulated. */
#error "cuda_fp8.h: numbers of 8 bits are not simulated on the CPU"
