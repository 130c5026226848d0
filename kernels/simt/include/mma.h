/* mma.h -- what a CPU has not. */
#error "mma.h: tensor cores are not simulated on the CPU; run this on a GPU"
