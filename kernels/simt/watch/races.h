/* races.h -- accesses that nothing orders.
 *
 * Two accesses to the same element race if different threads make them and
 * neither access happens before the other. At least one of them must write,
 * and they must not both be atomic. Numbers ("ids") mark the time as in
 * FastTrack (Flanagan, Freund: PLDI 2009), adapted to blocks. A worker
 * takes a new id when a block begins, when one of its barriers opens, and
 * when lanes meet. So an access by the same block is earlier if its id is
 * below that of the running interval. For plain kernels this comparison is
 * enough.
 *
 * For each 4-byte word of memory a Cell keeps the last write and a read. Each
 * of these is one word that is read and written as a whole. So a cell always
 * holds an access that took place, although workers run concurrently. A word
 * that is accessed by bytes has a Cell for each byte. Rare data is in separate
 * arrays: a second reader that nothing orders with the first, and atomics.
 *
 *     races.cpp       ids, beginnings and ends of launches
 *     cells.cpp       one access and the cells of the words it touches
 *     sync.h, .cpp    meetings, fences, and order created by atomics */
#ifndef SIMT_CHECK_RACES_H
#define SIMT_CHECK_RACES_H

namespace simt::SIMT_FIBERS {

struct Checker;

/* An access in one word: id, thread, site, and the following flags; 0 means
 * none. */
typedef uint64_t Mention;
enum : uint64_t {
    ID_SHIFT = 32,
    THREAD_SHIFT = 22,
    SITE_SHIFT = 6,
    /* In a read: the distance to a second reader that is kept elsewhere. */
    NO_OTHER = 0,
    IN_WARP = 1,
    IN_BLOCK = 2,
    IN_GRID = 3,
    DISTANCE = 3,
    WEAK = 4,    /* a volatile read or an atomic load, which does not race with
                  * atomics */
    UPDATED = 8, /* instead of a write: Updates has the previous write */
    BYTES = 16,  /* instead of a write: each byte has a separate cell */
    ID_AND_THREAD = ~0ull << THREAD_SHIFT,
    ID_AND_WARP = ~0ull << (THREAD_SHIFT + 5)
};

SIMT_INLINE unsigned id_of(Mention m) { return (unsigned)(m >> ID_SHIFT); }
SIMT_INLINE unsigned thread_of(Mention m) { return m >> THREAD_SHIFT & 1023; }
SIMT_INLINE unsigned site_of(Mention m) { return m >> SITE_SHIFT & 65535; }

SIMT_INLINE Mention look_at(const Mention &at) {
    return __atomic_load_n(&at, __ATOMIC_RELAXED);
}
SIMT_INLINE void put_at(Mention &at, Mention value) {
    __atomic_store_n(&at, value, __ATOMIC_RELAXED);
}

struct Cell {
    Mention write, read;
};

/* The atomics of a word: the last plain write before them, and two of the
 * threads that update it, as far apart as possible. */
struct Updates {
    Mention plain, first, second;
};

/* The shadows of one space, by word or by byte. */
struct Cells {
    Cell *cells;
    Mention *others; /* second readers */
    Updates *updates;
};

struct Sync;

/* A write over another thread's write in the same interval. Whether the values
 * differ is checked after the write. */
struct Doubt {
    Access now;
    Fiber self; /* a copy of the writing thread */
    Mention earlier;
    unsigned bytes; /* mask of the bytes in doubt */
    unsigned char before[16];
};

/* A worker's state for the running block. */
struct Races {
    unsigned interval; /* id with which the running interval began */
    unsigned settled;  /* accesses with lower ids come before all current ones
                        * of this block */
    unsigned own_low;  /* ids from this one to own_end are this block's */
    unsigned own_end;
    bool slow; /* whether a doubt is open, or the checks are off */
    bool in_doubt, off;
    Cells global, shared;
    unsigned own_id[MAX_THREADS]; /* id of each thread, if above `interval` */
    unsigned next, end;           /* range of ids that can be given out */
    unsigned first;               /* first id of the block */
    unsigned launch;              /* number of the launch to which this state
                                   * belongs; 0: none */
    uint64_t block;               /* linear index */
    Cells global_bytes, shared_bytes;
    Doubt doubt;
    Sync *sync;
};

void races_begin_launch(Job *job);
void races_end_launch(Job *job);
void races_begin_block(Checker *checker, Block *block);
void races_end_block(Checker *checker, Block *block);
void races_at_barrier(Checker *checker, Block *block);
/* Record that the lanes `group` of the warp have met. */
void races_at_meeting(Checker *checker, Warp *warp, unsigned group);
/* Record that a block has reached the grid barrier number `epoch`, or left
 * it. */
void races_before_grid_barrier(Checker *checker, Block *block, unsigned epoch);
void races_after_grid_barrier(Checker *checker, Block *block, unsigned epoch);
enum FenceScope { FENCE_BLOCK, FENCE_DEVICE };
void races_at_fence(Checker *checker, Fiber *self, FenceScope scope);
/* Record a barrier, named by its address, of some threads of a block. Each
 * thread arrives, and may continue before the others. After its departure, all
 * accesses of the threads that have arrived come before its own. */
void races_at_arrival(Checker *checker, Fiber *self, const void *barrier);
void races_at_departure(Checker *checker, Fiber *self, const void *barrier);
/* Forget the accesses to [offset, offset + size) of the arena, because this
 * range is being allocated or freed. */
void races_forget(uintptr_t offset, size_t size);

/* ---- the fast path ------------------------------------------------------- */

/* Return whether an id is this block's, from an earlier interval. This finds
 * only ids in the worker's current contiguous range, which are the ones that
 * matter. */
SIMT_INLINE bool is_past(const Races &races, unsigned id) {
    return id - races.own_low < races.interval - races.own_low;
}

/* Return the id of the thread's current accesses. */
SIMT_INLINE unsigned current_id(const Races &races, unsigned thread) {
    const unsigned own = races.own_id[thread];
    return own > races.interval ? own : races.interval;
}

SIMT_INLINE Mention mention(const Races &races, const Fiber *self,
                            unsigned site) {
    const unsigned thread = self->thread.linear;
    return (Mention)current_id(races, thread) << ID_SHIFT |
           (Mention)thread << THREAD_SHIFT | (Mention)site << SITE_SHIFT;
}

/* Return whether a write, or an entry in its place, certainly came before
 * `now`. */
SIMT_INLINE bool plainly_before(const Races &races, Mention write, Mention now,
                                unsigned floor) {
    const unsigned id = id_of(write);
    if (id < floor) return true;
    if (write & (UPDATED | BYTES)) return false;
    return !((write ^ now) & ID_AND_THREAD) || is_past(races, id);
}

/* Check and note a plain read of word (or byte) i. Return false if it is not a
 * common case. */
SIMT_INLINE bool read_plainly(const Races &races, const Cells &cells, size_t i,
                              Mention now, unsigned floor) {
    Cell *cell = cells.cells + i;
    if (!plainly_before(races, look_at(cell->write), now, floor)) return false;
    const Mention read = look_at(cell->read);
    const unsigned id = id_of(read), distance = read & DISTANCE;
    if (id < floor || (distance != IN_GRID && is_past(races, id))) {
        put_at(cell->read, now);
        return true;
    }
    if (read & WEAK) return false;
    if (!((read ^ now) & ID_AND_THREAD) || distance == IN_GRID) return true;
    if (distance == IN_BLOCK)
        return id - races.interval < races.own_end - races.interval;
    const bool mates = !((read ^ now) & ID_AND_WARP);
    if (distance == IN_WARP && mates) return true;
    if (id != id_of(now)) return false;
    // Keep a second reader, or one that is farther away. If both have the same
    // id, nothing except perhaps atomics has ordered them, so keeping both is
    // always correct.
    put_at(cells.others[i], now);
    put_at(cell->read,
           (read & ~(Mention)DISTANCE) | (mates ? IN_WARP : IN_BLOCK));
    return true;
}

/* Check and note a plain write, as read_plainly() does for a read. */
SIMT_INLINE bool write_plainly(const Races &races, const Cells &cells, size_t i,
                               Mention now, unsigned floor) {
    Cell *cell = cells.cells + i;
    if (!plainly_before(races, look_at(cell->write), now, floor)) return false;
    const Mention read = look_at(cell->read);
    const unsigned id = id_of(read);
    if (id >= floor) {
        const unsigned distance = read & DISTANCE;
        const bool own = !((read ^ now) & ID_AND_THREAD) && !distance;
        if (!own && (distance == IN_GRID || !is_past(races, id))) return false;
    }
    put_at(cell->write, now);
    return true;
}

/* Return whether a write came before this launch or interval, or was made by
 * the same thread in it. Mentions are compared as a whole, since their ids are
 * in the highest bits. */
SIMT_INLINE bool quickly_before(Mention write, Mention now, unsigned floor) {
    if (write < (Mention)floor << ID_SHIFT) return true;
    return (write ^ now) < 1u << THREAD_SHIFT && !(write & (UPDATED | BYTES));
}

/* Check and note an access like read_plainly() and write_plainly(), but without
 * their less common cases. */
SIMT_INLINE bool read_quickly(const Cells &cells, size_t i, Mention now,
                              unsigned floor) {
    Cell *cell = cells.cells + i;
    if (!quickly_before(look_at(cell->write), now, floor)) return false;
    const Mention read = look_at(cell->read);
    if (read < (Mention)floor << ID_SHIFT) {
        put_at(cell->read, now);
        return true;
    }
    const unsigned distance = read & (DISTANCE | WEAK);
    if (distance == IN_GRID) return true;
    const Mention apart = read ^ now;
    if (distance == IN_BLOCK) return apart < (Mention)1 << ID_SHIFT;
    return apart < (distance == IN_WARP    ? (Mention)1 << (THREAD_SHIFT + 5)
                    : distance == NO_OTHER ? (Mention)1 << THREAD_SHIFT
                                           : 0);
}

SIMT_INLINE bool write_quickly(const Cells &cells, size_t i, Mention now,
                               unsigned floor) {
    Cell *cell = cells.cells + i;
    if (!quickly_before(look_at(cell->write), now, floor)) return false;
    const Mention read = look_at(cell->read);
    if (read >= (Mention)floor << ID_SHIFT &&
        ((read ^ now) >= 1u << THREAD_SHIFT || read & DISTANCE))
        return false;
    put_at(cell->write, now);
    return true;
}

/* Check an access of any kind, including the rare cases (cells.cpp). */
void judge_access(Checker *checker, Fiber *self, const Access &access);

/* Check a permitted plain, volatile or atomic access to shared or global memory
 * that has not passed the fast path (plain.h). A plain access may still be a
 * common case, for instance the first access of its site. This is a template
 * because Checker contains a Races. */
template <class C>
SIMT_INLINE void races_access(C *checker, Fiber *self, const Access &access) {
    const Races &races = checker->races;
    const bool plain = access.kind != ATOMIC && !access.is_volatile;
    const bool whole = !((access.size | access.offset) & 3);
    if (plain && whole && !races.slow) {
        const bool global = access.space == GLOBAL;
        const unsigned floor = global ? races.settled : races.interval;
        const Mention now = mention(races, self, access.site);
        const Cells &cells = global ? races.global : races.shared;
        size_t i = access.offset / 4;
        const size_t end = i + access.size / 4;
        if (access.kind == READ)
            while (i < end && read_plainly(races, cells, i, now, floor)) i++;
        else
            while (i < end && write_plainly(races, cells, i, now, floor)) i++;
        if (i == end) return;
        // The words already done are checked again, which changes nothing.
    }
    judge_access(checker, self, access);
}

} // namespace simt::SIMT_FIBERS
#endif
