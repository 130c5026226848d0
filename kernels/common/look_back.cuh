/* look_back.cuh -- sums over the tiles of one launch: a tile adds the values
 * that earlier tiles have published, and needs no second kernel.
 *
 * The state of a tile is one word of 64 bits: its status, and a value of 32
 * bits. One store publishes both, so no fence is needed between them. A tile
 * first publishes its own sum and later its prefix, the sum of all tiles up to
 * and including itself.
 *
 * A grid's blocks begin in no guaranteed order. If a block took the tile with
 * its own index, it could wait for a block that begins only after this block
 * has ended.
 * So a block takes its tile with a ticket when it begins: all earlier tiles
 * then belong to blocks that have begun, too. This needs compute capability
 * 7.0. Source: Merrill and Garland, Single-pass Parallel Prefix Scan with
 * Decoupled Look-back, 2016. */
#ifndef WEFT_LOOK_BACK_CUH
#define WEFT_LOOK_BACK_CUH
#include "internal.cuh"

#include <string.h>

#include "scratch.cuh"

enum tile_status { TILE_EMPTY, TILE_SUM, TILE_PREFIX };

/* The state that a tile has published. T: float, or an integer of 32 bits. */
template <class T> struct tile_state {
    unsigned status; // enum tile_status
    T value;
};

typedef unsigned long long tile_word;

template <class T>
static __device__ __forceinline__ tile_word pack_state(tile_state<T> s) {
    static_assert(sizeof(T) == 4, "a word has 32 bits for the value");
    unsigned bits;
    memcpy(&bits, &s.value, sizeof bits);
    return (tile_word)s.status << 32 | bits;
}

template <class T>
static __device__ __forceinline__ tile_state<T> unpack_state(tile_word word) {
    const unsigned bits = (unsigned)word;
    tile_state<T> s = {(unsigned)(word >> 32), T()};
    memcpy(&s.value, &bits, sizeof bits);
    return s;
}

/* The tiles of one launch, which claim_chain() prepares. */
template <class T> struct chain {
    tile_word *states; // (tiles), 0 before the launch: all tiles are empty
    unsigned *ticket;  // the next tile, 0 before the launch

    /* Return the tile of the calling block to each of its threads. tile_s is
     * the block's own shared memory. */
    __device__ __forceinline__ unsigned take_tile(unsigned *tile_s) const {
        if (threadIdx.x == 0) *tile_s = atomicAdd(ticket, 1u);
        __syncthreads(); // the tile is stored
        return *tile_s;
    }
    __device__ __forceinline__ void publish(unsigned tile, tile_status status,
                                            T value) const {
        *(volatile tile_word *)&states[tile] =
            pack_state<T>({(unsigned)status, value});
    }
    /* Return the state that a tile has published so far. */
    __device__ __forceinline__ tile_state<T> read(unsigned tile) const {
        const tile_word word = *(const volatile tile_word *)&states[tile];
        return unpack_state<T>(word);
    }
    /* Wait until a tile has published at least `status`. */
    __device__ __forceinline__ tile_state<T> wait(unsigned tile,
                                                  tile_status status) const {
        tile_state<T> s = read(tile);
        while (s.status < (unsigned)status) {
            __nanosleep(50);
            s = read(tile);
        }
        return s;
    }
    /* Return the sum of all tiles before `tile`. One thread calls this and goes
     * back from tile to tile until it finds a prefix. */
    __device__ __forceinline__ T look_back(unsigned tile) const {
        T sum = T();
        while (tile-- > 0) {
            const tile_state<T> s = wait(tile, TILE_SUM);
            sum = s.value + sum;
            if (s.status == TILE_PREFIX) break;
        }
        return sum;
    }
    /* Do the same with all lanes of a warp, 32 tiles at a time: lane i reads
     * the tile i + 1 before the window's end. Every lane receives the sum. */
    __device__ __forceinline__ T look_back_warp(unsigned tile) const {
        const unsigned lane = threadIdx.x % 32;
        T sum = T();
        for (unsigned end = tile;; end -= 32) {
            tile_state<T> s = {TILE_PREFIX, T()}; // before the first tile
            if (lane < end) s = wait(end - 1 - lane, TILE_SUM);
            const unsigned ends =
                __ballot_sync(0xffffffff, s.status == TILE_PREFIX);
            // A prefix includes all tiles that higher lanes have read.
            if (ends && lane > (unsigned)__ffs(ends) - 1) s.value = T();
            for (int distance = 16; distance > 0; distance /= 2)
                s.value += __shfl_xor_sync(0xffffffff, s.value, distance);
            sum = s.value + sum;
            if (ends) return sum;
        }
    }
};

/* Claim the states of `tiles` tiles for `op`, and queue their reset on the
 * stream of `memory`. Returns a weft_status. */
template <class T>
static int claim_chain(const char *op, scratch *memory, unsigned tiles,
                       chain<T> *c) {
    const size_t bytes = ((size_t)tiles + 1) * sizeof(tile_word);
    WEFT_TRY(memory->claim(op, bytes));
    c->states = (tile_word *)memory->memory;
    c->ticket = (unsigned *)(c->states + tiles);
    WEFT_CUDA_TRY(cudaMemsetAsync(c->states, 0, bytes, memory->stream));
    return WEFT_OK;
}

#endif
