/* hopper_twin.h -- plain code that replaces hopper.cuh on the CPU target. */
#ifndef WEFT_HOPPER_TWIN_H
#define WEFT_HOPPER_TWIN_H
#include <cooperative_groups.h> // for tiles of several warps

#include "../simt/api/cuda_barrier.h" // the watch build's barriers
#include "tensor_map.cuh"

#include <string.h>

namespace hopper_twin {

/* The contents of a barrier's word: the phase's parity, the arrivals that a
 * phase needs, the arrivals that this phase still lacks, and the missing
 * bytes. */
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

/* Return the name under which a phase is recorded. A thread that waits for a
 * phase then acquires the prior work of the threads that arrived in it. */
static inline const void *phase_name(const uint64_t *bar, unsigned parity) {
    return (const char *)bar + 4 * parity;
}
#ifdef SIMT_CHECK
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

/* Count `count` arrivals and expect `bytes` more bytes, or fewer if `bytes` is
 * negative. */
static inline void arrive(uint64_t *bar, unsigned count, int bytes) {
    uint64_t now = __atomic_load_n(bar, __ATOMIC_RELAXED), then;
    do {
        State s = unpack(now);
        if (s.left < count) __builtin_trap(); // more arrivals than expected
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

/* Copies happen when a thread waits for them: see asynchronous.h. */
static inline void wait(uint64_t *bar, unsigned parity) {
    while (unpack(__atomic_load_n(bar, __ATOMIC_RELAXED)).parity == parity)
        if (!simt::later_land(bar, phase_name(bar, parity)))
            simt::spin(simt::here());
    departure(bar, parity);
}

static inline void named_barrier(int number, int threads) {
    // Tiles of more than one warp are numbered by their first warp. The upper
    // 16 numbers are free, except in blocks of more than 512 threads with such
    // tiles.
    simt::tile_barrier((unsigned)(16 + number) * simt::WARP, (unsigned)threads);
}

/* Return the address in shared memory of the 16 bytes at row `row`, byte `byte`
 * of a box. */
static inline char *place(const tensor_map *map, void *shared, int row,
                          size_t byte) {
    const size_t pitch = map->box.cols * tensor_element(map->array.type);
    size_t at = (size_t)shared + row * pitch + byte;
    if (map->box.swizzled) at ^= at >> 3 & 0x70;
    return (char *)at;
}

/* Return how many of the `bytes` bytes that start at element (row,col) are
 * inside the array. *at receives the address of the first. */
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

/* Return whether `at` is the first byte of a 32-byte sector of memory. */
SIMT_INLINE bool begins_sector(const void *at) { return (size_t)at % 32 == 0; }

/* A box in flight. It contains a copy of the map, because the map is an
 * argument of the kernel. The argument of the thread that issues the copy may
 * no longer exist when the box arrives. */
struct Box : simt::Later {
    tensor_map map;
    uint64_t *bar; /* barrier that counts a load's bytes */
    int col, row, z;

    size_t width() const {
        return map.box.cols * tensor_element(map.array.type);
    }
    /* Return how many of the 16 bytes that start at byte `byte` of row `i` are
     * inside the array. *at receives the address of the first. */
    size_t in_array(int i, size_t byte, char **at) const {
        const int element = (int)tensor_element(map.array.type);
        return inside(&map.array, col + (int)byte / element, row + i, z, 16,
                      at);
    }
};

/* Record each piece of the array as read or written by the thread that issues
 * the copy, at that moment. The watch build uses this. A row moves in whole
 * sectors: the second 16 bytes of a sector cost nothing. */
template <class Touch>
SIMT_INLINE void touch_array(const Box &box, Touch touch) {
#ifdef SIMT_CHECK
    char *at;
    for (int i = 0; i < box.map.box.rows; i++)
        for (size_t byte = 0; byte < box.width(); byte += 16)
            if (const size_t there = box.in_array(i, byte, &at))
                touch(at, there, !byte || begins_sector(at));
#endif
    (void)box;
    (void)touch;
}

static inline void load_now(simt::Later *later) {
    const Box box = *(const Box *)later; // a copy, since nothing may modify the
                                         // box
    for (int i = 0; i < box.map.box.rows; i++)
        for (size_t byte = 0; byte < box.width(); byte += 16) {
            float chunk[4] = {0};
            char *from = (char *)chunk;
            const size_t there = box.in_array(i, byte, &from);
            if (there) memcpy(chunk, from, there);
            if (box.map.array.type == TENSOR_TF32)
                for (float &x : chunk) x = even_tf32(x);
            memcpy(place(&box.map, box.shared, i, byte), chunk, sizeof chunk);
        }
    arrive(box.bar, 0, -(int)(box.width() * box.map.box.rows));
}

static inline void store_now(simt::Later *later) {
    const Box box = *(const Box *)later; // a copy, since nothing may modify the
                                         // box
    for (int i = 0; i < box.map.box.rows; i++)
        for (size_t byte = 0; byte < box.width(); byte += 16) {
            char *to = NULL;
            const size_t there = box.in_array(i, byte, &to);
            if (there) memcpy(to, place(&box.map, box.shared, i, byte), there);
        }
}

SIMT_INLINE Box box_of(void (*now)(simt::Later *), const tensor_map *map,
                       const void *shared, uint64_t *bar, int col, int row,
                       int z) {
    const size_t element = tensor_element(map->array.type);
    const unsigned bytes = (unsigned)(map->box.cols * element * map->box.rows);
    return {
        {now, (void *)shared, bytes, sizeof(Box), 0}, *map, bar, col, row, z};
}

SIMT_INLINE void load(void *shared, const tensor_map *map, uint64_t *bar,
                      int col, int row, int z) {
    const Box box = box_of(load_now, map, shared, bar, col, row, z);
    touch_array(box, [](char *at, size_t there, bool first) __attribute__((
                         always_inline)) { simt::looks(at, there, first); });
    simt::ask_bulk(box, bar);
}

SIMT_INLINE void store(const tensor_map *map, const void *shared, int col,
                       int row, int z) {
    const Box box = box_of(store_now, map, shared, NULL, col, row, z);
    touch_array(box, [](char *at, size_t there, bool first) __attribute__((
                         always_inline)) { simt::puts_at(at, there, first); });
    simt::ask(simt::STORES, box);
}

/* A piece of an array in flight. */
struct Piece : simt::Later {
    char *array;
    uint64_t *bar; /* barrier that counts a load's bytes */
};

static inline void load_piece_now(simt::Later *later) {
    const Piece piece = *(const Piece *)later;
    memcpy(piece.shared, piece.array, piece.bytes);
    arrive(piece.bar, 0, -(int)piece.bytes);
}

static inline void store_piece_now(simt::Later *later) {
    const Piece piece = *(const Piece *)later;
    memcpy(piece.array, piece.shared, piece.bytes);
}

SIMT_INLINE Piece piece_of(void (*now)(simt::Later *), const void *array,
                           const void *shared, uint64_t *bar, unsigned bytes) {
    // The hardware requires multiples of 16, too.
    if (((size_t)array | (size_t)shared | bytes) % 16) __builtin_trap();
    return {{now, (void *)shared, bytes, sizeof(Piece), 0}, (char *)array, bar};
}

SIMT_INLINE void load_piece(void *shared, const void *from, uint64_t *bar,
                            unsigned bytes) {
    const Piece piece = piece_of(load_piece_now, from, shared, bar, bytes);
    for (unsigned byte = 0; byte < bytes; byte += 16)
        simt::looks(piece.array + byte, 16,
                    !byte || begins_sector(piece.array + byte));
    simt::ask_bulk(piece, bar);
}

SIMT_INLINE void store_piece(void *to, const void *shared, unsigned bytes) {
    const Piece piece = piece_of(store_piece_now, to, shared, NULL, bytes);
    for (unsigned byte = 0; byte < bytes; byte += 16)
        simt::puts_at(piece.array + byte, 16,
                      !byte || begins_sector(piece.array + byte));
    simt::ask(simt::STORES, piece);
}

} // namespace hopper_twin
#endif
