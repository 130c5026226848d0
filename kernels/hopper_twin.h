/* hopper_twin.h -- hopper.cuh on the CPU target: the same by plain code. */
#ifndef WEFT_HOPPER_TWIN_H
#define WEFT_HOPPER_TWIN_H
#include <cooperative_groups.h> // tiles of several warps among them

#include "simt/cuda_barrier.h" // what the check build has for barriers
#include "tensor_map.cuh"

#include <string.h>

namespace hopper_twin {

/* A barrier's word: the phase's parity, how many arrive in a phase, how many
 * are still to arrive in this one, and the bytes still to come. */
struct State {
    unsigned parity, all, left;
    int bytes;
};

static inline uint64_t pack(State s) {
    return (uint64_t)s.parity << 63 | (uint64_t)s.all << 47 |
           (uint64_t)s.left << 32 | (uint32_t)s.bytes;
}
static inline State unpack(uint64_t word) {
    return {(unsigned)(word >> 63), (unsigned)(word >> 47 & 0x7fff),
            (unsigned)(word >> 32 & 0x7fff), (int)(uint32_t)word};
}

static inline void init(uint64_t *bar, int arrivals) {
    *bar = pack({0, (unsigned)arrivals, (unsigned)arrivals, 0});
}

/* Who waits for a phase knows what came before those who arrived in it. */
#ifdef SIMT_CHECK
static inline const void *phase_name(const uint64_t *bar, unsigned parity) {
    return (const char *)bar + 4 * parity;
}
static inline void arrival(const uint64_t *bar, unsigned parity) {
    simt_tile_arrival(phase_name(bar, parity));
}
static inline void departure(const uint64_t *bar, unsigned parity) {
    simt_tile_departure(phase_name(bar, parity));
}
#else
static inline void arrival(const uint64_t *, unsigned) {}
static inline void departure(const uint64_t *, unsigned) {}
#endif

/* `count` arrive, and `bytes` more are to come, or fewer if below 0. */
static inline void arrive(uint64_t *bar, unsigned count, int bytes) {
    uint64_t now = __atomic_load_n(bar, __ATOMIC_RELAXED), then;
    do {
        State s = unpack(now);
        if (s.left < count) __builtin_trap(); // more than were expected
        arrival(bar, s.parity);
        s.left -= count;
        s.bytes += bytes;
        if (!s.left && !s.bytes) {
            s.parity ^= 1;
            s.left = s.all;
        }
        then = pack(s);
    } while (!__atomic_compare_exchange_n(bar, &now, then, false,
                                          __ATOMIC_RELAXED, __ATOMIC_RELAXED));
}

static inline void wait(uint64_t *bar, unsigned parity) {
    while (unpack(__atomic_load_n(bar, __ATOMIC_RELAXED)).parity == parity)
        simt::spin(simt::here());
    departure(bar, parity);
}

static inline void named_barrier(int number, int threads) {
    // Tiles of more than one warp count by their first: the upper 16 are free
    // in all but blocks of more than 512 threads that have such tiles, too.
    simt::tile_barrier((unsigned)(16 + number) * simt::WARP, (unsigned)threads);
}

/* The 16 bytes of shared memory where a box has row `row`, byte `byte`. */
static inline char *place(const tensor_map *map, void *shared, int row,
                          size_t byte) {
    const size_t pitch = map->box.cols * tensor_element(map->array.type);
    size_t at = (size_t)shared + row * pitch + byte;
    if (map->box.swizzled) at ^= at >> 3 & 0x70;
    return (char *)at;
}

/* How many of the `bytes` bytes from element (row,col) on are in the array,
 * and where they lie. */
static inline size_t inside(const struct tensor *t, int col, int row, int z,
                            size_t bytes, char **at) {
    const size_t element = tensor_element(t->type);
    const size_t matrices = t->batch > 1 && t->step ? t->batch : 1;
    if (row < 0 || (size_t)row >= t->rows || col < 0 ||
        (size_t)col >= t->cols || z < 0 || (size_t)z >= matrices)
        return 0;
    *at = (char *)t->data + (z * t->step + row * t->pitch + col) * element;
    const size_t left = (t->cols - col) * element;
    return left < bytes ? left : bytes;
}

static inline void load(void *shared, const tensor_map *map, uint64_t *bar,
                        int col, int row, int z) {
    const struct tensor *t = &map->array;
    const size_t element = tensor_element(t->type);
    const size_t width = map->box.cols * element;
    for (int i = 0; i < map->box.rows; i++)
        for (size_t byte = 0; byte < width; byte += 16) {
            float chunk[4] = {0};
            char *from = (char *)chunk;
            const size_t there = inside(t, col + (int)(byte / element), row + i,
                                        z, sizeof chunk, &from);
            if (there) memcpy(chunk, from, there);
            if (t->type == TENSOR_TF32)
                for (float &x : chunk) x = round_tf32(x);
            memcpy(place(map, shared, i, byte), chunk, sizeof chunk);
        }
    arrive(bar, 0, -(int)(width * map->box.rows));
}

static inline void store(const tensor_map *map, const void *shared, int col,
                         int row, int z) {
    const struct tensor *t = &map->array;
    const size_t element = tensor_element(t->type);
    for (int i = 0; i < map->box.rows; i++)
        for (size_t byte = 0; byte < map->box.cols * element; byte += 16) {
            char *to = NULL;
            const size_t there =
                inside(t, col + (int)(byte / element), row + i, z, 16, &to);
            if (there) memcpy(to, place(map, (void *)shared, i, byte), there);
        }
}

} // namespace hopper_twin
#endif
