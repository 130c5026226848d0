#include "deep/point.h"
__global__ void of_part(int *p) { *p = Point{4}.twice(); }
