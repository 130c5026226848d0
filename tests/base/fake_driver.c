/* fake_driver.c -- libcuda with two GPUs that do nothing, for
 * tests/base/test_device.py.
 *
 * A device's handle is 10 more than its index, and a context's address 100
 * more, so that they differ. Each recorded event advances the time by a
 * millisecond. */
#include <stdint.h>
#include <string.h>

enum { COUNT = 2, INVALID = 1, NO_CONTEXT = 201 };

static __thread void *current;
static float now;
static float events[64];
static uintptr_t made;
uintptr_t last_stream, destroyed, refused;

int cuInit(unsigned flags) { return flags ? INVALID : 0; }

int cuDeviceGetCount(int *count) {
    *count = COUNT;
    return 0;
}

int cuDeviceGet(int *device, int index) {
    *device = 10 + index;
    return index < 0 || index >= COUNT ? 101 : 0;
}

int cuDeviceGetAttribute(int *value, int attribute, int device) {
    *value = attribute == 75 ? 8 : attribute == 76 ? device - 10 : -1;
    return 0;
}

int cuDeviceGetName(char *name, int size, int device) {
    strncpy(name, device == 10 ? "First GPU" : "Second GPU", size);
    return 0;
}

int cuDevicePrimaryCtxRetain(void **context, int device) {
    *context = (void *)(uintptr_t)(100 + device);
    return 0;
}

int cuCtxGetCurrent(void **context) {
    *context = current;
    return 0;
}

int cuCtxSetCurrent(void *context) {
    current = context;
    return 0;
}

int cuCtxGetDevice(int *device) {
    *device = (int)(uintptr_t)current - 100;
    refused += !current;
    return current ? 0 : NO_CONTEXT;
}

int cuEventCreate(void **event, unsigned flags) {
    *event = (void *)++made;
    return current && !flags && made < 64 ? 0 : NO_CONTEXT;
}

int cuEventRecord(void *event, void *stream) {
    events[(uintptr_t)event] = now++;
    last_stream = (uintptr_t)stream;
    return 0;
}

int cuEventSynchronize(void *event) { return event ? 0 : INVALID; }

int cuEventElapsedTime(float *ms, void *start, void *end) {
    *ms = events[(uintptr_t)end] - events[(uintptr_t)start];
    return 0;
}

int cuEventDestroy_v2(void *event) {
    destroyed++;
    return event ? 0 : INVALID;
}

int cuGetErrorString(int error, const char **text) {
    *text = error == 101 ? "invalid device ordinal" : "some error";
    return 0;
}
