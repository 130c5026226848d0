#include "deep/point.h"
int in_c(int x) {
    int class = x; /* no C++ */
    return class * 10;
}
