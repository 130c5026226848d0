#include "deep/point.h"
int in_c(int x) {
    int class = x; /* not valid in C++ */
    return class * 10;
}
