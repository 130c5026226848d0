#include "shapes.cuh"
void ramp_elsewhere(float *p) { ramp<<<1, 2>>>(p); }
